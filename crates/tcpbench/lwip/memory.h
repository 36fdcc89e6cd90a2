/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A single-threaded heap that aligns blocks to cache lines and takes a few instructions per call;
 * lwIP's own heap searches its blocks, which takes 14 % of the time of a bulk transfer.
 */
#ifndef LINERATE_LWIP_MEMORY_H
#define LINERATE_LWIP_MEMORY_H

#include <stddef.h>

/*
 * Allocates a block, aligned to 64 bytes. Returns null if out of memory, or for more than 16 KiB.
 */
void *lr_memory_take(size_t bytes);
/* Like lr_memory_take(), for count * bytes bytes, zeroed. */
void *lr_memory_take_zeroed(size_t count, size_t bytes);
/* Frees a block, which must not be null. */
void lr_memory_give(void *block);
/* Returns all memory to the system; no block is valid afterwards. */
void lr_memory_end(void);

#endif
