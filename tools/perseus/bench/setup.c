/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"

void prs_bench_setup_init(struct prs_bench_setup *setup)
{
    *setup = (struct prs_bench_setup){
        .json = {.option = "--json"},
        .seed = 1,
        .pes_per_node = 1,
        .repeat = 3,
        .group_size = PRS_BENCH_GROUP_TARGET,
        .ctas = 1,
        .timeout_ms = 60000,
        .has_vector = true,
        .has_plain = true,
    };
    for (int i = 0; i < PRS_BENCH_PROTOCOL_COUNT; i++) {
        setup->protocols[i] = true;
    }
    for (int i = PERSEUS_ORDERING_AUTO + 1; i < PERSEUS_ORDERING_COUNT; i++) {
        setup->orderings[i] = true;
    }
}

static const char *mark_protocol(const char *word, void *target)
{
    bool *protocols = target, is_known = false;
    for (int i = 0; i < PRS_BENCH_PROTOCOL_COUNT; i++) {
        if (strcmp(word, prs_bench_protocol_info((enum prs_bench_protocol)i)->name) == 0) {
            protocols[i] = true;
            is_known = true; /* and on: a name may have a plain and a vector form */
        }
    }
    return is_known ? NULL
                    : "names from: put-only, put-only+signals, coupled, decoupled, "
                      "collective";
}

static const char *parse_protocols(const char *text, void *target)
{
    bool protocols[PRS_BENCH_PROTOCOL_COUNT] = {false};
    const char *expected = prs_parse_words(text, mark_protocol, protocols);
    if (expected == NULL) {
        memcpy(target, protocols, sizeof protocols);
    }
    return expected;
}

static const char *mark_ordering(const char *word, void *target)
{
    enum perseus_ordering ordering;
    if (perseus_ordering_parse(word, &ordering) != PERSEUS_OK) {
        return "names from: auto, drain, drain-peer, deferred, nic-fence, fifo, counted";
    }
    ((bool *)target)[ordering] = true;
    return NULL;
}

static const char *parse_orderings(const char *text, void *target)
{
    bool orderings[PERSEUS_ORDERING_COUNT] = {false};
    const char *expected = prs_parse_words(text, mark_ordering, orderings);
    if (expected == NULL) {
        memcpy(target, orderings, sizeof orderings);
    }
    return expected;
}

static const char *parse_group_size(const char *text, void *target)
{
    if (strcmp(text, "pe") == 0) {
        *(uint32_t *)target = PRS_BENCH_GROUP_TARGET;
        return NULL;
    }
    if (strcmp(text, "all") == 0) {
        *(uint32_t *)target = PRS_BENCH_GROUP_ALL;
        return NULL;
    }
    return prs_parse_count(text, target) == NULL ? NULL : "pe, all, or a number of transfers";
}

static const char *parse_vector_only(const char *text, void *target)
{
    (void)text;
    ((struct prs_bench_setup *)target)->has_plain = false;
    return NULL;
}

static const char *parse_ctas(const char *text, void *target)
{
    uint32_t n = 0;
    if (prs_parse_count(text, &n) != NULL || n > 256) {
        return "a number from 1 to 256";
    }
    *(uint32_t *)target = n;
    return NULL;
}

void prs_bench_setup_options(struct prs_bench_setup *setup, struct prs_option *out)
{
    const struct prs_option options[PRS_BENCH_SETUP_OPTIONS] = {
        {"fabric", "NAME", "libfabric, verbs or loopback (all PEs in one process)", prs_parse_text,
         &setup->fabric},
        {"provider", "NAME", "libfabric provider: tcp, sockets, shm, ...", prs_parse_text,
         &setup->provider},
        {"link", "MODEL",
         "delay every operation as a link would:\nlatency=5us,bandwidth=25G,jitter=1us",
         prs_parse_text, &setup->link},
        {"qps", "N", "queue pairs to each peer (fabric verbs; 1 to 8)", prs_parse_text,
         &setup->qps},
        {"protocols", "LIST",
         "coupled, decoupled, collective; the ceilings put-only\nand put-only+signals always run",
         parse_protocols, setup->protocols},
        {"orderings", "LIST",
         "auto, drain, drain-peer, deferred, nic-fence, fifo,\ncounted (default: all but auto)",
         parse_orderings, setup->orderings},
        {"vector", NULL, "decoupled only with vector signals (default: with and\nwithout)",
         parse_vector_only, setup},
        {"no-vector", NULL, "decoupled only without vector signals", prs_parse_off,
         &setup->has_vector},
        {"group-size", "N",
         "transfers per signal group: a number, pe (one group per\n"
         "destination PE, the default) or all",
         parse_group_size, &setup->group_size},
        {"ctas", "N", "threads that submit on a sending PE (1)", parse_ctas, &setup->ctas},
        {"pes-per-node", "N", "PEs of one node; they do not send to each other (1)",
         prs_parse_count, &setup->pes_per_node},
        {"stats", NULL, "print PE 0's counters toward every PE at the end", prs_parse_on,
         &setup->has_stats},
        {"repeat", "N", "turns of every ordering mode (3)", prs_parse_count, &setup->repeat},
        {"timeout-ms", "N", "how long a turn may take (60000)", prs_parse_count,
         &setup->timeout_ms},
        {"seed", "N", "of payload and of the order of turns (1)", prs_parse_seed, &setup->seed},
        {"json", "FILE", "write every row there", prs_parse_text, &setup->json.path},
    };
    memcpy(out, options, sizeof options);
}

bool prs_bench_has_protocol(const struct prs_bench_setup *setup, enum prs_bench_protocol protocol)
{
    switch (protocol) {
    case PRS_BENCH_PUT_ONLY:
    case PRS_BENCH_PUT_ONLY_SIGNALS:
        return true;
    case PRS_BENCH_DECOUPLED:
        return setup->protocols[protocol] && setup->has_plain;
    case PRS_BENCH_DECOUPLED_VECTOR:
        return setup->protocols[protocol] && setup->has_vector;
    default:
        return setup->protocols[protocol];
    }
}

bool prs_bench_modes_find(struct prs_bench_setup *setup, struct prs_bench_modes *out)
{
    const struct perseus_attr asked = {.fabric = setup->fabric, .provider = setup->provider};
    struct prs_probe probe;
    if (setup->link != NULL) {
        setenv(prs_env_row(PRS_ENV_LINK)->name, setup->link, 1);
    }
    if (setup->qps != NULL) {
        setenv(prs_env_row(PRS_ENV_IB_QPS)->name, setup->qps, 1);
    }
    if (prs_probe_fabric(&asked, &probe) != PERSEUS_OK) {
        return false;
    }
    if (probe.status != PERSEUS_OK) {
        fprintf(stderr, "perseus: %s; perseus info lists what is here\n", probe.error);
        return false;
    }
    *out = (struct prs_bench_modes){.lanes = probe.caps.lanes_useful};
    setup->fabric = setup->fabric != NULL ? setup->fabric : prs_env_text(PRS_ENV_FABRIC);
    snprintf(out->fabric, sizeof out->fabric, "%s", setup->fabric);
    snprintf(out->provider, sizeof out->provider, "%s", probe.caps.provider);
    bool has_kept = false;
    setup->orderings[probe.auto_mode] |= setup->orderings[PERSEUS_ORDERING_AUTO];
    for (int i = PERSEUS_ORDERING_AUTO + 1; i < PERSEUS_ORDERING_COUNT; i++) {
        if (!setup->orderings[i]) {
            continue;
        }
        struct prs_bench_mode *mode = &out->mode[out->n];
        mode->ordering = (enum perseus_ordering)i;
        mode->is_kept = probe.modes[i].is_kept;
        memcpy(mode->why, probe.modes[i].why, sizeof mode->why);
        if (mode->is_kept && (!has_kept || mode->ordering == probe.auto_mode)) {
            out->reference = out->n;
        }
        has_kept |= mode->is_kept;
        out->n++;
    }
    if (!has_kept) {
        fprintf(stderr,
                "perseus: fabric %s, provider %s keeps none of the ordering modes asked for (%s: "
                "%s); perseus info says which it keeps\n",
                out->fabric, out->provider, perseus_ordering_name(out->mode[0].ordering),
                out->n > 0 ? out->mode[0].why : "");
    }
    return has_kept;
}

uint32_t prs_bench_baseline(const struct prs_bench_modes *modes)
{
    for (uint32_t m = 0; m < modes->n; m++) {
        if (modes->mode[m].ordering == PERSEUS_ORDERING_DRAIN && modes->mode[m].is_kept) {
            return m;
        }
    }
    return modes->reference;
}

void prs_bench_print_not_kept(const struct prs_bench_modes *modes)
{
    for (uint32_t m = 0; m < modes->n; m++) {
        if (!modes->mode[m].is_kept) {
            printf("not run: %s, which this fabric cannot keep: %s\n",
                   perseus_ordering_name(modes->mode[m].ordering), modes->mode[m].why);
        }
    }
}
