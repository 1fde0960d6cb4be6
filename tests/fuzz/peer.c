#define _GNU_SOURCE
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

#define MOST_PEERS 16u
#define MOST_SAID 65536u /* fits into a socket */

static const uint8_t *said;
static size_t left;
static int peers[MOST_PEERS];
static uint32_t n_peers;

void peer_says(const uint8_t *bytes, size_t length)
{
    said = bytes;
    left = length;
}

void peer_forget(void)
{
    while (n_peers > 0)
        close(peers[--n_peers]);
}

size_t peer_heard(uint8_t *bytes, size_t room)
{
    CHECK(n_peers > 0);
    ssize_t n = recv(peers[n_peers - 1], bytes, room, MSG_DONTWAIT);
    return n > 0 ? (size_t)n : 0;
}

static size_t next_length(void)
{
    size_t wanted = (size_t)(said[0] | said[1] << 8);

    said += 2;
    left -= 2;
    wanted = wanted < left ? wanted : left;
    return wanted < MOST_SAID ? wanted : MOST_SAID;
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    int ends[2];

    (void)address, (void)length;
    if (left < 2 || n_peers == MOST_PEERS) {
        errno = ECONNREFUSED;
        return -1;
    }
    size_t n = next_length();
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    CHECK(send(ends[1], said, n, 0) == (ssize_t)n && shutdown(ends[1], SHUT_WR) == 0);
    said += n;
    left -= n;
    CHECK(dup3(ends[0], fd, O_CLOEXEC) == fd && close(ends[0]) == 0);
    peers[n_peers++] = ends[1];
    return 0;
}
