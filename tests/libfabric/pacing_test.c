/* SPDX-License-Identifier: Apache-2.0 */
/* Which sockets behind a wait descriptor lose BBR, and which are left alone. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/libfabric/provider/pacing.h"

/* Two ends of a connection from `client`'s address to `server`'s, both 127.0.0.x. */
static void connection(uint32_t server, uint32_t client, int ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(server)};
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(client)};
    socklen_t bytes = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(ends[0], (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(ends[0], (struct sockaddr *)&at, sizeof at), 0);
    ends[1] = accept(listener, NULL, NULL);
    assert_true(ends[1] >= 0);
    close(listener);
}

static const char *control_of(int fd)
{
    static char name[16];
    socklen_t bytes = sizeof name - 1;
    memset(name, 0, sizeof name);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes), 0);
    return name;
}

static int set_control(int fd, const char *name)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
}

static void close_pair(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

static void only_connections_within_the_host_lose_bbr(void **state)
{
    (void)state;
    int here[2], calm[2], elsewhere[2];
    connection(INADDR_LOOPBACK, INADDR_LOOPBACK, here);
    connection(INADDR_LOOPBACK, INADDR_LOOPBACK, calm);
    connection(INADDR_LOOPBACK, INADDR_LOOPBACK + 1, elsewhere);
    bool has_bbr = set_control(here[0], "bbr") == 0 && set_control(here[1], "bbr") == 0 &&
                   set_control(elsewhere[0], "bbr") == 0;
    assert_int_equal(set_control(calm[0], "reno"), 0);
    int outer = epoll_create1(EPOLL_CLOEXEC), inner = epoll_create1(EPOLL_CLOEXEC);
    int event = eventfd(0, EFD_CLOEXEC);
    watch(outer, inner);
    watch(outer, event);
    watch(inner, here[0]);
    watch(inner, calm[0]);
    watch(outer, elsewhere[0]);
    assert_int_equal(prs_lf_pacing_lift(outer), has_bbr ? 1 : 0);
    if (has_bbr) {
        assert_string_equal(control_of(here[0]), "reno");
        assert_string_equal(control_of(here[1]), "bbr"); /* nobody watches it */
        assert_string_equal(control_of(elsewhere[0]), "bbr");
    }
    assert_string_equal(control_of(calm[0]), "reno");
    assert_int_equal(prs_lf_pacing_lift(outer), 0);
    close(inner);
    close(outer);
    close(event);
    close_pair(here);
    close_pair(calm);
    close_pair(elsewhere);
    if (!has_bbr) {
        print_message("this host has no bbr: that it is taken away was not seen\n");
    }
}

static void what_is_no_epoll_descriptor_is_nothing(void **state)
{
    (void)state;
    int event = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(prs_lf_pacing_lift(event), 0);
    assert_int_equal(prs_lf_pacing_lift(-1), 0);
    close(event);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_connections_within_the_host_lose_bbr),
        cmocka_unit_test(what_is_no_epoll_descriptor_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
