/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A fault beyond 4 GiB, where a count of 32 bits wraps: source and destination are files of a few
 * megabytes mapped again and again, side by side.
 */
#define _GNU_SOURCE
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if SIZE_MAX > UINT32_MAX

/* Not a power of two, and a multiple of the largest page size, 64 KiB. */
#define PERIOD ((size_t)33 << 16)
#define LAPS (((size_t)1 << 32) / PERIOD + 2)

/*
 * Maps the file again and again, followed by inaccessible memory; it is written through the first
 * mapping.
 */
static uint8_t *ring_new(void)
{
	const int file = memfd_create("ring", 0);
	uint8_t *ring = mmap(0, (LAPS + 1) * PERIOD, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (file < 0 || ftruncate(file, (off_t)PERIOD) || ring == MAP_FAILED) {
		perror("check: memfd_create, mmap");
		exit(2);
	}
	for (size_t lap = 0; lap < LAPS; lap++)
		if (mmap(ring + lap * PERIOD, PERIOD, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
			perror("check: mmap");
			exit(2);
		}
	close(file);
	return ring;
}

/*
 * Returns the sum of whole periods and a remainder. The period is even, so every lap begins at an
 * even offset.
 */
static uint16_t expected_sum(const uint8_t *src, size_t bytes)
{
	const uint64_t lap = reference(src, PERIOD, 0), rest = reference(src, bytes % PERIOD, 0);
	const uint64_t sum = (bytes / PERIOD * lap + rest) % 65535;
	return (uint16_t)(sum ? sum : 65535);
}

void check_fault_huge(struct tally *tally)
{
	const size_t all = LAPS * PERIOD, from = 5, can = all - from, asked = can + 1000;
	uint8_t *source = ring_new(), *target = ring_new();
	fill_bytes(FILL_MOSTLY_ONES, source, PERIOD);
	lr_fault_register(source, all + PERIOD);
	lr_fault_register(target, all + PERIOD);

	const struct lr_tried read = lr_try_copy_csum(target, source + from, asked, 0);
	expect(tally, read.residue == 1000 && read.side == LR_FAULT_SOURCE,
	       "%zu bytes of source, %zu there: residue %zu, side %u", asked, can, read.residue,
	       (unsigned)read.side);
	expect(tally, lr_csum_fold(read.sum) == expected_sum(source + from, can),
	       "%zu bytes of %zu copied: sum 0x%x", can, asked, lr_csum_fold(read.sum));
	/* Every lap of target writes the same memory: the last one remains. */
	expect(tally, !memcmp(target + can - PERIOD, source + all - PERIOD, PERIOD),
	       "%zu bytes of %zu copied: the last differ", can, asked);

	const struct lr_tried written = lr_try_copy(target + from, source, all);
	expect(tally, written.residue == from && written.side == LR_FAULT_DESTINATION,
	       "%zu bytes of destination, %zu there: residue %zu, side %u", all, can,
	       written.residue, (unsigned)written.side);
	lr_fault_unregister(source, all + PERIOD);
	lr_fault_unregister(target, all + PERIOD);
	munmap(source, all + PERIOD);
	munmap(target, all + PERIOD);
}

#else

void check_fault_huge(struct tally *tally)
{
	(void)tally;
	printf("SKIP: no fault beyond 4 GiB: a size_t has 32 bits here\n");
}

#endif
