/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The counters of AArch64 (PMUv3: ARMv8-A and later): a 64-bit cycle counter and up to 31 32-bit
 * event counters. For bare metal at EL1, for a Linux module, and for a user program wherever
 * PMUSERENR_EL0 permits it; elsewhere each access by a user program traps (SIGILL in Linux).
 *
 * Registers and bits are those of the Arm Architecture Reference Manual for A-profile (DDI 0487),
 * chapter on the Performance Monitors Extension. Not covered: control of counting by EL2 and EL3,
 * 64-bit event counters (PMUv3p5), memory-mapped access (apb.h), and sharing of the counters: each
 * CPU has its own, so pin the counting thread to one CPU and keep others off it.
 */
#ifndef LINERATE_PMU_AARCH64_H
#define LINERATE_PMU_AARCH64_H

#include "wide.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The registers: R read-write, O read-only, W write-only. */
#define LR_AARCH64_REGISTERS(R, O, W) \
	R(pmcr_el0)       /* control: the LR_AARCH64_PMCR_ bits */ \
	R(pmcntenset_el0) /* write 1 to enable a counter; reads as the enabled counters */ \
	R(pmcntenclr_el0) /* write 1 to disable a counter */ \
	R(pmovsclr_el0)   /* overflow flags: 1 if a counter has wrapped; write 1 to clear */ \
	R(pmovsset_el0)   /* write 1 to set overflow flags */ \
	W(pmswinc_el0)    /* write 1 to increment counters that count event 0 */ \
	R(pmselr_el0)     /* selects the counter that the PMX registers access */ \
	O(pmceid0_el0)    /* implemented events 0 to 31; upper half: 0x4000 to 0x401f */ \
	O(pmceid1_el0)    /* implemented events 32 to 63 */ \
	R(pmccntr_el0)    /* the cycle counter, 64 bits */ \
	R(pmccfiltr_el0)  /* filters of the cycle counter */ \
	R(pmxevtyper_el0) /* event and filters of the selected counter */ \
	R(pmxevcntr_el0)  /* the selected event counter */ \
	R(pmuserenr_el0)  /* user access: the LR_AARCH64_USER_ bits; writable at EL1 only */ \
	R(pmintenset_el1) /* write 1 to enable an overflow interrupt; reads as those enabled */ \
	R(pmintenclr_el1) /* write 1 to disable an overflow interrupt */

/* All possible numbers of event counters. */
#define LR_AARCH64_EVENT_COUNTERS(C) \
	C(0) C(1) C(2) C(3) C(4) C(5) C(6) C(7) C(8) C(9) C(10) C(11) C(12) C(13) C(14) C(15) \
	C(16) C(17) C(18) C(19) C(20) C(21) C(22) C(23) C(24) C(25) C(26) C(27) C(28) C(29) C(30)

#define LR_AARCH64_READER(name) \
	static inline uint64_t lr_aarch64_read_##name(void) \
	{ \
		uint64_t value; \
		__asm__ __volatile__("mrs %0, " #name : "=r"(value) : : "memory"); \
		return value; \
	}
#define LR_AARCH64_WRITER(name) \
	static inline void lr_aarch64_write_##name(uint64_t value) \
	{ \
		__asm__ __volatile__("msr " #name ", %0" : : "r"(value) : "memory"); \
	}
#define LR_AARCH64_BOTH(name) LR_AARCH64_READER(name) LR_AARCH64_WRITER(name)
#define LR_AARCH64_EVENT(n) LR_AARCH64_BOTH(pmevcntr##n##_el0) LR_AARCH64_BOTH(pmevtyper##n##_el0)

/* lr_aarch64_read_pmcr_el0() and so on: one instruction each, never moved or optimized away. */
LR_AARCH64_REGISTERS(LR_AARCH64_BOTH, LR_AARCH64_READER, LR_AARCH64_WRITER)
/* lr_aarch64_read_pmevcntr0_el0(), lr_aarch64_write_pmevtyper0_el0() and so on. */
LR_AARCH64_EVENT_COUNTERS(LR_AARCH64_EVENT)

#undef LR_AARCH64_READER
#undef LR_AARCH64_WRITER
#undef LR_AARCH64_BOTH
#undef LR_AARCH64_EVENT

#define LR_AARCH64_PMCR_ENABLE 0x01u       /* E: enables all counters */
#define LR_AARCH64_PMCR_RESET_EVENTS 0x02u /* P: write 1 to reset all event counters to 0 */
#define LR_AARCH64_PMCR_RESET_CYCLES 0x04u /* C: write 1 to reset the cycle counter to 0 */
#define LR_AARCH64_PMCR_DIVIDE 0x08u       /* D: counts every 64th cycle, unless LC is 1 */
#define LR_AARCH64_PMCR_EXPORT 0x10u       /* X: exports events to the trace unit */
#define LR_AARCH64_PMCR_LONG_CYCLES 0x40u  /* LC: the cycle counter overflows at 64 bits */
#define LR_AARCH64_PMCR_COUNTERS 0xf800u   /* N: number of event counters */
#define LR_AARCH64_PMCR_COUNTERS_SHIFT 11

/* The cycle counter in masks, where event counter n is bit n, and as a value of PMSELR. */
#define LR_AARCH64_CYCLES 0x80000000u
#define LR_AARCH64_SELECT_CYCLES 31u

/* Filters, to be ORed with an event or written to PMCCFILTR: what not to count. */
#define LR_AARCH64_NOT_KERNEL 0x80000000u /* P: not at EL1 */
#define LR_AARCH64_NOT_USER 0x40000000u   /* U: not at EL0 */

#define LR_AARCH64_USER_ENABLE 0x1u    /* EN: all but PMUSERENR and the interrupt registers */
#define LR_AARCH64_USER_INCREMENT 0x2u /* SW: writes of PMSWINC */
#define LR_AARCH64_USER_CYCLES 0x4u    /* CR: reads of PMCCNTR */
#define LR_AARCH64_USER_EVENTS 0x8u    /* ER: reads of the event counters */

/* Makes earlier writes to these registers take effect for all later instructions. */
static inline void lr_aarch64_barrier(void)
{
	__asm__ __volatile__("isb" : : : "memory");
}

/* Returns the number of event counters of this core. */
static inline uint32_t lr_aarch64_counters(void)
{
	return (uint32_t)(lr_aarch64_read_pmcr_el0() & LR_AARCH64_PMCR_COUNTERS) >>
	       LR_AARCH64_PMCR_COUNTERS_SHIFT;
}

/*
 * Stops all counters and sets them to 0, clears all flags, disables all overflow interrupts, and
 * enables counting in general, with a 64-bit cycle counter.
 */
static inline void lr_aarch64_reset(void)
{
	lr_aarch64_write_pmcntenclr_el0(0xffffffffu);
	lr_aarch64_write_pmintenclr_el1(0xffffffffu);
	lr_aarch64_write_pmovsclr_el0(0xffffffffu);
	lr_aarch64_write_pmcr_el0(LR_AARCH64_PMCR_ENABLE | LR_AARCH64_PMCR_RESET_EVENTS |
				  LR_AARCH64_PMCR_RESET_CYCLES | LR_AARCH64_PMCR_LONG_CYCLES);
	lr_aarch64_barrier();
}

/*
 * Makes event counter n count this event ORed with filters; with LR_AARCH64_SELECT_CYCLES for n,
 * sets the filters of the cycle counter. n must otherwise be below lr_aarch64_counters(), and the
 * counter must be stopped.
 */
static inline void lr_aarch64_select(uint32_t n, uint32_t event)
{
	lr_aarch64_write_pmselr_el0(n);
	lr_aarch64_barrier();
	lr_aarch64_write_pmxevtyper_el0(event);
	lr_aarch64_barrier();
}

/* Starts the counters in mask. */
static inline void lr_aarch64_start(uint32_t mask)
{
	lr_aarch64_write_pmcntenset_el0(mask);
	lr_aarch64_barrier();
}

/* Stops the counters in mask, which keep their values. */
static inline void lr_aarch64_stop(uint32_t mask)
{
	lr_aarch64_write_pmcntenclr_el0(mask);
	lr_aarch64_barrier();
}

/*
 * Reads event counter n: three instructions, plus the caller's to load n. PMSELR is n afterwards.
 * If n is a constant, lr_aarch64_read_pmevcntr0_el0() and its siblings take one instruction.
 */
static inline uint32_t lr_aarch64_event(uint64_t n)
{
	lr_aarch64_write_pmselr_el0(n);
	lr_aarch64_barrier();
	return (uint32_t)lr_aarch64_read_pmxevcntr_el0();
}

/* Values of the cycle counter and four event counters. */
struct lr_aarch64_counts {
	uint64_t cycles;
	uint64_t event[4];
};

/*
 * Reads the cycle counter, then event counters 0 to 3, all of which must exist: six instructions,
 * the first a barrier, so that code before the call is counted.
 */
static inline struct lr_aarch64_counts lr_aarch64_read_counts(void)
{
	struct lr_aarch64_counts counts;

	lr_aarch64_barrier();
	counts.cycles = lr_aarch64_read_pmccntr_el0();
	counts.event[0] = lr_aarch64_read_pmevcntr0_el0();
	counts.event[1] = lr_aarch64_read_pmevcntr1_el0();
	counts.event[2] = lr_aarch64_read_pmevcntr2_el0();
	counts.event[3] = lr_aarch64_read_pmevcntr3_el0();
	return counts;
}

#ifdef __cplusplus
}
#endif
#endif
