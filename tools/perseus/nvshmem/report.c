/* SPDX-License-Identifier: Apache-2.0 */
#include "nvshmem/report.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/json_out.h"
#include "kit/table.h"

const char *prs_nvshmem_kind_name(enum prs_profile_kind kind)
{
    static const char *const names[] = {[PRS_PROFILE_PUT] = "put",
                                        [PRS_PROFILE_P] = "p",
                                        [PRS_PROFILE_GET] = "get",
                                        [PRS_PROFILE_AMO] = "amo",
                                        [PRS_PROFILE_FENCE] = "fence",
                                        [PRS_PROFILE_QUIET] = "quiet",
                                        [PRS_PROFILE_PUT_SIGNAL] = "put_signal"};
    return kind < PRS_PROFILE_KINDS ? names[kind] : "?";
}

/* ---- records ---- */

static bool is_sound(const struct prs_profile_head *head, uint64_t bytes)
{
    return bytes >= sizeof *head && head->magic == PRS_PROFILE_MAGIC &&
           head->version == PRS_PROFILE_VERSION && head->n_pes > 0 && head->pe >= 0 &&
           head->pe < head->n_pes && head->events <= head->events_max &&
           head->events_max <= PRS_PROFILE_EVENTS &&
           bytes == prs_profile_bytes(head->n_pes, head->events_max);
}

bool prs_nvshmem_record_open(const char *path, struct prs_nvshmem_record *out)
{
    struct stat what;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    void *memory = MAP_FAILED;
    if (file >= 0 && fstat(file, &what) == 0 && what.st_size > 0) {
        memory = mmap(NULL, (size_t)what.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    }
    if (file >= 0) {
        close(file);
    }
    if (memory == MAP_FAILED) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return false;
    }
    const struct prs_profile_head *head = memory;
    if (!is_sound(head, (uint64_t)what.st_size)) {
        fprintf(stderr, "%s is not a record of this version of the profiler\n", path);
        munmap(memory, (size_t)what.st_size);
        return false;
    }
    out->head = head;
    out->peers = (const struct prs_profile_peer *)(head + 1);
    out->events = (const struct prs_profile_event *)(out->peers + head->n_pes);
    return true;
}

void prs_nvshmem_record_close(struct prs_nvshmem_record *record)
{
    munmap((void *)(uintptr_t)record->head,
           prs_profile_bytes(record->head->n_pes, record->head->events_max));
}

/* ---- the model ---- */

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 1;
}

static void add(struct prs_profile_count *to, const struct prs_profile_count *what)
{
    to->calls += what->calls;
    to->bytes += what->bytes;
    to->ns += what->ns;
}

static double mean_us(const struct prs_profile_count *count)
{
    return count->calls > 0 ? (double)count->ns / 1000 / (double)count->calls : 1;
}

/* What put_signals waited: all but the cost of a put and an atomic. */
static double waited_in_signals_us(const struct prs_nvshmem_summary *summary)
{
    const struct prs_profile_count *count = &summary->kinds[PRS_PROFILE_PUT_SIGNAL];
    double posting =
        mean_us(&summary->kinds[PRS_PROFILE_PUT]) + mean_us(&summary->kinds[PRS_PROFILE_AMO]);
    double waited = (double)count->ns / 1000 - posting * (double)count->calls;
    return waited > 0 ? waited : 0;
}

/* What a byte takes where everything overlaps, in us: the slope of a put's time over its size,
 * which leaves out what every put waits for alike; or the best rate of a size, if there is no
 * slope. */
static double us_per_byte(const struct prs_nvshmem_record *record)
{
    double calls = 0, x = 0, y = 0, xx = 0, xy = 0, best = 0;
    for (int peer = 0; peer < record->head->n_pes; peer++) {
        for (int i = 0; i < PRS_PROFILE_SIZES; i++) {
            const struct prs_profile_count *size = &record->peers[peer].sizes[i];
            if (size->calls == 0 || size->bytes == 0) {
                continue;
            }
            double bytes = (double)size->bytes / (double)size->calls, us = mean_us(size);
            calls += (double)size->calls;
            x += (double)size->calls * bytes;
            y += (double)size->calls * us;
            xx += (double)size->calls * bytes * bytes;
            xy += (double)size->calls * bytes * us;
            best = best == 0 || us / bytes < best ? us / bytes : best;
        }
    }
    double spread = calls * xx - x * x;
    double slope = spread > 0 ? (calls * xy - x * y) / spread : 0;
    return slope > 0 && slope < best ? slope : best;
}

static double put_bytes(const struct prs_nvshmem_summary *summary)
{
    return (double)summary->kinds[PRS_PROFILE_PUT].bytes +
           (double)summary->kinds[PRS_PROFILE_PUT_SIGNAL].bytes;
}

/* The run's speed-up if the proxy's calls took `us` instead of what they did. */
static double speedup(const struct prs_nvshmem_summary *summary, double us)
{
    double shorter = summary->wall_us - summary->busy_us + us;
    double ratio_of_run = ratio(summary->wall_us, shorter);
    return ratio_of_run > 1 ? ratio_of_run : 1;
}

struct prs_nvshmem_summary prs_nvshmem_summarize(const struct prs_nvshmem_record *record)
{
    const struct prs_profile_head *head = record->head;
    struct prs_nvshmem_summary summary = {0};
    for (int peer = 0; peer < head->n_pes; peer++) {
        for (int kind = 0; kind < PRS_PROFILE_KINDS; kind++) {
            add(&summary.kinds[kind], &record->peers[peer].counts[kind]);
        }
    }
    for (int kind = 0; kind < PRS_PROFILE_KINDS; kind++) {
        summary.busy_us += (double)summary.kinds[kind].ns / 1000;
    }
    summary.wall_us = (double)(head->finish_ns - head->start_ns) / 1000;
    summary.fence_us = (double)summary.kinds[PRS_PROFILE_FENCE].ns / 1000;
    summary.signal_us = waited_in_signals_us(&summary);
    double requests = (double)head->fence_requests;
    double lost = summary.fence_us + summary.signal_us;
    summary.open_at_fence = requests > 0 ? (double)head->fence_open / requests : 0;
    double needed = (double)head->peers_between_quiets;
    double share = requests > 0 && needed < requests ? needed / requests : 1;
    double rest = summary.busy_us - lost;
    summary.moving_us = us_per_byte(record) * put_bytes(&summary);
    double least = summary.moving_us < summary.busy_us ? summary.moving_us : summary.busy_us;
    double decoupled = rest + lost * share;
    summary.without_waiting = speedup(&summary, rest > least ? rest : least);
    summary.decoupled = speedup(&summary, decoupled > least ? decoupled : least);
    return summary;
}

/* ---- text ---- */

static void print_kinds(const struct prs_nvshmem_summary *summary, FILE *to)
{
    static const struct prs_table_column columns[] = {
        {"call", PRS_ALIGN_LEFT},     {"calls", PRS_ALIGN_RIGHT},   {"bytes", PRS_ALIGN_RIGHT},
        {"time ms", PRS_ALIGN_RIGHT}, {"mean us", PRS_ALIGN_RIGHT}, {"share", PRS_ALIGN_RIGHT}};
    struct prs_table *table = prs_table_create(columns, sizeof columns / sizeof columns[0]);
    for (int kind = 0; kind < PRS_PROFILE_KINDS; kind++) {
        const struct prs_profile_count *count = &summary->kinds[kind];
        if (count->calls == 0) {
            continue;
        }
        double us = (double)count->ns / 1000;
        prs_table_cell(table, "%s", prs_nvshmem_kind_name((enum prs_profile_kind)kind));
        prs_table_cell(table, "%llu", (unsigned long long)count->calls);
        prs_table_cell(table, "%llu", (unsigned long long)count->bytes);
        prs_table_cell(table, "%.3f", us / 1000);
        prs_table_cell(table, "%.2f", us / (double)count->calls);
        prs_table_cell(table, "%.1f%%", 100 * us / (summary->busy_us > 0 ? summary->busy_us : 1));
    }
    prs_table_print(table, to);
    prs_table_destroy(table);
}

/* "96 of 4 KiB in 1.2 ms", each class up to twice the size it is named after. */
static void describe_sizes(const struct prs_profile_peer *peer, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < PRS_PROFILE_SIZES; i++) {
        const struct prs_profile_count *size = &peer->sizes[i];
        char name[32];
        if (size->calls > 0 && used < bytes) {
            used += (size_t)snprintf(out + used, bytes - used, "%s%llu from %s in %.3f ms",
                                     used > 0 ? ", " : "", (unsigned long long)size->calls,
                                     prs_size_text(1ULL << i, name, sizeof name),
                                     (double)size->ns / 1e6);
        }
    }
}

static void print_peers(const struct prs_nvshmem_record *record, FILE *to)
{
    static const struct prs_table_column columns[] = {
        {"to PE", PRS_ALIGN_RIGHT},   {"calls", PRS_ALIGN_RIGHT},     {"bytes", PRS_ALIGN_RIGHT},
        {"time ms", PRS_ALIGN_RIGHT}, {"fences ms", PRS_ALIGN_RIGHT}, {"puts", PRS_ALIGN_LEFT}};
    struct prs_table *table = prs_table_create(columns, sizeof columns / sizeof columns[0]);
    for (int peer = 0; peer < record->head->n_pes; peer++) {
        const struct prs_profile_peer *row = &record->peers[peer];
        struct prs_profile_count sum = {0};
        char sizes[1024];
        for (int kind = 0; kind < PRS_PROFILE_KINDS; kind++) {
            add(&sum, &row->counts[kind]);
        }
        if (sum.calls == 0) {
            continue;
        }
        describe_sizes(row, sizes, sizeof sizes);
        prs_table_cell(table, "%d", peer);
        prs_table_cell(table, "%llu", (unsigned long long)sum.calls);
        prs_table_cell(table, "%llu", (unsigned long long)sum.bytes);
        prs_table_cell(table, "%.3f", (double)sum.ns / 1e6);
        prs_table_cell(table, "%.3f", (double)row->counts[PRS_PROFILE_FENCE].ns / 1e6);
        prs_table_cell(table, "%s", sizes);
    }
    prs_table_print(table, to);
    prs_table_destroy(table);
}

void prs_nvshmem_print(const struct prs_nvshmem_record *records, int n, FILE *to)
{
    for (int i = 0; i < n; i++) {
        const struct prs_profile_head *head = records[i].head;
        const struct prs_nvshmem_summary summary = prs_nvshmem_summarize(&records[i]);
        fprintf(to, "PE %d of %d, interface %u.0, %s\n", head->pe, head->n_pes, head->interface,
                head->transport);
        print_kinds(&summary, to);
        print_peers(&records[i], to);
        fprintf(to,
                "  proxy calls took %.3f ms of %.3f ms; lost in fences %.3f ms, of these inside "
                "put_signals %.3f ms\n",
                summary.busy_us / 1000, summary.wall_us / 1000,
                (summary.fence_us + summary.signal_us) / 1000, summary.signal_us / 1000);
        if (head->fence_requests > 0) {
            fprintf(
                to,
                "  %llu fences, %.1f operations in flight when one came (at most %llu); %llu would "
                "do with\n  one for each destination\n",
                (unsigned long long)head->fence_requests, summary.open_at_fence,
                (unsigned long long)head->fence_open_max,
                (unsigned long long)head->peers_between_quiets);
            fprintf(to,
                    "  expected speed-up: decoupled signaling %.2f, no waiting in fences %.2f\n",
                    summary.decoupled, summary.without_waiting);
        } else if (!head->offers_fence) {
            fprintf(to, "  this transport keeps order by itself: no fence requests\n");
        }
        if (head->events_lost > 0) {
            fprintf(to, "  the trace lacks the last %llu calls (the counts above have them)\n",
                    (unsigned long long)head->events_lost);
        }
    }
    fprintf(
        to,
        "Model: the proxy does one thing at a time, so its calls' time is what remote traffic "
        "took.\nWithout waiting it would take what is left without the fences, but no less than "
        "all bytes\ntake at the best rate seen: the slope of a put's time over its size. "
        "Decoupled, one fence\nfor each destination between two quiets would do. A put_signal has "
        "a "
        "fence inside: what it\ntakes beyond the mean put and the mean atomic (1 us each if there "
        "were none). The speed-up is\nthat of the whole run, with the time outside of these calls "
        "as it is.\n");
}

/* ---- JSON ---- */

static json_t *json_of_count(const struct prs_profile_count *count)
{
    json_t *one = json_object();
    json_object_set_new(one, "calls", json_integer((json_int_t)count->calls));
    json_object_set_new(one, "bytes", json_integer((json_int_t)count->bytes));
    json_object_set_new(one, "us", json_real((double)count->ns / 1000));
    return one;
}

static json_t *json_of_counts(const struct prs_profile_count *counts)
{
    json_t *kinds = json_object();
    for (int kind = 0; kind < PRS_PROFILE_KINDS; kind++) {
        if (counts[kind].calls == 0) {
            continue;
        }
        json_object_set_new(kinds, prs_nvshmem_kind_name((enum prs_profile_kind)kind),
                            json_of_count(&counts[kind]));
    }
    return kinds;
}

static json_t *json_of_peer(const struct prs_profile_peer *peer, int number)
{
    json_t *object = json_object(), *sizes = json_object();
    json_object_set_new(object, "peer", json_integer(number));
    json_object_set_new(object, "calls", json_of_counts(peer->counts));
    for (int i = 0; i < PRS_PROFILE_SIZES; i++) {
        if (peer->sizes[i].calls > 0) {
            char from[32];
            snprintf(from, sizeof from, "%llu", 1ULL << i);
            json_object_set_new(sizes, from, json_of_count(&peer->sizes[i]));
        }
    }
    json_object_set_new(object, "puts_from_bytes", sizes);
    return object;
}

static json_t *json_of_pe(const struct prs_nvshmem_record *record)
{
    const struct prs_profile_head *head = record->head;
    const struct prs_nvshmem_summary summary = prs_nvshmem_summarize(record);
    json_t *pe = json_object(), *fences = json_object(), *expected = json_object();
    json_object_set_new(pe, "pe", json_integer(head->pe));
    json_object_set_new(pe, "n_pes", json_integer(head->n_pes));
    json_object_set_new(pe, "interface", json_integer(head->interface));
    json_object_set_new(pe, "transport", json_string(head->transport));
    json_object_set_new(pe, "wall_us", json_real(summary.wall_us));
    json_object_set_new(pe, "busy_us", json_real(summary.busy_us));
    json_object_set_new(pe, "calls", json_of_counts(summary.kinds));
    json_object_set_new(pe, "moving_us", json_real(summary.moving_us));
    json_object_set_new(fences, "offered", json_boolean(head->offers_fence));
    json_object_set_new(fences, "requests", json_integer((json_int_t)head->fence_requests));
    json_object_set_new(fences, "us", json_real(summary.fence_us));
    json_object_set_new(fences, "us_inside_put_signals", json_real(summary.signal_us));
    json_object_set_new(fences, "in_flight_mean", json_real(summary.open_at_fence));
    json_object_set_new(fences, "in_flight_max", json_integer((json_int_t)head->fence_open_max));
    json_object_set_new(fences, "needed_when_decoupled",
                        json_integer((json_int_t)head->peers_between_quiets));
    json_object_set_new(pe, "fences", fences);
    json_object_set_new(expected, "decoupled", json_real(summary.decoupled));
    json_object_set_new(expected, "without_waiting", json_real(summary.without_waiting));
    json_object_set_new(pe, "expected_speedup", expected);
    json_object_set_new(pe, "events_lost", json_integer((json_int_t)head->events_lost));
    json_t *peers = json_array();
    for (int peer = 0; peer < head->n_pes; peer++) {
        json_array_append_new(peers, json_of_peer(&record->peers[peer], peer));
    }
    json_object_set_new(pe, "peers", peers);
    return pe;
}

bool prs_nvshmem_write_json(const struct prs_nvshmem_record *records, int n,
                            const struct prs_output *output)
{
    json_t *document = prs_json_begin("nvshmem-profile", 0), *pes = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(pes, json_of_pe(&records[i]));
    }
    json_object_set_new(document, "pes", pes);
    return prs_json_write(document, output);
}

/* ---- trace ---- */

static void write_events(const struct prs_nvshmem_record *record, uint64_t origin_ns, FILE *to)
{
    const struct prs_profile_head *head = record->head;
    double origin_us = (double)(head->start_ns - origin_ns) / 1000;
    for (uint64_t i = 0; i < head->events; i++) {
        const struct prs_profile_event *event = &record->events[i];
        fprintf(to,
                ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"name\":\"%s\",\"ts\":%.3f,\"dur\":%.3f,"
                "\"args\":{\"peer\":%d,\"bytes\":%llu}}",
                head->pe, prs_nvshmem_kind_name((enum prs_profile_kind)event->kind),
                origin_us + (double)event->start_ns / 1000, (double)event->ns / 1000,
                event->peer == PRS_PROFILE_ALL ? -1 : (int)event->peer,
                (unsigned long long)event->bytes);
    }
}

bool prs_nvshmem_write_trace(const struct prs_nvshmem_record *records, int n,
                             const struct prs_output *output)
{
    FILE *to = prs_output_open(output);
    uint64_t origin_ns = UINT64_MAX;
    if (to == NULL) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        origin_ns = records[i].head->start_ns < origin_ns ? records[i].head->start_ns : origin_ns;
    }
    fprintf(to, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
                "{\"ph\":\"M\",\"pid\":0,\"name\":\"trace\",\"args\":{}}");
    for (int i = 0; i < n; i++) {
        fprintf(
            to,
            ",\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"PE %d\"}}"
            ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"name\":\"thread_name\",\"args\":"
            "{\"name\":\"NVSHMEM proxy\"}}",
            records[i].head->pe, records[i].head->pe, records[i].head->pe);
        write_events(&records[i], origin_ns, to);
    }
    fprintf(to, "\n]}\n");
    return prs_output_close(output, to);
}
