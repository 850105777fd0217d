/* SPDX-License-Identifier: Apache-2.0 */
#include "base/standard_fds.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    pthread_mutex_t mutex;
    unsigned holders;
} standard = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static const char file_name[] = "/dev/null";

/* What no program opens as its standard descriptors. */
enum { STAND_IN = O_PATH | O_CLOEXEC };

static bool is_free(int fd)
{
    return fcntl(fd, F_GETFD) < 0;
}

static bool is_stand_in(int fd)
{
    struct stat here, file;
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_PATH) && fstat(fd, &here) == 0 && stat(file_name, &file) == 0 &&
           here.st_dev == file.st_dev && here.st_ino == file.st_ino;
}

/* Another thread may open a file at the same time: what is not one of the three is given back. */
static void fill(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int got = is_free(fd) ? open(file_name, STAND_IN) : -1;
        if (got > STDERR_FILENO) {
            close(got);
        }
    }
}

void prs_standard_fds_hold(void)
{
    pthread_mutex_lock(&standard.mutex);
    standard.holders++;
    fill();
    pthread_mutex_unlock(&standard.mutex);
}

void prs_standard_fds_release(void)
{
    pthread_mutex_lock(&standard.mutex);
    bool is_last = --standard.holders == 0;
    for (int fd = STDIN_FILENO; is_last && fd <= STDERR_FILENO; fd++) {
        if (is_stand_in(fd)) {
            close(fd);
        }
    }
    pthread_mutex_unlock(&standard.mutex);
}
