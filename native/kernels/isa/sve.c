/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * AArch64 with SVE: vectors of the processor's own length, from 16 to 256 bytes.
 *
 * The length is known only at run time, so the body of the other vector variants (body.h) cannot be
 * used; nor is it needed: with a predicate, a vector can hold any number of bytes, and no others
 * are read or written. Words are added in fours to 64-bit lanes, by the instruction that multiplies
 * words and adds neighbours; the other factor is 1:
 *
 *	while 4 vectors are left:	lanes a, b, c, d += the words of one vector each
 *	while bytes are left:		lanes a += the words of up to one vector
 *
 * Not supported: big-endian machines, where a vector of bytes is not a vector of words, and
 * compilers that allow the instructions only for whole files (clang without flags).
 */
#if defined(__aarch64__) && defined(__ARM_NEON) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ &&   \
	(defined(__ARM_FEATURE_SVE) || (!defined(__clang__) && __has_include(<arm_sve.h>)))
#define COMPILED
#ifndef __ARM_FEATURE_SVE
#pragma GCC target("+sve")
#endif
#endif

#include "../burst.h"
#include "../kernels.h"

#define VARIANT sve
#define ISA "SVE"

#ifdef COMPILED
#include "../processor.h"

#include <arm_sve.h>

/*
 * Bytes summed before the lanes are added up: 2^39 words, whose sum over all lanes is below 2^55.
 */
#define CHUNK ((uint64_t)1 << 40)

/*
 * If SVE vectors are as short as those of NEON, the NEON variant is better: it takes fewer
 * instructions for the same bytes.
 */
static int supported(void)
{
	if (!lr_processor_runs(LR_HAS_SVE))
		return 0;
	return svcntb() > 16 ? LR_RUNS_WELL : LR_RUNS;
}

ALWAYS_INLINE svuint8_t take(svbool_t which, uint8_t *dst, const uint8_t *src, const int copy)
{
	const svuint8_t v = svld1_u8(which, src);
	if (copy)
		svst1_u8(which, dst, v);
	return v;
}

ALWAYS_INLINE svuint64_t add(svuint64_t lanes, svuint8_t v)
{
	return svdot_n_u64(lanes, svreinterpret_u16_u8(v), 1);
}

ALWAYS_INLINE uint64_t sum_chunk(uint8_t *dst, const uint8_t *src, uint64_t bytes, const int copy)
{
	const uint64_t vec = svcntb(), step = 4 * vec;
	const uint8_t *const end = src + bytes;
	const svbool_t all = svptrue_b8();
	svuint64_t a = svdup_n_u64(0), b = a, c = a, d = a;

	if (bytes >= step) {
		const uint8_t *const last = end - step;
		do {
			a = add(a, take(all, dst, src, copy));
			b = add(b, take(all, dst + vec, src + vec, copy));
			c = add(c, take(all, dst + 2 * vec, src + 2 * vec, copy));
			d = add(d, take(all, dst + 3 * vec, src + 3 * vec, copy));
			src += step;
			dst += step;
		} while (src <= last);
	}
	const uint64_t left = (uint64_t)(end - src);
	for (uint64_t at = 0; at < left; at += vec)
		a = add(a, take(svwhilelt_b8_u64(at, left), dst + at, src + at, copy));
	a = svadd_u64_x(all, svadd_u64_x(all, a, b), svadd_u64_x(all, c, d));
	return svaddv_u64(all, a);
}

ALWAYS_INLINE uint32_t sum(uint8_t *dst, const uint8_t *src, uint64_t bytes, uint32_t seed,
			   const int copy)
{
	uint64_t total = seed;
	for (; UNLIKELY(bytes > CHUNK); bytes -= CHUNK, src += CHUNK, dst += CHUNK)
		total = add_carry(total, sum_chunk(dst, src, CHUNK, copy));
	return fold64(add_carry(total, sum_chunk(dst, src, bytes, copy)));
}

uint32_t lr_csum_partial_sve(const void *src, size_t bytes, uint32_t seed)
{
	return sum(unused(src), src, bytes, seed, 0);
}

uint32_t lr_copy_csum_partial_sve(void *dst, const void *src, size_t bytes, uint32_t seed)
{
	return sum(dst, src, bytes, seed, 1);
}

void *lr_copy_sve(void *dst, const void *src, size_t bytes)
{
	const uint64_t vec = svcntb();
	for (uint64_t at = 0; at < bytes; at += vec)
		take(svwhilelt_b8_u64(at, bytes), (uint8_t *)dst + at,
		     (const uint8_t *)src + at, 1);
	return dst;
}

void *lr_fill_sve(void *dst, uint8_t value, size_t bytes)
{
	const uint64_t vec = svcntb();
	const svuint8_t v = svdup_n_u8(value);
	for (uint64_t at = 0; at < bytes; at += vec)
		svst1_u8(svwhilelt_b8_u64(at, bytes), (uint8_t *)dst + at, v);
	return dst;
}

BURST_ONE_BY_ONE

const struct lr_variant lr_variant_sve = {
	.name = NAME(VARIANT),
	.isa = ISA,
	.vector = 1,
	.compiled = 1,
	.supported = supported,
	/*
	 * For copies and fills, NEON takes fewer instructions unless SVE vectors are longer than 32
	 * bytes.
	 */
	.preferred = LR_CSUM | LR_COPY_CSUM,
	.csum_partial = lr_csum_partial_sve,
	.csum_burst = lr_csum_burst_sve,
	.copy_csum_partial = lr_copy_csum_partial_sve,
	.copy = lr_copy_sve,
	.fill = lr_fill_sve,
};
#else
#include "../not_compiled.h"
#endif
