/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "index.h"

#include <stdlib.h>

/* Slot number that means "no slot". */
enum { NONE = UINT32_MAX };

struct slot {
	uint64_t entry;
	/* Neighbours in eviction order; `older` also links the unused slots. */
	uint32_t newer, older;
	/* Next slot in the same bucket. */
	uint32_t next;
};

struct index {
	uint32_t count, newest, oldest, unused;
	uint32_t bucket_mask;
	uint32_t *buckets;
	struct slot *slots;
};

/* Fibonacci hashing: the upper bits of a product with 2^64 / golden ratio. */
static uint32_t *bucket_of(const struct index *x, uint64_t entry)
{
	return &x->buckets[(uint32_t)(entry * 0x9E3779B97F4A7C15u >> 32) & x->bucket_mask];
}

static uint32_t find(const struct index *x, uint64_t entry)
{
	uint32_t at = *bucket_of(x, entry);

	while (at != NONE && x->slots[at].entry != entry)
		at = x->slots[at].next;
	return at;
}

struct index *index_new(uint32_t entries)
{
	uint32_t buckets = 1;
	struct index *const x = calloc(1, sizeof *x);

	if (!x)
		return NULL;
	while (buckets < 2 * entries)
		buckets *= 2;
	x->bucket_mask = buckets - 1;
	x->buckets = malloc(buckets * sizeof *x->buckets);
	x->slots = malloc(entries * sizeof *x->slots);
	if (!x->buckets || !x->slots) {
		index_free(x);
		return NULL;
	}
	for (uint32_t i = 0; i < buckets; i++)
		x->buckets[i] = NONE;
	for (uint32_t i = 0; i < entries; i++)
		x->slots[i].older = i + 1 < entries ? i + 1 : NONE;
	x->newest = x->oldest = NONE;
	return x;
}

void index_free(struct index *x)
{
	if (!x)
		return;
	free(x->buckets);
	free(x->slots);
	free(x);
}

bool index_has(const struct index *x, uint64_t entry)
{
	return find(x, entry) != NONE;
}

static void link_newest(struct index *x, uint32_t at)
{
	struct slot *const slot = &x->slots[at];

	slot->newer = NONE;
	slot->older = x->newest;
	if (x->newest != NONE)
		x->slots[x->newest].newer = at;
	else
		x->oldest = at;
	x->newest = at;
}

static void unlink(struct index *x, uint32_t at)
{
	const struct slot *const slot = &x->slots[at];

	if (slot->newer != NONE)
		x->slots[slot->newer].older = slot->older;
	else
		x->newest = slot->older;
	if (slot->older != NONE)
		x->slots[slot->older].newer = slot->newer;
	else
		x->oldest = slot->newer;
}

bool index_renew(struct index *x, uint64_t entry)
{
	const uint32_t at = find(x, entry);

	if (at == NONE)
		return false;
	if (at != x->newest) {
		unlink(x, at);
		link_newest(x, at);
	}
	return true;
}

void index_insert(struct index *x, uint64_t entry)
{
	const uint32_t at = x->unused;
	uint32_t *const bucket = bucket_of(x, entry);

	x->unused = x->slots[at].older;
	x->slots[at].entry = entry;
	x->slots[at].next = *bucket;
	*bucket = at;
	link_newest(x, at);
	x->count++;
}

bool index_remove(struct index *x, uint64_t entry)
{
	uint32_t *place = bucket_of(x, entry);
	uint32_t at;

	while (*place != NONE && x->slots[*place].entry != entry)
		place = &x->slots[*place].next;
	at = *place;
	if (at == NONE)
		return false;
	*place = x->slots[at].next;
	unlink(x, at);
	x->slots[at].older = x->unused;
	x->unused = at;
	x->count--;
	return true;
}

uint64_t index_at(const struct index *x, uint32_t position)
{
	uint32_t at = x->newest;

	while (position--)
		at = x->slots[at].older;
	return x->slots[at].entry;
}

uint64_t index_oldest(const struct index *x)
{
	return x->slots[x->oldest].entry;
}

uint32_t index_count(const struct index *x)
{
	return x->count;
}
