/* SPDX-License-Identifier: Apache-2.0 */
/* messages.h: a log callback that keeps what it hears, and says whether it was called by two
 * threads at once. */
#ifndef TESTS_CORE_MESSAGES_H
#define TESTS_CORE_MESSAGES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <perseus/perseus.h>

#define MESSAGES_BYTES 65536

struct messages {
    pthread_mutex_t mutex;
    atomic_int inside;     /* callbacks running */
    atomic_int overlapped; /* that found another one inside */
    int errors;
    char text[MESSAGES_BYTES]; /* one message a line */
    size_t used;
};

void messages_init(struct messages *messages);
void messages_take(void *messages, enum perseus_log_level level, const char *text);
bool messages_have(struct messages *messages, const char *part);
int messages_errors(struct messages *messages);
void messages_clear(struct messages *messages);

#endif
