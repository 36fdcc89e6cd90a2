/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Runs every kernel of every subject over lengths, offsets and contents. Each case is placed as low
 * and as high in its arena as its offset allows: less than a line from the guard page, and, for one
 * offset in 64, adjacent to it. All subjects run one case before the next begins.
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct subject *all;
static size_t all_count;
static struct arena source, target;
/* What a fill is expected to write. */
static uint8_t *filled;

#define EACH_SUBJECT(s) for (struct subject *s = all; s < all + all_count; s++)

/* Returns one of the seeds at which carries change, or a random seed. */
static uint32_t some_seed(void)
{
	static const uint32_t seeds[] = { 0, 1, 0xffff, 0x10000, 0xffffffff };
	const size_t count = sizeof seeds / sizeof *seeds;
	const size_t i = random_below(count + 1);
	return i < count ? seeds[i] : (uint32_t)random_number();
}

/* A case: bytes of a fill at an offset in the source, once low and once high in the arena. */
struct content {
	const uint8_t *bytes, *front, *back;
	size_t length;
	uint32_t seed_front, seed_back;
	uint16_t sum_front, sum_back;
};

static struct content place(size_t fill, size_t length, size_t offset)
{
	const uint8_t *bytes = pattern(fill, length);
	uint8_t *front = arena_front(&source, offset);
	uint8_t *back = arena_back(&source, length, offset);
	const uint32_t seed_front = some_seed(), seed_back = some_seed();

	memcpy(front, bytes, length);
	memcpy(back, bytes, length);
	now.fill = fill_name(fill);
	return (struct content){
		.bytes = bytes,
		.front = front,
		.back = back,
		.length = length,
		.seed_front = seed_front,
		.seed_back = seed_back,
		.sum_front = reference(bytes, length, seed_front),
		.sum_back = reference(bytes, length, seed_back),
	};
}

/* Copies from the low source to the high destination, and the other way round. */
static void crosswise(const struct content *c, size_t offset)
{
	uint8_t *front = arena_front(&target, offset);
	uint8_t *back = arena_back(&target, c->length, offset);
	EACH_SUBJECT(s) {
		check_copy_csum(s, back, c->front, c->bytes, c->length, c->seed_front,
				c->sum_front);
		check_copy_csum(s, front, c->back, c->bytes, c->length, c->seed_back,
				c->sum_back);
		check_copy(s, back, c->front, c->bytes, c->length);
		check_copy(s, front, c->back, c->bytes, c->length);
	}
}

/* Copies from the low source to the low destination, and from high to high. */
static void alongside(const struct content *c, size_t offset)
{
	uint8_t *front = arena_front(&target, offset);
	uint8_t *back = arena_back(&target, c->length, offset);
	EACH_SUBJECT(s) {
		check_copy_csum(s, front, c->front, c->bytes, c->length, c->seed_front,
				c->sum_front);
		check_copy_csum(s, back, c->back, c->bytes, c->length, c->seed_back, c->sum_back);
		check_copy(s, front, c->front, c->bytes, c->length);
		check_copy(s, back, c->back, c->bytes, c->length);
	}
}

static void sums(const struct content *c)
{
	EACH_SUBJECT(s) {
		check_csum(s, c->front, c->length, c->seed_front, c->sum_front);
		check_csum(s, c->back, c->length, c->seed_back, c->sum_back);
	}
}

static void fills(size_t length, size_t offset)
{
	const uint8_t value = (uint8_t)random_number();
	uint8_t *front = arena_front(&target, offset);
	uint8_t *back = arena_back(&target, length, offset);

	/*
	 * Not memset: on an emulated PowerPC 970, it relies on an instruction to clear 128 bytes
	 * that clears only 32.
	 */
	for (volatile uint8_t *at = filled; at != filled + length; at++)
		*at = value;
	EACH_SUBJECT(s) {
		check_fill(s, front, value, filled, length);
		check_fill(s, back, value, filled, length);
	}
}

static void one_source(size_t fill, size_t length, size_t offset)
{
	const struct content c = place(fill, length, offset);
	sums(&c);
	fills(length, offset);
	crosswise(&c, random_below(LINE));
}

static void clean(void)
{
	EACH_SUBJECT(s)
		check_destination_clean(s);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/*
 * Calls part with arenas that have room for two copies of the longest case: these do not overlap,
 * wherever in a line they begin.
 */
static void with_room_for(size_t longest, void (*part)(const struct extent *extent),
			  const struct extent *extent)
{
	source = arena_new(2 * (longest + LINE));
	target = arena_new(2 * (longest + LINE));
	filled = malloc(longest);
	if (!filled) {
		perror("check: malloc");
		exit(2);
	}
	/*
	 * The source arena is random before the first case, so that a kernel that sums out of
	 * bounds is noticed from the start.
	 */
	fill_bytes(FILL_RANDOM, source.first, source.bytes);
	use_destination(&target);
	part(extent);
	free(filled);
	arena_free(&target);
	arena_free(&source);
}

static void every_length(const struct extent *extent)
{
	for (size_t length = 0; length <= extent->every_length_to; length++) {
		for (size_t fill = 0; fill < fill_count; fill++)
			for (size_t offset = 0; offset < LINE; offset += extent->source_step)
				one_source(fill, length, offset);
		clean();
	}
}

/* Blocks of 16 to 512 bytes and their neighbours, packets, and lengths in between. */
static const size_t pair_lengths[] = {
	0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 95, 96, 97, 127, 128, 129,
	191, 192, 193, 255, 256, 257, 319, 320, 383, 384, 385, 511, 512, 513, 575, 576, 577, 767,
	1023, 1024, 1025, 1460, 1500, 2047, 2048, 2049,
};

static void every_pair(const struct extent *extent)
{
	for (size_t i = 0; i < sizeof pair_lengths / sizeof *pair_lengths; i++) {
		for (size_t fill = 0; fill < fill_count; fill++)
			for (size_t from = 0; from < LINE; from += extent->pair_step) {
				const struct content c = place(fill, pair_lengths[i], from);
				for (size_t to = 0; to < LINE; to += extent->pair_step)
					alongside(&c, to);
			}
		clean();
	}
}

/*
 * Longer than a page; around 64 KiB, where 16-bit counts and lanes wrap; around twice that, where
 * the sum of all ones no longer fits into 32 bits.
 */
static const size_t long_lengths[] = {
	4031, 4095, 4096, 4097, 4223, 8000, 8191, 8192, 8193, 9000, 16383, 16385, 32767, 32769,
	65471, 65535, 65536, 65537, 65601, 131071, 131072, 131073, 131583,
};

static void long_ones(const struct extent *extent)
{
	for (size_t i = 0; i < sizeof long_lengths / sizeof *long_lengths; i++) {
		if (long_lengths[i] > extent->longest)
			break;
		for (size_t fill = 0; fill < fill_count; fill++)
			for (size_t offset = 0; offset < LINE; offset += extent->long_step)
				one_source(fill, long_lengths[i], offset);
		clean();
	}
}

/* Lengths in megabytes, with few contents, for chunks of a sum and nontemporal stores. */
static const size_t megabytes[] = { ((size_t)1 << 20) + 1, ((size_t)1 << 22) - 1,
				    ((size_t)1 << 24) + 33 };

static void megabyte_ones(const struct extent *extent)
{
	for (size_t i = 0; i < sizeof megabytes / sizeof *megabytes; i++) {
		if (megabytes[i] > extent->longest)
			break;
		for (size_t fill = FILL_ONES; fill <= FILL_MOSTLY_ONES; fill++)
			one_source(fill, megabytes[i], random_below(LINE));
		clean();
	}
}

void check_sweep(struct subject *subjects, size_t count, const struct extent *extent)
{
	all = subjects;
	all_count = count;
	with_room_for(extent->every_length_to, every_length, extent);
	with_room_for(2049, every_pair, extent);
	with_room_for(least(extent->longest, 131583), long_ones, extent);
	with_room_for(least(extent->longest, ((size_t)1 << 24) + 33), megabyte_ones, extent);
}
