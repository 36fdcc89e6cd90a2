/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the counters of all architectures here have in common: the integer types, and counts of 64
 * bits from registers of 32 that wrap.
 *
 * Knows no register. Whoever keeps a count keeps it for one thread, or guards it.
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

/* A count of 64 bits and the register as it was when last seen. */
struct lr_pmu_wide {
	uint64_t count;
	uint32_t seen;
};

/* A count of 0 that goes on from where the register stands. */
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
 * Let d be what was counted since. Registers hold what they counted modulo 2^32, so now - seen is
 * d modulo 2^32, which is d itself if d < 2^32. Hence: call this at least once in 2^32 - 1 events,
 * which at 1 GHz is every 4 s for cycles (every 4 minutes with the divider by 64 of ARM). Nothing
 * tells that a call came too late but the overflow flag: see lr_pmu_wide_may_be_short.
 */
static inline uint64_t lr_pmu_wide_advance(struct lr_pmu_wide *wide, uint32_t now)
{
	wide->count += (uint32_t)(now - wide->seen);
	wide->seen = now;
	return wide->count;
}

/*
 * Whether a register that has now been read wrapped a whole turn more than lr_pmu_wide_advance is
 * about to assume: its overflow flag, cleared when it was last seen, is set though the register
 * stands at or above where it was. That is at least one turn of 2^32 that would be missing; how
 * many, no flag of one bit can tell, and a register that wrapped a second time and stands below
 * where it was looks as if all were well. Call it before lr_pmu_wide_advance.
 */
static inline int lr_pmu_wide_may_be_short(const struct lr_pmu_wide *wide, uint32_t now,
					   int overflowed)
{
	return overflowed && now >= wide->seen;
}

/*
 * For whoever has the overflow interrupt: wraps is the number of interrupts so far, the handler's
 * own count. Read wraps, the flag, the register, and wraps again; if the two wraps differ, repeat.
 * A flag that is still set is a wrap whose interrupt has not been taken; if the register is then in
 * its lower half it was read after that wrap, and otherwise before, for no interrupt stays away for
 * 2^31 events.
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
