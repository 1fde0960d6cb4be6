/*
 * grid.h -- colours at places between pixels, as torch.nn.functional.grid_sample() looks them up, which is how
 * torchvision warps tensors; and ElasticTransform, whose places are drawn.
 *
 *   a pixel of the result --a matrix, or a field of random shifts--> a place in the source
 *       --weighed between 4 pixels, or the nearest--> the colour, rounded
 *       --beyond the edge--> black; with `has_fill`, blended with `fill` by the weight of what lies outside
 *
 *   a field of shifts, for each direction:
 *       uniform noise in [-1, 1) --Gaussian blur, mirrored at the edges--> * alpha / 2 pixels
 *
 * The noise is Philox's, keyed by the edit's seed: equal seeds give equal fields.
 *
 * Callers    one thread at a time a buffer.
 * Errors     -ENOMEM.
 */
#ifndef SN_GRID_H
#define SN_GRID_H

#include <stdbool.h>
#include <stdint.h>

#include "../buffer.h"

#define SN_GRID_MAX_RADIUS 127

typedef struct {
    uint32_t nearest; /* 0: weighed between 4 pixels */
    bool has_fill;
    uint8_t fill[3];
} sn_lookup;

typedef struct {
    uint64_t seed;
    double alpha[2], sigma[2]; /* along x, along y; sigma 0: the noise is not blurred */
    sn_lookup lookup;
} sn_elastic;

/* Both: all of `to`, from `from`, which may be read four bytes beyond its end: pictures of this size, rows close
 * together. `scratch` grows. */
int sn_grid_affine(const double matrix[6], const sn_lookup *lookup, const uint8_t *from, uint8_t *to, uint32_t height,
                   uint32_t width, sn_buffer *scratch);
int sn_elastic_run(const sn_elastic *elastic, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width,
                   sn_buffer *scratch);

#endif
