/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* x86-64 without vector registers: chains of additions with carry. */
#include "../no_vectors.h"

#include "../kernels.h"

#ifdef __x86_64__
#include "../x86_64.h"

static int supported(void)
{
	return LR_RUNS_WELL;
}

/*
 * Four chains of four words: one chain runs at a word per cycle, which is what its carry takes; with
 * four of them the loads limit. 1460 octets take 72 cycles, of what compilers make of C 178 (gcc 12,
 * Zen 5).
 */
ALWAYS_INLINE uint32_t sum(uint8_t *dst, const uint8_t *src, size_t octets, uint32_t seed,
			   const int copy)
{
	uint64_t a = seed;
	if (octets >= 128) {
		uint64_t b = 0, c = 0, d = 0;
		do {
			a = add_32(a, dst, src, copy);
			b = add_32(b, dst + 32, src + 32, copy);
			c = add_32(c, dst + 64, src + 64, copy);
			d = add_32(d, dst + 96, src + 96, copy);
			src += 128;
			dst += 128;
			octets -= 128;
		} while (octets >= 128);
		a = add_carry(add_carry(a, b), add_carry(c, d));
	}
	return fold64(add_carry(a, sum_short(dst, src, octets, copy)));
}

uint32_t lr_csum_partial_adc(const void *src, size_t octets, uint32_t seed)
{
	return sum(unused(src), src, octets, seed, 0);
}

uint32_t lr_copy_csum_partial_adc(void *dst, const void *src, size_t octets, uint32_t seed)
{
	return sum(dst, src, octets, seed, 1);
}

void *lr_copy_adc(void *dst, const void *src, size_t octets)
{
	copy_words(dst, src, octets);
	return dst;
}

void *lr_fill_adc(void *dst, uint8_t value, size_t octets)
{
	fill_words(dst, value, octets);
	return dst;
}
#endif

const struct lr_variant lr_variant_adc = {
	.name = "adc",
	.isa = "x86-64",
	.vector = 0,
#ifdef __x86_64__
	.compiled = 1,
	.supported = supported,
	.preferred = LR_CSUM | LR_COPY_CSUM,
	.csum_partial = lr_csum_partial_adc,
	.copy_csum_partial = lr_copy_csum_partial_adc,
	.copy = lr_copy_adc,
	.fill = lr_fill_adc,
#else
	.supported = nowhere,
#endif
};

#include "../no_vectors_end.h"
