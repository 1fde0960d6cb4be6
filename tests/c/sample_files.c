#include "sample_files.h"

#include "check.h"

static char folder[64], *all_paths;
static uint64_t *begins;
static uint32_t count;

/* Some may not be there. */
static void remove_all(void)
{
    for (uint32_t i = 0; i < count; i++)
        remove(all_paths + begins[i]);
    remove(folder);
}

void sample_files_begin(const char *above, uint32_t n, char *paths, uint64_t *path_at)
{
    uint64_t at = 0;

    CHECK(count == 0 && strlen(above) < 32);
    snprintf(folder, sizeof folder, "%s/seneca-test-XXXXXX", above);
    CHECK(mkdtemp(folder));
    for (uint32_t i = 0; i < n; i++) {
        path_at[i] = at;
        at += (uint64_t)snprintf(paths + at, SAMPLE_PATH, "%s/%u", folder, i) + 1;
    }
    all_paths = paths;
    begins = path_at;
    count = n;
    atexit(remove_all);
}

void sample_files_write(uint32_t number, const picture_file *content)
{
    FILE *file = fopen(all_paths + begins[number], "wb");

    CHECK(file && (content->length == 0 || fwrite(content->bytes, content->length, 1, file) == 1) && fclose(file) == 0);
}
