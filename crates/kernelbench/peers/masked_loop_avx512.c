/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A checksum structured like the best known implementation for packets of unpredictable length: one
 * loop over whole vectors and one masked load for the rest. The loop branch is the only one that
 * depends on the length, so mispredictions are rare. For comparison only.
 *
 *	while 64 bytes are left: widen(vector)
 *	widen(vector of what is left, the other lanes 0)
 *
 *	widen:	v          d0 d1 d2 d3 | ...           32-bit words of each 128 bits
 *		unpack low    d0  0 d1  0 | ...        as two 64-bit numbers below 2^32
 *		unpack high   d2  0 d3  0 | ...
 *
 * A 64-bit lane can add 2^32 such numbers without overflowing: 2^37 bytes of input.
 */
#include "peers.h"

#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,bmi2"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,bmi2")
#endif

static inline __m512i widened(__m512i v)
{
	const __m512i zero = _mm512_setzero_si512();
	return _mm512_add_epi64(_mm512_unpacklo_epi32(v, zero), _mm512_unpackhi_epi32(v, zero));
}

uint32_t peer_masked_loop_avx512(const void *src, size_t bytes, uint32_t sum)
{
	const uint8_t *at = src;
	__m512i total = _mm512_setzero_si512();

	for (; bytes >= 64; bytes -= 64, at += 64)
		total = _mm512_add_epi64(total, widened(_mm512_loadu_si512(at)));
	const __mmask64 left = _bzhi_u64(~0ull, (unsigned)bytes);
	total = _mm512_add_epi64(total, widened(_mm512_maskz_loadu_epi8(left, at)));

	/* Each of the eight lanes is below 2^61 if fewer than 2^34 bytes were added. */
	return peer_add(sum, (uint64_t)_mm512_reduce_add_epi64(total));
}

#ifdef __clang__
#pragma clang attribute pop
#endif
