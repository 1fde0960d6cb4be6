/*
 * sn_hosts.h -- hosts that share copies on servers, where all copies of a sample are the same.
 *
 *   this host --> the roster: (host, time, epochs, place, asks) of each --> the other hosts --> those that are near
 *                 one value on a server, read and written anew twice a second
 *
 *   a sample's owner (base/sn_rendezvous.h) --SET NX PX--> its copy, for some seconds --GET--> the other hosts
 *
 * A host is *here* as long as its time in the roster goes on. If two hosts write at the same moment, the line of one is lost
 * until it writes again, half a second later. Therefore a host is gone only after three seconds. The roster decides no more
 * than how even the work is: whoever lacks a copy makes it.
 *
 * Copies *pay* if a thread gets one sooner than it makes one. Where the network is slow or full, or the other hosts do not
 * keep up, they do not: then this host asks for few, and the others leave few for it.
 *
 * A host is *near* if one of its last two epochs is one of this host's, and if a copy that one of the two leaves on a server is
 * still there when the other comes to its sample, at this host's pace. Of another host nothing would be found. A copy stays
 * twice as long as the host that is furthest behind needs to come to it, and no longer: a server that takes new memory for
 * each copy works twice as long on it as one that uses the memory of the last again.
 *
 * Lives in   private memory; one handle for all epochs of a loader. The servers outlive it.
 * Callers    sn_hosts_begin(), sn_hosts_near() the iterator's thread; the others any thread.
 * Blocking   sn_hosts_get(), sn_hosts_put() on the servers, as sn_remote.h says; sn_hosts_meet() too, but seldom, and one
 *            thread at a time.
 * Ordering   a mutex guards what is known of the others. No server is asked while it is held.
 * Crash      a host that is gone is dropped after three seconds, and the roster after ten.
 */
#ifndef SN_HOSTS_H
#define SN_HOSTS_H

#include "../base/sn_rendezvous.h"
#include "sn_remote.h"

#define SN_LEAST_COPY_MS 2000u /* a copy stays at least so long on a server, if that has room */
#define SN_MOST_COPY_MS 20000u

typedef struct sn_hosts sn_hosts;

/* `sequence`: names copies of all epochs, and the order in which hosts come to them. `self`: names this host. NULL when memory
 * is short. */
sn_hosts *sn_hosts_new(sn_remote *remote, const uint8_t sequence[SN_REMOTE_DATASET], uint64_t self);

/* It is in use no longer. */
void sn_hosts_free(sn_hosts *hosts);

/* If it is time, announce that this host is here, and find out who else is. */
void sn_hosts_meet(sn_hosts *hosts);

/* An epoch begins, whose copies have this name. */
void sn_hosts_begin(sn_hosts *hosts, const uint8_t copies[SN_REMOTE_DATASET]);

/* This host has come to so many places, in all epochs. Who is near. */
void sn_hosts_near(sn_hosts *hosts, uint64_t place, sn_rendezvous *near);

/* Get copies of this name of up to SN_REMOTE_AT_ONCE samples, as sn_remote_get() does. */
void sn_hosts_get(sn_hosts *hosts, const uint8_t *copies, sn_wish *wishes, uint32_t n);

/* Leave a copy for the others, unless there is no room. */
void sn_hosts_put(sn_hosts *hosts, const uint8_t *copies, uint32_t sample, const uint8_t *bytes, size_t length);

/* A thread has made a copy in so many nanoseconds. */
void sn_hosts_made(sn_hosts *hosts, uint64_t took_ns);

#endif
