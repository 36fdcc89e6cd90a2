/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Any x86-64 processor: vectors of 16 bytes. */
#if defined(__x86_64__) && defined(__SSE2__) && __has_include(<emmintrin.h>)
#define COMPILED
#endif

#if defined(__clang__) && defined(COMPILED)
#pragma clang attribute push(__attribute__((target("sse2"))), apply_to = function)
#elif defined(COMPILED)
#pragma GCC target("sse2")
#endif

#include "../kernels.h"

#define VARIANT sse2
#define ISA "SSE2"

#ifdef COMPILED
#include "../intrinsics.h"
#include "../x86_64.h"

#define SUPPORTED supported
#define PREFERRED (LR_COPY | LR_FILL)
#define VEC 16
#define ENDS "ends_overlap.h"

typedef __m128i vec;

static int supported(void)
{
	return LR_RUNS_WELL;
}

ALWAYS_INLINE vec vec_load(const uint8_t *at)
{
	return _mm_loadu_si128((const __m128i *)at);
}

ALWAYS_INLINE void vec_store(uint8_t *at, vec v)
{
	_mm_storeu_si128((__m128i *)at, v);
}

ALWAYS_INLINE void vec_stream(uint8_t *at, vec v)
{
	_mm_stream_si128((__m128i *)at, v);
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
	return _mm_setzero_si128();
}

ALWAYS_INLINE vec vec_set(uint8_t value)
{
	return _mm_set1_epi8((char)value);
}

ALWAYS_INLINE vec vec_and(vec a, vec b)
{
	return _mm_and_si128(a, b);
}

ALWAYS_INLINE vec vec_join(vec a, vec b)
{
	return _mm_add_epi32(a, b);
}

struct constants {
	vec flip, ones;
};

ALWAYS_INLINE struct constants constants(void)
{
	return (struct constants){ _mm_set1_epi16((short)0x8000), _mm_set1_epi16(1) };
}

ALWAYS_INLINE vec vec_pairs(vec v, struct constants k)
{
	return _mm_madd_epi16(_mm_xor_si128(v, k.flip), k.ones);
}

ALWAYS_INLINE vec vec_accumulate(vec lanes, vec v, struct constants k)
{
	return vec_join(lanes, vec_pairs(v, k));
}

/*	lanes		d c b a
 *	+ high half	. . d c
 *	two lanes in one word, then its halves
 */
ALWAYS_INLINE uint32_t vec_total(vec lanes)
{
	const vec two = vec_join(lanes, _mm_unpackhi_epi64(lanes, lanes));
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
