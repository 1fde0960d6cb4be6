#define _GNU_SOURCE
#include "library.h"

#include <link.h>
#include <stdbool.h>
#include <stdio.h>

#include <jpeglib.h>

typedef struct {
    uintptr_t inside; /* an address in the library that is searched for */
    sn_span *spans;
} search;

/* Called for each loaded library; 0 goes on to the next. */
static int collect(struct dl_phdr_info *library, size_t size, void *context)
{
    const search *wanted = context;
    bool found = false;
    int count = 0;

    (void)size;
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &library->dlpi_phdr[i];
        uintptr_t start = library->dlpi_addr + segment->p_vaddr;

        if (segment->p_type != PT_LOAD)
            continue;
        if (wanted->inside - start < segment->p_memsz)
            found = true;
        if ((segment->p_flags & (PF_R | PF_W)) == PF_R && count < SN_LIBRARY_SPANS)
            wanted->spans[count++] = (sn_span){(const uint8_t *)start, segment->p_filesz};
    }
    return found ? count : 0;
}

int sn_jpeg_library(sn_span spans[SN_LIBRARY_SPANS])
{
    search wanted = {(uintptr_t)&jpeg_read_header, spans};

    return dl_iterate_phdr(collect, &wanted);
}
