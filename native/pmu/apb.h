/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory-mapped access to ARM's PMU: register offsets from the base of a core's PMU, whose address
 * is found through the debug bus (in the ROM table, or in the board's manual). For a debugger,
 * another core, or an RTOS that maps it; the bits are those of armv7.h.
 *
 * Register n is at byte 4 n. Numbers are those of the Cortex-A7 MPCore Technical Reference Manual
 * (DDI 0464), table 11-1, which the tutorial "Performance Counters on the RPi 2" shows, and of the
 * ARM Architecture Reference Manual ARMv7 (DDI 0406), appendix on the memory-mapped interface. This
 * header has not been run on any machine, since QEMU has no such bus; only the encoding of each
 * access is checked.
 */
#ifndef LINERATE_PMU_APB_H
#define LINERATE_PMU_APB_H

#include "wide.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Name and register number: R read-write, O read-only, W write-only. */
#define LR_APB_REGISTERS(R, O, W) \
	R(pmxevcntr0, 0)   /* event counter 0; counter n is register n */ \
	R(pmxevcntr1, 1) R(pmxevcntr2, 2) R(pmxevcntr3, 3) \
	R(pmccntr, 31)     /* the cycle counter */ \
	R(pmxevtyper0, 256) /* event and filters of counter 0; of counter n register 256 + n */ \
	R(pmxevtyper1, 257) R(pmxevtyper2, 258) R(pmxevtyper3, 259) \
	R(pmccfiltr, 287)  /* filters of the cycle counter */ \
	R(pmcntenset, 768) R(pmcntenclr, 776) R(pmintenset, 784) R(pmintenclr, 792) \
	R(pmovsr, 800)     /* overflow flags: 1 if a counter has wrapped; write 1 to clear */ \
	W(pmswinc, 808) \
	R(pmovsset, 816)   /* PMUv2 */ \
	O(pmcfgr, 896)     /* bits 0 to 7: number of counters; 8 to 13: width - 1 */ \
	R(pmcr, 897) R(pmuserenr, 898) O(pmceid0, 904) O(pmceid1, 905) \
	W(pmlar, 1004)     /* LR_APB_UNLOCK permits writes, any other value forbids them */ \
	O(pmlsr, 1005)     /* bit 1: writes are forbidden */ \
	O(pmauthstatus, 1006)

#define LR_APB_UNLOCK 0xc5acce55u

#define LR_APB_READER(name, number) \
	static inline uint32_t lr_apb_read_##name(const volatile void *pmu) \
	{ \
		return ((const volatile uint32_t *)pmu)[number]; \
	}
#define LR_APB_WRITER(name, number) \
	static inline void lr_apb_write_##name(volatile void *pmu, uint32_t value) \
	{ \
		((volatile uint32_t *)pmu)[number] = value; \
	}
#define LR_APB_BOTH(name, number) LR_APB_READER(name, number) LR_APB_WRITER(name, number)

/*
 * lr_apb_read_pmcr(base) and so on, where base is the address at which the registers are mapped as
 * device memory: one 32-bit load or store each.
 */
LR_APB_REGISTERS(LR_APB_BOTH, LR_APB_READER, LR_APB_WRITER)

#undef LR_APB_READER
#undef LR_APB_WRITER
#undef LR_APB_BOTH

#ifdef __cplusplus
}
#endif
#endif
