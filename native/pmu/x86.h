/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The counters of x86, read by rdpmc. User programs can only read them, and only where CR4.PCE is
 * 1; elsewhere a read is a general protection fault (SIGSEGV in Linux). Events are selected by
 * wrmsr, in the kernel or a driver: Linux does this for perf events and reports the index of the
 * counter.
 *
 * Based on the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, RDPMC, and
 * the AMD64 Architecture Programmer's Manual, volume 3. This header has not been run on any
 * machine, since the virtual machine used for development has no counters; only its encoding is
 * checked.
 */
#ifndef LINERATE_PMU_X86_H
#define LINERATE_PMU_X86_H

#include "wide.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Intel's fixed counters, to be ORed with a number: 0 instructions, 1 cycles, 2 reference cycles.
 */
#define LR_X86_FIXED 0x40000000u

/*
 * Reads the counter with this index. Bits above the width reported by CPUID leaf 0ah (Intel), or
 * above 48 bits (AMD), are 0: subtract two reads with lr_x86_since. rdpmc is not ordered with the
 * instructions around it; put lr_x86_barrier before it when a few instructions matter.
 */
static inline uint64_t lr_x86_read(uint32_t index)
{
	uint32_t low, high;

	__asm__ __volatile__("rdpmc" : "=a"(low), "=d"(high) : "c"(index) : "memory");
	return (uint64_t)high << 32 | low;
}

/*
 * Waits until all earlier instructions have executed. AMD processors do so since Zen, and earlier
 * ones where Linux enables it.
 */
static inline void lr_x86_barrier(void)
{
	__asm__ __volatile__("lfence" : : : "memory");
}

/* Events between two reads of a counter of 1 to 64 bits that wrapped at most once. */
static inline uint64_t lr_x86_since(uint64_t before, uint64_t now, unsigned int width)
{
	const unsigned int unused = 64 - width;

	return (now - before) << unused >> unused;
}

#ifdef __cplusplus
}
#endif
#endif
