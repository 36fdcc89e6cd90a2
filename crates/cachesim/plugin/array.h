/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A set-associative array of blocks: a cache, whose blocks are lines, or a TLB, whose blocks are
 * pages. It tracks which blocks are present and in which order they are evicted, but holds no data.
 *
 * A block number is an address divided by the block size; modulo the number of sets, it gives the
 * set. Within a set, LRU evicts the least recently used block, FIFO the oldest, and RANDOM a random
 * one, from a generator with a fixed seed, so that counts are reproducible.
 */
#ifndef LINERATE_ARRAY_H
#define LINERATE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum policy { LRU, FIFO, RANDOM };

struct index;

struct array {
	/* Sets of `ways` entries, newest first; an entry is a block number + 1, or 0 if empty. */
	uint64_t *entries;
	uint64_t sets;
	/* sets - 1 if the number of sets is a power of two, otherwise 0 */
	uint64_t mask;
	uint32_t ways;
	enum policy policy;
	uint64_t random;
	/* Hash index of a single set with too many ways to search; otherwise NULL. */
	struct index *index;
};

/* Returned by array_insert() if no block was evicted. */
#define NO_BLOCK UINT64_MAX

/* Allocates an empty array. Returns false if out of memory. */
bool array_init(struct array *a, uint64_t sets, uint32_t ways, enum policy policy);
void array_free(struct array *a);

/* Like array_use(), but always searches the set. */
bool array_find(struct array *a, uint64_t block);

/* Returns whether the block is present, and if so, marks it as used. */
static inline bool array_use(struct array *a, uint64_t block)
{
	/* Fast path: the block is usually the newest in its set, so nothing changes. */
	if (a->mask && a->entries[(block & a->mask) * a->ways] == block + 1)
		return true;
	return array_find(a, block);
}

/* Returns whether the block is present, without marking it as used. */
bool array_has(const struct array *a, uint64_t block);

/* Inserts a block that is not present. Returns the evicted block, or NO_BLOCK. */
uint64_t array_insert(struct array *a, uint64_t block);

/* Removes a block. Returns false if it was not present. */
bool array_remove(struct array *a, uint64_t block);

/* Returns whether the array exists: a level that the machine lacks has 0 ways. */
static inline bool array_exists(const struct array *a)
{
	return a->ways != 0;
}

#endif
