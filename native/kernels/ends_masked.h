/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ends of messages on machines whose loads and stores take a mask: bytes that are masked out are
 * neither read nor written, and load as 0.
 *
 * Below a block, the only branch of a sum that depends on the length decides whether one vector is
 * enough: when lengths are unpredictable, a branch costs more than three empty vectors. The mask of
 * each of the four vectors comes from one comparison of the indices of its bytes with the length.
 *
 * The including file defines: vec_load_first and vec_store_first (the first 0 to VEC bytes of a
 * vector); vec_counts and vec_load_counted (the bytes of vector 0, 1, 2 or 3 whose index in the
 * block is below a count of 0 to BLOCK - 1); vec_words (the sum of the 32-bit words of one vector,
 * as 64 bits). If there is a faster jump than a switch: ADD_LEFT, which adds up to 28 vectors that
 * end at an address to four accumulators.
 */

#define FEW VEC

/*
 * Fewer bytes than this are copied by words. Masked stores are not forwarded to later loads, nor
 * narrow stores to masked loads, but short messages are often copied on right after they are
 * written. With this, the speed relative to AVX2 for messages of 1 to 1460 bytes (`linerate tcp`,
 * smoltcp, Zen 5) rose from 0.97 to 1.00, although an isolated copy of one byte takes 10 cycles
 * rather than 7.
 */
#define MASKED_COPY 16

/*
 * Prefetches a line that a masked load is about to need. A masked load that misses the cache does
 * not start out of order, so its latency does not overlap that of other loads; a prefetch does. For
 * 60 bytes in every 2048 of 96 MiB, the sum takes 44 cycles with the prefetch and 102 without (Zen
 * 5).
 */
ALWAYS_INLINE void expect(const uint8_t *line)
{
	__builtin_prefetch(line);
}

ALWAYS_INLINE vec load_few(const uint8_t *src, size_t bytes)
{
	expect(src);
	expect((const uint8_t *)((uintptr_t)src + bytes - 1));
	return vec_load_first(src, bytes);
}

ALWAYS_INLINE uint64_t sum_few(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	if (copy && bytes < MASKED_COPY)
		return sum_words(dst, src, bytes, copy);
	const vec v = load_few(src, bytes);
	if (copy)
		vec_store_first(dst, v, bytes);
	return vec_words(v);
}

/*
 * Copies and sums VEC to 2 VEC bytes. Copies branch on the length anyway, so their sums may as
 * well: two vectors rather than four.
 */
ALWAYS_INLINE uint32_t copy_sum_two(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	const struct constants k = constants();
	const vec a = vec_opaque(vec_load(src));
	const vec end = vec_opaque(vec_load(src + bytes - VEC));
	const vec b = vec_opaque(vec_load_first(src + VEC, bytes - VEC));

	vec_store(dst, a);
	vec_store(dst + bytes - VEC, end);
	return vec_total(vec_join(vec_pairs(a, k), vec_pairs(b, k))) + 2 * MISSING;
}

/*
 * An unused vector is loaded from the address of the first, with an empty mask: the line behind the
 * message might have to come from memory, or might not be mapped at all.
 */
ALWAYS_INLINE uint32_t sum_some(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	if (copy && bytes <= 2 * VEC)
		return copy_sum_two(dst, src, bytes);

	const uint8_t *const third = src + (2 * VEC & -(size_t)(bytes > 2 * VEC));
	const uint8_t *const fourth = src + (3 * VEC & -(size_t)(bytes > 3 * VEC));

	expect(src + VEC);
	expect(third);
	expect(src + bytes - 1);
	const struct constants k = constants();
	const vec_count count = vec_counts(bytes);
	const vec a = vec_opaque(vec_load(src));
	const vec b = vec_opaque(vec_load_counted(src + VEC, count, 1));
	const vec c = vec_opaque(vec_load_counted(third, count, 2));
	const vec d = vec_opaque(vec_load_counted(fourth, count, 3));

	if (copy)
		copy_below_block(dst, src, bytes);
	const vec ab = vec_join(vec_pairs(a, k), vec_pairs(b, k));
	const vec cd = vec_join(vec_pairs(c, k), vec_pairs(d, k));
	return vec_total(vec_join(ab, cd)) + 4 * MISSING;
}

_Static_assert(LONG <= 32 * VEC, "each number of vectors below LONG has its case");

/*
 * The last vector, of 1 to VEC bytes, is masked. This vector and the first three, which every
 * length has, are summed before one jump into unrolled code, to the point from which as many
 * vectors follow as are left. If lengths are unpredictable, the jump is often mispredicted; the
 * four vectors are then summed while it is being resolved. Compared with a jump before all vectors,
 * on Sapphire Rapids: 0.94 of the time for lengths of 20 to 1500 at random, 0.91 if they are copied
 * as well, and 0.96 to 1.04 for lengths that repeat.
 *
 * Compared with a loop over blocks followed by four masked vectors, on Zen 5: 18 cycles instead of
 * 21 for 1460 bytes and 12 instead of 15 for 576, and 250 instead of 420 for 1460 bytes with cold
 * caches.
 */
ALWAYS_INLINE uint32_t sum_middle(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	const size_t vectors = (bytes - 1) / VEC, whole = vectors * VEC, rest = bytes - whole;
	const struct constants k = constants();

	expect(src + bytes - 1);
	const vec end = vec_opaque(vec_load_first(src + whole, rest));
	struct lanes s = {
		.k = k,
		.a = vec_pairs(take(dst, src, copy), k),
		.b = vec_pairs(take(dst + VEC, src + VEC, copy), k),
		.c = vec_pairs(take(dst + 2 * VEC, src + 2 * VEC, copy), k),
		.d = vec_pairs(end, k),
		.vectors = (uint32_t)vectors + 1,
	};

	src += whole;
	dst += whole;
#ifdef ADD_LEFT
	if (!copy) {
		ADD_LEFT(&s.a, &s.b, &s.c, &s.d, src, vectors - 3, k);
		return total(&s);
	}
#endif
#define LEFT(n, lane)                                                                              \
	case n:                                                                                    \
		s.lane = vec_accumulate(s.lane, take(dst - n * VEC, src - n * VEC, copy), s.k);    \
		__attribute__((fallthrough));
#define LEFT_4(n) LEFT(n, a) LEFT((n - 1), b) LEFT((n - 2), c) LEFT((n - 3), d)
	switch (vectors - 3) {
		LEFT_4(28)
		LEFT_4(24)
		LEFT_4(20)
		LEFT_4(16)
		LEFT_4(12)
		LEFT_4(8)
		LEFT_4(4)
	default:
		break;
	}
	if (copy)
		vec_store_first(dst, end, rest);
	return total(&s);
}

ALWAYS_INLINE uint32_t sum_head(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	if (copy)
		vec_store(dst, vec_load(src));
	return fold64(vec_words(vec_load_first(src, bytes)));
}

/*
 * Copies use whole vectors that end with the message and overlap bytes copied before, if any;
 * masked loads of the same bytes provide the sum.
 */
ALWAYS_INLINE void sum_tail(struct lanes *s, uint8_t *dst, const uint8_t *src, size_t bytes,
			    const int copy)
{
	if (bytes <= VEC) {
		s->a = vec_accumulate(s->a, vec_load_first(src, bytes), s->k);
		s->vectors += 1;
		if (copy)
			vec_store(dst + bytes - VEC, vec_load(src + bytes - VEC));
		return;
	}
	const vec_count count = vec_counts(bytes);
	s->a = vec_accumulate(s->a, vec_load(src), s->k);
	s->b = vec_accumulate(s->b, vec_load_counted(src + VEC, count, 1), s->k);
	s->c = vec_accumulate(s->c, vec_load_counted(src + 2 * VEC, count, 2), s->k);
	s->d = vec_accumulate(s->d, vec_load_counted(src + 3 * VEC, count, 3), s->k);
	s->vectors += 4;
	if (copy)
		store_block(dst + bytes - BLOCK, load_block(src + bytes - BLOCK));
}

/*
 * Unrolled like sum_middle: every vector is stored once, and only the last one may overlap the one
 * before it. A loop over blocks would end with a block of four vectors instead.
 */
ALWAYS_INLINE void copy_middle(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	const size_t vectors = (bytes - 1) / VEC, whole = vectors * VEC;
	const vec last = vec_opaque(vec_load(src + bytes - VEC));
	uint8_t *const end = dst + bytes - VEC;

	src += whole;
	dst += whole;
#define MOVE(n)                                                                                    \
	case n:                                                                                    \
		vec_store(dst - n * VEC, vec_load(src - n * VEC));                                 \
		__attribute__((fallthrough));
#define MOVE_4(n) MOVE(n) MOVE((n - 1)) MOVE((n - 2)) MOVE((n - 3))
	switch (vectors) {
		MOVE(31)
		MOVE(30)
		MOVE(29)
		MOVE_4(28)
		MOVE_4(24)
		MOVE_4(20)
		MOVE_4(16)
		MOVE_4(12)
		MOVE_4(8)
		MOVE_4(4)
	default:
		break;
	}
	vec_store(end, last);
}

ALWAYS_INLINE void copy_below_vec(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	if (bytes < MASKED_COPY)
		copy_below_16(dst, src, bytes);
	else
		vec_store_first(dst, load_few(src, bytes), bytes);
}

ALWAYS_INLINE void fill_below_vec(uint8_t *dst, uint8_t value, size_t bytes)
{
	vec_store_first(dst, vec_set(value), bytes);
}
