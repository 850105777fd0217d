/* SPDX-License-Identifier: Apache-2.0 */
/* Perseus through its public interface. usage: perseus BYTES ROUNDS WARM-UP TAG PROTOCOL...
 * coupled: put_signal each; decoupled: a signal group for each PE; vector: its signals as one
 * write. */
#include <string.h>

#include <perseus/perseus.h>

#include "work.h"

#define PEERS_MAX 63

struct bench {
    struct perseus_pe *pe;
    int me, receivers;
    size_t bytes;
    unsigned char *payload; /* of every message; at a receiver, its own from the beginning */
    uint64_t *flags;        /* at a receiver: one a message */
    uint64_t *answers;      /* at the sender: one a PE */
    struct perseus_signal_group *groups[PEERS_MAX];
};

static void check(const struct bench *bench, enum perseus_status status)
{
    if (status != PERSEUS_OK) {
        fprintf(stderr, "%s: %s\n", perseus_status_string(status),
                bench->pe != NULL ? perseus_last_error(bench->pe) : "");
        exit(1);
    }
}

static void *allocate(const struct bench *bench, size_t bytes)
{
    void *memory = NULL;
    check(bench, perseus_malloc(bench->pe, bytes, &memory));
    return memory;
}

static void make_groups(struct bench *bench, bool vector)
{
    for (int receiver = 0; receiver < bench->receivers; receiver++) {
        struct perseus_signal_group_member members[WORK_MESSAGES];
        int n = work_count(receiver, bench->receivers);
        for (int i = 0; i < n; i++) {
            members[i] = (struct perseus_signal_group_member){.target = 1 + receiver,
                                                              .signal = &bench->flags[i]};
        }
        const struct perseus_signal_group_attr attr = {.members = members,
                                                       .n_members = (uint32_t)n,
                                                       .op = PERSEUS_SIGNAL_SET,
                                                       .vector = vector};
        check(bench, perseus_signal_group_create(bench->pe, &attr, &bench->groups[receiver]));
    }
}

static double send_round(struct bench *bench, bool coupled, uint64_t round)
{
    double start_us = work_now_us();
    for (int message = 0; message < WORK_MESSAGES; message++) {
        int receiver = message % bench->receivers, place = message / bench->receivers;
        unsigned char *to = bench->payload + (size_t)place * bench->bytes;
        const unsigned char *from = bench->payload + (size_t)message * bench->bytes;
        check(bench, coupled ? perseus_put_signal_nbi(bench->pe, to, from, bench->bytes,
                                                      &bench->flags[place], round,
                                                      PERSEUS_SIGNAL_SET, 1 + receiver)
                             : perseus_signal_group_put(bench->groups[receiver], (uint32_t)place,
                                                        to, from, bench->bytes, round));
    }
    for (int pe = 1; pe <= bench->receivers; pe++) {
        check(bench, perseus_signal_wait_until(bench->pe, &bench->answers[pe], PERSEUS_CMP_GE,
                                               round, 60000, NULL));
    }
    return work_now_us() - start_us;
}

static void receive_round(struct bench *bench, uint64_t round)
{
    int index = bench->me - 1, n = work_count(index, bench->receivers);
    for (int i = 0; i < n; i++) {
        check(bench, perseus_signal_wait_until(bench->pe, &bench->flags[i], PERSEUS_CMP_GE, round,
                                               60000, NULL));
        work_check_ends(bench->payload + (size_t)i * bench->bytes, bench->bytes, round,
                        index + i * bench->receivers);
    }
    check(bench,
          perseus_signal_op(bench->pe, &bench->answers[bench->me], round, PERSEUS_SIGNAL_SET, 0));
    for (int i = 0; i < n; i++) {
        work_check(bench->payload + (size_t)i * bench->bytes, bench->bytes, round,
                   index + i * bench->receivers, 1);
    }
}

static void run_protocol(struct bench *bench, const char *name, int rounds, int warm_up,
                         uint64_t *round)
{
    bool coupled = strncmp(name, "coupled", 7) == 0;
    if (!coupled && bench->me == 0) {
        make_groups(bench, strncmp(name, "vector", 6) == 0);
    }
    for (int r = -warm_up; r < rounds; r++) {
        ++*round;
        for (int message = 0; bench->me == 0 && message < WORK_MESSAGES; message++) {
            work_fill(bench->payload + (size_t)message * bench->bytes, bench->bytes, *round,
                      message);
        }
        check(bench, perseus_barrier_all(bench->pe));
        if (bench->me != 0) {
            receive_round(bench, *round);
        } else {
            double us = send_round(bench, coupled, *round);
            if (r >= 0) {
                work_report(name, us);
            }
        }
        check(bench, perseus_barrier_all(bench->pe));
    }
    for (int receiver = 0; !coupled && bench->me == 0 && receiver < bench->receivers; receiver++) {
        perseus_signal_group_destroy(bench->groups[receiver]);
    }
}

int main(int argc, char **argv)
{
    struct bench bench = {.bytes = argc > 5 ? strtoull(argv[1], NULL, 10) : 0};
    check(&bench, perseus_init(&bench.pe));
    bench.me = perseus_my_pe(bench.pe);
    bench.receivers = perseus_n_pes(bench.pe) - 1;
    if (bench.bytes < 8 || bench.receivers < 1 || bench.receivers > PEERS_MAX) {
        fprintf(stderr, "usage: perseus BYTES ROUNDS WARM-UP TAG PROTOCOL..., 2 to 64 PEs\n");
        return 2;
    }
    bench.payload = allocate(&bench, WORK_MESSAGES * bench.bytes);
    bench.flags = allocate(&bench, WORK_MESSAGES * sizeof(uint64_t));
    bench.answers = allocate(&bench, (PEERS_MAX + 1) * sizeof(uint64_t));
    uint64_t round = 0;
    for (int i = 5; i < argc; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s-%s", argv[i], argv[4]);
        run_protocol(&bench, name, atoi(argv[2]), atoi(argv[3]), &round);
    }
    check(&bench, perseus_finalize(bench.pe));
    return 0;
}
