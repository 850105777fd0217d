/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Put with signal: every PE sends a message to the next one and waits for the one before.
 *
 *     perseus run -n 2 -- put_signal
 *     perseus run -n 4 --pes-per-node 1 -- put_signal     through the proxy and the fabric
 */
#include <stdio.h>
#include <string.h>

#include <perseus/perseus.h>

#define MESSAGE_BYTES 64

static void print_message(void *user, enum perseus_log_level level, const char *text)
{
    (void)user;
    (void)level;
    fprintf(stderr, "%s\n", text);
}

/* Symmetric: both objects are at the same heap offset on every PE. */
struct mailbox {
    uint64_t arrived; /* signal */
    char incoming[MESSAGE_BYTES], outgoing[MESSAGE_BYTES];
};

static enum perseus_status exchange(struct perseus_pe *pe)
{
    int me = perseus_my_pe(pe), n = perseus_n_pes(pe);
    void *memory = NULL;
    enum perseus_status status = perseus_malloc(pe, sizeof(struct mailbox), &memory);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct mailbox *box = memory;
    snprintf(box->outgoing, sizeof box->outgoing, "hello from PE %d of %d", me, n);
    status = perseus_put_signal_nbi(pe, box->incoming, box->outgoing, sizeof box->outgoing,
                                    &box->arrived, 1, PERSEUS_SIGNAL_SET, (me + 1) % n);
    if (status == PERSEUS_OK) {
        /* Whoever sees the signal sees the payload. */
        status = perseus_signal_wait_until(pe, &box->arrived, PERSEUS_CMP_EQ, 1, 10000, NULL);
    }
    if (status == PERSEUS_OK) {
        printf("PE %d on node %d received: %s\n", me, perseus_my_node(pe), box->incoming);
    }
    return status;
}

int main(void)
{
    const struct perseus_attr attr = {.log = print_message, .log_level = PERSEUS_LOG_WARN};
    struct perseus_pe *pe = NULL;
    if (perseus_init_attr(&attr, &pe) != PERSEUS_OK) {
        return 1;
    }
    if (exchange(pe) != PERSEUS_OK) {
        perseus_abort(pe);
        return 1;
    }
    return perseus_finalize(pe) == PERSEUS_OK ? 0 : 1;
}
