/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Copies that survive a fault: the part without the accesses that may fault, which depend on the
 * architecture.
 *
 *   copy 1, 2, 4, ... bytes in one access each until dst is aligned to the widest store
 *   for each of the loops over blocks, groups and words, the widest first:
 *       while a whole step of it is left:
 *           run the loop
 *           if a whole step is left, an access faulted: try the bytes of its group one by one
 *   copy what is left in accesses of ..., 4, 2, 1 bytes
 *   whenever one of these accesses faults, try its bytes one by one
 *   whenever an access of one byte faults, end
 *
 * A loop ends before a group that faults, after storing and adding all groups before it. Every
 * store is within one page, hence done completely or not at all: in the loops because it is aligned
 * to its width, before and after them because all stores there are in one aligned stretch as long
 * as the widest store. Stores of a group are in ascending order. Therefore nothing at or beyond the
 * first faulting byte is ever written, and the bytes that a faulting group wrote before it are
 * written again, and then added, byte by byte.
 *
 * The sum uses the stored value, from the same register: other threads may change src meanwhile.
 *
 * Each byte is summed in the half of a 16-bit word given by its position in dst. If dst is odd, the
 * result is the wanted sum rotated by 8 bits.
 */
#include "../kernels/no_vectors.h"

#include "table.h"

#if LR_FAULT
#include "../kernels/kernels.h"

#if defined(__LP64__)
typedef uint64_t word;
#define SWAPPED(x) __builtin_bswap64(x)
#define FOLDED(x) fold64(x)
#else
typedef uint32_t word;
#define SWAPPED(x) __builtin_bswap32(x)
#define FOLDED(x) (x)
#endif
#define WORD sizeof(word)

/* Progress of a copy. */
struct copy {
	uint8_t *dst;
	const uint8_t *src;
	size_t left;
	word sum;
	uint32_t side;
};

/* Adds two words with end-around carry (ones' complement). The result is 0 only if both are 0. */
ALWAYS_INLINE word add_word(word a, word b)
{
	a += b;
	return a + (a < b);
}

/*
 * The file of an architecture defines:
 *
 *   ALIGN    alignment of dst in the loops: the width of the widest store
 *   BLOCK    bytes per step of the widest loop
 *   GROUP    bytes per step of the next one; after a fault, as many are repeated
 *   void copy_blocks(struct copy *at, const int csum), copy_groups, copy_words
 *            advance at by all whole steps that are left, at least one, or up to a group that
 *            faults; add to the sum if csum is not 0
 *   int copy_at_once(const struct copy *at, const size_t bytes, word *value)
 *            copies 1, 2 or 4 bytes, or 8 if ALIGN is above that, by one load and one store; stores
 *            the loaded bytes, zero-extended, at value; returns nonzero if it faulted
 *   word copy_bytes(struct copy *at, size_t bytes)
 *            advances at by 1 to WORD bytes, or up to one that faults, and then sets at->side;
 *            returns the bytes copied, each shifted in from the right
 */
#ifdef __x86_64__
#include "x86_64.h"
#elif defined(__aarch64__)
#include "aarch64.h"
#else
#include "powerpc.h"
#endif

/*
 * Converts bytes that were shifted into a word from the right to a word with the same sum as the
 * bytes in memory.
 */
ALWAYS_INLINE word as_in_memory(word shifted, size_t bytes)
{
	const word first = shifted << 8 * (WORD - bytes);
	return LR_BYTE_SWAP ? first : SWAPPED(first);
}

/* Adds a word of bytes whose first byte is at dst. */
ALWAYS_INLINE void add_at(struct copy *c, const uint8_t *dst, word bytes)
{
	const word rotated = bytes << 8 | bytes >> (8 * WORD - 8);
	c->sum = add_word(c->sum, (uintptr_t)dst & 1 ? rotated : bytes);
}

/* Tries to copy up to this many bytes, but no more than are left, one by one. */
static __attribute__((noinline, cold)) void try_each(struct copy *c, size_t bytes, int csum)
{
	if (bytes > c->left)
		bytes = c->left;
	while (bytes && !c->side) {
		uint8_t *const dst = c->dst;
		const size_t run = bytes < WORD ? bytes : WORD;
		const word shifted = copy_bytes(c, run);
		const size_t copied = (size_t)(c->dst - dst);
		if (csum && copied)
			add_at(c, dst, as_in_memory(shifted, copied));
		bytes -= run;
	}
}

/*
 * Calls try_each on a copy of *c: otherwise this rare call would keep the compiler from holding c
 * in registers. The structure is copied field by field, because no compiler calls memcpy for that.
 */
ALWAYS_INLINE void one_by_one(struct copy *c, size_t bytes, const int csum)
{
	struct copy rare = { c->dst, c->src, c->left, c->sum, c->side };
	try_each(&rare, bytes, csum);
	c->dst = rare.dst;
	c->src = rare.src;
	c->left = rare.left;
	c->sum = rare.sum;
	c->side = rare.side;
}

/* Copies 1, 2, 4 or 8 bytes, all in one page of dst, by one access, or one by one if it faults. */
ALWAYS_INLINE void at_once(struct copy *c, const size_t bytes, const int csum)
{
	word value;
	if (c->side)
		return;
	if (copy_at_once(c, bytes, &value)) {
		one_by_one(c, bytes, csum);
		return;
	}
	if (csum)
		add_at(c, c->dst, LR_BYTE_SWAP && bytes == 1 ? value << 8 : value);
	c->dst += bytes;
	c->src += bytes;
	c->left -= bytes;
}

/*
 * Copies until dst is aligned. The widths increase: each store is aligned, or ends before the
 * alignment boundary.
 */
ALWAYS_INLINE void copy_head(struct copy *c, const int csum)
{
	size_t bytes = -(uintptr_t)c->dst & (ALIGN - 1);
	if (bytes > c->left)
		bytes = c->left;
	if (bytes & 1)
		at_once(c, 1, csum);
	if (bytes & 2)
		at_once(c, 2, csum);
	if (ALIGN > 4 && bytes & 4)
		at_once(c, 4, csum);
	if (ALIGN > 8 && bytes & 8)
		at_once(c, 8, csum);
}

/* Copies the remainder, less than a word, with dst aligned. The widths decrease. */
ALWAYS_INLINE void copy_tail(struct copy *c, const int csum)
{
	if (WORD > 4 && c->left & 4)
		at_once(c, 4, csum);
	if (c->left & 2)
		at_once(c, 2, csum);
	if (c->left & 1)
		at_once(c, 1, csum);
}

ALWAYS_INLINE struct lr_tried try(uint8_t *dst, const uint8_t *src, size_t bytes, uint32_t seed,
				  const int csum)
{
	struct copy c = { dst, src, bytes, 0, 0 };

	copy_head(&c, csum);
	while (!c.side && c.left >= BLOCK) {
		copy_blocks(&c, csum);
		if (c.left >= BLOCK)
			one_by_one(&c, GROUP, csum);
	}
	while (!c.side && c.left >= GROUP) {
		copy_groups(&c, csum);
		if (c.left >= GROUP)
			one_by_one(&c, GROUP, csum);
	}
	while (!c.side && c.left >= WORD) {
		copy_words(&c, csum);
		if (c.left >= WORD)
			one_by_one(&c, WORD, csum);
	}
	copy_tail(&c, csum);
	return (struct lr_tried){
		.residue = c.left,
		.sum = csum ? lr_csum_combine(seed, FOLDED(c.sum), (uintptr_t)dst) : 0,
		.side = c.side,
	};
}

struct lr_tried lr_try_copy(void *dst, const void *src, size_t bytes)
{
	return try(dst, src, bytes, 0, 0);
}

struct lr_tried lr_try_copy_csum(void *dst, const void *src, size_t bytes, uint32_t sum)
{
	return try(dst, src, bytes, sum, 1);
}
#endif

#include "../kernels/no_vectors_end.h"
