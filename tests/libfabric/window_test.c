/* SPDX-License-Identifier: Apache-2.0 */
/* Which sockets get room for several segments, and that who accepts hands it on. */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/libfabric/provider/window.h"

static int room(int fd)
{
    int bytes = 0;
    socklen_t size = sizeof bytes;
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &size), 0);
    return bytes;
}

static int listener(int family, struct sockaddr_storage *out)
{
    *out = (struct sockaddr_storage){.ss_family = (sa_family_t)family};
    if (family == AF_INET) {
        ((struct sockaddr_in *)out)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        ((struct sockaddr_in6 *)out)->sin6_addr = in6addr_loopback;
    }
    socklen_t bytes = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    int fd = socket(family, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)out, bytes) != 0) {
        close(fd);
        return -1; /* a host without this family */
    }
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)out, &bytes), 0);
    return fd;
}

static int connection(const struct sockaddr_storage *to)
{
    int fd = socket(to->ss_family, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)to, sizeof *to), 0);
    return fd;
}

static void both_ends_are_widened_and_no_others(int family)
{
    struct sockaddr_storage here, elsewhere;
    int listens = listener(family, &here), other = listener(family, &elsewhere);
    if (listens < 0 || other < 0) {
        print_message("no address of family %d on this host\n", family);
        return;
    }
    int untouched = connection(&elsewhere), before = room(untouched), listened = room(other);
    assert_int_equal(prs_lf_window_widen(&here), 1);
    assert_true(room(listens) > listened);

    int client = connection(&here), accepted = accept(listens, NULL, NULL);
    assert_true(accepted >= 0);
    assert_int_equal(room(accepted), room(listens));
    assert_int_equal(room(client), before);
    assert_int_equal(prs_lf_window_widen(&here), 1); /* the client's end; the others are wide */
    assert_true(room(client) > before);
    assert_int_equal(prs_lf_window_widen(&here), 0);
    assert_int_equal(room(untouched), before);
    assert_int_equal(room(other), listened);
    const int all[] = {listens, other, untouched, client, accepted};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        close(all[i]);
    }
}

static void in_both_families(void **state)
{
    (void)state;
    both_ends_are_widened_and_no_others(AF_INET);
    both_ends_are_widened_and_no_others(AF_INET6);
}

static void a_wider_one_stays(void **state)
{
    (void)state;
    struct sockaddr_storage here;
    int listens = listener(AF_INET, &here), most = 1 << 30;
    assert_int_equal(setsockopt(listens, SOL_SOCKET, SO_RCVBUF, &most, sizeof most), 0);
    int wide = room(listens);
    (void)prs_lf_window_widen(&here);
    assert_true(room(listens) >= wide);
    close(listens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_both_families),
        cmocka_unit_test(a_wider_one_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
