/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The contents of buffers: the same in every run, so that a failure can be repeated. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t random_number(void)
{
	static uint64_t state = 1;
	uint64_t z = state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

size_t random_below(size_t bound)
{
	return (size_t)(random_number() % bound);
}

static uint8_t any(size_t index)
{
	(void)index;
	return (uint8_t)random_number();
}

/* All ones, so that every addition carries. */
static uint8_t ones(size_t index)
{
	(void)index;
	return 0xff;
}

/* Carries that occur late and propagate far: sums just below and just above a power of two. */
static uint8_t mostly_ones(size_t index)
{
	(void)index;
	const uint64_t r = random_number();
	return r & 31 ? 0xff : (uint8_t)(r >> 8);
}

/* Words of 0 and 1 in one byte order, of 0 and 256 in the other: hardly any addition carries. */
static uint8_t no_carry(size_t index)
{
	return index & 1 ? (uint8_t)(random_number() & 1) : 0;
}

/* Edges of signed and saturating arithmetic: 0x00, 0x7f, 0x80 and 0xff only. */
static uint8_t extremes(size_t index)
{
	static const uint8_t bytes[] = { 0x00, 0x7f, 0x80, 0xff };
	(void)index;
	return bytes[random_number() >> 62];
}

static uint8_t zero(size_t index)
{
	(void)index;
	return 0;
}

static const struct {
	const char *name;
	uint8_t (*byte)(size_t index);
} fills[] = {
	[FILL_RANDOM] = { "random", any },
	[FILL_ONES] = { "ones", ones },
	[FILL_MOSTLY_ONES] = { "mostly ones", mostly_ones },
	{ "no carry", no_carry },
	{ "extremes", extremes },
	{ "zero", zero },
};
/* Minimum length of a pattern: long enough that few cases of packet length see the same bytes. */
#define PATTERN_MIN ((size_t)1 << 18)

#define FILLS (sizeof fills / sizeof *fills)
const size_t fill_count = FILLS;

const char *fill_name(size_t fill)
{
	return fills[fill].name;
}

void fill_bytes(size_t fill, uint8_t *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = fills[fill].byte(i);
}

/*
 * The pattern of each fill: at least twice as long as the longest case so far, so that cases
 * differ.
 */
static struct row {
	uint8_t *bytes;
	size_t length;
} rows[FILLS];

static void grow(struct row *row, size_t fill, size_t length)
{
	free(row->bytes);
	row->bytes = malloc(length);
	if (!row->bytes) {
		perror("check: malloc");
		exit(2);
	}
	row->length = length;
	fill_bytes(fill, row->bytes, length);
}

const uint8_t *pattern(size_t fill, size_t bytes)
{
	struct row *row = &rows[fill];
	if (row->length < 2 * bytes || !row->length)
		grow(row, fill, 2 * bytes < PATTERN_MIN ? PATTERN_MIN : 2 * bytes);
	return row->bytes + random_below(row->length - bytes + 1);
}
