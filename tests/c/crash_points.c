#include "crash_points.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sn_crash.h"
#include "check.h"

void (*sn_crash_hook)(const char *name);

/* The linker gives these to a section whose name is a name in C. */
extern const sn_crash_point __start_sn_crash_points[], __stop_sn_crash_points[];

static const char *names[CRASH_MOST_POINTS];
static uint32_t n_names, *visits, deadly, visits_left;

static uint32_t number_of(const char *name)
{
    uint32_t point = 0;

    while (point < n_names && names[point] != name && strcmp(names[point], name) != 0)
        point++;
    return point;
}

/* One in a header has a record for each file that includes it. */
static void find_all(void)
{
    for (const sn_crash_point *at = __start_sn_crash_points; at < __stop_sn_crash_points; at++)
        if (number_of(at->name) == n_names) {
            CHECK(n_names < CRASH_MOST_POINTS);
            names[n_names++] = at->name;
        }
}

uint32_t crash_points_count(void)
{
    if (n_names == 0)
        find_all();
    return n_names;
}

const char *crash_points_name(uint32_t point)
{
    return names[point];
}

static void count(const char *name)
{
    visits[number_of(name)]++;
}

uint32_t *crash_points_watch(void)
{
    if (!visits) {
        visits =
            mmap(NULL, CRASH_MOST_POINTS * sizeof *visits, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(visits != MAP_FAILED);
    }
    memset(visits, 0, CRASH_MOST_POINTS * sizeof *visits);
    CHECK(crash_points_count() > 0);
    sn_crash_hook = count;
    return visits;
}

static void die(const char *name)
{
    if (name == names[deadly] || strcmp(name, names[deadly]) == 0)
        if (--visits_left == 0)
            raise(SIGKILL);
}

void crash_points_die_at(uint32_t point, uint32_t visit)
{
    deadly = point;
    visits_left = visit;
    sn_crash_hook = die;
}

void crash_points_stop(void)
{
    sn_crash_hook = NULL;
}
