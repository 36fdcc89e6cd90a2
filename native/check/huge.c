/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Lengths above 4 GiB, where a count or a lane of 32 bits wraps, in a few megabytes of memory.
 *
 * A ring is a file of PERIOD bytes mapped repeatedly at adjacent addresses. A source in a ring
 * repeats with the period; so does a destination at any offset, and every lap writes the same bytes
 * to the same places. That hides errors in a single lap; some stretches of the destination,
 * including its ends, therefore have separate memory: windows.
 */
#define _GNU_SOURCE
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Not a power of two, so that a pointer that fails to advance by a chunk reads different bytes. 64
 * KiB is the largest page size.
 */
#define PERIOD ((size_t)33 << 16)
#define WINDOW ((size_t)1 << 16)
/* Distance between windows. 1 GiB, where a chunk may end, is a multiple of it. */
#define WINDOW_STRIDE ((size_t)1 << 28)

#if SIZE_MAX > UINT32_MAX

/* Length of every case. Truncated to 32 bits, it is 59. */
#define BYTES (((size_t)1 << 32) + 59)
/* Size of a ring. The bytes of a case are at its end. */
#define RING ((BYTES / PERIOD + 1) * PERIOD)

struct ring {
	uint8_t *first;
	/* A single mapping of the file. */
	uint8_t *lap;
};

static void *must(void *mapped)
{
	if (mapped == MAP_FAILED) {
		perror("check: mmap");
		exit(2);
	}
	return mapped;
}

/* Maps a ring between inaccessible pages. */
static struct ring ring_new(int protection)
{
	const int file = memfd_create("lap", 0);
	if (file < 0 || ftruncate(file, (off_t)PERIOD)) {
		perror("check: memfd_create");
		exit(2);
	}
	uint8_t *outer = must(mmap(0, RING + 2 * PERIOD, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
	for (size_t at = PERIOD; at <= RING; at += PERIOD)
		must(mmap(outer + at, PERIOD, protection, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
			  file, 0));
	uint8_t *lap = must(mmap(0, PERIOD, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
	close(file);
	return (struct ring){ outer + PERIOD, lap };
}

static struct ring source, target;
static uint8_t *src, *dst;
/* The PERIOD bytes that src repeats, from its first byte on. */
static uint8_t content[PERIOD];

/* Windows are at the start of the destination, at every stride of the ring, and at the end. */
#define WINDOWS ((RING - WINDOW) / WINDOW_STRIDE + 2)

static uint8_t *window(size_t i)
{
	if (i == 0)
		return dst - (size_t)(dst - target.first) % WINDOW;
	return target.first + (i + 1 < WINDOWS ? i * WINDOW_STRIDE : RING - WINDOW);
}

static void set_up(void)
{
	source = ring_new(PROT_READ);
	target = ring_new(PROT_READ | PROT_WRITE);
	/* The source ends at the inaccessible page, the destination two bytes before it. */
	src = source.first + (RING - BYTES);
	dst = target.first + (RING - BYTES - 2);
	for (size_t i = 0; i < WINDOWS; i++)
		must(mmap(window(i), WINDOW, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	fill_bytes(FILL_MOSTLY_ONES, source.lap, PERIOD);
	memcpy(content, src, PERIOD);
	now.fill = fill_name(FILL_MOSTLY_ONES);
}

static void clear_target(void)
{
	memset(target.lap, GUARD, PERIOD);
	for (size_t i = 0; i < WINDOWS; i++)
		memset(window(i), GUARD, WINDOW);
}

/*
 * Returns the byte expected at that address after the call: for a fill, value; for a copy, where
 * value is -1, the source byte.
 */
static uint8_t wanted(const uint8_t *at, int value)
{
	if (at < dst || at >= dst + BYTES)
		return GUARD;
	return value < 0 ? content[(size_t)(at - dst) % PERIOD] : (uint8_t)value;
}

static int holds(struct subject *s, const char *kernel, const uint8_t *first, size_t bytes,
		 int value)
{
	for (const uint8_t *at = first; at < first + bytes; at++) {
		if (*at == wanted(at, value))
			continue;
		fail(&s->tally,
		     "%s %s: %zu bytes: byte %td of the destination: expected 0x%02x, got 0x%02x",
		     s->tally.name, kernel, BYTES, at - dst, wanted(at, value), *at);
		return 0;
	}
	return 1;
}

/* Checks all windows, and one lap that contains none. */
static void judge_target(struct subject *s, const char *kernel, int value)
{
	int held = holds(s, kernel, target.first + WINDOW_STRIDE - PERIOD, PERIOD, value);
	for (size_t i = 0; held && i < WINDOWS; i++)
		held = holds(s, kernel, window(i), WINDOW, value);
	clear_target();
}

/*
 * Returns the sum of whole laps and a remainder, computed with the reference. The period is even,
 * so every lap begins at an even offset.
 */
static uint16_t expected_sum(uint32_t seed)
{
	const uint64_t lap = reference(content, PERIOD, 0);
	const uint64_t rest = reference(content, BYTES % PERIOD, 0);
	const uint64_t sum = (seed + BYTES / PERIOD * lap + rest) % 65535;
	return (uint16_t)(sum ? sum : 65535);
}

static void judge_sum(struct subject *s, const char *kernel, uint32_t sum, uint32_t seed)
{
	const uint16_t expected = expected_sum(seed);
	s->tally.cases++;
	if (lr_csum_fold(sum) != expected)
		fail(&s->tally, "%s %s: %zu bytes of %s, seed 0x%08x: expected 0x%04x, got 0x%04x",
		     s->tally.name, kernel, BYTES, now.fill, (unsigned)seed, expected,
		     lr_csum_fold(sum));
}

static void one_subject(struct subject *s)
{
	const uint32_t seed = 0xffffffff;
	now = (struct call){ s->tally.name, "csum_partial", now.fill, 0, src, BYTES, seed };
	judge_sum(s, now.kernel, s->kernels.csum_partial(src, BYTES, seed), seed);

	const struct lr_csum_buffer buffers[4] = { { src, 0 }, { src, 0 }, { src, BYTES } };
	uint32_t sums[4] = { 0, 0, seed, 0 };
	now.kernel = "csum_burst";
	s->kernels.csum_burst(buffers, sums, 4);
	judge_sum(s, now.kernel, sums[2], seed);

	now.kernel = "copy_csum_partial";
	now.dst = dst;
	judge_sum(s, now.kernel, s->kernels.copy_csum_partial(dst, src, BYTES, 1), 1);
	judge_target(s, now.kernel, -1);

	now.kernel = "copy";
	s->tally.cases += 2;
	s->kernels.copy(dst, src, BYTES);
	judge_target(s, now.kernel, -1);

	now.kernel = "fill";
	now.src = 0;
	now.seed = 0x5a;
	s->kernels.fill(dst, 0x5a, BYTES);
	judge_target(s, now.kernel, 0x5a);
}

void check_huge(struct subject *subjects, size_t count)
{
	set_up();
	clear_target();
	for (struct subject *s = subjects; s < subjects + count; s++)
		one_subject(s);
}

#else

void check_huge(struct subject *subjects, size_t count)
{
	(void)subjects, (void)count;
	printf("SKIP: no length above 4 GiB: a size_t has 32 bits here\n");
}

#endif
