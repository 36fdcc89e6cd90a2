/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the lab needs of a machine without an operating system, by the same names on ARMv7 and on
 * AArch64: QEMU's board, the way into user mode and back, and the counters' registers.
 */
#ifndef LAB_PMU_MACHINE_H
#define LAB_PMU_MACHINE_H

#ifdef __aarch64__
#include "../../native/pmu/aarch64.h"
#include "../../native/pmu/events/armv8.h"
#define PMU(name) lr_aarch64_##name
#define PMU_BIT(name) LR_AARCH64_##name
#define PMU_READ(name) lr_aarch64_read_##name##_el0()
#define PMU_WRITE(name, value) lr_aarch64_write_##name##_el0(value)
/* The overflow flags. */
#define PMU_FLAGS() lr_aarch64_read_pmovsclr_el0()
#define PMU_CLEAR_FLAGS(mask) lr_aarch64_write_pmovsclr_el0(mask)
#define PMU_READ_COUNTS() lr_aarch64_read_counts()
#define PMU_PERMIT_INTERRUPT(mask) lr_aarch64_write_pmintenset_el1(mask)
#define PMU_CYCLES_BEFORE_WRAP(n) (0ul - (n))
#define PMU_EVENTS LR_ARMV8_EVENTS
typedef struct lr_aarch64_counts pmu_counts;
#else
#include "../../native/pmu/armv7.h"
#include "../../native/pmu/events/cortex_a7.h"
#define PMU(name) lr_armv7_##name
#define PMU_BIT(name) LR_ARMV7_##name
#define PMU_READ(name) lr_armv7_read_##name()
#define PMU_WRITE(name, value) lr_armv7_write_##name(value)
#define PMU_FLAGS() lr_armv7_read_pmovsr()
#define PMU_CLEAR_FLAGS(mask) lr_armv7_write_pmovsr(mask)
#define PMU_READ_COUNTS() lr_armv7_read_counts(0)
#define PMU_PERMIT_INTERRUPT(mask) lr_armv7_write_pmintenset(mask)
#define PMU_CYCLES_BEFORE_WRAP(n) (0u - (n))
#define PMU_EVENTS LR_CORTEX_A7_EVENTS
typedef struct lr_armv7_counts pmu_counts;
#endif

/* As wide as a register. */
typedef unsigned long word;

/* Calls a function in user mode, with interrupts as they are. */
word call_in_user_mode(word function(word), word argument);

/* Interrupts of the board are taken, or not. */
void interrupts(word permitted);

/* Ends the emulator. */
void end(void) __attribute__((noreturn));

/* Called by the exceptions: an instruction at this address was not permitted in user mode. */
void note_trap(word address);
void note_interrupt(void);
/* An exception that is a fault of the lab. */
void give_up(word address) __attribute__((noreturn));

/* Where the machine begins. */
void lab(void) __attribute__((noreturn));

#endif
