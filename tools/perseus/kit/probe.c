/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/probe.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/link.h"
#include "kit/tool_log.h"

#define PROBE_MS 15000u /* that a fabric may take to open */

static void keep_first_error(void *user, enum perseus_log_level level, const char *text)
{
    struct prs_probe *probe = user;
    if (level == PERSEUS_LOG_ERROR && probe->error[0] == '\0') {
        snprintf(probe->error, sizeof probe->error, "%s", text);
    }
}

void prs_probe_modes(struct prs_probe *probe)
{
    static const struct prs_log no_log;
    for (int mode = PERSEUS_ORDERING_AUTO + 1; mode < PERSEUS_ORDERING_COUNT; mode++) {
        struct prs_probe_mode *row = &probe->modes[mode];
        row->is_kept = prs_ordering_check((enum perseus_ordering)mode, &probe->caps, row->why,
                                          sizeof row->why) == PERSEUS_OK;
    }
    if (prs_ordering_resolve(PERSEUS_ORDERING_AUTO, &probe->caps, &no_log, &probe->auto_mode,
                             probe->auto_why, sizeof probe->auto_why) != PERSEUS_OK) {
        probe->auto_mode = PERSEUS_ORDERING_AUTO;
    }
}

static enum perseus_status ask_fabric(const struct perseus_attr *asked, const struct prs_log *log,
                                      struct prs_probe *probe)
{
    struct prs_link_settings settings;
    struct prs_link link = {.fabric = NULL};
    enum perseus_status status = prs_link_settings_read(asked, log, &settings);
    if (status == PERSEUS_OK) {
        status = prs_link_open(&link, &settings, PERSEUS_LOG_ERROR, log);
    }
    /* Many a provider opens and then has no device, port or memory for an endpoint. */
    struct prs_endpoint *endpoint = NULL;
    if (status == PERSEUS_OK) {
        status = link.fabric->ops->endpoint_open(link.fabric, &endpoint);
    }
    if (status == PERSEUS_OK) {
        probe->caps = link.fabric->caps;
        prs_probe_modes(probe);
    }
    if (endpoint != NULL) {
        link.fabric->ops->endpoint_close(endpoint);
    }
    prs_link_close(&link);
    return status;
}

static void write_whole(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno != EINTR) {
            return; /* the reader sees too little */
        }
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        }
    }
}

/* errno says why not: ETIMEDOUT, or 0 if its writer ended. */
static bool read_whole(int fd, void *data, size_t bytes, uint32_t timeout_ms)
{
    struct prs_clock clock = prs_clock_monotonic();
    uint64_t until_ns = prs_clock_now_ns(&clock) + timeout_ms * UINT64_C(1000000);
    char *at = data;
    while (bytes > 0) {
        uint64_t now_ns = prs_clock_now_ns(&clock);
        struct pollfd watched = {.fd = fd, .events = POLLIN};
        errno = ETIMEDOUT;
        if (now_ns >= until_ns || poll(&watched, 1, (int)((until_ns - now_ns) / 1000000)) == 0) {
            return false;
        }
        errno = 0;
        ssize_t n = read(fd, at, bytes);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return false;
        }
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        }
    }
    return true;
}

enum perseus_status prs_probe_ask(prs_probe_fn ask, const struct perseus_attr *asked,
                                  uint32_t timeout_ms, struct prs_probe *out)
{
    struct prs_probe probe = {0};
    struct prs_log log = prs_tool_log();
    int pair[2];
    if (pipe(pair) != 0) {
        return prs_fail(&log, PERSEUS_IO, "pipe: %s", strerror(errno));
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct prs_log keep = {.fn = keep_first_error, .user = &probe, .pe = -1};
        close(pair[0]);
        probe.status = ask(asked, &keep, &probe);
        write_whole(pair[1], &probe, sizeof probe);
        _exit(0);
    }
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return prs_fail(&log, PERSEUS_IO, "fork: %s", strerror(errno));
    }
    if (!read_whole(pair[0], &probe, sizeof probe, timeout_ms)) {
        bool is_late = errno == ETIMEDOUT;
        kill(pid, SIGKILL);
        probe = (struct prs_probe){.status = is_late ? PERSEUS_TIMEOUT : PERSEUS_IO};
        snprintf(probe.error, sizeof probe.error,
                 is_late ? "its library does not answer within %u ms"
                         : "its library ends the process",
                 timeout_ms);
    }
    close(pair[0]);
    waitpid(pid, NULL, 0);
    *out = probe;
    return PERSEUS_OK;
}

enum perseus_status prs_probe_fabric(const struct perseus_attr *asked, struct prs_probe *out)
{
    return prs_probe_ask(ask_fabric, asked, PROBE_MS, out);
}
