/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/status.h"

#include "fabric/libfabric/provider/library.h"

#include <errno.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

enum perseus_status prs_lf_status(long error)
{
    switch (labs(error)) {
    case FI_SUCCESS:
        return PERSEUS_OK;
    case FI_EAGAIN:
        return PERSEUS_AGAIN;
    case FI_ENOMEM:
    case FI_ENOBUFS:
        return PERSEUS_OUT_OF_MEMORY;
    case FI_EINVAL:
    case FI_EBADFLAGS:
    case FI_EADDRNOTAVAIL:
        return PERSEUS_INVALID_ARGUMENT;
    case FI_ENOSYS:
    case FI_EOPNOTSUPP:
    case FI_ENOPROTOOPT:
        return PERSEUS_NOT_SUPPORTED;
    case FI_ENODATA:
    case FI_ENODEV:
    case FI_ENOENT:
        return PERSEUS_NOT_FOUND;
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case EPIPE:
    case FI_EHOSTDOWN:
    case FI_EHOSTUNREACH:
    case FI_ENETDOWN:
    case FI_ENETUNREACH:
    case FI_ETIMEDOUT:
        return PERSEUS_PEER_LOST;
    case FI_ECANCELED:
        return PERSEUS_CANCELED;
    case FI_EMFILE:
    case FI_ETOOSMALL:
        return PERSEUS_LIMIT;
    default:
        return PERSEUS_IO;
    }
}

const char *prs_lf_error_text(long error)
{
    const struct prs_lf_library *library = prs_lf_library();
    return library != NULL ? library->strerror((int)labs(error)) : "";
}

const char *prs_lf_advice(enum perseus_status status)
{
    switch (status) {
    case PERSEUS_PEER_LOST:
        return "look at that PE's own log, and if it has none at the network between";
    case PERSEUS_OUT_OF_MEMORY:
        return "raise the memory limit, or the locked-memory limit (ulimit -l) if the provider "
               "pins";
    case PERSEUS_LIMIT:
        return "raise the open-files limit (ulimit -n)";
    case PERSEUS_NOT_SUPPORTED:
        return "perseus info shows what each provider grants";
    case PERSEUS_NOT_FOUND:
        return "perseus info lists the providers that work here";
    default:
        return "FI_LOG_LEVEL=warn makes libfabric say more";
    }
}
