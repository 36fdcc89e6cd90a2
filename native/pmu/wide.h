/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Shared by all architectures: the integer types, and 64-bit counts from 32-bit registers that
 * wrap.
 *
 * Accesses no register. A count belongs to one thread, or its owner locks it.
 */
#ifndef LINERATE_PMU_WIDE_H
#define LINERATE_PMU_WIDE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A 64-bit count, and the value of the register when it was last read. */
struct lr_pmu_wide {
	uint64_t count;
	uint32_t seen;
};

/* Returns a count of 0 that continues from the current register value. */
static inline struct lr_pmu_wide lr_pmu_wide_from(uint32_t now)
{
	struct lr_pmu_wide wide;

	wide.count = 0;
	wide.seen = now;
	return wide;
}

/*
 * Adds what the register has counted since it was last seen, and returns the count.
 *
 * Let d be the count since then. Registers count modulo 2^32, so now - seen is d modulo 2^32, which
 * is d itself if d < 2^32. Therefore: call this at least once in 2^32 - 1 events, which at 1 GHz is
 * every 4 s for cycles (every 4 minutes with the divider by 64 of ARM). Only the overflow flag
 * shows that a call came too late: see lr_pmu_wide_may_be_short.
 */
static inline uint64_t lr_pmu_wide_advance(struct lr_pmu_wide *wide, uint32_t now)
{
	wide->count += (uint32_t)(now - wide->seen);
	wide->seen = now;
	return wide->count;
}

/*
 * Returns nonzero if a register just read has wrapped once more than lr_pmu_wide_advance would
 * assume: its overflow flag, cleared at the previous read, is set although the register is at or
 * above its previous value. At least one wrap of 2^32 would then be missing; a one-bit flag cannot
 * show how many, and a register that wrapped twice and is below its previous value looks correct.
 * Call it before lr_pmu_wide_advance.
 */
static inline int lr_pmu_wide_may_be_short(const struct lr_pmu_wide *wide, uint32_t now,
					   int overflowed)
{
	return overflowed && now >= wide->seen;
}

/*
 * Returns a count for use with the overflow interrupt; wraps is the number of interrupts so far,
 * counted by the handler. Read wraps, the flag, the register, and wraps again; if the two wraps
 * differ, repeat. A flag that is still set is a wrap whose interrupt has not been taken. If the
 * register is then in its lower half, it was read after that wrap; otherwise, it was read before,
 * because no interrupt is delayed for 2^31 events.
 */
static inline uint64_t lr_pmu_wide_of_wraps(uint32_t wraps, uint32_t now, int overflowed)
{
	const uint32_t pending = overflowed && now < 0x80000000u ? 1u : 0u;

	return ((uint64_t)wraps + pending) << 32 | now;
}

#ifdef __cplusplus
}
#endif
#endif
