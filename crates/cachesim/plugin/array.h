/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A set-associative array of blocks: a cache, whose blocks are lines, or a TLB, whose blocks are
 * pages. It knows which blocks are present and which leaves next; it holds no data.
 *
 * A block is an address divided by the block size. Set: block modulo number of sets. Within a set,
 * LRU evicts the block whose last use is the longest ago, FIFO the one that came first, and RANDOM
 * one that a generator with a fixed seed draws, so that counts repeat.
 */
#ifndef LINERATE_ARRAY_H
#define LINERATE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum policy { LRU, FIFO, RANDOM };

struct index;

struct array {
	/* Sets of `ways` entries, newest first; an entry is a block + 1, or 0 if it is empty. */
	uint64_t *entries;
	uint64_t sets;
	/* sets - 1 if that is a power of two, else 0 */
	uint64_t mask;
	uint32_t ways;
	enum policy policy;
	uint64_t random;
	/* For one set of many ways, which is too slow to search; else NULL. */
	struct index *index;
};

/* What array_insert returns if no block had to leave. */
#define NO_BLOCK UINT64_MAX

/* Allocates an empty array; false if there is no memory. */
bool array_init(struct array *a, uint64_t sets, uint32_t ways, enum policy policy);
void array_free(struct array *a);

/* array_use by search. */
bool array_find(struct array *a, uint64_t block);

/* Whether the block is present; if so, it has been used now. */
static inline bool array_use(struct array *a, uint64_t block)
{
	/* Most often it is the newest of its set, and nothing changes. */
	if (a->mask && a->entries[(block & a->mask) * a->ways] == block + 1)
		return true;
	return array_find(a, block);
}

/* Whether the block is present; changes nothing. */
bool array_has(const struct array *a, uint64_t block);

/* Inserts a block that is not present, and returns the one that leaves for it. */
uint64_t array_insert(struct array *a, uint64_t block);

/* Removes the block; false if it was not present. */
bool array_remove(struct array *a, uint64_t block);

/* Whether the array exists: a level that a machine lacks has no ways. */
static inline bool array_exists(const struct array *a)
{
	return a->ways != 0;
}

#endif
