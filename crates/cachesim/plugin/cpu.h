/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One simulated processor: its caches, TLBs, branch predictor and event counts. Driven by the
 * instructions, data accesses and branches of one thread, in program order.
 *
 * # Rules
 * A data access looks up its page, then each line that it touches. A line that misses in one level
 * is looked up in the next. How a level is filled depends on its enum contents (machine.h).
 * Instructions and data share all levels except the first. A page is looked up in the first-level
 * TLB and, on a miss, in the second-level TLB; a page walk fills both. There is no prefetcher, no
 * write-back traffic, and page walks do not access the caches.
 *
 * Conditional branches are predicted by two-bit counters selected by address and recent outcomes
 * (gshare), indirect branches by their last target, returns by a return stack. Direct branches are
 * never mispredicted. The sizes are PREDICTOR_*, regardless of the machine.
 */
#ifndef LINERATE_CPU_H
#define LINERATE_CPU_H

#include "machine.h"

/* Counters. Cache misses are counted per line, TLB misses per page. */
enum counter {
	INSTRUCTIONS,
	LOADS,
	STORES,
	L1I_MISSES,
	/* L1D misses, by loads and by stores */
	L1D_LOAD_MISSES,
	L1D_STORE_MISSES,
	/* L2 lookups, after a miss in L1 or by a store that L1D does not keep */
	L2_ACCESSES,
	L2_MISSES,
	L3_ACCESSES,
	L3_MISSES,
	/* misses in the first-level TLBs */
	ITLB_MISSES,
	DTLB_MISSES,
	/* misses in the last TLB level, each of which causes a page walk */
	ITLB_WALKS,
	DTLB_WALKS,
	/* lines read from memory, and stores that no cache level keeps */
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
	/*
	 * Lines and pages of the last data access and of the last instruction fetch: accessing them
	 * again is a hit. NO_BLOCK if there is none.
	 */
	uint64_t line, page, code_line, code_page;
	/* Array of COUNTERS counts, owned by the caller */
	uint64_t *counts;
	struct machine machine;
	struct array l1i, data[LEVELS], itlb, dtlb, tlb2;
	struct predictor predictor;
};

/* Initializes a processor with empty caches. Returns false if out of memory. */
bool cpu_init(struct cpu *c, const struct machine *m, uint64_t *counts);
void cpu_free(struct cpu *c);

/* Looks up lines first..=last in L1I. Does not count an instruction. */
void cpu_fetch_lines(struct cpu *c, uint64_t first, uint64_t last);

/* Like cpu_fetch_lines(), for the code at addresses first..=last. */
static inline void cpu_fetch(struct cpu *c, uint64_t first, uint64_t last)
{
	first >>= c->machine.l1i.shift;
	last >>= c->machine.l1i.shift;
	if (first != c->code_line || last != first)
		cpu_fetch_lines(c, first, last);
}

/* Looks up lines first..=last in L1D, as one data access. Does not count a load or store. */
void cpu_touch_lines(struct cpu *c, uint64_t first, uint64_t last, bool is_store);

/* Like cpu_touch_lines(), for the `bytes` bytes (at least 1) at an address. */
static inline void cpu_touch(struct cpu *c, uint64_t address, unsigned bytes, bool is_store)
{
	const uint8_t shift = c->machine.data[0].shift;
	const uint64_t first = address >> shift, last = (address + bytes - 1) >> shift;

	/*
	 * The most recently used line hits, and its state does not change unless a store continues
	 * to the next level.
	 */
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
 * Counts and predicts a branch from `address` to `target`. `after` is the address of the next
 * instruction: the target of a conditional branch that is not taken, and the return address of a
 * call.
 */
void cpu_branch(struct cpu *c, enum branch kind, uint64_t address, uint64_t after, uint64_t target);

#endif
