/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The counters of the ARM1176 (Raspberry Pi 1), accessed through coprocessor 15: a cycle counter
 * and two event counters, all of 32 bits, started and stopped together. For bare metal, for a Linux
 * module, and for a user program wherever lr_arm1176_open_to_user was called; elsewhere each access
 * by a user program is an undefined instruction (SIGILL in Linux).
 *
 * Registers and bits are those of the ARM1176JZF-S Technical Reference Manual (DDI 0301), chapter
 * on the System Control Coprocessor. This header has not been run on any machine, since QEMU's
 * ARM1176 reads 0 from all of these registers; only the encoding of each access is checked.
 */
#ifndef LINERATE_PMU_ARM1176_H
#define LINERATE_PMU_ARM1176_H

#include "wide.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The registers, all read-write: name, CRm and opc2; opc1 is 0 and CRn is c15. */
#define LR_ARM1176_REGISTERS(R) \
	R(validation, 9, 0) /* bit 0: user access; writable by the kernel only */ \
	R(pmnc, 12, 0)      /* control, events and flags: the LR_ARM1176_PMNC_ bits */ \
	R(ccnt, 12, 1)      /* the cycle counter */ \
	R(pmn0, 12, 2)      /* event counter 0 */ \
	R(pmn1, 12, 3)      /* event counter 1 */

#define LR_ARM1176_BOTH(name, crm, opc2) \
	static inline uint32_t lr_arm1176_read_##name(void) \
	{ \
		uint32_t value; \
		__asm__ __volatile__("mrc p15, 0, %0, c15, c" #crm ", " #opc2 \
				     : "=r"(value) \
				     : \
				     : "memory"); \
		return value; \
	} \
	static inline void lr_arm1176_write_##name(uint32_t value) \
	{ \
		__asm__ __volatile__("mcr p15, 0, %0, c15, c" #crm ", " #opc2 \
				     : \
				     : "r"(value) \
				     : "memory"); \
	}

/* lr_arm1176_read_pmnc() and so on: one instruction each, never moved or optimized away. */
LR_ARM1176_REGISTERS(LR_ARM1176_BOTH)

#undef LR_ARM1176_BOTH

#define LR_ARM1176_PMNC_ENABLE 0x001u       /* E: enables all three counters */
#define LR_ARM1176_PMNC_RESET_EVENTS 0x002u /* P: write 1 to reset both event counters to 0 */
#define LR_ARM1176_PMNC_RESET_CYCLES 0x004u /* C: write 1 to reset the cycle counter to 0 */
#define LR_ARM1176_PMNC_DIVIDE 0x008u       /* D: the cycle counter counts every 64th cycle */
#define LR_ARM1176_PMNC_INTERRUPT 0x070u    /* overflow interrupt enables: counter 0, 1, cycles */
#define LR_ARM1176_PMNC_OVERFLOWED 0x700u   /* overflow flags: counter 0, 1, cycles; 1 clears */
#define LR_ARM1176_PMNC_EXPORT 0x800u       /* X: exports events to the trace unit */
#define LR_ARM1176_PMNC_EVENT1_SHIFT 12     /* the event of counter 1, 8 bits */
#define LR_ARM1176_PMNC_EVENT0_SHIFT 20     /* the event of counter 0, 8 bits */

#define LR_ARM1176_USER_ENABLE 0x1u /* V of the access validation control register */

/* Makes earlier writes to these registers take effect for all later instructions. */
static inline void lr_arm1176_barrier(void)
{
	/* Flushes the prefetch buffer: ARMv6's equivalent of isb. */
	__asm__ __volatile__("mov r0, #0\n\t"
			     "mcr p15, 0, r0, c7, c5, 4"
			     :
			     :
			     : "r0", "memory");
}

/*
 * Sets all counters to 0, clears all flags, disables overflow interrupts, then starts the cycle
 * counter and the counting of these two events.
 */
static inline void lr_arm1176_start(uint32_t event0, uint32_t event1)
{
	const uint32_t events = (event0 & 0xffu) << LR_ARM1176_PMNC_EVENT0_SHIFT |
				(event1 & 0xffu) << LR_ARM1176_PMNC_EVENT1_SHIFT;

	lr_arm1176_write_pmnc(events | LR_ARM1176_PMNC_OVERFLOWED |
			      LR_ARM1176_PMNC_RESET_EVENTS | LR_ARM1176_PMNC_RESET_CYCLES);
	lr_arm1176_write_pmnc(events | LR_ARM1176_PMNC_ENABLE);
	lr_arm1176_barrier();
}

/* Stops the counters, which keep their values, events and flags. */
static inline void lr_arm1176_stop(void)
{
	lr_arm1176_write_pmnc(lr_arm1176_read_pmnc() &
			      ~(LR_ARM1176_PMNC_ENABLE | LR_ARM1176_PMNC_OVERFLOWED));
	lr_arm1176_barrier();
}

/*
 * Returns which counters have wrapped, as a mask: 1 for counter 0, 2 for counter 1, 4 for cycles.
 */
static inline uint32_t lr_arm1176_overflowed(void)
{
	return (lr_arm1176_read_pmnc() & LR_ARM1176_PMNC_OVERFLOWED) >> 8;
}

/*
 * Grants user programs access to all of these registers except validation, or revokes it. For the
 * kernel.
 */
static inline void lr_arm1176_open_to_user(int may)
{
	const uint32_t before = lr_arm1176_read_validation() & ~LR_ARM1176_USER_ENABLE;

	lr_arm1176_write_validation(before | (may ? LR_ARM1176_USER_ENABLE : 0u));
	lr_arm1176_barrier();
}

#ifdef __cplusplus
}
#endif
#endif
