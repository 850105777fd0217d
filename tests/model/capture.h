/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h: a log that keeps the last message, so that tests can look at what a user would
 * read. */
#ifndef PRS_TEST_CAPTURE_H
#define PRS_TEST_CAPTURE_H

#include <stdio.h>
#include <string.h>

#include "base/log.h"

struct capture {
    char text[2048];
    unsigned count;
    struct prs_log log;
};

static inline void capture_message(void *user, enum perseus_log_level level, const char *text)
{
    struct capture *capture = user;
    (void)level;
    snprintf(capture->text, sizeof capture->text, "%s", text);
    capture->count++;
}

/* In place: the log points to the struct. */
static inline void capture_init(struct capture *capture)
{
    memset(capture, 0, sizeof *capture);
    capture->log = (struct prs_log){
        .fn = capture_message, .user = capture, .level = PERSEUS_LOG_DEBUG, .pe = -1};
}

#define assert_said(capture, words)                                          \
    do {                                                                     \
        if (strstr((capture)->text, (words)) == NULL) {                      \
            fail_msg("expected \"%s\" in \"%s\"", (words), (capture)->text); \
        }                                                                    \
    } while (0)

#endif
