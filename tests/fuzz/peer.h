/*
 * peer.h -- the other end of every connection that the target makes: it says what the input says, and closes.
 *
 *   connect() --> a pair of sockets, in which all that the peer says lies already
 *
 * It is in place of the C library's connect(). No process and no network is asked.
 *
 * Callers    one thread.
 */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>

/* What the next connections say, in turn: parts of `bytes`, each as long as two bytes before it say. After the last one
 * nobody answers any more. */
void peer_says(const uint8_t *bytes, size_t length);

/* What has been sent to the last one, and was not asked for before. How many bytes. */
size_t peer_heard(uint8_t *bytes, size_t room);

/* All connections are closed: forget the peers. */
void peer_forget(void);

#endif
