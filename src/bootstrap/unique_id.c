/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/unique_id.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/export.h"
#include "base/last_error.h"
#include "base/local_address.h"
#include "base/random.h"
#include "base/standard_fds.h"

/* Layout, little-endian, all the rest zero. */
enum {
    AT_MAGIC = 0,   /* "PRSU" */
    AT_VERSION = 4, /* 1 byte */
    AT_FAMILY = 5,  /* 4 or 6 */
    AT_PORT = 6,
    AT_FD = 8,
    AT_SCOPE = 12,
    AT_ADDRESS = 16, /* 16 bytes, IPv4 in the first four, network order */
    AT_SECRET = 32,
    AT_END = AT_SECRET + PRS_PROOF_SECRET_BYTES,
    ID_VERSION = 2
};
static const char magic[4] = {'P', 'R', 'S', 'U'};

static void put(unsigned char *at, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        at[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint32_t get(const unsigned char *at, int bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++) {
        value |= (uint32_t)at[i] << (8 * i);
    }
    return value;
}

void prs_unique_id_encode(const struct prs_unique_id *id, struct perseus_unique_id *out)
{
    unsigned char *to = out->bytes;
    const bool is_v4 = id->address.any.sa_family == AF_INET;
    memset(to, 0, sizeof out->bytes);
    memcpy(to + AT_MAGIC, magic, sizeof magic);
    to[AT_VERSION] = ID_VERSION;
    to[AT_FAMILY] = is_v4 ? 4 : 6;
    put(to + AT_PORT, prs_stream_address_port(&id->address), 2);
    put(to + AT_FD, (uint32_t)id->listen_fd, 4);
    if (is_v4) {
        memcpy(to + AT_ADDRESS, &id->address.in.sin_addr, sizeof id->address.in.sin_addr);
    } else {
        put(to + AT_SCOPE, id->address.in6.sin6_scope_id, 4);
        memcpy(to + AT_ADDRESS, &id->address.in6.sin6_addr, sizeof id->address.in6.sin6_addr);
    }
    memcpy(to + AT_SECRET, id->secret, sizeof id->secret);
}

enum perseus_status prs_unique_id_decode(const struct perseus_unique_id *id,
                                         const struct prs_log *log, struct prs_unique_id *out)
{
    const unsigned char *from = id->bytes;
    const unsigned char family = from[AT_FAMILY];
    if (memcmp(from + AT_MAGIC, magic, sizeof magic) != 0) {
        return prs_fail(log, PERSEUS_PROTOCOL,
                        "this is no unique id: pass on all %d bytes that perseus_unique_id_create "
                        "gave",
                        PERSEUS_UNIQUE_ID_BYTES);
    }
    if (from[AT_VERSION] != ID_VERSION) {
        return prs_fail(log, PERSEUS_VERSION,
                        "the unique id has version %d, this PE reads version %d: use one release "
                        "of Perseus for the whole job",
                        from[AT_VERSION], ID_VERSION);
    }
    bool is_clean = (family == 4 || family == 6) && get(from + AT_PORT, 2) != 0;
    for (int i = AT_END; i < PERSEUS_UNIQUE_ID_BYTES; i++) {
        is_clean = is_clean && from[i] == 0;
    }
    if (!is_clean) {
        return prs_fail(log, PERSEUS_PROTOCOL, "the unique id is damaged: pass it on unchanged");
    }
    struct prs_unique_id result = {.listen_fd = (int)get(from + AT_FD, 4)};
    const uint16_t port = (uint16_t)get(from + AT_PORT, 2);
    if (family == 4) {
        result.address.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
        result.address.bytes = sizeof result.address.in;
        memcpy(&result.address.in.sin_addr, from + AT_ADDRESS, sizeof result.address.in.sin_addr);
    } else {
        result.address.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
                                                   .sin6_port = htons(port),
                                                   .sin6_scope_id = get(from + AT_SCOPE, 4)};
        result.address.bytes = sizeof result.address.in6;
        memcpy(&result.address.in6.sin6_addr, from + AT_ADDRESS,
               sizeof result.address.in6.sin6_addr);
    }
    memcpy(result.secret, from + AT_SECRET, sizeof result.secret);
    *out = result;
    return PERSEUS_OK;
}

void prs_unique_id_format(const struct perseus_unique_id *id, char out[PRS_UNIQUE_ID_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < PERSEUS_UNIQUE_ID_BYTES; i++) {
        out[2 * i] = digits[id->bytes[i] >> 4];
        out[2 * i + 1] = digits[id->bytes[i] & 15];
    }
    out[PRS_UNIQUE_ID_TEXT_BYTES - 1] = '\0';
}

static int digit_value(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    if (digit >= 'a' && digit <= 'f') {
        return digit - 'a' + 10;
    }
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

enum perseus_status prs_unique_id_parse(const char *text, const struct prs_log *log,
                                        struct perseus_unique_id *out)
{
    struct perseus_unique_id id;
    bool is_good = strlen(text) == PRS_UNIQUE_ID_TEXT_BYTES - 1;
    for (size_t i = 0; is_good && i < PERSEUS_UNIQUE_ID_BYTES; i++) {
        int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);
        is_good = high >= 0 && low >= 0;
        id.bytes[i] = (unsigned char)((unsigned)high << 4 | (unsigned)low);
    }
    if (!is_good) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "%s must be the %d bytes of a unique id as %d hexadecimal digits",
                        prs_env_row(PRS_ENV_UNIQUE_ID)->name, PERSEUS_UNIQUE_ID_BYTES,
                        PRS_UNIQUE_ID_TEXT_BYTES - 1);
    }
    *out = id;
    return PERSEUS_OK;
}

static bool is_wildcard(const struct prs_stream_address *address)
{
    return address->any.sa_family == AF_INET ? address->in.sin_addr.s_addr == htonl(INADDR_ANY)
                                             : IN6_IS_ADDR_UNSPECIFIED(&address->in6.sin6_addr);
}

PRS_PUBLIC enum perseus_status perseus_unique_id_create(const char *bind_address,
                                                        struct perseus_unique_id *out)
{
    const struct prs_log log = prs_last_error_log();
    char text[PRS_LOCAL_ADDRESS_BYTES];
    struct prs_unique_id id;
    enum perseus_status status = prs_local_address(
        bind_address != NULL ? bind_address : prs_env_text(PRS_ENV_BIND), &log, text);
    if (status != PERSEUS_OK) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    if (!prs_stream_address_parse(text, 0, &id.address) || is_wildcard(&id.address)) {
        return prs_fail(&log, PERSEUS_INVALID_ARGUMENT,
                        "%s is no address that the other PEs could connect to: give one of this "
                        "host's own, an interface or a subnet",
                        text);
    }
    prs_standard_fds_hold();
    id.listen_fd = prs_stream_listen(&id.address);
    prs_standard_fds_release();
    if (id.listen_fd < 0) {
        return prs_fail(&log, PERSEUS_IO, "cannot listen at %s: %s. Give an address of this host",
                        text, strerror(errno));
    }
    if (!prs_stream_listens_at(id.listen_fd, &id.address) ||
        !prs_random_fill(id.secret, sizeof id.secret)) {
        close(id.listen_fd);
        return prs_fail(&log, PERSEUS_IO, "cannot make a unique id at %s: %s", text,
                        strerror(errno));
    }
    prs_unique_id_encode(&id, out);
    return PERSEUS_OK;
}
