/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ends of messages where a vector is loaded and stored whole or not at all.
 *
 * The last BLOCK octets of a message are loaded once more as they stand, and what was summed before
 * is masked away; no branch depends on how much that is. Were their number odd, words would be read
 * across; so the loads end with the last even octet, and one that is left is added by itself.
 *
 * Fewer octets than a block are summed by words: vectors do not pay there.
 */

/* BLOCK octets of nothing, then BLOCK of everything: a window of it keeps the last n octets. */
static const uint8_t keep_last[2 * BLOCK] __attribute__((aligned(VEC))) = {
#define KEEP_8 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff
#define KEEP_32 KEEP_8, KEEP_8, KEEP_8, KEEP_8
	[BLOCK] = KEEP_32, KEEP_32,
#if VEC == 32
	KEEP_32, KEEP_32,
#endif
};

ALWAYS_INLINE uint32_t sum_below_block(uint8_t *dst, const uint8_t *src, size_t octets,
				       const int copy)
{
	return fold64(sum_short(dst, src, octets, copy));
}

ALWAYS_INLINE uint32_t sum_head(uint8_t *dst, const uint8_t *src, size_t octets, const int copy)
{
	if (copy)
		vec_store(dst, vec_load(src));
	return fold64(sum_short(0, src, octets, SUM));
}

ALWAYS_INLINE void sum_tail(struct lanes *s, uint8_t *dst, const uint8_t *src, size_t octets,
			    const int copy)
{
	const size_t even = octets & ~(size_t)1;
	const uint8_t *const from = src + even - BLOCK, *const keep = keep_last + even;
	vec v[4];

	for (unsigned i = 0; i < 4; i++)
		v[i] = copy ? vec_opaque(vec_load(from + i * VEC)) : vec_load(from + i * VEC);
	if (copy) {
		for (unsigned i = 0; i < 4; i++)
			vec_store(dst + even - BLOCK + i * VEC, v[i]);
		dst[octets - 1] = src[octets - 1];
	}
	for (unsigned i = 0; i < 4; i++)
		v[i] = vec_and(v[i], vec_load(keep + i * VEC));
	v[0] = vec_pairs(v[0]);
	v[0] = vec_join(v[0], vec_last(octets & 1 ? src[octets - 1] : 0));
	s->a = vec_join(s->a, v[0]);
	s->b = vec_accumulate(s->b, v[1]);
	s->c = vec_accumulate(s->c, v[2]);
	s->d = vec_accumulate(s->d, v[3]);
	s->vectors += 4;
}

/* Fewer octets than a vector: the first and the last 16, 8, 4 or 2 of them, which may overlap. */
ALWAYS_INLINE void copy_below_vec(uint8_t *dst, const uint8_t *src, size_t octets)
{
	if (octets >= 16) {
		const __m128i first = _mm_loadu_si128((const __m128i *)src);
		const __m128i last = _mm_loadu_si128((const __m128i *)(src + octets - 16));
		_mm_storeu_si128((__m128i *)dst, first);
		_mm_storeu_si128((__m128i *)(dst + octets - 16), last);
	} else {
		copy_below_16(dst, src, octets);
	}
}

ALWAYS_INLINE void fill_below_vec(uint8_t *dst, uint8_t value, size_t octets)
{
	fill_words(dst, value, octets);
}
