/* SPDX-License-Identifier: Apache-2.0 */
#include "core/messages.h"

#include <stdio.h>
#include <string.h>

void messages_init(struct messages *messages)
{
    memset(messages, 0, sizeof *messages);
    pthread_mutex_init(&messages->mutex, NULL);
}

void messages_take(void *context, enum perseus_log_level level, const char *text)
{
    struct messages *messages = context;
    if (atomic_fetch_add(&messages->inside, 1) != 0) {
        atomic_fetch_add(&messages->overlapped, 1);
    }
    pthread_mutex_lock(&messages->mutex);
    messages->errors += level == PERSEUS_LOG_ERROR;
    size_t room = sizeof messages->text - messages->used;
    int length = snprintf(messages->text + messages->used, room, "%s\n", text);
    messages->used += (size_t)length < room ? (size_t)length : room - 1;
    pthread_mutex_unlock(&messages->mutex);
    atomic_fetch_sub(&messages->inside, 1);
}

bool messages_have(struct messages *messages, const char *part)
{
    pthread_mutex_lock(&messages->mutex);
    bool have = strstr(messages->text, part) != NULL;
    pthread_mutex_unlock(&messages->mutex);
    if (!have) {
        fprintf(stderr, "no \"%s\" in:\n%s", part, messages->text);
    }
    return have;
}

int messages_errors(struct messages *messages)
{
    pthread_mutex_lock(&messages->mutex);
    int errors = messages->errors;
    pthread_mutex_unlock(&messages->mutex);
    return errors;
}

void messages_clear(struct messages *messages)
{
    pthread_mutex_lock(&messages->mutex);
    messages->errors = 0;
    messages->used = 0;
    messages->text[0] = '\0';
    pthread_mutex_unlock(&messages->mutex);
}
