/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ends of messages on machines without masked loads and stores.
 *
 * The last BLOCK bytes of a message are loaded again unaligned, and bytes already summed are masked
 * off; no branch depends on their number. So that words keep their boundaries when that number is
 * odd, these loads end at an even offset, and the odd last byte is added separately.
 *
 * Fewer bytes than a block are summed by words, because vectors do not pay off below that.
 *
 * The including file defines vec_and; if VEC is above 16, also half, half_load and half_store, for
 * 16 bytes; and SUM_SHORT, if the machine can sum (and copy) fewer than BLOCK bytes faster than by
 * sum_words.
 */
#ifndef SUM_SHORT
#define SUM_SHORT sum_words
#endif

/*
 * BLOCK bytes of zeros, then BLOCK bytes of ones: the block loaded from offset n is a mask that
 * keeps the last n bytes.
 */
static const uint8_t keep_last[2 * BLOCK] __attribute__((aligned(VEC))) = {
#define KEEP_8 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff
#define KEEP_32 KEEP_8, KEEP_8, KEEP_8, KEEP_8
	[BLOCK] = KEEP_32, KEEP_32,
#if VEC == 32
	KEEP_32, KEEP_32,
#endif
};

/*
 * Lengths below a block go by words: on Zen 5, adc and AVX2 take 18 and 17 cycles for 256 bytes, 12
 * and 13 for 128.
 */
#define FEW (BLOCK - 1)

ALWAYS_INLINE uint64_t sum_few(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	return SUM_SHORT(dst, src, bytes, copy);
}

/* Not reached: no length is between FEW and BLOCK. */
ALWAYS_INLINE uint32_t sum_some(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	return fold64(sum_few(dst, src, bytes, copy));
}

ALWAYS_INLINE uint32_t sum_head(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	if (copy)
		vec_store(dst, vec_load(src));
	return fold64(SUM_SHORT(unused(src), src, bytes, SUM));
}

ALWAYS_INLINE void sum_tail(struct lanes *s, uint8_t *dst, const uint8_t *src, size_t bytes,
			    const int copy)
{
	const size_t even = bytes & ~(size_t)1;
	const uint8_t *const from = src + even - BLOCK, *const keep = keep_last + even;
	uint8_t *const to = dst + even - BLOCK;
	const uint32_t last = (src + bytes)[-1];

	const struct block v = take_block(to, from, copy ? COPY : SUM);
	const struct block k = (struct block){ vec_load(keep), vec_load(keep + VEC),
					       vec_load(keep + 2 * VEC), vec_load(keep + 3 * VEC) };

	s->a = vec_accumulate(s->a, vec_and(v.a, k.a), s->k);
	s->b = vec_accumulate(s->b, vec_and(v.b, k.b), s->k);
	s->c = vec_accumulate(s->c, vec_and(v.c, k.c), s->k);
	s->d = vec_accumulate(s->d, vec_and(v.d, k.d), s->k);
	s->vectors += 4;
	s->last = (LR_BYTE_SWAP ? last << 8 : last) & -(uint32_t)(bytes & 1);
	if (copy)
		(dst + bytes)[-1] = (uint8_t)last;
}

/* The first block initializes the accumulators, which saves clearing them. */
ALWAYS_INLINE uint32_t sum_middle(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	const uint8_t *const tail = src + bytes / BLOCK * BLOCK;
	const struct constants k = constants();
	const struct block first = take_block(dst, src, copy);
	struct lanes s = {
		.k = k,
		.a = vec_pairs(first.a, k),
		.b = vec_pairs(first.b, k),
		.c = vec_pairs(first.c, k),
		.d = vec_pairs(first.d, k),
		.vectors = (uint32_t)(bytes / BLOCK * 4),
	};
	while ((src += BLOCK, dst += BLOCK, src) != tail)
		add_block(&s, dst, src, copy);
	sum_tail(&s, dst, src, bytes % BLOCK, copy);
	return total(&s);
}

ALWAYS_INLINE void copy_middle(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	const size_t last = bytes - BLOCK;
	const struct block end = load_block(src + last);

	for (size_t at = 0; at < last; at += BLOCK)
		store_block(dst + at, load_block(src + at));
	store_block(dst + last, end);
}

/* Copies fewer than VEC bytes: the first and the last 16, 8, 4 or 2 of them, which may overlap. */
ALWAYS_INLINE void copy_below_vec(uint8_t *dst, const uint8_t *src, size_t bytes)
{
#if VEC > 16
	if (bytes >= 16) {
		const half first = half_load(src), last = half_load(src + bytes - 16);
		half_store(dst, first);
		half_store(dst + bytes - 16, last);
		return;
	}
#endif
	copy_below_16(dst, src, bytes);
}

ALWAYS_INLINE void fill_below_vec(uint8_t *dst, uint8_t value, size_t bytes)
{
	fill_words(dst, value, bytes);
}
