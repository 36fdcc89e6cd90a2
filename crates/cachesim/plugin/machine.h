/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The simulated machine: caches, TLBs and page size. Its description is a list of items, each of
 * which is a key with numbers:
 *
 *	l1i=SETS:WAYS:LINE:POLICY		l1d=SETS:WAYS:LINE:POLICY:WRITES
 *	l2=SETS:WAYS:LINE:POLICY:CONTENTS	l3=SETS:WAYS:LINE:POLICY:CONTENTS
 *	itlb=SETS:WAYS:POLICY			dtlb=SETS:WAYS:POLICY
 *	tlb2=SETS:WAYS:POLICY			page=BYTES
 *
 * LINE and BYTES are powers of two. l1i, l1d and page are required. POLICY, WRITES and CONTENTS are
 * the numbers of the enumerators below and in array.h.
 */
#ifndef LINERATE_MACHINE_H
#define LINERATE_MACHINE_H

#include "array.h"

/* How L1D handles stores. */
enum writes {
	/* write-allocate: a miss fetches the line */
	ALLOCATE,
	/* no-write-allocate: a miss goes to the next level, which keeps the line; L1D does not */
	AROUND,
	/*
	 * write-through: as AROUND, but a hit also goes to the next level; not with EXCLUSIVE or
	 * VICTIM L2
	 */
	THROUGH,
};

/* Which lines a level contains, relative to the levels closer to the core. */
enum contents {
	/* every line that passes through the level on its way to L1, until the line is evicted */
	ANY,
	/* like ANY, but an evicted line is also removed from the levels closer to the core */
	INCLUSIVE,
	/* lines evicted by the previous level; a hit removes the line from this level */
	EXCLUSIVE,
	/* lines evicted by the previous level; a hit leaves the line in this level */
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

/* A cache or TLB with 0 ways does not exist. */
struct machine {
	struct cache l1i;
	/* L1D, L2, L3; an L3 requires an L2 */
	struct cache data[LEVELS];
	enum writes writes;
	struct tlb itlb, dtlb, tlb2;
	uint8_t page_shift;
};

/* Adds an item to the description. Returns NULL on success, otherwise an error message. */
const char *machine_take(struct machine *m, const char *item);

/*
 * Checks that the description is complete and consistent. Returns NULL if so, otherwise the error.
 */
const char *machine_check(const struct machine *m);

#endif
