/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The vector kernels, written once for all instruction sets. A file of isa/ defines the vector
 * operations, names ends_masked.h or ends_overlap.h as ENDS, depending on whether the machine can
 * load and store a part of a vector, and includes this file.
 *
 * The sum. 16-bit words are added in pairs to 32-bit lanes, by one instruction that adds
 * neighbouring words. On machines where that instruction treats words as signed, each vector adds
 * MISSING too little to its lanes in total, which is corrected at the end:
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
 * The including file defines: VEC, the number of bytes in a vector; vec, its type; vec_load,
 * vec_store, vec_opaque (hides from the compiler where a vector came from: otherwise it would load
 * it twice), vec_join (adds 32-bit lanes), vec_zero, vec_set; constants, which are passed to
 * vec_pairs and vec_accumulate; MISSING, 0 if words are added unmodified; vec_pairs (the lanes of
 * one vector), vec_accumulate (lanes plus those of a vector), vec_total (the sum of all lanes,
 * modulo 2^32). Loads and stores take any address. If the machine has nontemporal stores: STREAMS,
 * vec_stream (aligned) and vec_stream_fence (after the last). If one instruction moves four
 * vectors: BLOCK_AT_ONCE, load_4 and store_4. If it can sum several buffers at once: BURST, the file
 * that defines csum_burst by sum_any, which sums one of any length. The file ENDS defines:
 *
 *	FEW		the largest length for sum_few
 *	sum_few		the sum of at most FEW bytes, as 64 bits
 *	sum_some	the sum of more than that, but fewer than BLOCK bytes
 *	sum_middle	the sum of BLOCK to LONG bytes
 *	sum_head	the sum of fewer than VEC bytes; VEC bytes can be read from src
 *	sum_tail	adds the last bytes, fewer than BLOCK, of a message of BLOCK bytes or more
 *	copy_middle	copies BLOCK to LONG bytes
 *	copy_below_vec	copies fewer than VEC bytes;	fill_below_vec	fills them
 *
 * Functions that sum take an argument copy, which is one of:
 */
#ifndef LINERATE_BODY_H
#define LINERATE_BODY_H

enum {
	SUM,	/* only sum */
	COPY,	/* store as well */
	STREAM, /* store past the caches, where dst is aligned */
};

#define BLOCK (4 * VEC)

/* Bytes summed before lanes are added up: at most 2^17 with the bytes before and after them. */
#define CHUNK ((size_t)1 << 16)

/*
 * Length from which vectors are aligned. Below it, loads that cross a cache line cost less than a
 * separate first step: measured on Zen 5 with vectors of 64 bytes, where crossing costs most.
 */
#define LONG 2048u

_Static_assert(BLOCK + VEC <= LONG, "an aligned sum has a block after its head");
_Static_assert(CHUNK % (2 * BLOCK) == 0, "a chunk is whole pairs of blocks");
_Static_assert(CHUNK + VEC + 3 * BLOCK <= 1 << 17, "the sum of a chunk is below 2^32");

/*
 * Length from which copies use nontemporal stores, so that cache lines need not be fetched before
 * they are overwritten. This pays only if source and destination together hardly fit in the
 * last-level cache: on Zen 5 with 32 MiB of it, nontemporal copies take 1.15 times as long for 8
 * MiB and 0.7 times for 16. For a cache of another size, define it as three eighths of that size.
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
 * Four accumulators, because an addition takes several cycles; the number of vectors added; and a
 * last byte that is in none of them.
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
 * Copies VEC to BLOCK bytes by two or four vectors, from both ends inwards. Four for every length,
 * the inner ones overlapping the outer ones, would save the branch, but overlapping stores wait for
 * each other: 21 cycles instead of 10 for 128 bytes on Zen 5.
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
 * BLOCK bytes in registers. Copies load the last block of a message before they store the first: a
 * load waits for an earlier store if their addresses agree in the lower 12 bits (4 KiB aliasing),
 * which is common when packets are copied between pages.
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

/*
 * 1 if adding pairs in two steps is faster than vec_accumulate, a single step, when vectors are
 * also stored.
 */
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

/*
 * Adds a multiple of two blocks, at most CHUNK bytes, in eight accumulators, enough for the longest
 * latencies.
 */
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

/* Returns the sum of LONG or more bytes. */
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

ALWAYS_INLINE uint32_t sum_any(const uint8_t *src, size_t bytes, uint32_t seed)
{
	if (bytes <= FEW)
		return fold64(add_carry(sum_few(unused(src), src, bytes, SUM), seed));
	if (bytes < BLOCK)
		return lr_csum_add(sum_some(unused(src), src, bytes, SUM), seed);
	if (UNLIKELY(bytes >= LONG))
		return sum_long(src, bytes, seed);
	return lr_csum_add(sum_middle(unused(src), src, bytes, SUM), seed);
}

KERNEL uint32_t FUNCTION(csum_partial, VARIANT)(const void *src, size_t bytes, uint32_t seed)
{
	return sum_any(src, bytes, seed);
}

#ifdef BURST
#include BURST
#else
#include "burst.h"
BURST_ONE_BY_ONE
#endif

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

/* Copies LONG or more bytes: by whole blocks from offset head on, where dst is aligned. */
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
	.csum_burst = FUNCTION(csum_burst, VARIANT),
	.copy_csum_partial = FUNCTION(copy_csum_partial, VARIANT),
	.copy = FUNCTION(copy, VARIANT),
	.fill = FUNCTION(fill, VARIANT),
};

#endif
