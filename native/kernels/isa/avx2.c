/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* x86-64 with AVX2: vectors of 32 bytes. */
#if defined(__x86_64__) && defined(__SSE2__) && __has_include(<avx2intrin.h>)
#define COMPILED
#endif

#if defined(__clang__) && defined(COMPILED)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#elif defined(COMPILED)
#pragma GCC target("avx2")
#endif

#include "../kernels.h"

#define VARIANT avx2
#define ISA "AVX2"

#ifdef COMPILED
#include "../intrinsics.h"
#include "../x86_64.h"

#define SUPPORTED lr_x86_has_avx2
#define PREFERRED LR_ALL
#define VEC 32
#define ENDS "ends_overlap.h"

typedef __m256i vec;

ALWAYS_INLINE vec vec_load(const uint8_t *at)
{
	return _mm256_loadu_si256((const __m256i *)at);
}

ALWAYS_INLINE void vec_store(uint8_t *at, vec v)
{
	_mm256_storeu_si256((__m256i *)at, v);
}

ALWAYS_INLINE void vec_stream(uint8_t *at, vec v)
{
	_mm256_stream_si256((__m256i *)at, v);
}

ALWAYS_INLINE void vec_stream_fence(void)
{
	_mm_sfence();
}

ALWAYS_INLINE vec vec_opaque(vec v)
{
	__asm__("" : "+x"(v));
	return v;
}

ALWAYS_INLINE vec vec_zero(void)
{
	return _mm256_setzero_si256();
}

ALWAYS_INLINE vec vec_set(uint8_t value)
{
	return _mm256_set1_epi8((char)value);
}

ALWAYS_INLINE vec vec_and(vec a, vec b)
{
	return _mm256_and_si256(a, b);
}

typedef __m128i half;

ALWAYS_INLINE half half_load(const uint8_t *at)
{
	return _mm_loadu_si128((const __m128i *)at);
}

ALWAYS_INLINE void half_store(uint8_t *at, half v)
{
	_mm_storeu_si128((__m128i *)at, v);
}

ALWAYS_INLINE vec vec_join(vec a, vec b)
{
	return _mm256_add_epi32(a, b);
}

struct constants {
	vec flip, ones;
};

ALWAYS_INLINE struct constants constants(void)
{
	return (struct constants){ _mm256_set1_epi16((short)0x8000), _mm256_set1_epi16(1) };
}

ALWAYS_INLINE vec vec_pairs(vec v, struct constants k)
{
	return _mm256_madd_epi16(_mm256_xor_si256(v, k.flip), k.ones);
}

ALWAYS_INLINE vec vec_accumulate(vec lanes, vec v, struct constants k)
{
	return vec_join(lanes, vec_pairs(v, k));
}

ALWAYS_INLINE uint32_t vec_total(vec lanes)
{
	const __m128i high = _mm256_extracti128_si256(lanes, 1);
	const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(lanes), high);
	const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
	const uint64_t word = (uint64_t)_mm_cvtsi128_si64(two);
	return (uint32_t)word + (uint32_t)(word >> 32);
}

#include "../body.h"
#else
#include "../not_compiled.h"
#endif

#if defined(__clang__) && defined(COMPILED)
#pragma clang attribute pop
#endif
