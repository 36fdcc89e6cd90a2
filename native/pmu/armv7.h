/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The counters of ARMv7 (PMUv1 and PMUv2: Cortex-A5 to A17, R4 to R8) by coprocessor 15: a cycle
 * counter and up to 31 event counters of 32 bits. For bare metal, for a module of Linux, and for a
 * user program wherever PMUSERENR.EN is 1; elsewhere each access of a user program is an undefined
 * instruction (SIGILL in Linux).
 *
 * Registers and bits as in the ARM Architecture Reference Manual ARMv7 (DDI 0406), C12. Not
 * covered: memory-mapped access (apb.h), the security extension's control of counting, and sharing
 * of the counters: each CPU has its own, and no system saves PMSELR or a counter per program, so
 * pin the counting thread to one CPU and keep others off it.
 */
#ifndef LINERATE_PMU_ARMV7_H
#define LINERATE_PMU_ARMV7_H

#include "wide.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The registers: R those that are read and written, O those only read, W those only written; name,
 * CRm and opc2, all with opc1 0 and CRn c9.
 */
#define LR_ARMV7_REGISTERS(R, O, W) \
	R(pmcr, 12, 0)       /* control: the LR_ARMV7_PMCR_ bits */ \
	R(pmcntenset, 12, 1) /* writes of 1 let a counter count; reads as what counts */ \
	R(pmcntenclr, 12, 2) /* writes of 1 stop a counter */ \
	R(pmovsr, 12, 3)     /* 1 where a counter has wrapped; writes of 1 clear that */ \
	W(pmswinc, 12, 4)    /* writes of 1 add 1 to counters of event 0 */ \
	R(pmselr, 12, 5)     /* the counter that the next three PMX registers mean */ \
	O(pmceid0, 12, 6)    /* which of the events 0 to 31 there are */ \
	O(pmceid1, 12, 7)    /* which of the events 32 to 63 there are */ \
	R(pmccntr, 13, 0)    /* the cycle counter */ \
	R(pmxevtyper, 13, 1) /* event and filters of the selected counter; of cycles with 31 */ \
	R(pmxevcntr, 13, 2)  /* the selected event counter */ \
	R(pmuserenr, 14, 0)  /* bit 0: user programs may; written by the kernel only */ \
	R(pmintenset, 14, 1) /* writes of 1 let a wrap interrupt; reads as what may */ \
	R(pmintenclr, 14, 2) /* writes of 1 keep wraps from interrupting */ \
	R(pmovsset, 14, 3)   /* PMUv2: writes of 1 set overflow flags */

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

/* lr_armv7_read_pmcr() and so on: one instruction each, neither moved nor left out. */
LR_ARMV7_REGISTERS(LR_ARMV7_BOTH, LR_ARMV7_READER, LR_ARMV7_WRITER)

#undef LR_ARMV7_READER
#undef LR_ARMV7_WRITER
#undef LR_ARMV7_BOTH

#define LR_ARMV7_PMCR_ENABLE 0x01u       /* E: counters count at all */
#define LR_ARMV7_PMCR_RESET_EVENTS 0x02u /* P: writes of 1 set all event counters to 0 */
#define LR_ARMV7_PMCR_RESET_CYCLES 0x04u /* C: writes of 1 set the cycle counter to 0 */
#define LR_ARMV7_PMCR_DIVIDE 0x08u       /* D: the cycle counter counts every 64th cycle */
#define LR_ARMV7_PMCR_EXPORT 0x10u       /* X: events go to the trace unit too */
#define LR_ARMV7_PMCR_COUNTERS 0xf800u   /* N: how many event counters there are */
#define LR_ARMV7_PMCR_COUNTERS_SHIFT 11

/* The cycle counter in the masks (counter n is bit n), and as the counter that PMSELR selects. */
#define LR_ARMV7_CYCLES 0x80000000u
#define LR_ARMV7_SELECT_CYCLES 31u

/* Filters, to be joined with an event: what is not to be counted. */
#define LR_ARMV7_NOT_KERNEL 0x80000000u /* P: not at PL1 */
#define LR_ARMV7_NOT_USER 0x40000000u   /* U: not at PL0 */

#define LR_ARMV7_USER_ENABLE 0x1u /* PMUSERENR.EN */

/* Writes to these registers take effect for all later instructions. */
static inline void lr_armv7_barrier(void)
{
	__asm__ __volatile__("isb" : : : "memory");
}

/* Number of event counters of this core. */
static inline uint32_t lr_armv7_counters(void)
{
	return (lr_armv7_read_pmcr() & LR_ARMV7_PMCR_COUNTERS) >> LR_ARMV7_PMCR_COUNTERS_SHIFT;
}

/* All counters stopped and 0, no flag, no interrupt, counting enabled, without the divider. */
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
 * Event counter n, or LR_ARMV7_SELECT_CYCLES, counts this event (ignored for cycles) joined with
 * filters. n must be below lr_armv7_counters(), and the counter stopped.
 */
static inline void lr_armv7_select(uint32_t n, uint32_t event)
{
	lr_armv7_write_pmselr(n);
	lr_armv7_barrier();
	lr_armv7_write_pmxevtyper(event);
	lr_armv7_barrier();
}

/* The counters of the mask count from here on. */
static inline void lr_armv7_start(uint32_t mask)
{
	lr_armv7_write_pmcntenset(mask);
	lr_armv7_barrier();
}

/* The counters of the mask keep what they have. */
static inline void lr_armv7_stop(uint32_t mask)
{
	lr_armv7_write_pmcntenclr(mask);
	lr_armv7_barrier();
}

/* Event counter n; three instructions, and the caller's for n. PMSELR is n afterwards. */
static inline uint32_t lr_armv7_event(uint32_t n)
{
	lr_armv7_write_pmselr(n);
	lr_armv7_barrier();
	return lr_armv7_read_pmxevcntr();
}

/* The cycle counter and four event counters. */
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
