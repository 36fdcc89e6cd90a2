/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* C for any machine: 64-bit words, no vector registers, no assembly. */
#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("general-regs-only"))), apply_to = function)
#elif defined(__x86_64__)
#pragma GCC target("general-regs-only")
#endif

#include "../words.h"

static int supported(void)
{
	return LR_RUNS_WELL;
}

/*
 * Words are summed as halves into four sums of 64 bits, so that no carry is lost: CHUNK octets are
 * 2^27 words, of which each sum takes half, less than 2^26 * 2^32.
 */
#define CHUNK ((size_t)1 << 30)

ALWAYS_INLINE uint64_t sum_chunk(uint8_t *dst, const uint8_t *src, size_t octets, const int copy)
{
	uint64_t low[2] = { 0, 0 }, high[2] = { 0, 0 };
	for (; octets >= 16; octets -= 16, src += 16, dst += 16) {
		for (unsigned i = 0; i < 2; i++) {
			const uint64_t word = opaque(load64(src + 8 * i));
			if (copy)
				store64(dst + 8 * i, word);
			low[i] += (uint32_t)word;
			high[i] += word >> 32;
		}
	}
	if (copy)
		copy_below_16(dst, src, octets);
	if (octets & 8) {
		const uint64_t word = load64(src);
		low[0] += (uint32_t)word;
		high[0] += word >> 32;
		src += 8;
	}
	return low[0] + low[1] + high[0] + high[1] + sum_below_8(src, octets & 7);
}

ALWAYS_INLINE uint32_t sum(uint8_t *dst, const uint8_t *src, size_t octets, uint32_t seed,
			   const int copy)
{
	uint64_t total = seed;
	for (; UNLIKELY(octets > CHUNK); octets -= CHUNK, src += CHUNK, dst += CHUNK)
		total = add_carry(total, sum_chunk(dst, src, CHUNK, copy));
	return fold64(add_carry(total, sum_chunk(dst, src, octets, copy)));
}

uint32_t lr_csum_partial_portable(const void *src, size_t octets, uint32_t seed)
{
	return sum(unused(src), src, octets, seed, 0);
}

uint32_t lr_copy_csum_partial_portable(void *dst, const void *src, size_t octets, uint32_t seed)
{
	return sum(dst, src, octets, seed, 1);
}

void *lr_copy_portable(void *dst, const void *src, size_t octets)
{
	copy_words(dst, src, octets);
	return dst;
}

void *lr_fill_portable(void *dst, uint8_t value, size_t octets)
{
	fill_words(dst, value, octets);
	return dst;
}

const struct lr_variant lr_variant_portable = {
	.name = "portable",
	.isa = "C",
	.vector = 0,
	.compiled = 1,
	.supported = supported,
	.preferred = LR_ALL,
	.csum_partial = lr_csum_partial_portable,
	.copy_csum_partial = lr_copy_csum_partial_portable,
	.copy = lr_copy_portable,
	.fill = lr_fill_portable,
};

#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute pop
#endif
