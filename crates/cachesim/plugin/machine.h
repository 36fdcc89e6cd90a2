/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a processor is simulated with: caches, TLBs, page size. A description is a list of items,
 * each a key and numbers:
 *
 *	l1i=SETS:WAYS:LINE:POLICY		l1d=SETS:WAYS:LINE:POLICY:WRITES
 *	l2=SETS:WAYS:LINE:POLICY:CONTENTS	l3=SETS:WAYS:LINE:POLICY:CONTENTS
 *	itlb=SETS:WAYS:POLICY			dtlb=SETS:WAYS:POLICY
 *	tlb2=SETS:WAYS:POLICY			page=BYTES
 *
 * LINE and BYTES are powers of two. l1i, l1d and page are required. Numbers of POLICY, WRITES and
 * CONTENTS: the enumerations below and in array.h.
 */
#ifndef LINERATE_MACHINE_H
#define LINERATE_MACHINE_H

#include "array.h"

/* What a store does in L1D. */
enum writes {
	/* a miss fetches the line */
	ALLOCATE,
	/* a miss continues to the next level, which keeps the line, without a line in L1D */
	AROUND,
	/* as AROUND, and a hit also continues to the next level; not with an L2 of victims */
	THROUGH,
};

/* What a level contains of the levels before it. */
enum contents {
	/* every line that passes through it on its way to L1, until it is evicted */
	ANY,
	/* as ANY, and a line that it evicts is removed from the levels before it */
	INCLUSIVE,
	/* lines that the level before it evicts; a hit moves the line out of it */
	EXCLUSIVE,
	/* lines that the level before it evicts; a hit leaves the line in it */
	VICTIM,
};

enum { LEVELS = 3 };

struct cache {
	uint64_t sets;
	uint32_t ways;
	/* binary logarithm of the line size in bytes */
	uint8_t shift;
	enum policy policy;
	enum contents contents;
};

struct tlb {
	uint64_t sets;
	uint32_t ways;
	enum policy policy;
};

/* A level with no ways does not exist. */
struct machine {
	struct cache l1i;
	/* L1D, L2, L3; an L3 needs an L2 */
	struct cache data[LEVELS];
	enum writes writes;
	struct tlb itlb, dtlb, tlb2;
	uint8_t page_shift;
};

/* Takes one item into the description. Returns NULL, or why it cannot be taken. */
const char *machine_take(struct machine *m, const char *item);

/* Returns NULL if the description is complete and consistent, or what is wrong with it. */
const char *machine_check(const struct machine *m);

#endif
