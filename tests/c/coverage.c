/*
 * coverage.c -- in the build of `make coverage`, processes that end by _exit() say too what they have run.
 */
#ifdef SN_COVERAGE

#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

void __gcov_dump(void);

/* In place of the C library's. */
void _exit(int code)
{
    __gcov_dump();
    for (;;)
        syscall(SYS_exit_group, code);
}

#else

typedef int nothing_is_here;

#endif
