/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The counters of ARMv7 (PMUv1 and PMUv2: Cortex-A5 to A17, R4 to R8), accessed through coprocessor
 * 15: a cycle counter and up to 31 event counters, all of 32 bits. For bare metal, for a Linux
 * module, and for a user program wherever PMUSERENR.EN is 1; elsewhere each access by a user
 * program is an undefined instruction (SIGILL in Linux).
 *
 * Registers and bits are those of the ARM Architecture Reference Manual ARMv7 (DDI 0406), C12. Not
 * covered: memory-mapped access (apb.h), control of counting by the Security Extensions, and
 * sharing of the counters: each CPU has its own, and no operating system saves PMSELR or a counter
 * per program, so pin the counting thread to one CPU and keep others off it.
 */
#ifndef LINERATE_PMU_ARMV7_H
#define LINERATE_PMU_ARMV7_H

#include "wide.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The registers: R read-write, O read-only, W write-only; name, CRm and opc2; opc1 is 0 and CRn is
 * c9.
 */
#define LR_ARMV7_REGISTERS(R, O, W) \
	R(pmcr, 12, 0)       /* control: the LR_ARMV7_PMCR_ bits */ \
	R(pmcntenset, 12, 1) /* write 1 to enable a counter; reads as the enabled counters */ \
	R(pmcntenclr, 12, 2) /* write 1 to disable a counter */ \
	R(pmovsr, 12, 3)     /* overflow flags: 1 if a counter has wrapped; write 1 to clear */ \
	W(pmswinc, 12, 4)    /* write 1 to increment counters that count event 0 */ \
	R(pmselr, 12, 5)     /* selects the counter that the PMX registers access */ \
	O(pmceid0, 12, 6)    /* implemented events 0 to 31 */ \
	O(pmceid1, 12, 7)    /* implemented events 32 to 63 */ \
	R(pmccntr, 13, 0)    /* the cycle counter */ \
	R(pmxevtyper, 13, 1) /* event and filters of the selected counter; of cycles with 31 */ \
	R(pmxevcntr, 13, 2)  /* the selected event counter */ \
	R(pmuserenr, 14, 0)  /* bit 0: user access; writable by the kernel only */ \
	R(pmintenset, 14, 1) /* write 1 to enable an overflow interrupt; reads as those enabled */ \
	R(pmintenclr, 14, 2) /* write 1 to disable an overflow interrupt */ \
	R(pmovsset, 14, 3)   /* PMUv2: write 1 to set overflow flags */

#define LR_ARMV7_READER(name, crm, opc2) \
	static inline uint32_t lr_armv7_read_##name(void) \
	{ \
		uint32_t value; \
		__asm__ __volatile__("mrc p15, 0, %0, c9, c" #crm ", " #opc2 \
				     : "=r"(value) \
				     : \
				     : "memory"); \
		return value; \
	}
#define LR_ARMV7_WRITER(name, crm, opc2) \
	static inline void lr_armv7_write_##name(uint32_t value) \
	{ \
		__asm__ __volatile__("mcr p15, 0, %0, c9, c" #crm ", " #opc2 \
				     : \
				     : "r"(value) \
				     : "memory"); \
	}
#define LR_ARMV7_BOTH(name, crm, opc2) \
	LR_ARMV7_READER(name, crm, opc2) LR_ARMV7_WRITER(name, crm, opc2)

/* lr_armv7_read_pmcr() and so on: one instruction each, never moved or optimized away. */
LR_ARMV7_REGISTERS(LR_ARMV7_BOTH, LR_ARMV7_READER, LR_ARMV7_WRITER)

#undef LR_ARMV7_READER
#undef LR_ARMV7_WRITER
#undef LR_ARMV7_BOTH

#define LR_ARMV7_PMCR_ENABLE 0x01u       /* E: enables all counters */
#define LR_ARMV7_PMCR_RESET_EVENTS 0x02u /* P: write 1 to reset all event counters to 0 */
#define LR_ARMV7_PMCR_RESET_CYCLES 0x04u /* C: write 1 to reset the cycle counter to 0 */
#define LR_ARMV7_PMCR_DIVIDE 0x08u       /* D: the cycle counter counts every 64th cycle */
#define LR_ARMV7_PMCR_EXPORT 0x10u       /* X: exports events to the trace unit */
#define LR_ARMV7_PMCR_COUNTERS 0xf800u   /* N: number of event counters */
#define LR_ARMV7_PMCR_COUNTERS_SHIFT 11

/* The cycle counter in masks, where event counter n is bit n, and as a value of PMSELR. */
#define LR_ARMV7_CYCLES 0x80000000u
#define LR_ARMV7_SELECT_CYCLES 31u

/* Filters, to be ORed with an event: what not to count. */
#define LR_ARMV7_NOT_KERNEL 0x80000000u /* P: not at PL1 */
#define LR_ARMV7_NOT_USER 0x40000000u   /* U: not at PL0 */

#define LR_ARMV7_USER_ENABLE 0x1u /* PMUSERENR.EN */

/* Makes earlier writes to these registers take effect for all later instructions. */
static inline void lr_armv7_barrier(void)
{
	__asm__ __volatile__("isb" : : : "memory");
}

/* Returns the number of event counters of this core. */
static inline uint32_t lr_armv7_counters(void)
{
	return (lr_armv7_read_pmcr() & LR_ARMV7_PMCR_COUNTERS) >> LR_ARMV7_PMCR_COUNTERS_SHIFT;
}

/*
 * Stops all counters and sets them to 0, clears all flags, disables all overflow interrupts, and
 * enables counting in general, without the divider.
 */
static inline void lr_armv7_reset(void)
{
	lr_armv7_write_pmcntenclr(0xffffffffu);
	lr_armv7_write_pmintenclr(0xffffffffu);
	lr_armv7_write_pmovsr(0xffffffffu);
	lr_armv7_write_pmcr(LR_ARMV7_PMCR_ENABLE | LR_ARMV7_PMCR_RESET_EVENTS |
			    LR_ARMV7_PMCR_RESET_CYCLES);
	lr_armv7_barrier();
}

/*
 * Makes event counter n count this event ORed with filters; with LR_ARMV7_SELECT_CYCLES for n, sets
 * the filters of the cycle counter. n must otherwise be below lr_armv7_counters(), and the counter
 * must be stopped.
 */
static inline void lr_armv7_select(uint32_t n, uint32_t event)
{
	lr_armv7_write_pmselr(n);
	lr_armv7_barrier();
	lr_armv7_write_pmxevtyper(event);
	lr_armv7_barrier();
}

/* Starts the counters in mask. */
static inline void lr_armv7_start(uint32_t mask)
{
	lr_armv7_write_pmcntenset(mask);
	lr_armv7_barrier();
}

/* Stops the counters in mask, which keep their values. */
static inline void lr_armv7_stop(uint32_t mask)
{
	lr_armv7_write_pmcntenclr(mask);
	lr_armv7_barrier();
}

/*
 * Reads event counter n: three instructions, plus the caller's to load n. PMSELR is n afterwards.
 */
static inline uint32_t lr_armv7_event(uint32_t n)
{
	lr_armv7_write_pmselr(n);
	lr_armv7_barrier();
	return lr_armv7_read_pmxevcntr();
}

/* Values of the cycle counter and four event counters. */
struct lr_armv7_counts {
	uint32_t cycles, event[4];
};

/*
 * Reads the cycle counter, then the event counters first, first + 1, first + 2 and first + 3, which
 * must be below lr_armv7_counters(): sixteen instructions, in this order. Each counter is as it was
 * at its own read, and counts the instructions of the reads before it.
 */
static inline struct lr_armv7_counts lr_armv7_read_counts(uint32_t first)
{
	struct lr_armv7_counts counts;

	__asm__ __volatile__("mrc p15, 0, %0, c9, c13, 0\n\t"
			     "mcr p15, 0, %4, c9, c12, 5\n\t"
			     "isb\n\t"
			     "mrc p15, 0, %1, c9, c13, 2\n\t"
			     "add %4, %4, #1\n\t"
			     "mcr p15, 0, %4, c9, c12, 5\n\t"
			     "isb\n\t"
			     "mrc p15, 0, %2, c9, c13, 2\n\t"
			     "add %4, %4, #1\n\t"
			     "mcr p15, 0, %4, c9, c12, 5\n\t"
			     "isb\n\t"
			     "mrc p15, 0, %3, c9, c13, 2\n\t"
			     "add %4, %4, #1\n\t"
			     "mcr p15, 0, %4, c9, c12, 5\n\t"
			     "isb\n\t"
			     "mrc p15, 0, %4, c9, c13, 2"
			     : "=&r"(counts.cycles), "=&r"(counts.event[0]), "=&r"(counts.event[1]),
			       "=&r"(counts.event[2]), "=&r"(counts.event[3])
			     : "4"(first)
			     : "memory");
	return counts;
}

#ifdef __cplusplus
}
#endif
#endif
