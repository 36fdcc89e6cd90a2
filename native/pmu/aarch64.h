/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The counters of AArch64 (PMUv3: ARMv8-A and later): a cycle counter of 64 bits and up to 31 event
 * counters of 32. For bare metal at EL1, for a module of Linux, and for a user program wherever
 * PMUSERENR_EL0 permits; elsewhere each access of a user program is trapped (SIGILL in Linux).
 *
 * Registers and bits as in the Arm Architecture Reference Manual for A-profile (DDI 0487), chapter
 * on the Performance Monitors Extension. Not covered: EL2's and EL3's control of counting, 64-bit
 * event counters (PMUv3p5), memory-mapped access (apb.h), and sharing of the counters: each CPU has
 * its own, so pin the counting thread to one CPU and keep others off it.
 */
#ifndef LINERATE_PMU_AARCH64_H
#define LINERATE_PMU_AARCH64_H

#include "wide.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The registers: R those that are read and written, O those only read, W those only written. */
#define LR_AARCH64_REGISTERS(R, O, W) \
	R(pmcr_el0)       /* control: the LR_AARCH64_PMCR_ bits */ \
	R(pmcntenset_el0) /* writes of 1 let a counter count; reads as what counts */ \
	R(pmcntenclr_el0) /* writes of 1 stop a counter */ \
	R(pmovsclr_el0)   /* 1 where a counter has wrapped; writes of 1 clear that */ \
	R(pmovsset_el0)   /* writes of 1 set overflow flags */ \
	W(pmswinc_el0)    /* writes of 1 add 1 to counters of event 0 */ \
	R(pmselr_el0)     /* the counter that the PMX registers mean */ \
	O(pmceid0_el0)    /* which of the events 0 to 31 there are; above, of 0x4000 to 0x401f */ \
	O(pmceid1_el0)    /* which of the events 32 to 63 there are */ \
	R(pmccntr_el0)    /* the cycle counter, 64 bits */ \
	R(pmccfiltr_el0)  /* filters of the cycle counter */ \
	R(pmxevtyper_el0) /* event and filters of the selected counter */ \
	R(pmxevcntr_el0)  /* the selected event counter */ \
	R(pmuserenr_el0)  /* what user programs may: the LR_AARCH64_USER_ bits; written at EL1 */ \
	R(pmintenset_el1) /* writes of 1 let a wrap interrupt; reads as what may */ \
	R(pmintenclr_el1) /* writes of 1 keep wraps from interrupting */

/* The numbers of event counters that can be. */
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

/* lr_aarch64_read_pmcr_el0() and so on: one instruction, neither moved nor left out. */
LR_AARCH64_REGISTERS(LR_AARCH64_BOTH, LR_AARCH64_READER, LR_AARCH64_WRITER)
/* lr_aarch64_read_pmevcntr0_el0(), lr_aarch64_write_pmevtyper0_el0() and so on. */
LR_AARCH64_EVENT_COUNTERS(LR_AARCH64_EVENT)

#undef LR_AARCH64_READER
#undef LR_AARCH64_WRITER
#undef LR_AARCH64_BOTH
#undef LR_AARCH64_EVENT

#define LR_AARCH64_PMCR_ENABLE 0x01u       /* E: counters count at all */
#define LR_AARCH64_PMCR_RESET_EVENTS 0x02u /* P: writes of 1 set all event counters to 0 */
#define LR_AARCH64_PMCR_RESET_CYCLES 0x04u /* C: writes of 1 set the cycle counter to 0 */
#define LR_AARCH64_PMCR_DIVIDE 0x08u       /* D: counts every 64th cycle, unless LC is 1 */
#define LR_AARCH64_PMCR_EXPORT 0x10u       /* X: events go to the trace unit too */
#define LR_AARCH64_PMCR_LONG_CYCLES 0x40u  /* LC: the cycle counter overflows at 64 bits */
#define LR_AARCH64_PMCR_COUNTERS 0xf800u   /* N: how many event counters there are */
#define LR_AARCH64_PMCR_COUNTERS_SHIFT 11

/* The cycle counter in the masks (counter n is bit n), and as the counter that PMSELR selects. */
#define LR_AARCH64_CYCLES 0x80000000u
#define LR_AARCH64_SELECT_CYCLES 31u

/* Filters, to be joined with an event or written to PMCCFILTR: what is not to be counted. */
#define LR_AARCH64_NOT_KERNEL 0x80000000u /* P: not at EL1 */
#define LR_AARCH64_NOT_USER 0x40000000u   /* U: not at EL0 */

#define LR_AARCH64_USER_ENABLE 0x1u    /* EN: everything but PMUSERENR and the interrupts */
#define LR_AARCH64_USER_INCREMENT 0x2u /* SW: writes of PMSWINC */
#define LR_AARCH64_USER_CYCLES 0x4u    /* CR: reads of PMCCNTR */
#define LR_AARCH64_USER_EVENTS 0x8u    /* ER: reads of the event counters */

/* Writes to these registers take effect for all later instructions. */
static inline void lr_aarch64_barrier(void)
{
	__asm__ __volatile__("isb" : : : "memory");
}

/* Number of event counters of this core. */
static inline uint32_t lr_aarch64_counters(void)
{
	return (uint32_t)(lr_aarch64_read_pmcr_el0() & LR_AARCH64_PMCR_COUNTERS) >>
	       LR_AARCH64_PMCR_COUNTERS_SHIFT;
}

/* All counters stopped and 0, no flag, no interrupt, counting enabled, cycles in 64 bits. */
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
 * Event counter n, or LR_AARCH64_SELECT_CYCLES, counts this event (ignored for cycles) joined with
 * filters. n must be below lr_aarch64_counters(), and the counter stopped.
 */
static inline void lr_aarch64_select(uint32_t n, uint32_t event)
{
	lr_aarch64_write_pmselr_el0(n);
	lr_aarch64_barrier();
	lr_aarch64_write_pmxevtyper_el0(event);
	lr_aarch64_barrier();
}

/* The counters of the mask count from here on. */
static inline void lr_aarch64_start(uint32_t mask)
{
	lr_aarch64_write_pmcntenset_el0(mask);
	lr_aarch64_barrier();
}

/* The counters of the mask keep what they have. */
static inline void lr_aarch64_stop(uint32_t mask)
{
	lr_aarch64_write_pmcntenclr_el0(mask);
	lr_aarch64_barrier();
}

/*
 * Event counter n; three instructions, and the caller's for n. PMSELR is n afterwards. Where n is
 * known when the program is written, lr_aarch64_read_pmevcntr0_el0() and its like take one.
 */
static inline uint32_t lr_aarch64_event(uint64_t n)
{
	lr_aarch64_write_pmselr_el0(n);
	lr_aarch64_barrier();
	return (uint32_t)lr_aarch64_read_pmxevcntr_el0();
}

/* The cycle counter and four event counters. */
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
