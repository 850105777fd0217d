/* SPDX-License-Identifier: Apache-2.0 */
/* Raw TCP over 127.0.0.1: what no library can pass by much. usage: sockets BYTES ROUNDS WARM-UP
 * RECEIVERS MODE...
 * batch: all payloads and flags of a receiver in one writev; each: one writev a message, in
 * turn. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

#define RECEIVERS_MAX 63

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Moves all of `vectors`, which it changes. */
static void move_all(int fd, ssize_t (*move)(int, const struct iovec *, int), struct iovec *vectors,
                     int n)
{
    while (n > 0) {
        ssize_t moved = move(fd, vectors, n);
        if (moved <= 0) {
            fail("writev or readv");
        }
        while (n > 0 && (size_t)moved >= vectors->iov_len) {
            moved -= (ssize_t)vectors->iov_len;
            vectors++;
            n--;
        }
        if (n > 0) {
            vectors->iov_base = (unsigned char *)vectors->iov_base + moved;
            vectors->iov_len -= (size_t)moved;
        }
    }
}

static void move_word(int fd, ssize_t (*move)(int, const struct iovec *, int), uint64_t *word)
{
    struct iovec vector = {word, sizeof *word};
    move_all(fd, move, &vector, 1);
}

/* A message is its payload and its flag. */
static void add_message(struct iovec *vectors, unsigned char *payload, size_t bytes, uint64_t *flag)
{
    vectors[0] = (struct iovec){payload, bytes};
    vectors[1] = (struct iovec){flag, sizeof *flag};
}

static void receive(int fd, size_t bytes, int rounds, int index, int receivers)
{
    int n = work_count(index, receivers);
    unsigned char *payload = malloc((size_t)n * bytes);
    uint64_t flags[WORK_MESSAGES], go;
    for (uint64_t round = 1; round <= (uint64_t)rounds; round++) {
        struct iovec vectors[2 * WORK_MESSAGES];
        for (int i = 0; i < n; i++) {
            add_message(&vectors[2 * i], payload + (size_t)i * bytes, bytes, &flags[i]);
        }
        move_all(fd, readv, vectors, 2 * n);
        for (int i = 0; i < n; i++) {
            work_check_ends(payload + (size_t)i * bytes, bytes, round, index + i * receivers);
        }
        move_word(fd, writev, &round);
        for (int i = 0; i < n; i++) {
            work_check(payload + (size_t)i * bytes, bytes, round, index + i * receivers, 1);
        }
        go = round;
        move_word(fd, writev, &go); /* checked: the sender may begin the next */
    }
    exit(0);
}

static void connect_all(int *fds, int receivers, size_t bytes, int rounds)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, RECEIVERS_MAX) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        fail("listen");
    }
    for (int i = 0; i < receivers; i++) {
        pid_t child = fork();
        if (child < 0) {
            fail("fork");
        }
        if (child == 0) {
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
                fail("connect");
            }
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            receive(fd, bytes, rounds, i, receivers);
        }
        fds[i] = accept(listener, NULL, NULL);
        if (fds[i] < 0) {
            fail("accept");
        }
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    close(listener);
}

static double send_round(const int *fds, int receivers, unsigned char *payload, size_t bytes,
                         int in_batches, uint64_t round)
{
    uint64_t flag = round, answer;
    double start_us = work_now_us();
    for (int receiver = 0; in_batches && receiver < receivers; receiver++) {
        struct iovec vectors[2 * WORK_MESSAGES];
        int n = 0;
        for (int message = receiver; message < WORK_MESSAGES; message += receivers, n += 2) {
            add_message(&vectors[n], payload + (size_t)message * bytes, bytes, &flag);
        }
        move_all(fds[receiver], writev, vectors, n);
    }
    for (int message = 0; !in_batches && message < WORK_MESSAGES; message++) {
        struct iovec vectors[2];
        add_message(vectors, payload + (size_t)message * bytes, bytes, &flag);
        move_all(fds[message % receivers], writev, vectors, 2);
    }
    for (int receiver = 0; receiver < receivers; receiver++) {
        move_word(fds[receiver], readv, &answer);
    }
    return work_now_us() - start_us;
}

int main(int argc, char **argv)
{
    size_t bytes = argc > 5 ? strtoull(argv[1], NULL, 10) : 0;
    int receivers = argc > 5 ? atoi(argv[4]) : 0;
    if (bytes < 8 || receivers < 1 || receivers > RECEIVERS_MAX) {
        fprintf(stderr, "usage: sockets BYTES ROUNDS WARM-UP RECEIVERS MODE...\n");
        return 2;
    }
    int rounds = atoi(argv[2]), warm_up = atoi(argv[3]), fds[RECEIVERS_MAX];
    connect_all(fds, receivers, bytes, (rounds + warm_up) * (argc - 5));
    unsigned char *payload = malloc(WORK_MESSAGES * bytes);
    uint64_t round = 0, go;
    for (int i = 5; i < argc; i++) {
        for (int r = -warm_up; r < rounds; r++) {
            round++;
            for (int message = 0; message < WORK_MESSAGES; message++) {
                work_fill(payload + (size_t)message * bytes, bytes, round, message);
            }
            double us =
                send_round(fds, receivers, payload, bytes, strcmp(argv[i], "batch") == 0, round);
            if (r >= 0) {
                char name[64];
                snprintf(name, sizeof name, "sockets-%s", argv[i]);
                work_report(name, us);
            }
            for (int receiver = 0; receiver < receivers; receiver++) {
                move_word(fds[receiver], readv, &go);
            }
        }
    }
    int worst = 0, status;
    while (wait(&status) > 0) {
        worst |= status;
    }
    free(payload);
    return worst != 0;
}
