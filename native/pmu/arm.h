/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The counters of ARMv7 and AArch64 under common names, for programs that are built for both. Where
 * the two differ (32-bit or 64-bit masks, the width of the cycle counter), so do the types.
 */
#ifndef LINERATE_PMU_ARM_H
#define LINERATE_PMU_ARM_H

#ifdef __aarch64__
#include "aarch64.h"
/* The full names of a function and of a constant, and a read or write of a register. */
#define LR_ARM(name) lr_aarch64_##name
#define LR_ARM_BIT(name) LR_AARCH64_##name
#define LR_ARM_READ(name) lr_aarch64_read_##name##_el0()
#define LR_ARM_WRITE(name, value) lr_aarch64_write_##name##_el0(value)
/* Registers whose names differ in more than prefix and suffix: overflow flags and interrupts. */
#define LR_ARM_READ_FLAGS() lr_aarch64_read_pmovsclr_el0()
#define LR_ARM_CLEAR_FLAGS(mask) lr_aarch64_write_pmovsclr_el0(mask)
#define LR_ARM_READ_INTERRUPTS() lr_aarch64_read_pmintenset_el1()
#define LR_ARM_PERMIT_INTERRUPTS(mask) lr_aarch64_write_pmintenset_el1(mask)
#define LR_ARM_FORBID_INTERRUPTS(mask) lr_aarch64_write_pmintenclr_el1(mask)
#define LR_ARM_READ_COUNTS() lr_aarch64_read_counts()
typedef struct lr_aarch64_counts lr_arm_counts;
/* Type of a register and of the cycle counter. */
typedef uint64_t lr_arm_word;
#else
#include "armv7.h"
#define LR_ARM(name) lr_armv7_##name
#define LR_ARM_BIT(name) LR_ARMV7_##name
#define LR_ARM_READ(name) lr_armv7_read_##name()
#define LR_ARM_WRITE(name, value) lr_armv7_write_##name(value)
#define LR_ARM_READ_FLAGS() lr_armv7_read_pmovsr()
#define LR_ARM_CLEAR_FLAGS(mask) lr_armv7_write_pmovsr(mask)
#define LR_ARM_READ_INTERRUPTS() lr_armv7_read_pmintenset()
#define LR_ARM_PERMIT_INTERRUPTS(mask) lr_armv7_write_pmintenset(mask)
#define LR_ARM_FORBID_INTERRUPTS(mask) lr_armv7_write_pmintenclr(mask)
#define LR_ARM_READ_COUNTS() lr_armv7_read_counts(0)
typedef struct lr_armv7_counts lr_arm_counts;
typedef uint32_t lr_arm_word;
#endif

#endif
