/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* C for any machine: 64-bit words, no vector registers, no assembly. */
#include "../no_vectors.h"

#include "../burst.h"
#include "../words.h"

#define VARIANT portable

static int supported(void)
{
	return LR_RUNS_WELL;
}

/* The largest length that is passed to sum_words in one call. */
#define CHUNK ((size_t)1 << 30)

ALWAYS_INLINE uint32_t sum(uint8_t *dst, const uint8_t *src, size_t bytes, uint32_t seed,
			   const int copy)
{
	uint64_t total = seed;
	for (; UNLIKELY(bytes > CHUNK); bytes -= CHUNK, src += CHUNK, dst += CHUNK)
		total = add_carry(total, sum_words(dst, src, CHUNK, copy));
	return fold64(add_carry(total, sum_words(dst, src, bytes, copy)));
}

uint32_t lr_csum_partial_portable(const void *src, size_t bytes, uint32_t seed)
{
	return sum(unused(src), src, bytes, seed, 0);
}

uint32_t lr_copy_csum_partial_portable(void *dst, const void *src, size_t bytes, uint32_t seed)
{
	return sum(dst, src, bytes, seed, 1);
}

void *lr_copy_portable(void *dst, const void *src, size_t bytes)
{
	copy_words(dst, src, bytes);
	return dst;
}

void *lr_fill_portable(void *dst, uint8_t value, size_t bytes)
{
	fill_words(dst, value, bytes);
	return dst;
}

BURST_ONE_BY_ONE

const struct lr_variant lr_variant_portable = {
	.name = "portable",
	.isa = "C",
	.vector = 0,
	.compiled = 1,
	.supported = supported,
	.preferred = LR_ALL,
	.csum_partial = lr_csum_partial_portable,
	.csum_burst = lr_csum_burst_portable,
	.copy_csum_partial = lr_copy_csum_partial_portable,
	.copy = lr_copy_portable,
	.fill = lr_fill_portable,
};

#include "../no_vectors_end.h"
