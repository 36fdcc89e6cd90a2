/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Vectors of 64 bytes with masks, for the variants with AVX-512; they differ in vec_accumulate. */
#ifndef LINERATE_AVX512_H
#define LINERATE_AVX512_H

#include "intrinsics.h"
#include "x86_64.h"

#define VEC 64
#define ENDS "ends_masked.h"
/* With 32-bit pointers, struct lr_csum_buffer has half the size that the burst code expects. */
#ifdef __LP64__
#define BURST "avx512_burst.h"
#endif

typedef __m512i vec;

ALWAYS_INLINE vec vec_load(const uint8_t *at)
{
	return _mm512_loadu_si512(at);
}

ALWAYS_INLINE void vec_store(uint8_t *at, vec v)
{
	_mm512_storeu_si512(at, v);
}

ALWAYS_INLINE void vec_stream(uint8_t *at, vec v)
{
	_mm512_stream_si512((__m512i *)at, v);
}

ALWAYS_INLINE void vec_stream_fence(void)
{
	_mm_sfence();
}

ALWAYS_INLINE vec vec_opaque(vec v)
{
	__asm__("" : "+v"(v));
	return v;
}

ALWAYS_INLINE vec vec_zero(void)
{
	return _mm512_setzero_si512();
}

ALWAYS_INLINE vec vec_set(uint8_t value)
{
	return _mm512_set1_epi8((char)value);
}

ALWAYS_INLINE vec vec_join(vec a, vec b)
{
	return _mm512_add_epi32(a, b);
}

struct constants {
	vec flip, ones;
};

/*
 * Fills all lanes by a broadcast load. Compilers would instead fill them from a general register,
 * which costs several times as much.
 */
ALWAYS_INLINE vec vec_repeat(const uint32_t *lane)
{
	vec v;
	__asm__("vpbroadcastd %1, %0" : "=v"(v) : "m"(*lane));
	return v;
}

ALWAYS_INLINE struct constants constants(void)
{
	static const uint32_t flip = 0x80008000, ones = 0x00010001;
	return (struct constants){ vec_repeat(&flip), vec_repeat(&ones) };
}

ALWAYS_INLINE vec vec_pairs(vec v, struct constants k)
{
	return _mm512_madd_epi16(_mm512_xor_si512(v, k.flip), k.ones);
}

/* Adds the upper half to the lower until only two lanes are left, which are then added. */
ALWAYS_INLINE uint32_t vec_total(vec lanes)
{
	const __m256i upper = _mm512_extracti64x4_epi64(lanes, 1);
	const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(lanes), upper);
	const __m128i high = _mm256_extracti128_si256(eight, 1);
	const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), high);
	const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
	const uint64_t word = (uint64_t)_mm_cvtsi128_si64(two);
	return (uint32_t)word + (uint32_t)(word >> 32);
}

/*
 * Returns the sum of the 32-bit words of one vector. Unlike vec_pairs, it needs no constants from
 * memory: a sum of 20 to 64 bytes takes 7 cycles instead of 8 (Zen 5).
 */
ALWAYS_INLINE uint64_t vec_words(vec v)
{
	const vec words = _mm512_add_epi64(_mm512_srli_epi64(v, 32), _mm512_maskz_mov_epi32(0x5555, v));
	const __m256i upper = _mm512_extracti64x4_epi64(words, 1);
	const __m256i four = _mm256_add_epi64(_mm512_castsi512_si256(words), upper);
	const __m128i high = _mm256_extracti128_si256(four, 1);
	const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(four), high);
	return (uint64_t)_mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
}

ALWAYS_INLINE __mmask64 first_bytes(size_t bytes)
{
	return _cvtu64_mask64(_bzhi_u64(~0ull, (unsigned)bytes));
}

ALWAYS_INLINE vec vec_load_first(const uint8_t *at, size_t bytes)
{
	return _mm512_maskz_loadu_epi8(first_bytes(bytes), at);
}

ALWAYS_INLINE void vec_store_first(uint8_t *at, vec v, size_t bytes)
{
	_mm512_mask_storeu_epi8(at, first_bytes(bytes), v);
}

/* Index of each byte in a block. */
static const uint8_t places[256] __attribute__((aligned(64))) = {
#define PLACES_4(i) i, i + 1, i + 2, i + 3
#define PLACES_16(i) PLACES_4(i), PLACES_4(i + 4), PLACES_4(i + 8), PLACES_4(i + 12)
#define PLACES_64(i) PLACES_16(i), PLACES_16(i + 16), PLACES_16(i + 32), PLACES_16(i + 48)
	PLACES_64(0), PLACES_64(64), PLACES_64(128), PLACES_64(192)
};

/*
 * Masks are made by comparing vectors: on Zen 5 only one mask per cycle can be moved from a general
 * register, and a sum of 20 bytes with four such masks took 31 cycles, against 17 with comparisons.
 */
typedef vec vec_count;

ALWAYS_INLINE vec_count vec_counts(size_t bytes)
{
	return _mm512_set1_epi8((char)bytes);
}

ALWAYS_INLINE vec vec_load_counted(const uint8_t *at, vec_count bytes, unsigned vector)
{
	const vec place = _mm512_load_si512(places + 64 * vector);
	return _mm512_maskz_loadu_epi8(_mm512_cmplt_epu8_mask(place, bytes), at);
}

#endif
