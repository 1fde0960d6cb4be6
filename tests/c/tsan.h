/*
 * tsan.h -- see tsan.c.
 */
#ifndef TSAN_H
#define TSAN_H

/* To be called before a descriptor is closed that holds locks, which lets go of them. */
void tsan_locks_closed(void);

#endif
