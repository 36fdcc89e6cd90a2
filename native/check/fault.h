/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The check of copies that survive a fault: memory in which every page can be made to fault, and
 * one copy in it, verified byte by byte. A separate program, since it changes signal handling.
 */
#ifndef LINERATE_CHECK_FAULT_H
#define LINERATE_CHECK_FAULT_H

#include "check.h"

#include <linerate/hosted.h>

/* A page for what is before an edge, one for what is behind it, and two for random holes. */
#define PAGES 4

enum { CANNOT = 0, CAN_READ = 1, CAN_WRITE = 3 };

/* The same bytes mapped twice: for the copies, and for the check. */
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
/* Access of copies to that page. */
void memory_protect(struct memory *memory, size_t page, int can);
/*
 * Truncates the file behind both to this many pages: access to others is a SIGBUS, and they lose
 * their bytes.
 */
void memory_truncate(struct memory *memory, size_t pages);

/* One copy: from source at src_at to destination at dst_at. The destination holds GUARD. */
struct try {
	struct memory *destination, *source;
	size_t dst_at, src_at, bytes;
	uint32_t seed;
};
/* Makes it, with checksum or without, judges all there is to judge, and puts GUARD back. */
void check_try(struct tally *tally, const struct try *try, int csum);

/* Whether a bus error says where it was. If not, prints why that is not checked. */
int bus_errors_have_addresses(void);

/* Numbers that only look random; of one thread. */
uint64_t random_from(uint64_t *state);

/*
 * fault_edges.c: a fault at every byte; with bus errors, of files that were truncated, or
 * without.
 */
void check_fault_edges(struct tally *tally, int bus_errors);
/* fault_random.c: random copies and random holes, in several threads at once. */
void check_fault_random(struct tally *tally, unsigned long cases);
/* The same while ranges come and go. */
void check_fault_ranges(struct tally *tally, unsigned long cases);
/* fault_signals.c: what reaches the actions that were there before. */
void check_fault_signals(struct tally *tally);
/* The signal that ended body(which) in a separate process; 0 if it returned. */
int ended_by(int (*body)(int which), int which);
/* fault_handlers.c: other handlers than ours, and what the calls refuse. */
void check_fault_handlers(struct tally *tally);
/* The edges again, under a handler that knows the fix-up table but no ranges. */
void check_fault_embedded(struct tally *tally);
/* fault_speed.c: what surviving costs here. */
void print_fault_speed(void);
/* fault_huge.c: a fault beyond 4 GiB. */
void check_fault_huge(struct tally *tally);

#endif
