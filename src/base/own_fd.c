/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own_fd.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
    pthread_mutex_t mutex;
    pthread_once_t once;
    bool has_handler;
    int *fds;
    size_t n, room;
} own = {.mutex = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void before_fork(void)
{
    pthread_mutex_lock(&own.mutex);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&own.mutex);
}

/* Calls only what may be called between fork and exec. */
static void in_child(void)
{
    int nothing = own.n > 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    for (size_t i = 0; i < own.n; i++) {
        if (nothing < 0 || dup3(nothing, own.fds[i], O_CLOEXEC) < 0) {
            close(own.fds[i]);
        }
    }
    if (nothing >= 0) {
        close(nothing);
    }
    own.n = 0;
    pthread_mutex_unlock(&own.mutex);
}

static void add_handler(void)
{
    own.has_handler = pthread_atfork(before_fork, in_parent, in_child) == 0;
}

bool prs_own_fd_add(int fd)
{
    pthread_once(&own.once, add_handler);
    pthread_mutex_lock(&own.mutex);
    if (own.n == own.room) {
        size_t room = own.room > 0 ? 2 * own.room : 16;
        int *fds = realloc(own.fds, room * sizeof *fds);
        own.room = fds != NULL ? room : own.room;
        own.fds = fds != NULL ? fds : own.fds;
    }
    bool has_room = own.has_handler && own.n < own.room;
    if (has_room) {
        own.fds[own.n++] = fd;
    }
    pthread_mutex_unlock(&own.mutex);
    return has_room;
}

static void forget(int fd)
{
    pthread_mutex_lock(&own.mutex);
    for (size_t i = 0; i < own.n; i++) {
        if (own.fds[i] == fd) {
            own.fds[i] = own.fds[--own.n];
            break;
        }
    }
    if (own.n == 0) {
        free(own.fds);
        own.fds = NULL;
        own.room = 0;
    }
    pthread_mutex_unlock(&own.mutex);
}

void prs_own_fd_end(int fd)
{
    forget(fd);
    shutdown(fd, SHUT_RDWR);
    close(fd);
}
