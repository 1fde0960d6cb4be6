#define _GNU_SOURCE
#include "sn_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include "../base/sn_descriptor.h"

#define PATIENCE_NS 100000000u /* without one byte more */

static int await_until(int fd, short events, uint64_t until)
{
    struct pollfd one = {.fd = fd, .events = events};

    for (;;) {
        uint64_t at = sn_now_ns();
        int left_ms = until > at ? (int)((until - at + 999999) / 1000000) : 0;
        int n = poll(&one, 1, left_ms);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (sn_now_ns() >= until)
            return -ETIMEDOUT;
    }
}

int sn_socket_await(int fd, short events, uint64_t deadline)
{
    uint64_t until = sn_now_ns() + PATIENCE_NS;

    return await_until(fd, events, until < deadline ? until : deadline);
}

int sn_socket_connect(const struct sockaddr *address, socklen_t length, uint64_t deadline)
{
    int error = 0, yes = 1, rc = 0;
    socklen_t error_length = sizeof error;
    int fd = sn_above_standard(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

    if (fd < 0)
        return -errno;
    if (address->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(fd, address, length) != 0) {
        rc = errno == EINPROGRESS || errno == EINTR ? await_until(fd, POLLOUT, deadline) : -errno;
        if (rc == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_length) == 0)
            rc = -error;
    }
    if (rc != 0)
        close(fd);
    return rc != 0 ? rc : fd;
}

int sn_socket_send(int fd, struct iovec *parts, size_t n, uint64_t deadline)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = n};

    while (message.msg_iovlen) {
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            int rc = sn_socket_await(fd, POLLOUT, deadline);
            if (rc != 0)
                return rc;
        } else if (sent < 0 && errno != EINTR) {
            return -errno;
        }
        for (size_t left = sent > 0 ? (size_t)sent : 0; left > 0;) {
            struct iovec *part = message.msg_iov;
            size_t gone = left < part->iov_len ? left : part->iov_len;
            part->iov_base = (uint8_t *)part->iov_base + gone;
            part->iov_len -= gone;
            left -= gone;
            if (part->iov_len == 0) {
                message.msg_iov++;
                message.msg_iovlen--;
            }
        }
    }
    return 0;
}

ssize_t sn_socket_receive(int fd, void *to, size_t most, uint64_t deadline)
{
    for (;;) {
        ssize_t n = recv(fd, to, most, 0);
        if (n > 0)
            return n;
        if (n == 0)
            return -ECONNRESET;
        if (errno == EAGAIN) {
            int rc = sn_socket_await(fd, POLLIN, deadline);
            if (rc != 0)
                return rc;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
}
