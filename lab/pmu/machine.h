/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Bare-metal support for the lab, with the same names on ARMv7 and on AArch64: QEMU's board,
 * switching to user mode and back; the counters are in native/pmu/arm.h.
 */
#ifndef LAB_PMU_MACHINE_H
#define LAB_PMU_MACHINE_H

#include "../../native/pmu/arm.h"

#ifdef __aarch64__
#include "../../native/pmu/events/armv8.h"
#define MACHINE_EVENTS LR_ARMV8_EVENTS
#else
#include "../../native/pmu/events/cortex_a7.h"
#define MACHINE_EVENTS LR_CORTEX_A7_EVENTS
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

/* Entry point of the machine. */
void lab(void) __attribute__((noreturn));

#endif
