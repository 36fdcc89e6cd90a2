/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The check of copies that survive a fault: memory in which every page can be made to fault, and
 * one copy in it, verified byte by byte. A separate program, since it changes signal handling.
 */
#ifndef LINERATE_CHECK_FAULT_H
#define LINERATE_CHECK_FAULT_H

#include "check.h"

#include <linerate/hosted.h>

/* Number of pages: one before an edge, one after it, and two more for random holes. */
#define PAGES 4

enum { CANNOT = 0, CAN_READ = 1, CAN_WRITE = 3 };

/* The same bytes mapped twice: view for the copies under check, truth for the check itself. */
struct memory {
	uint8_t *view;
	uint8_t *truth;
	size_t page;
	/* For each page of view, CANNOT, CAN_READ or CAN_WRITE. */
	int can[PAGES];
	int file;
};

struct memory memory_new(void);
void memory_free(struct memory *memory);
/* Sets the access to that page of view: CANNOT, CAN_READ or CAN_WRITE. */
void memory_protect(struct memory *memory, size_t page, int can);
/* Truncates the file of both mappings to this many pages: the other pages lose their bytes, and
 * accessing them raises SIGBUS.
 */
void memory_truncate(struct memory *memory, size_t pages);

/* One copy: from source at src_at to destination at dst_at. The destination holds GUARD. */
struct try {
	struct memory *destination, *source;
	size_t dst_at, src_at, bytes;
	uint32_t seed;
};
/*
 * Makes the copy, with or without checksum, verifies all results and both buffers, and restores
 * GUARD.
 */
void check_try(struct tally *tally, const struct try *try, int csum);

/*
 * Returns nonzero if SIGBUS reports the faulting address. If not, prints why that is not checked.
 */
int bus_errors_have_addresses(void);

/* Returns a pseudorandom number; each thread has a state of its own. */
uint64_t random_from(uint64_t *state);

/* fault_edges.c: a fault at every byte; if bus_errors is set, also in truncated files. */
void check_fault_edges(struct tally *tally, int bus_errors);
/* fault_random.c: random copies and random holes, in several threads at once. */
void check_fault_random(struct tally *tally, unsigned long cases);
/* fault_random.c: random copies while other ranges are registered and unregistered concurrently. */
void check_fault_ranges(struct tally *tally, unsigned long cases);
/* fault_signals.c: signals that are passed on to the previously installed actions. */
void check_fault_signals(struct tally *tally);
/* Returns the signal that ended body(which) in a separate process; 0 if it returned. */
int ended_by(int (*body)(int which), int which);
/* fault_handlers.c: handlers other than ours, and the errors that the calls return. */
void check_fault_handlers(struct tally *tally);
/*
 * fault_handlers.c: check_fault_edges() under a handler that knows the fix-up table but no ranges.
 */
void check_fault_embedded(struct tally *tally);
/* fault_speed.c: prints what surviving copies cost on this machine. */
void print_fault_speed(void);
/* fault_huge.c: a fault beyond 4 GiB. */
void check_fault_huge(struct tally *tally);

#endif
