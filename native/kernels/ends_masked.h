/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ends of messages where loads and stores take a mask: what the mask leaves out is neither read nor
 * written, and reads as 0.
 *
 * Below a block no branch of a sum depends on how many bytes there are, but for whether one vector
 * does: where lengths cannot be foreseen, a branch costs more than three vectors of nothing. Of the
 * four vectors each has its mask from one comparison of the place of its bytes with their number.
 *
 * What to define: vec_load_first and vec_store_first (0 to VEC bytes of a vector); vec_counts and
 * vec_load_counted (bytes of the vector at 0, 1, 2 or 3 that are below a count of 0 to BLOCK - 1);
 * vec_words (the sum of the 32-bit words of one vector, as 64 bits).
 */

#define FEW VEC

/*
 * Fewer bytes than this are copied by words. Masked stores are not forwarded to following loads,
 * nor narrow stores to masked loads; but short messages are copied from buffer to buffer right
 * after they are written. Compared with AVX2 the messages of 1 to 1460 bytes of `linerate tcp`, on
 * smoltcp, improved from 0.97 to 1.00 (Zen 5), although an isolated copy of one byte takes 10
 * cycles rather than 7.
 */
#define MASKED_COPY 16

/*
 * Lines that masked loads are about to need. A masked load of a line that is not in the cache is not
 * begun ahead of its turn, so that it waits for memory alone; a prefetch is. Of 60 bytes in every
 * 2048 of 96 MiB the sum takes 44 cycles with it and 102 without (Zen 5).
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
 * VEC to 2 VEC bytes, copied. Copies branch on the length anyway, so their sums may too: two
 * vectors rather than four.
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
 * An unused vector is loaded from the address of the first, under its empty mask: the
 * line behind the message would have to come from memory, or be missing altogether.
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
 * One jump to where as many vectors are left as there are, then straight on; the last vector, of 1 to
 * VEC bytes, under a mask. Against a loop over blocks with four vectors under masks behind it, on
 * Zen 5: 18 cycles for 21 at 1460 bytes, 12 for 15 at 576; where lengths of 20 to 1500 cannot be
 * foreseen 58 for 54; cold, 250 for 420 at 1460.
 */
ALWAYS_INLINE uint32_t sum_middle(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	const size_t vectors = (bytes - 1) / VEC, whole = vectors * VEC, rest = bytes - whole;

	expect(src + bytes - 1);
	struct lanes s = no_lanes(constants());

	src += whole;
	dst += whole;
#define LEFT(n, lane)                                                                              \
	case n:                                                                                    \
		s.lane = vec_accumulate(s.lane, take(dst - n * VEC, src - n * VEC, copy), s.k);    \
		__attribute__((fallthrough));
#define LEFT_4(n) LEFT(n, a) LEFT((n - 1), b) LEFT((n - 2), c) LEFT((n - 3), d)
	switch (vectors) {
		LEFT(31, b)
		LEFT(30, c)
		LEFT(29, d)
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
	const vec end = vec_load_first(src, rest);
	s.a = vec_accumulate(s.a, end, s.k);
	s.vectors = (uint32_t)vectors + 1;
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

/* As sum_middle: every vector is stored once, where a loop over blocks would end with four more. */
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
