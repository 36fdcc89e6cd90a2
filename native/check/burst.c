/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks sums of several buffers in one call. Each buffer of a burst has its own arena, and is
 * placed as low or as high in it as its offset allows, so that many buffers are adjacent to an
 * inaccessible page.
 */
#include "check.h"

#include <string.h>

/* Longest buffer: longer than the last length at which a kernel switches methods. */
#define LONGEST 2800

static struct arena arenas[BURST_MAX];

/* The buffers of a burst, their initial sums, and the folded sums expected after the call. */
static struct lr_csum_buffer buffers[BURST_MAX];
static uint32_t seeds[BURST_MAX];
static uint16_t expected[BURST_MAX];

static uint32_t some_seed(void)
{
	static const uint32_t edges[] = { 0, 1, 0xffff, 0x10000, 0xffffffff };
	const size_t i = random_below(2 * sizeof edges / sizeof *edges);
	return i < sizeof edges / sizeof *edges ? edges[i] : (uint32_t)random_number();
}

static void place(size_t i, size_t length, int is_high, size_t offset)
{
	const size_t fill = random_below(fill_count);
	uint8_t *at = is_high ? arena_back(&arenas[i], length, offset) :
				arena_front(&arenas[i], offset);

	memcpy(at, pattern(fill, length), length);
	buffers[i] = (struct lr_csum_buffer){ at, length };
	seeds[i] = some_seed();
	expected[i] = reference(at, length, seeds[i]);
	now.fill = fill_name(fill);
}

static void all_subjects(struct subject *subjects, size_t count, size_t size)
{
	for (struct subject *s = subjects; s < subjects + count; s++)
		check_csum_burst(s, buffers, seeds, expected, size);
}

/*
 * Checks every length, in bursts whose buffers all have this length and begin at consecutive
 * offsets.
 */
static void same_lengths(struct subject *subjects, size_t count, const struct extent *extent)
{
	const size_t size = 16;
	for (size_t length = 0; length <= extent->every_length_to && length <= LONGEST; length++) {
		const size_t step = length <= 600 ? extent->source_step * size : LINE;
		for (size_t offset = 0; offset < LINE; offset += step) {
			for (size_t i = 0; i < size; i++)
				place(i, length, (i + length) % 2, (offset + i) % LINE);
			all_subjects(subjects, count, size);
		}
	}
}

/*
 * Checks bursts of every number of buffers with mixed lengths, up to a limit that one of them has.
 * The limits are one, two and four vectors of every size, the adjacent lengths, and packet lengths.
 */
static void mixed_lengths(struct subject *subjects, size_t count, const struct extent *extent)
{
	static const size_t limits[] = { 1, 8, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 192,
					 254, 255, 256, 257, 512, 1500, LONGEST };
	const size_t repeats = extent->source_step == 1 ? 40 : 2;

	for (size_t l = 0; l < repeats * (sizeof limits / sizeof *limits); l++) {
		const size_t limit = limits[l / repeats];
		for (size_t size = 0; size <= BURST_MAX; size++) {
			const size_t longest = size ? random_below(size) : 0;
			for (size_t i = 0; i < size; i++) {
				const int is_high = (int)random_below(2);
				const size_t length = i == longest ? limit : random_below(limit + 1);
				const size_t adjacent = is_high ? LINE - length % LINE : 0;
				place(i, length, is_high,
				      random_below(2) ? random_below(LINE) : adjacent % LINE);
			}
			all_subjects(subjects, count, size);
		}
	}
}

void check_bursts(struct subject *subjects, size_t count, const struct extent *extent)
{
	for (size_t i = 0; i < BURST_MAX; i++) {
		arenas[i] = arena_new(LONGEST + 2 * LINE);
		fill_bytes(FILL_RANDOM, arenas[i].first, arenas[i].bytes);
	}
	same_lengths(subjects, count, extent);
	mixed_lengths(subjects, count, extent);
	for (size_t i = 0; i < BURST_MAX; i++)
		arena_free(&arenas[i]);
}
