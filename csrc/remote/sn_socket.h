/*
 * sn_socket.h -- a stream socket whose peer is waited for, but never for long.
 *
 *   connect --> send, receive --> close()
 *
 * Lives in   a file descriptor, which never blocks by itself.
 * Callers    one at a time.
 * Blocking   until a deadline; and while bytes are exchanged, 100 ms without one of them.
 * Errors     -errno; -ETIMEDOUT: the wait was too long; -ECONNRESET: the peer has closed the connection. No call raises
 *            SIGPIPE.
 */
#ifndef SN_SOCKET_H
#define SN_SOCKET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "../base/sn_clock.h" /* deadlines are sn_now_ns()'s */

/* A socket that is connected; below 0: there is none. */
int sn_socket_connect(const struct sockaddr *address, socklen_t length, uint64_t deadline);

/* Wait until the socket can be read (POLLIN) or written (POLLOUT). */
int sn_socket_await(int fd, short events, uint64_t deadline);

/* Send all bytes of all parts. `parts` is overwritten. */
int sn_socket_send(int fd, struct iovec *parts, size_t n, uint64_t deadline);

/* Receive some bytes, at least one: how many. */
ssize_t sn_socket_receive(int fd, void *to, size_t most, uint64_t deadline);

#endif
