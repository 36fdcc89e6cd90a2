/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Copying and filling packet-sized buffers.
 *
 * Lengths are in bytes and may be anything a size_t holds, 0 included; no alignment is required,
 * and pointers may be null if the length is 0. Exactly the given bytes are read and written, some
 * of them perhaps twice; AltiVec loads whole aligned vectors (see checksum.h). Any number of
 * threads may call at once. The memory must be ordinary cacheable memory: variants use vector
 * stores, and copies of many megabytes non-temporal ones, ordered before the return by a store
 * fence. There is no error to return: an address that cannot be accessed faults as in any code
 * (fault.h has copies that survive that).
 */
#ifndef LINERATE_COPY_H
#define LINERATE_COPY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Copies bytes from src to dst and returns dst. The two ranges must not overlap. */
void *lr_copy(void *dst, const void *src, size_t bytes);

/* Sets bytes at dst to value and returns dst. */
void *lr_fill(void *dst, uint8_t value, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
