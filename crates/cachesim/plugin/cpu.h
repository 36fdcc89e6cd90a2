/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One processor: the caches, TLBs and branch predictor of a machine, and what it counts. Driven by
 * the instructions, data accesses and branches of one thread, in program order.
 *
 * # Rules
 * A data access looks its page up, then each line it touches. A line missing in one level is looked
 * up in the next. Levels are filled by enum contents (machine.h); instructions and data share all
 * levels but the first. The first access to a page looks in the first TLB level, then in the second
 * one, and fills both. There is no prefetcher, no write-back traffic, no page walk in the caches.
 *
 * Conditional branches are predicted by two-bit counters selected by address and recent outcomes
 * (gshare), other indirect ones by their last target, returns by a stack of return addresses.
 * Direct branches are never mispredicted. The sizes are those of PREDICTOR_*, whatever the machine.
 */
#ifndef LINERATE_CPU_H
#define LINERATE_CPU_H

#include "machine.h"

/* What is counted. A miss of a cache is a line; one of a TLB a page. */
enum counter {
	INSTRUCTIONS,
	LOADS,
	STORES,
	L1I_MISSES,
	/* by loads and by stores */
	L1D_LOAD_MISSES,
	L1D_STORE_MISSES,
	/* lookups after a miss of the level before, and stores that L1D does not keep */
	L2_ACCESSES,
	L2_MISSES,
	L3_ACCESSES,
	L3_MISSES,
	/* misses of the first TLB level */
	ITLB_MISSES,
	DTLB_MISSES,
	/* misses of the last TLB level */
	ITLB_WALKS,
	DTLB_WALKS,
	/* lines read from memory, and stores that no level keeps */
	MEMORY_READS,
	MEMORY_WRITES,
	BRANCHES,
	BRANCH_MISSES,
	COUNTERS,
};

enum {
	PREDICTOR_HISTORY = 12,
	PREDICTOR_COUNTERS = 1 << PREDICTOR_HISTORY,
	PREDICTOR_TARGETS = 512,
	PREDICTOR_RETURNS = 16,
};

struct predictor {
	uint8_t counters[PREDICTOR_COUNTERS];
	uint64_t targets[PREDICTOR_TARGETS];
	uint64_t returns[PREDICTOR_RETURNS];
	uint32_t history, depth;
};

enum branch { NO_BRANCH, CONDITIONAL, DIRECT, CALL, INDIRECT, INDIRECT_CALL, RETURN };

struct cpu {
	/* Line and page of the last access, which hit again; NO_BLOCK if there is none. */
	uint64_t line, page, code_line, code_page;
	/* COUNTERS of them, owned by the caller */
	uint64_t *counts;
	struct machine machine;
	struct array l1i, data[LEVELS], itlb, dtlb, tlb2;
	struct predictor predictor;
};

/* Empty caches; false if there is no memory. */
bool cpu_init(struct cpu *c, const struct machine *m, uint64_t *counts);
void cpu_free(struct cpu *c);

/* Looks up lines first..=last of L1I. Counts no instruction. */
void cpu_fetch_lines(struct cpu *c, uint64_t first, uint64_t last);

/* The same for code at the addresses first..=last. */
static inline void cpu_fetch(struct cpu *c, uint64_t first, uint64_t last)
{
	first >>= c->machine.l1i.shift;
	last >>= c->machine.l1i.shift;
	if (first != c->code_line || last != first)
		cpu_fetch_lines(c, first, last);
}

/* Looks up lines first..=last of L1D: one data access without counting it. */
void cpu_touch_lines(struct cpu *c, uint64_t first, uint64_t last, bool is_store);

/* The same for `bytes`, at least 1, at an address. */
static inline void cpu_touch(struct cpu *c, uint64_t address, unsigned bytes, bool is_store)
{
	const uint8_t shift = c->machine.data[0].shift;
	const uint64_t first = address >> shift, last = (address + bytes - 1) >> shift;

	/* The line used last hits, and nothing changes unless a store continues to the next level. */
	if (first != c->line || last != first || (is_store && c->machine.writes == THROUGH))
		cpu_touch_lines(c, first, last, is_store);
}

static inline void cpu_load(struct cpu *c, uint64_t address, unsigned bytes)
{
	c->counts[LOADS]++;
	cpu_touch(c, address, bytes, false);
}

static inline void cpu_store(struct cpu *c, uint64_t address, unsigned bytes)
{
	c->counts[STORES]++;
	cpu_touch(c, address, bytes, true);
}

/*
 * A branch at `address` that went to `target`. `after` is the address of the instruction after it,
 * where a conditional branch goes if it is not taken, and to where a call returns.
 */
void cpu_branch(struct cpu *c, enum branch kind, uint64_t address, uint64_t after, uint64_t target);

#endif
