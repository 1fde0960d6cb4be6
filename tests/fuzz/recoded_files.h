/*
 * recoded_files.h -- small JPEGs that can be recoded, and their RECODED payloads.
 *
 * Owns       nothing: as pictures.h.
 */
#ifndef RECODED_FILES_H
#define RECODED_FILES_H

#include "pictures.h"

picture_file recodable_file(uint32_t number, sn_rng *rng);
picture_file recoded_file(uint32_t number, sn_rng *rng);

#endif
