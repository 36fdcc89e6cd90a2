/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Each region of 1 MiB holds blocks of one size, and starts with the index of this size. Freed
 * blocks of a size form a stack, so that the most recently used one, which is still in the cache,
 * is reused first:
 *
 *	take(bytes):  size = number of lines, made odd; pop its stack, or cut a new block
 *	give(block):  size = the index at the start of the block's region; push
 *
 * The number of lines is made odd because blocks a power of two apart would compete for the same
 * cache sets. Regions are only freed all at once.
 */
#include "memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LINE 64
#define REGION ((size_t)1 << 20)
#define BYTES_MAX ((size_t)16 * 1024)
#define SIZES (BYTES_MAX / LINE + 2)

struct region {
	struct region *next;
	size_t size;
};

struct block {
	struct block *next;
};

static struct {
	struct block *freed;
	/* Part of this size's latest region that has not been cut into blocks yet. */
	unsigned char *uncut;
	size_t uncut_bytes;
} sizes[SIZES];
static struct region *regions;

static void *cut(size_t size)
{
	const size_t bytes = size * LINE;

	if (sizes[size].uncut_bytes < bytes) {
		struct region *const region = aligned_alloc(REGION, REGION);
		if (!region)
			return NULL;
		region->next = regions;
		region->size = size;
		regions = region;
		sizes[size].uncut = (unsigned char *)region + LINE;
		sizes[size].uncut_bytes = REGION - LINE;
	}
	void *const block = sizes[size].uncut;
	sizes[size].uncut += bytes;
	sizes[size].uncut_bytes -= bytes;
	return block;
}

void *lr_memory_take(size_t bytes)
{
	if (bytes > BYTES_MAX)
		return NULL;
	const size_t size = (bytes + LINE - 1) / LINE | 1;
	struct block *const block = sizes[size].freed;
	if (!block)
		return cut(size);
	sizes[size].freed = block->next;
	return block;
}

void *lr_memory_take_zeroed(size_t count, size_t bytes)
{
	if (bytes && count > BYTES_MAX / bytes)
		return NULL;
	void *const block = lr_memory_take(count * bytes);
	if (block)
		memset(block, 0, count * bytes);
	return block;
}

void lr_memory_give(void *block)
{
	const struct region *const region =
		(const struct region *)((uintptr_t)block & ~(uintptr_t)(REGION - 1));
	struct block *const freed = block;

	freed->next = sizes[region->size].freed;
	sizes[region->size].freed = freed;
}

void lr_memory_end(void)
{
	while (regions) {
		struct region *const region = regions;
		regions = region->next;
		free(region);
	}
	memset(sizes, 0, sizeof sizes);
}
