#include "sn_children.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static uint64_t read_by(int process)
{
    char path[40];
    uint64_t bytes = 0;

    snprintf(path, sizeof path, "/proc/%d/io", process);
    FILE *io = fopen(path, "re");
    if (!io)
        return 0;
    if (fscanf(io, "rchar: %" SCNu64, &bytes) != 1)
        bytes = 0;
    fclose(io);
    return bytes;
}

uint64_t sn_children_read(void)
{
    char path[64];
    uint64_t bytes = 0;
    int child;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "re");
    if (!children)
        return 0;
    while (fscanf(children, "%d", &child) == 1)
        bytes += read_by(child);
    fclose(children);
    return bytes;
}
