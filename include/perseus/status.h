/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perseus/status.h: the one status enum of every Perseus call.
 *
 * PERSEUS_AGAIN is back-pressure, not failure: nothing happened, call again. It is never logged.
 * Every other value except PERSEUS_OK has been reported once through the log callback by the code
 * that saw it first, with what happened, which PE and peer, and what to do next.
 */
#ifndef PERSEUS_STATUS_H
#define PERSEUS_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* name, value, text for people */
#define PERSEUS_STATUS_MAP(X)                                                            \
    X(OK, 0, "success")                                                                  \
    X(AGAIN, 1, "no resource right now, try again")                                      \
    X(INVALID_ARGUMENT, 2, "invalid argument")                                           \
    X(OUT_OF_MEMORY, 3, "out of memory")                                                 \
    X(OUT_OF_RANGE, 4, "address outside the symmetric heap and every registered buffer") \
    X(NOT_SUPPORTED, 5, "not supported by this fabric or build")                         \
    X(NOT_FOUND, 6, "no such fabric or provider here")                                   \
    X(TIMEOUT, 7, "deadline passed")                                                     \
    X(PEER_LOST, 8, "the peer is gone")                                                  \
    X(CANCELED, 9, "canceled because its owner was closed")                              \
    X(IO, 10, "input/output error")                                                      \
    X(PROTOCOL, 11, "malformed or unexpected message")                                   \
    X(VERSION, 12, "incompatible version")                                               \
    X(LIMIT, 13, "a documented limit was reached")                                       \
    X(INTERNAL, 14, "internal error, please report it")

enum perseus_status {
#define PERSEUS_STATUS_ENUM(name, value, text) PERSEUS_##name = value,
    PERSEUS_STATUS_MAP(PERSEUS_STATUS_ENUM)
#undef PERSEUS_STATUS_ENUM
};

/* The status's text for people; static storage; any value is allowed. Thread-safe. */
const char *perseus_status_string(enum perseus_status status);

/* The status's name, for example "PERSEUS_TIMEOUT"; static storage. Thread-safe. */
const char *perseus_status_name(enum perseus_status status);

#ifdef __cplusplus
}
#endif
#endif
