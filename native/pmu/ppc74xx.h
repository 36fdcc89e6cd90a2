/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The counters of the PowerPC G4: four 32-bit event counters on the MPC7400 and MPC7410, six on the
 * MPC7450, 7455, 7447, 7457 and 7448. User programs can only read (the registers whose names begin
 * with u); a module or an RTOS can also write. Each counter has its own list of events. A counter
 * overflows when its highest bit becomes 1.
 *
 * Registers and bits are those of the MPC7450 RISC Microprocessor Family Reference Manual
 * (MPC7450UM), chapter 11; for the MPC7400, those of AN2581, "AltiVec, multiprocessing". Events by
 * name are in events/mpc74xx.h and events/mpc7400.h. Sampling of addresses is not covered, apart
 * from the access to its registers.
 */
#ifndef LINERATE_PMU_PPC74XX_H
#define LINERATE_PMU_PPC74XX_H

#include "wide.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The registers and their numbers: R for the supervisor, to read and write; O for user programs, to
 * read. Counters 5 and 6 do not exist on the MPC7400 and MPC7410.
 */
#define LR_PPC74XX_REGISTERS(R, O) \
	R(mmcr0, 952)  /* control, threshold, events of counters 1 and 2 */ \
	R(mmcr1, 956)  /* events of counters 3 to 6 */ \
	R(mmcr2, 944)  /* bit 0: the threshold is multiplied by 32 */ \
	R(pmc1, 953)   /* event counter 1 */ \
	R(pmc2, 954)   /* event counter 2 */ \
	R(pmc3, 957)   /* event counter 3 */ \
	R(pmc4, 958)   /* event counter 4 */ \
	R(pmc5, 945)   /* event counter 5 */ \
	R(pmc6, 946)   /* event counter 6 */ \
	R(siar, 955)   /* the address of a sampled instruction */ \
	R(bamr, 951)   /* a mask for comparing addresses of instructions */ \
	O(ummcr0, 936) O(ummcr1, 940) O(ummcr2, 928) O(upmc1, 937) O(upmc2, 938) O(upmc3, 941) \
	O(upmc4, 942) O(upmc5, 929) O(upmc6, 930) O(usiar, 939)

#define LR_PPC74XX_READER(name, number) \
	static inline uint32_t lr_ppc74xx_read_##name(void) \
	{ \
		uint32_t value; \
		__asm__ __volatile__("mfspr %0, " #number : "=r"(value) : : "memory"); \
		return value; \
	}
#define LR_PPC74XX_BOTH(name, number) \
	LR_PPC74XX_READER(name, number) \
	static inline void lr_ppc74xx_write_##name(uint32_t value) \
	{ \
		__asm__ __volatile__("mtspr " #number ", %0" : : "r"(value) : "memory"); \
	}

/* lr_ppc74xx_read_mmcr0() and so on: one instruction each, never moved or optimized away. */
LR_PPC74XX_REGISTERS(LR_PPC74XX_BOTH, LR_PPC74XX_READER)

#undef LR_PPC74XX_READER
#undef LR_PPC74XX_BOTH

#define LR_PPC74XX_MMCR0_FREEZE 0x80000000u        /* FC: stops all counters */
#define LR_PPC74XX_MMCR0_NOT_KERNEL 0x40000000u    /* FCS: do not count in supervisor state */
#define LR_PPC74XX_MMCR0_NOT_USER 0x20000000u      /* FCP: do not count in user state */
#define LR_PPC74XX_MMCR0_NOT_MARKED 0x10000000u    /* FCM1: do not count while MSR[PM] is 1 */
#define LR_PPC74XX_MMCR0_NOT_UNMARKED 0x08000000u  /* FCM0: do not count while MSR[PM] is 0 */
#define LR_PPC74XX_MMCR0_INTERRUPT 0x04000000u     /* PMXE: enables overflow interrupts */
#define LR_PPC74XX_MMCR0_PMC1_OVERFLOWS 0x00008000u /* PMC1CE */
#define LR_PPC74XX_MMCR0_OTHERS_OVERFLOW 0x00004000u /* PMCjCE */

/*
 * The threshold for events that count what exceeds it: up to 63 entries of a queue, or cycles in
 * units of 2, or of 32 if MMCR2 has LR_PPC74XX_MMCR2_BY_32. All counters share it.
 */
#define LR_PPC74XX_MMCR0_THRESHOLD 0x003f0000u
#define LR_PPC74XX_MMCR0_THRESHOLD_SHIFT 16
#define LR_PPC74XX_MMCR2_BY_32 0x80000000u

/* MSR[PM]: the process is marked for counting. AN2581 calls this bit PMM. */
#define LR_PPC74XX_MSR_MARKED 0x4u

/*
 * Returns the number of counters of a processor, given the upper half of its processor version
 * register; 0 for any other processor.
 */
static inline uint32_t lr_ppc74xx_counters(uint32_t version)
{
	if (version == 0x000cu || version == 0x800cu)
		return 4;
	return version >= 0x8000u && version <= 0x8004u ? 6 : 0;
}

/*
 * The field that selects the event of a counter, in MMCR0 (counters 1 and 2) or MMCR1 (3 to 6).
 * Counters are numbered from 1; for any other number the mask is 0.
 */
struct lr_ppc74xx_field {
	uint32_t mask; /* applied to the event number before shifting */
	unsigned int shift;
};

static inline struct lr_ppc74xx_field lr_ppc74xx_field_of(uint32_t counter)
{
	struct lr_ppc74xx_field field;

	field.mask = counter == 1 ? 0x7fu : counter == 2 || counter == 6 ? 0x3fu : 0x1fu;
	field.shift = counter == 1 ? 6 : counter == 3 ? 27 : counter == 4 ? 22 :
		      counter == 5 ? 17 : counter == 6 ? 11 : 0;
	if (counter < 1 || counter > 6)
		field.mask = 0;
	return field;
}

/*
 * Returns which counters can count an event code, as a mask of bits 1 to 6: the counter in bits 8
 * to 10 of the code or, if those are 0, all counters on which the selection in bits 0 to 7 means
 * the same event. On processors with six counters, a selection up to 1 means the same on all of
 * them, up to 7 on counters 1 to 4, up to 13 on counters 1, 2 and 4, and up to 22 on counters 1 and
 * 2 (MPC7450UM, chapter 11; Linux's mpc7450-pmu.c agrees). On processors with four counters, a
 * selection up to 4 means the same on all of them.
 */
static inline uint32_t lr_ppc74xx_counters_for(uint32_t counters, uint32_t code)
{
	const uint32_t counter = code >> 8, selection = code & 0xffu;

	if (counter)
		return counter <= counters && selection <= lr_ppc74xx_field_of(counter).mask
			       ? 1u << counter : 0;
	if (counters == 4)
		return selection <= 4 ? 0x1e : 0;
	return selection <= 1 ? 0x7e : selection <= 7 ? 0x1e : selection <= 13 ? 0x16 :
	       selection <= 22 ? 0x06 : 0;
}

/*
 * An event: the counters that have it, as a mask of bits 1 to 6, and its selection on each of them.
 */
struct lr_ppc74xx_event {
	uint32_t counters;
	uint8_t selection[7];
};

/* Adds another code that counts the same event. */
static inline void lr_ppc74xx_add(struct lr_ppc74xx_event *event, uint32_t counters, uint32_t code)
{
	const uint32_t added = lr_ppc74xx_counters_for(counters, code);
	uint32_t counter;

	event->counters |= added;
	for (counter = 1; counter <= 6; counter++)
		if (added >> counter & 1u)
			event->selection[counter] = (uint8_t)code;
}

/*
 * Assigns a counter to one more event. by[1] to by[6] hold the events assigned so far, numbered
 * from 1, and 0 for free counters. Takes a free counter, or one whose event can move to another
 * counter in the same way (augmenting paths). Returns 1 if there was one; if it returns 0, the
 * events cannot be counted together. The caller sets *tried to 0.
 */
static inline int lr_ppc74xx_place(const struct lr_ppc74xx_event *events, uint32_t event,
				   uint32_t *by, uint32_t *tried)
{
	const uint32_t possible = events[event - 1].counters;
	uint32_t counter;

	for (counter = 1; counter <= 6; counter++)
		if (possible >> counter & 1u && !by[counter]) {
			by[counter] = event;
			return 1;
		}
	for (counter = 1; counter <= 6; counter++) {
		if (!(possible >> counter & 1u) || *tried >> counter & 1u)
			continue;
		*tried |= 1u << counter;
		if (lr_ppc74xx_place(events, by[counter], by, tried)) {
			by[counter] = event;
			return 1;
		}
	}
	return 0;
}

/* Returns the value of a selection register with this counter's selection replaced. */
static inline uint32_t lr_ppc74xx_selecting(uint32_t mmcr, uint32_t counter, uint32_t event)
{
	const struct lr_ppc74xx_field field = lr_ppc74xx_field_of(counter);

	return (mmcr & ~(field.mask << field.shift)) | (event & field.mask) << field.shift;
}

/* Makes the counter count this event once it is not frozen. Counters 5 and 6 must exist. */
static inline void lr_ppc74xx_select(uint32_t counter, uint32_t event)
{
	if (counter <= 2)
		lr_ppc74xx_write_mmcr0(
			lr_ppc74xx_selecting(lr_ppc74xx_read_mmcr0(), counter, event));
	else
		lr_ppc74xx_write_mmcr1(
			lr_ppc74xx_selecting(lr_ppc74xx_read_mmcr1(), counter, event));
}

/* Makes earlier writes to these registers take effect for all later instructions. */
static inline void lr_ppc74xx_barrier(void)
{
	__asm__ __volatile__("isync" : : : "memory");
}

/* Stops all counters. */
static inline void lr_ppc74xx_stop(void)
{
	lr_ppc74xx_write_mmcr0(lr_ppc74xx_read_mmcr0() | LR_PPC74XX_MMCR0_FREEZE);
	lr_ppc74xx_barrier();
}

/* Starts all counters. */
static inline void lr_ppc74xx_start(void)
{
	lr_ppc74xx_write_mmcr0(lr_ppc74xx_read_mmcr0() & ~LR_PPC74XX_MMCR0_FREEZE);
	lr_ppc74xx_barrier();
}

/*
 * Stops all counters, clears all selections, disables interrupts, and sets this many counters (4 or
 * 6) to 0.
 */
static inline void lr_ppc74xx_reset(uint32_t counters)
{
	lr_ppc74xx_write_mmcr0(LR_PPC74XX_MMCR0_FREEZE);
	lr_ppc74xx_write_mmcr1(0);
	lr_ppc74xx_write_mmcr2(0);
	lr_ppc74xx_write_pmc1(0);
	lr_ppc74xx_write_pmc2(0);
	lr_ppc74xx_write_pmc3(0);
	lr_ppc74xx_write_pmc4(0);
	if (counters > 4) {
		lr_ppc74xx_write_pmc5(0);
		lr_ppc74xx_write_pmc6(0);
	}
	lr_ppc74xx_barrier();
}

#ifdef __cplusplus
}
#endif
#endif
