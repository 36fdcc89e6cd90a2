/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Cost of surviving faults: surviving copies compared with the plain scalar ones, interleaved, on
 * warm data. Times are printed, not checked.
 */
#define _GNU_SOURCE
#include "fault.h"

#include <stdio.h>
#include <time.h>

#define ROUNDS 400
#define CALLS 100

static uint8_t from[9000 + 2 * LINE], to[9000 + 2 * LINE];
static const struct lr_variant *sibling;

static uint32_t try_copy_csum(void *dst, const void *src, size_t bytes, uint32_t sum)
{
	return lr_try_copy_csum(dst, src, bytes, sum).sum;
}

static uint32_t try_copy(void *dst, const void *src, size_t bytes, uint32_t sum)
{
	return sum + (uint32_t)lr_try_copy(dst, src, bytes).residue;
}

static uint32_t copy(void *dst, const void *src, size_t bytes, uint32_t sum)
{
	sibling->copy(dst, src, bytes);
	return sum;
}

/*
 * Returns the time per call in nanoseconds. Each call takes the sum of the previous one, so calls
 * do not overlap.
 */
static double time_of(uint32_t (*call)(void *, const void *, size_t, uint32_t), size_t bytes,
		      size_t dst_at, size_t src_at)
{
	struct timespec begin, end;
	uint32_t sum = 0;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < CALLS; i++)
		sum = call(to + dst_at, from + src_at, bytes, sum);
	__asm__ volatile("" : : "r"(sum));
	clock_gettime(CLOCK_MONOTONIC, &end);
	return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
	       CALLS;
}

/* Prints the shortest time of each of the four routines, out of many rounds that run each once. */
static void print_row(size_t bytes, size_t dst_at, size_t src_at)
{
	uint32_t (*const calls[])(void *, const void *, size_t, uint32_t) = {
		try_copy_csum, sibling->copy_csum_partial, try_copy, copy
	};
	double best[4];
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < 4; i++) {
			const double ns = time_of(calls[i], bytes, dst_at, src_at);
			if (!round || ns < best[i])
				best[i] = ns;
		}
	printf("%6zu %4zu %4zu %9.1f %9.1f %6.2f %9.1f %9.1f %6.2f\n", bytes, src_at, dst_at,
	       best[0], best[1], best[0] / best[1], best[2], best[3], best[2] / best[3]);
}

void print_fault_speed(void)
{
	static const size_t lengths[] = { 20, 64, 576, 1460, 8000 };
	static const size_t offsets[][2] = { { 0, 0 }, { 2, 14 }, { 1, 0 } };
	sibling = lr_variant_find("adc");
	if (!sibling || !sibling->compiled)
		sibling = lr_variant_find("portable");
	printf("nanoseconds, compared with the variant %s; offsets of source and destination\n"
	       "bytes  src  dst  try_csum copy_csum  ratio  try_copy      copy  ratio\n",
	       sibling->name);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		for (size_t j = 0; j < sizeof offsets / sizeof *offsets; j++)
			print_row(lengths[i], offsets[j][0], offsets[j][1]);
}
