/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tests the counters on a machine without an operating system: every testable claim of native/pmu,
 * then the tutorial's programs. Written to the board's serial line, a line each:
 *
 *   check NAME PASS|FAIL WHAT     a claim
 *   event NAME CODE COUNT         what an event counted over a loop that has some of most
 *   program NAME N INSTRUCTIONS CYCLES RESULT
 *   RESULT PASS|FAIL
 *
 * Judges what one machine can see; what takes the listing of a program, or a second run, is judged
 * where the lines are read. Events that the emulator does not count read 0 here.
 */
#include "machine.h"
#include "programs.h"

/* QEMU's board (its hw/arm/virt.c), with the interrupt controller's version 2. */
#define SERIAL 0x09000000ul
#define DISTRIBUTOR 0x08000000ul
#define CPU_INTERFACE 0x08010000ul
/* The counters' interrupt: private 7. */
#define PMU_INTERRUPT 23u

/* Events that are counted by the emulator. */
#define SOFTWARE_INCREMENT 0x00u
#define INSTRUCTIONS 0x08u

static volatile word traps, trapped_at;
static volatile word interrupts_taken, interrupt_number, interrupt_flags;
static word failed;

static volatile uint32_t *device(word address)
{
	return (volatile uint32_t *)address;
}

static void print(const char *text)
{
	while (*text)
		*device(SERIAL) = (uint32_t)*text++;
}

static void print_number(word number)
{
	char digits[24];
	char *at = digits + sizeof(digits);

	*--at = 0;
	do
		*--at = (char)('0' + number % 10);
	while (number /= 10);
	print(at);
}

static void print_values(const word *values, int count)
{
	int i;

	for (i = 0; i < count; i++) {
		print(" ");
		print_number(values[i]);
	}
	print("\n");
}

#define PRINT_VALUES(...) \
	do { \
		const word values[] = { __VA_ARGS__ }; \
		print_values(values, (int)(sizeof(values) / sizeof(*values))); \
	} while (0)

static void check(const char *name, int holds, const char *what)
{
	failed |= !holds;
	print("check ");
	print(name);
	print(holds ? " PASS " : " FAIL ");
	print(what);
}

void give_up(word address)
{
	print("RESULT FAIL: an exception at");
	PRINT_VALUES(address);
	end();
}

void note_trap(word address)
{
	traps++;
	trapped_at = address;
}

void note_interrupt(void)
{
	interrupt_number = *device(CPU_INTERFACE + 0xc) & 0x3ffu;
	interrupts_taken++;
	interrupt_flags = (word)LR_ARM_READ_FLAGS();
	LR_ARM_CLEAR_FLAGS(0xffffffffu);
	LR_ARM(barrier)();
	*device(CPU_INTERFACE + 0x10) = (uint32_t)interrupt_number;
}

/* 2 n instructions, and what calls and leaves it. */
static __attribute__((noinline)) word spin(word n)
{
#ifdef __aarch64__
	__asm__ volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(n) : : "cc");
#else
	__asm__ volatile("1: subs %0, %0, #1\n\tbne 1b" : "+r"(n) : : "cc");
#endif
	return n;
}

/* Its first instruction is the read. */
static __attribute__((noinline)) word read_cycles(word unused)
{
	const word cycles = (word)LR_ARM_READ(pmccntr);

	(void)unused;
	return cycles;
}

static __attribute__((noinline)) word increment(word mask)
{
	LR_ARM_WRITE(pmswinc, (uint32_t)mask);
	LR_ARM_WRITE(pmswinc, (uint32_t)mask);
	LR_ARM_WRITE(pmswinc, (uint32_t)mask);
	return 0;
}

/* User programs read where PMUSERENR lets them, and only there. */
static void check_access(const char *name, word enable, word expected_traps)
{
	word first, second;

	LR_ARM(reset)();
	LR_ARM_WRITE(pmuserenr, (uint32_t)enable);
	LR_ARM(start)(LR_ARM_BIT(CYCLES));
	traps = trapped_at = 0;
	first = call_in_user_mode(read_cycles, 0);
	second = call_in_user_mode(read_cycles, 0);
	check(name,
	      traps == expected_traps &&
		      (expected_traps ? trapped_at == (word)read_cycles : second > first),
	      "PMUSERENR, traps of two reads:");
	PRINT_VALUES(enable, traps);
}

/* With the divider 64 cycles are one, give or take the one that has begun. */
static void check_divider(void)
{
	word cycles;

	LR_ARM(reset)();
	LR_ARM_WRITE(pmcr, LR_ARM_BIT(PMCR_ENABLE) | LR_ARM_BIT(PMCR_DIVIDE));
	LR_ARM(barrier)();
	LR_ARM_WRITE(pmccntr, 0);
	LR_ARM(start)(LR_ARM_BIT(CYCLES));
	spin(32000);
	cycles = (word)LR_ARM_READ(pmccntr);
	check("divider", cycles >= 1000 && cycles <= 1001, "of 64000 cycles:");
	PRINT_VALUES(cycles);
}

/* Count of counter 0 for 5000 iterations of a loop in user mode, with this filter. */
static word filtered(uint32_t filter)
{
	LR_ARM(reset)();
	LR_ARM(select)(0, INSTRUCTIONS | filter);
	LR_ARM(start)(1);
	call_in_user_mode(spin, 5000);
	return LR_ARM(event)(0);
}

/* The way into user mode and back takes fewer than 64 instructions on either side. */
static void check_filters(void)
{
	const word all = filtered(0);
	const word user = filtered(LR_ARM_BIT(NOT_KERNEL));
	const word kernel = filtered(LR_ARM_BIT(NOT_USER));

	check("filters", user >= 10000 && user < 10064 && kernel && kernel < 64 &&
				 all == user + kernel,
	      "instructions of all, user, kernel:");
	PRINT_VALUES(all, user, kernel);
}

static void check_software_increment(void)
{
	word counted;

	LR_ARM(reset)();
	LR_ARM(select)(0, SOFTWARE_INCREMENT);
	LR_ARM(select)(1, SOFTWARE_INCREMENT);
	LR_ARM_WRITE(pmuserenr, LR_ARM_BIT(USER_ENABLE));
	LR_ARM(start)(3);
	traps = 0;
	call_in_user_mode(increment, 2);
	counted = LR_ARM(event)(1);
	check("software-increment", counted == 3 && !LR_ARM(event)(0) && !traps, "of three:");
	PRINT_VALUES(counted);
}

/* A wrap sets the counter's own flag; a write of 1 clears it. */
static void check_overflow_flags(void)
{
	word before, after, cleared;

	LR_ARM(reset)();
	LR_ARM(select)(1, INSTRUCTIONS);
	LR_ARM_WRITE(pmselr, 1);
	LR_ARM(barrier)();
	LR_ARM_WRITE(pmxevcntr, 0xffffff00u);
	LR_ARM_WRITE(pmccntr, (lr_arm_word)0 - 256);
	LR_ARM(barrier)();
	before = (word)LR_ARM_READ_FLAGS();
	LR_ARM(start)(LR_ARM_BIT(CYCLES) | 2);
	spin(1000);
	LR_ARM(stop)(LR_ARM_BIT(CYCLES) | 2);
	after = (word)LR_ARM_READ_FLAGS();
	LR_ARM_CLEAR_FLAGS((uint32_t)after);
	LR_ARM(barrier)();
	cleared = (word)LR_ARM_READ_FLAGS();
	check("overflow-flags",
	      before == 0 && after == (LR_ARM_BIT(CYCLES) | 2) && cleared == 0,
	      "before, after, cleared:");
	PRINT_VALUES(before, after, cleared);
}

static void check_overflow_interrupt(void)
{
	*device(DISTRIBUTOR) = 1;
	*device(DISTRIBUTOR + 0x100) = 1u << PMU_INTERRUPT;
	*device(CPU_INTERFACE + 4) = 0xff;
	*device(CPU_INTERFACE) = 1;
	LR_ARM(reset)();
	LR_ARM_WRITE(pmccntr, (lr_arm_word)0 - 10000);
	LR_ARM_PERMIT_INTERRUPTS(LR_ARM_BIT(CYCLES));
	interrupts_taken = 0;
	interrupts(1);
	LR_ARM(start)(LR_ARM_BIT(CYCLES));
	spin(20000);
	interrupts(0);
	check("overflow-interrupt",
	      interrupts_taken == 1 && interrupt_number == PMU_INTERRUPT &&
		      interrupt_flags == LR_ARM_BIT(CYCLES),
	      "interrupts, number, flags:");
	PRINT_VALUES(interrupts_taken, interrupt_number, interrupt_flags);
}

/* A counter of 32 bits that wraps, as a count of 64. A read takes fewer than 64 instructions. */
static void check_widening(void)
{
	struct lr_pmu_wide wide;
	word flags, short_before;
	uint64_t count;
	uint32_t now;

	LR_ARM(reset)();
	LR_ARM(select)(0, INSTRUCTIONS);
	LR_ARM_WRITE(pmselr, 0);
	LR_ARM(barrier)();
	LR_ARM_WRITE(pmxevcntr, 0xffffff00u);
	wide = lr_pmu_wide_from(LR_ARM(event)(0));
	LR_ARM(start)(1);
	spin(1000);
	now = LR_ARM(event)(0);
	flags = (word)LR_ARM_READ_FLAGS();
	short_before = (word)lr_pmu_wide_may_be_short(&wide, now, flags & 1);
	count = lr_pmu_wide_advance(&wide, now);
	check("widening", count >= 2000 && count < 2064 && flags == 1 && !short_before,
	      "of 2000 over a wrap:");
	PRINT_VALUES((word)count);
}

/* Each event that the table knows, on counter 0, over a loop with loads, stores and branches. */
#define EVENT(name, code, prose) { #name, code },
static const struct {
	const char *name;
	uint32_t code;
} events[] = { MACHINE_EVENTS(EVENT) };

static void print_events(void)
{
	unsigned int i;

	for (i = 0; i < sizeof(events) / sizeof(*events); i++) {
		LR_ARM(reset)();
		LR_ARM(select)(0, events[i].code);
		LR_ARM(start)(1);
		program_c_loop(100);
		LR_ARM_WRITE(pmswinc, 1);
		LR_ARM(stop)(1);
		print("event ");
		print(events[i].name);
		PRINT_VALUES(events[i].code, LR_ARM(event)(0));
	}
}

/* Overhead of the reads and the call: measured once with the empty program. */
static word own_instructions, own_cycles;
static word measured_instructions, measured_cycles, measured_result;

static __attribute__((noinline)) void measure(lab_program *program, word n)
{
	const lr_arm_counts before = LR_ARM_READ_COUNTS();
	const word result = program(n);
	const lr_arm_counts after = LR_ARM_READ_COUNTS();

	measured_instructions = (uint32_t)(after.event[0] - before.event[0]);
	measured_cycles = (word)(after.cycles - before.cycles);
	measured_result = result;
}

static void print_program(const char *name, lab_program *program, word n)
{
	measure(program, n);
	print("program ");
	print(name);
	PRINT_VALUES(n, measured_instructions - own_instructions, measured_cycles - own_cycles,
		     measured_result);
}

/* In user mode: the tutorial's programs, measured by themselves. */
static word print_programs(word unused)
{
	static const word lengths[] = { 1, 10, 1000 };
	unsigned int i;

	(void)unused;
	program_prepare();
	measure(program_empty, 0);
	own_instructions = measured_instructions;
	own_cycles = measured_cycles;
	print("program reads 0");
	PRINT_VALUES(own_instructions, own_cycles, 0);
	for (i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		const word n = lengths[i];

		print_program("empty", program_empty, n);
		print_program("c_loop", program_c_loop, n);
		print_program("loop", program_loop, n);
		print_program("two_branches", program_two_branches, n);
		print_program("sum_average", program_sum_average, n);
	}
	return 0;
}

static void run_programs(void)
{
	LR_ARM(reset)();
	LR_ARM(select)(0, INSTRUCTIONS);
	LR_ARM_WRITE(pmuserenr, LR_ARM_BIT(USER_ENABLE));
	LR_ARM(start)(LR_ARM_BIT(CYCLES) | 1);
	traps = 0;
	call_in_user_mode(print_programs, 0);
	check("programs", traps == 0, "traps:");
	PRINT_VALUES(traps);
}

void lab(void)
{
	print("counters");
	PRINT_VALUES(LR_ARM(counters)());
	check_access("closed", 0, 2);
	check_access("opened", LR_ARM_BIT(USER_ENABLE), 0);
	check_access("closed-again", 0, 2);
	check_divider();
	check_filters();
	check_software_increment();
	check_overflow_flags();
	check_overflow_interrupt();
	check_widening();
	print_events();
	run_programs();
	print(failed ? "RESULT FAIL\n" : "RESULT PASS\n");
	end();
}
