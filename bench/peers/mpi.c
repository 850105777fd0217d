/* SPDX-License-Identifier: Apache-2.0 */
/* MPI. usage: mpi BYTES ROUNDS WARM-UP MODE...
 * sendrecv: an Isend each, the receives posted before; a message needs no flag.
 * puts: MPI_Put each, a flush, the flags of a PE as one put, a flush. */
#include <string.h>

#include <mpi.h>

#include "work.h"

struct bench {
    int me, receivers;
    size_t bytes;
    unsigned char *payload;
    volatile uint64_t *flags, *answers; /* behind the payload */
    uint64_t *values;                   /* of the flags, at the sender */
    MPI_Win window;
};

static MPI_Aint offset_of(const struct bench *bench, const volatile void *at)
{
    return (MPI_Aint)((const volatile unsigned char *)at - bench->payload);
}

/* Looks at a word that a put will change, and lets MPI work meanwhile. */
static void wait_for(const struct bench *bench, const volatile uint64_t *word, uint64_t value)
{
    while (*word < value) {
        int is_there;
        MPI_Iprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
        MPI_Win_sync(bench->window);
    }
}

static void put(const struct bench *bench, const void *from, size_t bytes, int pe, MPI_Aint to)
{
    MPI_Put(from, (int)bytes, MPI_BYTE, pe, to, (int)bytes, MPI_BYTE, bench->window);
}

static void send_puts(const struct bench *bench, uint64_t round)
{
    for (int message = 0; message < WORK_MESSAGES; message++) {
        put(bench, bench->payload + (size_t)message * bench->bytes, bench->bytes,
            1 + message % bench->receivers,
            (MPI_Aint)((size_t)(message / bench->receivers) * bench->bytes));
    }
    MPI_Win_flush_all(bench->window);
    for (int receiver = 0; receiver < bench->receivers; receiver++) {
        put(bench, bench->values, (size_t)work_count(receiver, bench->receivers) * 8, 1 + receiver,
            offset_of(bench, bench->flags));
    }
    MPI_Win_flush_all(bench->window);
    for (int pe = 1; pe <= bench->receivers; pe++) {
        wait_for(bench, &bench->answers[pe], round);
    }
}

static void send_messages(const struct bench *bench)
{
    MPI_Request requests[WORK_MESSAGES];
    uint64_t answer;
    for (int message = 0; message < WORK_MESSAGES; message++) {
        MPI_Isend(bench->payload + (size_t)message * bench->bytes, (int)bench->bytes, MPI_BYTE,
                  1 + message % bench->receivers, 1, MPI_COMM_WORLD, &requests[message]);
    }
    MPI_Waitall(WORK_MESSAGES, requests, MPI_STATUSES_IGNORE);
    for (int pe = 1; pe <= bench->receivers; pe++) {
        MPI_Recv(&answer, 8, MPI_BYTE, pe, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void check_round(const struct bench *bench, uint64_t round, size_t step)
{
    for (int i = 0; i < work_count(bench->me - 1, bench->receivers); i++) {
        work_check(bench->payload + (size_t)i * bench->bytes, bench->bytes, round,
                   bench->me - 1 + i * bench->receivers, step);
    }
}

static void receive_puts(struct bench *bench, uint64_t round)
{
    for (int i = 0; i < work_count(bench->me - 1, bench->receivers); i++) {
        wait_for(bench, &bench->flags[i], round);
        work_check_ends(bench->payload + (size_t)i * bench->bytes, bench->bytes, round,
                        bench->me - 1 + i * bench->receivers);
    }
    bench->values[0] = round;
    put(bench, bench->values, 8, 0, offset_of(bench, &bench->answers[bench->me]));
    MPI_Win_flush(0, bench->window);
}

static void receive_messages(const struct bench *bench, MPI_Request *requests, uint64_t round)
{
    MPI_Waitall(work_count(bench->me - 1, bench->receivers), requests, MPI_STATUSES_IGNORE);
    check_round(bench, round, bench->bytes);
    MPI_Send(&round, 8, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
}

static void run_round(struct bench *bench, const char *name, bool is_timed, uint64_t round)
{
    bool with_puts = strcmp(name, "puts") == 0;
    MPI_Request requests[WORK_MESSAGES];
    for (int i = 0; bench->me == 0 && i < WORK_MESSAGES; i++) {
        work_fill(bench->payload + (size_t)i * bench->bytes, bench->bytes, round, i);
        bench->values[i] = round;
    }
    for (int i = 0; bench->me > 0 && !with_puts && i < work_count(bench->me - 1, bench->receivers);
         i++) {
        MPI_Irecv(bench->payload + (size_t)i * bench->bytes, (int)bench->bytes, MPI_BYTE, 0, 1,
                  MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double start_us = work_now_us();
    if (bench->me == 0) {
        with_puts ? send_puts(bench, round) : send_messages(bench);
        if (is_timed) {
            char tag[64];
            snprintf(tag, sizeof tag, "mpi-%s", name);
            work_report(tag, work_now_us() - start_us);
        }
    } else {
        with_puts ? receive_puts(bench, round) : receive_messages(bench, requests, round);
        check_round(bench, round, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct bench bench = {.bytes = argc > 4 ? strtoull(argv[1], NULL, 10) : 0};
    int size;
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bench.receivers = size - 1;
    if (bench.bytes < 8 || size < 2) {
        fprintf(stderr, "usage: mpi BYTES ROUNDS WARM-UP MODE..., at least 2 processes\n");
        return 2;
    }
    size_t flags_at = WORK_MESSAGES * bench.bytes;
    size_t total = flags_at + (WORK_MESSAGES + (size_t)size) * 8;
    MPI_Win_allocate((MPI_Aint)total, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &bench.payload,
                     &bench.window);
    memset(bench.payload, 0, total);
    bench.flags = (uint64_t *)(void *)(bench.payload + flags_at);
    bench.answers = bench.flags + WORK_MESSAGES;
    bench.values = calloc(WORK_MESSAGES, 8);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, bench.window);
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t round = 0;
    for (int i = 4; i < argc; i++) {
        for (int r = -atoi(argv[3]); r < atoi(argv[2]); r++) {
            run_round(&bench, argv[i], r >= 0, ++round);
        }
    }
    MPI_Win_unlock_all(bench.window);
    MPI_Win_free(&bench.window);
    free(bench.values);
    MPI_Finalize();
    return 0;
}
