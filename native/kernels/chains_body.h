/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The four functions and the table row of a variant whose sums are chains (chains.h). */
#ifndef LINERATE_CHAINS_BODY_H
#define LINERATE_CHAINS_BODY_H

#include "scalar_row.h"

static int supported(void)
{
	return LR_RUNS_WELL;
}

ALWAYS_INLINE uint32_t sum(uint8_t *dst, const uint8_t *src, size_t bytes, uint32_t seed,
			   const int copy)
{
	const size_t blocks = bytes & ~(size_t)127;
	uint64_t all = seed;
	if (blocks) {
		all = SUM_BLOCKS(all, dst, src, blocks, copy);
		src += blocks;
		dst += blocks;
	}
	return fold64(add_carry(all, sum_short(dst, src, bytes & 127, copy)));
}

uint32_t FUNCTION(csum_partial, VARIANT)(const void *src, size_t bytes, uint32_t seed)
{
	return sum(unused(src), src, bytes, seed, 0);
}

uint32_t FUNCTION(copy_csum_partial, VARIANT)(void *dst, const void *src, size_t bytes,
					      uint32_t seed)
{
	return sum(dst, src, bytes, seed, 1);
}

void *FUNCTION(copy, VARIANT)(void *dst, const void *src, size_t bytes)
{
	copy_words(dst, src, bytes);
	return dst;
}

void *FUNCTION(fill, VARIANT)(void *dst, uint8_t value, size_t bytes)
{
	fill_words(dst, value, bytes);
	return dst;
}

SCALAR_ROW(LR_CSUM | LR_COPY_CSUM);

#endif
