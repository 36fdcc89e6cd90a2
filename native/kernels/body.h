/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The vector kernels, once. A file of isa/ defines the vectors, names one of ends_masked.h and
 * ends_overlap.h, which differ in what a machine can do with a part of a vector, and includes this.
 *
 * The sum. Words of 16 bits go in pairs into lanes of 32, by one instruction that adds neighbours. How
 * is the machine's affair; where it can add words only as if they were signed, each vector puts
 * MISSING too little into the lanes together, which is added at the end:
 *
 *	for each vector v:		lane[i] += v[2i] + v[2i+1]	(less what is missing)
 *	sum = (lane[0] + lane[1] + ...) + vectors * MISSING	all modulo 2^32
 *
 * The true sum of n bytes is at most n / 2 * 65535, which is below 2^32 for n up to 131072; the
 * result modulo 2^32 is therefore the true sum, not merely congruent to it, and 0 only if all words
 * are 0. CHUNK keeps n below that.
 *
 * Vectors start at the first byte, so that words keep their boundaries whatever the alignment; only
 * from LONG bytes on does it pay to begin with a partial vector, so that the rest is aligned. The
 * rest is then a fragment, which may begin at an odd offset.
 *
 * What to define: VEC, bytes in a vector; vec; vec_load, vec_store, vec_opaque (hides where a vector
 * came from: the compiler would load it twice), vec_join (32-bit lanes), vec_zero, vec_set;
 * constants, which are passed to vec_pairs and vec_accumulate; MISSING, 0 if words are added
 * unmodified; vec_pairs (the lanes of one vector), vec_accumulate (lanes plus those of a vector),
 * vec_total (all lanes, modulo 2^32). Loads and stores take any address. If the machine has
 * nontemporal stores, STREAMS, vec_stream (aligned) and vec_stream_fence (after the last); if one
 * instruction moves four vectors, BLOCK_AT_ONCE, struct block, load_block and store_block. The ends
 * define:
 *
 *	FEW		how many bytes are summed in the shortest way
 *	sum_few		the sum of at most FEW bytes, as 64 bits
 *	sum_some	the sum of more than that, but fewer than BLOCK bytes
 *	sum_middle	the sum of BLOCK to LONG bytes
 *	sum_head	the sum of fewer than VEC bytes, with VEC bytes to be read behind src
 *	sum_tail	adds fewer than BLOCK bytes that end a message of BLOCK bytes and more
 *	copy_middle	copies BLOCK to LONG bytes
 *	copy_below_vec	copies fewer than VEC bytes;	fill_below_vec	fills them
 *
 * Each with copy one of:
 */
#ifndef LINERATE_BODY_H
#define LINERATE_BODY_H

enum {
	SUM,	/* only sum */
	COPY,	/* store as well */
	STREAM, /* store past the caches, where dst is aligned */
};

#define BLOCK (4 * VEC)

/* Bytes summed between two totals: with what precedes and follows them at most 2^17. */
#define CHUNK ((size_t)1 << 16)

/*
 * From how many bytes on vectors are aligned. Below, the loads that straddle two lines cost less
 * than beginning in two steps: on Zen 5 with vectors of 64 bytes, where straddling costs most.
 */
#define LONG 2048u

_Static_assert(BLOCK + VEC <= LONG, "an aligned sum has a block behind its head");
_Static_assert(CHUNK % (2 * BLOCK) == 0, "a chunk is whole pairs of blocks");
_Static_assert(CHUNK + VEC + 3 * BLOCK <= 1 << 17, "the sum of a chunk is below 2^32");

/*
 * From how many bytes on copies go past the caches, so that lines need not be fetched before they
 * are overwritten. Source and destination together must be about to leave the last cache for that to
 * pay: on Zen 5 with 32 MiB of it, streams take 1.15 times as long for 8 MiB and 0.7 times for 16.
 * For another cache define it as three eighths of that.
 */
#ifndef LR_STREAM_BYTES
#define LR_STREAM_BYTES ((size_t)12 << 20)
#endif

#ifndef STREAMS
#define STREAMS 0
ALWAYS_INLINE void vec_stream(uint8_t *at, vec v)
{
	vec_store(at, v);
}

ALWAYS_INLINE void vec_stream_fence(void)
{
}
#endif

/*
 * Lanes in four, because an addition to lanes takes several cycles; the vectors added; and a byte
 * that no vector holds.
 */
struct lanes {
	vec a, b, c, d;
	uint32_t vectors, last;
	struct constants k;
};

ALWAYS_INLINE struct lanes no_lanes(struct constants k)
{
	return (struct lanes){ vec_zero(), vec_zero(), vec_zero(), vec_zero(), 0, 0, k };
}

/*
 * VEC to BLOCK bytes: two or four vectors, from the ends inwards. Four whatever the length, the
 * inner ones where the outer ones are, would spare the branch, but stores to one place wait for each
 * other: 21 cycles for 10 at 128 bytes on Zen 5.
 */
ALWAYS_INLINE void copy_below_block(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	const vec a = vec_load(src), d = vec_load(src + bytes - VEC);
	if (bytes > 2 * VEC) {
		const vec b = vec_load(src + VEC), c = vec_load(src + bytes - 2 * VEC);
		vec_store(dst + VEC, b);
		vec_store(dst + bytes - 2 * VEC, c);
	}
	vec_store(dst, a);
	vec_store(dst + bytes - VEC, d);
}

/*
 * BLOCK bytes. Copies load the last block of a message before they store the first: behind a store,
 * a load from the same place in another page, as packets are often copied, waits for it (addresses
 * are compared by their lower 12 bits first).
 */
struct block {
	vec a, b, c, d;
};

ALWAYS_INLINE struct block load_block(const uint8_t *src)
{
	return (struct block){ vec_opaque(vec_load(src)), vec_opaque(vec_load(src + VEC)),
			       vec_opaque(vec_load(src + 2 * VEC)),
			       vec_opaque(vec_load(src + 3 * VEC)) };
}

ALWAYS_INLINE void store_block(uint8_t *dst, struct block v)
{
	vec_store(dst, v.a);
	vec_store(dst + VEC, v.b);
	vec_store(dst + 2 * VEC, v.c);
	vec_store(dst + 3 * VEC, v.d);
}

ALWAYS_INLINE vec take(uint8_t *dst, const uint8_t *src, const int copy)
{
	const vec v = copy ? vec_opaque(vec_load(src)) : vec_load(src);
	if (copy == COPY)
		vec_store(dst, v);
	else if (copy == STREAM)
		vec_stream(dst, v);
	return v;
}

ALWAYS_INLINE uint32_t total(const struct lanes *s)
{
	const vec all = vec_join(vec_join(s->a, s->b), vec_join(s->c, s->d));
	return vec_total(all) + s->vectors * MISSING + s->last;
}

/* Whether pairs are better added in two steps next to stores, although vec_accumulate is one. */
#ifndef TWO_STEPS_BESIDE_STORES
#define TWO_STEPS_BESIDE_STORES 0
#endif

ALWAYS_INLINE vec add_vector(vec lanes, vec v, struct constants k, const int copy)
{
	if (copy && TWO_STEPS_BESIDE_STORES)
		return vec_join(lanes, vec_pairs(v, k));
	return vec_accumulate(lanes, v, k);
}

#ifndef BLOCK_AT_ONCE
#define BLOCK_AT_ONCE 0
#endif

ALWAYS_INLINE struct block take_block(uint8_t *dst, const uint8_t *src, const int copy)
{
#if BLOCK_AT_ONCE
	vec v[4];
	load_4(v, src);
	if (copy)
		store_4(dst, v);
	return (struct block){ v[0], v[1], v[2], v[3] };
#else
	return (struct block){ take(dst, src, copy), take(dst + VEC, src + VEC, copy),
			       take(dst + 2 * VEC, src + 2 * VEC, copy),
			       take(dst + 3 * VEC, src + 3 * VEC, copy) };
#endif
}

ALWAYS_INLINE void add_block(struct lanes *s, uint8_t *dst, const uint8_t *src, const int copy)
{
	const struct block v = take_block(dst, src, copy);
	s->a = add_vector(s->a, v.a, s->k, copy);
	s->b = add_vector(s->b, v.b, s->k, copy);
	s->c = add_vector(s->c, v.c, s->k, copy);
	s->d = add_vector(s->d, v.d, s->k, copy);
}

#include ENDS

/* A multiple of two blocks, at most CHUNK bytes: eight lanes, for the longest latencies. */
ALWAYS_INLINE void add_chunk(struct lanes *s, uint8_t *dst, const uint8_t *src, size_t bytes,
			     const int copy)
{
	const uint8_t *const end = src + bytes;
	struct lanes t = no_lanes(s->k);
	for (; src != end; src += 2 * BLOCK, dst += 2 * BLOCK) {
		add_block(s, dst, src, copy);
		add_block(&t, dst + BLOCK, src + BLOCK, copy);
	}
	s->a = vec_join(s->a, t.a);
	s->b = vec_join(s->b, t.b);
	s->c = vec_join(s->c, t.c);
	s->d = vec_join(s->d, t.d);
	s->vectors += (uint32_t)(bytes / VEC);
}

/* LONG bytes and more, whatever their number. */
ALWAYS_INLINE uint32_t sum_aligned(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	const size_t head = -(copy ? (uintptr_t)dst : (uintptr_t)src) % VEC;
	const uint32_t before = head ? sum_head(dst, src, head, copy) : 0;
	uint64_t sum = 0;
	struct lanes s = no_lanes(constants());

	src += head;
	dst += head;
	bytes -= head;
	for (; bytes > CHUNK; bytes -= CHUNK, src += CHUNK, dst += CHUNK) {
		add_chunk(&s, dst, src, CHUNK, copy);
		sum += total(&s);
		s = no_lanes(s.k);
	}
	const size_t pairs = bytes / (2 * BLOCK) * (2 * BLOCK);
	add_chunk(&s, dst, src, pairs, copy);
	src += pairs;
	dst += pairs;
	bytes -= pairs;
	if (bytes >= BLOCK) {
		add_block(&s, dst, src, copy);
		s.vectors += 4;
		src += BLOCK;
		dst += BLOCK;
		bytes -= BLOCK;
	}
	sum_tail(&s, dst, src, bytes, copy);
	return lr_csum_combine(before, fold64(sum + total(&s)), head);
}

/*
 * Aligned to a line of the instruction cache, so that the placement of loops and jump targets in
 * lines does not depend on the linker: otherwise the same code took up to a fifth longer on Zen 5.
 */
#define KERNEL __attribute__((aligned(64)))

KERNEL static __attribute__((noinline)) uint32_t sum_long(const uint8_t *src, size_t bytes,
							  uint32_t seed)
{
	return lr_csum_add(sum_aligned(unused(src), src, bytes, SUM), seed);
}

KERNEL static __attribute__((noinline)) uint32_t copy_sum_long(uint8_t *dst, const uint8_t *src,
							size_t bytes, uint32_t seed)
{
	if (!STREAMS || bytes < LR_STREAM_BYTES)
		return lr_csum_add(sum_aligned(dst, src, bytes, COPY), seed);
	const uint32_t sum = sum_aligned(dst, src, bytes, STREAM);
	vec_stream_fence();
	return lr_csum_add(sum, seed);
}

KERNEL uint32_t FUNCTION(csum_partial, VARIANT)(const void *src, size_t bytes, uint32_t seed)
{
	if (bytes <= FEW)
		return fold64(add_carry(sum_few(unused(src), src, bytes, SUM), seed));
	if (bytes < BLOCK)
		return lr_csum_add(sum_some(unused(src), src, bytes, SUM), seed);
	if (UNLIKELY(bytes >= LONG))
		return sum_long(src, bytes, seed);
	return lr_csum_add(sum_middle(unused(src), src, bytes, SUM), seed);
}

KERNEL uint32_t FUNCTION(copy_csum_partial, VARIANT)(void *dst, const void *src, size_t bytes,
					      uint32_t seed)
{
	if (bytes <= FEW)
		return fold64(add_carry(sum_few(dst, src, bytes, COPY), seed));
	if (bytes < BLOCK)
		return lr_csum_add(sum_some(dst, src, bytes, COPY), seed);
	if (UNLIKELY(bytes >= LONG))
		return copy_sum_long(dst, src, bytes, seed);
	return lr_csum_add(sum_middle(dst, src, bytes, COPY), seed);
}

ALWAYS_INLINE void stream_block(uint8_t *dst, struct block v)
{
	vec_stream(dst, v.a);
	vec_stream(dst + VEC, v.b);
	vec_stream(dst + 2 * VEC, v.c);
	vec_stream(dst + 3 * VEC, v.d);
}

/* LONG bytes and more: whole blocks from the byte at head on, where dst is aligned. */
ALWAYS_INLINE void copy_blocks(uint8_t *dst, const uint8_t *src, size_t bytes, size_t head,
			       const int copy)
{
	const vec first = vec_opaque(vec_load(src));
	const size_t last = bytes - BLOCK;
	const struct block end = load_block(src + last);

	vec_store(dst, first);
	for (size_t at = head; at < last; at += BLOCK) {
		const struct block v = load_block(src + at);
		if (copy == STREAM)
			stream_block(dst + at, v);
		else
			store_block(dst + at, v);
	}
	store_block(dst + last, end);
}

KERNEL static __attribute__((noinline)) void copy_long(uint8_t *dst, const uint8_t *src,
						       size_t bytes)
{
	if (!STREAMS || bytes < LR_STREAM_BYTES) {
		copy_blocks(dst, src, bytes, -(uintptr_t)dst % VEC, COPY);
	} else {
		copy_blocks(dst, src, bytes, -(uintptr_t)dst % VEC, STREAM);
		vec_stream_fence();
	}
}

KERNEL void *FUNCTION(copy, VARIANT)(void *dst, const void *src, size_t bytes)
{
	if (bytes < VEC) {
		copy_below_vec(dst, src, bytes);
	} else if (bytes <= BLOCK) {
		copy_below_block(dst, src, bytes);
	} else if (UNLIKELY(bytes >= LONG)) {
		copy_long(dst, src, bytes);
	} else {
		copy_middle(dst, src, bytes);
	}
	return dst;
}

KERNEL void *FUNCTION(fill, VARIANT)(void *dst, uint8_t value, size_t bytes)
{
	uint8_t *const to = dst;
	const vec v = vec_set(value);
	const struct block block = { v, v, v, v };

	if (bytes < VEC) {
		fill_below_vec(to, value, bytes);
	} else if (bytes <= BLOCK) {
		vec_store(to, v);
		if (bytes > 2 * VEC) {
			vec_store(to + VEC, v);
			vec_store(to + bytes - 2 * VEC, v);
		}
		vec_store(to + bytes - VEC, v);
	} else {
		size_t at = 0;
		if (bytes >= LONG) {
			vec_store(to, v);
			at = -(uintptr_t)dst % VEC;
		}
		for (; at < bytes - BLOCK; at += BLOCK)
			store_block(to + at, block);
		store_block(to + bytes - BLOCK, block);
	}
	return dst;
}

const struct lr_variant VARIANT_ROW(VARIANT) = {
	.name = NAME(VARIANT),
	.isa = ISA,
	.vector = 1,
	.compiled = 1,
	.supported = SUPPORTED,
	.preferred = PREFERRED,
	.csum_partial = FUNCTION(csum_partial, VARIANT),
	.copy_csum_partial = FUNCTION(copy_csum_partial, VARIANT),
	.copy = FUNCTION(copy, VARIANT),
	.fill = FUNCTION(fill, VARIANT),
};

#endif
