/* SPDX-License-Identifier: Apache-2.0 */
/* A program that runs without the descriptors 0 to 2: no socket or file of ours gets their numbers,
 * so what it prints reaches no peer. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <perseus/perseus.h>

enum { PES = 2, STANDARD = 3, TOLD_AT = 20 };

#define CHECK(condition)                                                     \
    do {                                                                     \
        if (!(condition)) {                                                  \
            dprintf(TOLD_AT, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                        \
        }                                                                    \
    } while (0)

static struct perseus_unique_id id;

static void check_unusable(void)
{
    char byte = 0;
    for (int fd = 0; fd < STANDARD; fd++) {
        CHECK(write(fd, &byte, 1) == -1 && errno == EBADF);
        CHECK(read(fd, &byte, 1) == -1 && errno == EBADF);
    }
}

static void check_closed(void)
{
    for (int fd = 0; fd < STANDARD; fd++) {
        CHECK(fcntl(fd, F_GETFD) == -1);
    }
}

/* Puts to the other PE between looks at the descriptors, so that connections are there as well. */
static void *run_pe(void *context)
{
    const int rank = *(const int *)context;
    const struct perseus_attr attr = {
        .fabric = "libfabric",
        .provider = "tcp",
        .heap_bytes = 1 << 20,
        .bootstrap = PERSEUS_BOOTSTRAP_TCP,
        .unique_id = &id,
        .rank = rank,
        .size = PES,
        .pes_per_node = 1,
    };
    struct perseus_pe *pe = NULL;
    CHECK(perseus_init_attr(&attr, &pe) == PERSEUS_OK);
    check_unusable();
    void *memory = NULL;
    CHECK(perseus_malloc(pe, 2 * sizeof(uint64_t), &memory) == PERSEUS_OK);
    uint64_t *word = memory; /* the one that is written, and the source */
    word[0] = 0;
    word[1] = 7;
    CHECK(perseus_barrier_all(pe) == PERSEUS_OK);
    CHECK(perseus_put(pe, &word[0], &word[1], sizeof *word, 1 - rank) == PERSEUS_OK);
    CHECK(perseus_barrier_all(pe) == PERSEUS_OK);
    CHECK(word[0] == 7);
    check_unusable();
    CHECK(perseus_free(pe, word) == PERSEUS_OK);
    CHECK(perseus_finalize(pe) == PERSEUS_OK);
    return NULL;
}

static void run_job(void)
{
    pthread_t threads[PES];
    int ranks[PES];
    CHECK(perseus_unique_id_create("127.0.0.1", &id) == PERSEUS_OK);
    check_closed();
    for (int rank = 0; rank < PES; rank++) {
        ranks[rank] = rank;
        CHECK(pthread_create(&threads[rank], NULL, run_pe, &ranks[rank]) == 0);
    }
    for (int rank = 0; rank < PES; rank++) {
        pthread_join(threads[rank], NULL);
    }
}

/* What the program has put there itself meanwhile is not ours to close. */
static void run_alone_and_take_one(void)
{
    struct stat mine, now;
    struct perseus_pe *pe = NULL;
    const struct perseus_attr attr = {.heap_bytes = 1 << 20};
    CHECK(perseus_init_attr(&attr, &pe) == PERSEUS_OK);
    check_unusable();
    int file = open("/dev/null", O_RDWR);
    CHECK(file > 2 && dup2(file, 0) == 0 && fstat(file, &mine) == 0);
    CHECK(perseus_finalize(pe) == PERSEUS_OK);
    CHECK(fstat(0, &now) == 0 && now.st_rdev == mine.st_rdev);
    CHECK(close(file) == 0 && close(0) == 0);
}

int main(void)
{
    if (dup2(2, TOLD_AT) != TOLD_AT) {
        return 2;
    }
    for (int fd = 0; fd < STANDARD; fd++) {
        close(fd);
    }
    run_job();
    check_closed();
    run_alone_and_take_one();
    check_closed();
    return 0;
}
