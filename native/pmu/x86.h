/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The counters of x86 by rdpmc. User programs only read, wherever CR4.PCE is 1; elsewhere a read is
 * a general protection fault (SIGSEGV in Linux). What is counted is selected in the kernel (wrmsr),
 * which is the kernel's or a driver's to do: Linux does for perf's events and says the index.
 *
 * As in the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, RDPMC, and the
 * AMD64 Architecture Programmer's Manual, volume 3. No machine of the project has run this: the
 * virtual machine it is built on has no counters. It is checked by its encoding.
 */
#ifndef LINERATE_PMU_X86_H
#define LINERATE_PMU_X86_H

#include "wide.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Intel's fixed counters, joined with a number: 0 instructions, 1 cycles, 2 reference cycles. */
#define LR_X86_FIXED 0x40000000u

/*
 * The counter of this index. Its higher bits, above the width that CPUID leaf 0ah (Intel) says, or
 * above 48 (AMD), are 0: subtract two reads with lr_x86_since. rdpmc is not ordered with the
 * instructions around it; put lr_x86_barrier before it where a few instructions matter.
 */
static inline uint64_t lr_x86_read(uint32_t index)
{
	uint32_t low, high;

	__asm__ __volatile__("rdpmc" : "=a"(low), "=d"(high) : "c"(index) : "memory");
	return (uint64_t)high << 32 | low;
}

/* All instructions before it have been executed. On AMD since Zen, and where Linux sees to it. */
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
