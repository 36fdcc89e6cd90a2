/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lr_csum_burst with AVX-512: short buffers are summed in groups of eight, which share one test of
 * their lengths, one reduction of lanes to sums, and one addition to the previous sums.
 *
 *	the longest of eight determines how many vectors, 1 or 2, each of them takes
 *	each buffer:	its vectors, masked by its length	-> 16 lanes
 *	two buffers:	halves of both added			-> a vector, 8 lanes of each
 *	four buffers:	halves of both added			-> a vector, 4 lanes of each
 *	eight buffers:	quarters of both added			-> half a vector, a lane of each
 *
 * Each step from N vectors to N / 2 takes three instructions per result, so that all steps take
 * about three per buffer, where the sum of a single vector takes nine; what remains per buffer is
 * the mask, the load and the sum of pairs. The sums of eight buffers are independent: they need no
 * further accumulators to hide the latency of an addition.
 *
 * If one of eight is longer, they are summed in groups of four with four vectors each or, if one is
 * longer than that, one by one. The branches depend only on the longest of eight: with random
 * lengths, they are predicted much better than branches on each length would be.
 *
 * Included by body.h, which defines sum_any.
 */
#ifndef LINERATE_AVX512_BURST_H
#define LINERATE_AVX512_BURST_H

_Static_assert(sizeof(struct lr_csum_buffer) == 16 && offsetof(struct lr_csum_buffer, bytes) == 8,
	       "a vector holds four buffers; lengths are in the odd places of eight");

/*
 * The longest lengths for one, two and four vectors per buffer. The mask of the first vector is
 * computed from the lower 8 bits of the length.
 */
enum { LENGTH_1 = VEC, LENGTH_2 = 2 * VEC, LENGTH_4 = 4 * VEC - 1 };

ALWAYS_INLINE vec load_buffers(const struct lr_csum_buffer *four)
{
	return _mm512_loadu_si512(four);
}

/*
 * Returns nonzero if any of the four lengths exceeds limit. buffers may also hold the maximum of
 * two groups of four.
 */
ALWAYS_INLINE int is_any_above(vec buffers, uint64_t limit)
{
	return _mm512_mask_cmpgt_epu64_mask(0xaa, buffers, _mm512_set1_epi64((long long)limit)) != 0;
}

/*
 * Loads a vector of a buffer other than the first; bytes beyond the buffer are 0. An unused vector
 * is loaded from the address of the first one, see sum_some. A mask for more bytes than a vector
 * has is full.
 */
ALWAYS_INLINE vec load_later(const uint8_t *src, size_t bytes, size_t at)
{
	const size_t used = -(size_t)(bytes > at);
	return vec_load_first(src + (at & used), (bytes - at) & used);
}

/* Returns the lanes of a buffer that has at most this many vectors. */
ALWAYS_INLINE vec sum_lanes(const struct lr_csum_buffer *buffer, unsigned vectors,
			    struct constants k)
{
	const uint8_t *const src = buffer->src;
	const size_t bytes = buffer->bytes;
	vec lanes = vec_pairs(load_few(src, bytes), k);

	if (vectors > 1)
		lanes = vec_accumulate(lanes, load_later(src, bytes, VEC), k);
	if (vectors > 2) {
		lanes = vec_accumulate(lanes, load_later(src, bytes, 2 * VEC), k);
		lanes = vec_accumulate(lanes, load_later(src, bytes, 3 * VEC), k);
	}
	return lanes;
}

/* In each 16 bytes, adds the halves of a into the first 8 bytes and those of b into the last 8. */
ALWAYS_INLINE vec join_two(vec a, vec b)
{
	const vec inner = (vec)_mm512_shuffle_pd((__m512d)a, (__m512d)b, 0x55);
	return vec_join(_mm512_mask_mov_epi64(a, 0xaa, b), inner);
}

/*
 * Returns, in each 16 bytes, one lane for each of the four buffers, two of which are in ab and two
 * in cd.
 */
ALWAYS_INLINE vec join_four(vec ab, vec cd)
{
	const __m512 even = _mm512_shuffle_ps((__m512)ab, (__m512)cd, 0x88);
	const __m512 odd = _mm512_shuffle_ps((__m512)ab, (__m512)cd, 0xdd);
	return vec_join((vec)even, (vec)odd);
}

ALWAYS_INLINE vec sum_four(const struct lr_csum_buffer *buffers, unsigned vectors,
			   struct constants k)
{
	const vec a = sum_lanes(buffers, vectors, k), b = sum_lanes(buffers + 1, vectors, k);
	const vec c = sum_lanes(buffers + 2, vectors, k), d = sum_lanes(buffers + 3, vectors, k);
	return join_four(join_two(a, b), join_two(c, d));
}

/* Does lr_csum_add on each lane. */
ALWAYS_INLINE __m256i add_carry_8(__m256i a, __m256i b)
{
	const __m256i sum = _mm256_add_epi32(a, b);
	const __mmask8 carries = _mm256_cmplt_epu32_mask(sum, a);
	return _mm256_mask_sub_epi32(sum, carries, sum, _mm256_set1_epi32(-1));
}

ALWAYS_INLINE void add_eight(const struct lr_csum_buffer *buffers, uint32_t *sums,
			     unsigned vectors, struct constants k)
{
	const vec first = sum_four(buffers, vectors, k), last = sum_four(buffers + 4, vectors, k);
	/* Of each 16 bytes: first, first, last, last. */
	const vec inner = _mm512_shuffle_i64x2(first, last, 0x4e);
	const vec all = vec_join(_mm512_mask_mov_epi64(first, 0xf0, last), inner);
	const __m256i low = _mm512_castsi512_si256(all), high = _mm512_extracti64x4_epi64(all, 1);
	const __m256i eight = _mm256_add_epi32(_mm256_blend_epi32(low, high, 0xf0),
					       _mm256_permute2x128_si256(low, high, 0x21));
	const __m256i whole = _mm256_add_epi32(eight, _mm256_set1_epi32((int)(vectors * MISSING)));
	const __m256i before = _mm256_loadu_si256((const __m256i *)sums);

	_mm256_storeu_si256((__m256i *)sums, add_carry_8(whole, before));
}

ALWAYS_INLINE void add_four(const struct lr_csum_buffer *buffers, uint32_t *sums, unsigned vectors,
			    struct constants k)
{
	const vec all = sum_four(buffers, vectors, k);
	const __m256i upper = _mm512_extracti64x4_epi64(all, 1);
	const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(all), upper);
	const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight),
					   _mm256_extracti128_si256(eight, 1));
	const __m128i whole = _mm_add_epi32(four, _mm_set1_epi32((int)(vectors * MISSING)));
	const __m128i before = _mm_loadu_si128((const __m128i *)sums);
	const __m256i after = add_carry_8(_mm256_castsi128_si256(whole),
					  _mm256_castsi128_si256(before));

	_mm_storeu_si128((__m128i *)sums, _mm256_castsi256_si128(after));
}

/*
 * With more than two vectors each, groups of eight share too little: groups of four are as fast,
 * and their code is shorter.
 */
KERNEL static __attribute__((noinline)) void add_fours(const struct lr_csum_buffer *buffers,
						       uint32_t *sums, size_t count)
{
	const struct constants k = constants();
	for (; count; count -= 4, buffers += 4, sums += 4)
		add_four(buffers, sums, 4, k);
}

static __attribute__((noinline)) void add_each(const struct lr_csum_buffer *buffers,
					       uint32_t *sums, size_t count)
{
	for (size_t i = 0; i < count; i++)
		sums[i] = sum_any(buffers[i].src, buffers[i].bytes, sums[i]);
}

/* Sums four or eight buffers, the longest of which is among those in longest. */
ALWAYS_INLINE void add_longer(vec longest, const struct lr_csum_buffer *buffers, uint32_t *sums,
			      size_t count)
{
	if (!is_any_above(longest, LENGTH_4))
		add_fours(buffers, sums, count);
	else
		add_each(buffers, sums, count);
}

KERNEL void FUNCTION(csum_burst, VARIANT)(const struct lr_csum_buffer *buffers, uint32_t *sums,
					  size_t count)
{
	const struct constants k = constants();

	for (; count >= 8; count -= 8, buffers += 8, sums += 8) {
		const vec first = load_buffers(buffers), last = load_buffers(buffers + 4);
		const vec longest = _mm512_max_epu64(first, last);

		if (!is_any_above(longest, LENGTH_1))
			add_eight(buffers, sums, 1, k);
		else if (!is_any_above(longest, LENGTH_2))
			add_eight(buffers, sums, 2, k);
		else
			add_longer(longest, buffers, sums, 8);
	}
	if (count >= 4) {
		const vec four = load_buffers(buffers);

		if (!is_any_above(four, LENGTH_1))
			add_four(buffers, sums, 1, k);
		else if (!is_any_above(four, LENGTH_2))
			add_four(buffers, sums, 2, k);
		else
			add_longer(four, buffers, sums, 4);
		count -= 4, buffers += 4, sums += 4;
	}
	add_each(buffers, sums, count);
}

#endif
