/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "array.h"
#include "index.h"

#include <stdlib.h>
#include <string.h>

/* Sets with up to this many ways are searched linearly, which is faster than hashing. */
enum { SEARCHED_WAYS = 16 };

/* Any number except 0, which xorshift maps to itself. */
enum { SEED = 1 };

bool array_init(struct array *a, uint64_t sets, uint32_t ways, enum policy policy)
{
	memset(a, 0, sizeof *a);
	if (!ways || !sets)
		return true;
	a->sets = sets;
	a->mask = sets & (sets - 1) ? 0 : sets - 1;
	a->ways = ways;
	a->policy = policy;
	a->random = SEED;
	if (sets == 1 && ways > SEARCHED_WAYS)
		return (a->index = index_new(ways)) != NULL;
	return (a->entries = calloc(sets * ways, sizeof *a->entries)) != NULL;
}

void array_free(struct array *a)
{
	index_free(a->index);
	free(a->entries);
	memset(a, 0, sizeof *a);
}

static uint64_t *set_of(const struct array *a, uint64_t block)
{
	const uint64_t set = a->mask || a->sets == 1 ? block & a->mask : block % a->sets;

	return &a->entries[set * a->ways];
}

/* Returns the way that holds an entry, or the number of ways if no way holds it. */
static uint32_t find(const struct array *a, const uint64_t *set, uint64_t entry)
{
	uint32_t way = 0;

	while (way < a->ways && set[way] != entry)
		way++;
	return way;
}

/* Overwrites a way by moving all newer entries back by one, and stores an entry as the newest. */
static void put_first(uint64_t *set, uint32_t way, uint64_t entry)
{
	for (; way; way--)
		set[way] = set[way - 1];
	set[0] = entry;
}

bool array_has(const struct array *a, uint64_t block)
{
	const uint64_t entry = block + 1;

	if (a->index)
		return index_has(a->index, entry);
	return find(a, set_of(a, block), entry) < a->ways;
}

bool array_find(struct array *a, uint64_t block)
{
	const uint64_t entry = block + 1;
	uint64_t *set;
	uint32_t way;

	if (a->index)
		return a->policy == LRU ? index_renew(a->index, entry) :
					  index_has(a->index, entry);
	set = set_of(a, block);
	way = find(a, set, entry);
	if (way == a->ways)
		return false;
	if (a->policy == LRU)
		put_first(set, way, entry);
	return true;
}

/* Draws a way: Marsaglia's xorshift64 with shifts 13, 7, 17, upper half modulo ways. */
static uint32_t draw(struct array *a)
{
	uint64_t r = a->random;

	r ^= r << 13;
	r ^= r >> 7;
	r ^= r << 17;
	a->random = r;
	return (uint32_t)(r >> 32) % a->ways;
}

static uint64_t insert_indexed(struct array *a, uint64_t entry)
{
	uint64_t leaves = 0;

	if (index_count(a->index) == a->ways) {
		leaves = a->policy == RANDOM ? index_at(a->index, draw(a)) :
					       index_oldest(a->index);
		index_remove(a->index, leaves);
	}
	index_insert(a->index, entry);
	return leaves - 1;
}

uint64_t array_insert(struct array *a, uint64_t block)
{
	const uint64_t entry = block + 1;
	uint64_t *set, leaves;
	uint32_t way;

	if (a->index)
		return insert_indexed(a, entry);
	set = set_of(a, block);
	way = a->ways - 1;
	if (set[way])
		way = a->policy == RANDOM ? draw(a) : way;
	leaves = set[way];
	put_first(set, way, entry);
	/* An empty entry is 0, for which this is NO_BLOCK. */
	return leaves - 1;
}

bool array_remove(struct array *a, uint64_t block)
{
	const uint64_t entry = block + 1;
	uint64_t *set;
	uint32_t way;

	if (a->index)
		return index_remove(a->index, entry);
	set = set_of(a, block);
	way = find(a, set, entry);
	if (way == a->ways)
		return false;
	/* Move older entries forward, so that empty ones stay last. */
	for (; way + 1 < a->ways; way++)
		set[way] = set[way + 1];
	set[way] = 0;
	return true;
}
