/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the headers compute without touching a register, against a counter of 64 bits of which
 * only the lower part is seen, and against how AN2581, "AltiVec, multiprocessing", takes the
 * selections of an MPC7400 apart. Runs on any machine; prints what differs, and how much was
 * compared.
 */
#include <stdio.h>

#include "../events/mpc74xx.h"
#include "../ppc74xx.h"
#include "../x86.h"

static unsigned int compared, differing;

static void compare(const char *what, uint64_t found, uint64_t expected)
{
	compared++;
	if (found == expected)
		return;
	differing++;
	printf("%s: %#llx, not %#llx\n", what, (unsigned long long)found,
	       (unsigned long long)expected);
}

/* Steps around every boundary that 32 bits have. */
static const uint64_t steps[] = { 0, 1, 2, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };
#define STEPS (sizeof(steps) / sizeof(*steps))

static void compare_wide(void)
{
	size_t from, i, k;

	for (from = 0; from < STEPS; from++)
		for (i = 0; i < STEPS; i++)
			for (k = 0; k < STEPS; k++) {
				struct lr_pmu_wide wide = lr_pmu_wide_from((uint32_t)steps[from]);
				uint64_t count = steps[from] + steps[i];

				compare("advance", lr_pmu_wide_advance(&wide, (uint32_t)count),
					steps[i]);
				count += steps[k];
				compare("advance again",
					lr_pmu_wide_advance(&wide, (uint32_t)count),
					steps[i] + steps[k]);
			}
}

/* Short by a turn just where the flag is set and the step was a turn or more; below two turns. */
static void compare_short(void)
{
	size_t from, i;
	int turn;

	for (from = 0; from < STEPS; from++)
		for (i = 0; i < STEPS; i++)
			for (turn = 0; turn < 2; turn++) {
				const struct lr_pmu_wide wide =
					lr_pmu_wide_from((uint32_t)steps[from]);
				const uint64_t step = steps[i] + ((uint64_t)turn << 32);
				const uint64_t count = steps[from] + step;
				const int overflowed = count >> 32 != 0;
				/* A second wrap leaves the register below: that is not seen. */
				const int is_short = turn && count >> 32 == 1;

				compare("may be short",
					(uint64_t)lr_pmu_wide_may_be_short(&wide, (uint32_t)count,
									   overflowed),
					(uint64_t)is_short);
			}
}

/* A count of 64 bits, before and after its interrupt was taken. */
static void compare_wraps(void)
{
	uint32_t wraps;
	size_t i;

	for (wraps = 0; wraps < 3; wraps++)
		for (i = 0; i < STEPS; i++) {
			const uint32_t low = (uint32_t)steps[i];
			const uint64_t count = (uint64_t)wraps << 32 | low;

			compare("taken", lr_pmu_wide_of_wraps(wraps, low, 0), count);
			if (wraps && low < 0x80000000u)
				compare("pending", lr_pmu_wide_of_wraps(wraps - 1, low, 1), count);
			if (low >= 0x80000000u)
				compare("wrapped behind", lr_pmu_wide_of_wraps(wraps, low, 1),
					count);
		}
}

static void compare_x86(void)
{
	const unsigned int widths[] = { 32, 40, 48, 64 };
	size_t width, from, i;

	for (width = 0; width < 4; width++)
		for (from = 0; from < STEPS; from++)
			for (i = 0; i < STEPS; i++) {
				const uint64_t mask = ~0ull >> (64 - widths[width]);
				const uint64_t before = (0 - steps[from]) & mask;

				compare("since",
					lr_x86_since(before, (before + steps[i]) & mask,
						     widths[width]),
					steps[i]);
			}
}

/* The note's way to take the selections of counters 1 to 4 apart. */
static uint32_t selected(uint32_t mmcr0, uint32_t mmcr1, uint32_t counter)
{
	switch (counter) {
	case 1:
		return mmcr0 >> 6 & 0x7f;
	case 2:
		return mmcr0 & 0x3f;
	case 3:
		return mmcr1 >> 27;
	case 4:
		return mmcr1 >> 22 & 0x1f;
	case 5:
		return mmcr1 >> 17 & 0x1f;
	default:
		return mmcr1 >> 11 & 0x3f;
	}
}

/* Each counter in turn, between registers of zeros and of ones; the others stay. */
static void compare_selections(void)
{
	uint32_t counter, other, event;
	int ones;

	for (counter = 1; counter <= 6; counter++)
		for (event = 0; event <= lr_ppc74xx_field_of(counter).mask; event++)
			for (ones = 0; ones < 2; ones++) {
				const uint32_t before = ones ? 0xffffffffu : 0;
				const uint32_t after =
					lr_ppc74xx_selecting(before, counter, event);
				const uint32_t mmcr0 = counter <= 2 ? after : before;
				const uint32_t mmcr1 = counter <= 2 ? before : after;

				for (other = 1; other <= 6; other++)
					compare("selected", selected(mmcr0, mmcr1, other),
						other == counter ? event
								 : selected(before, before, other));
			}
	compare("counter 0", lr_ppc74xx_selecting(7, 0, 1), 7);
	compare("counter 7", lr_ppc74xx_selecting(7, 7, 1), 7);
}

/* Every event of the table fits the counter that its code names. */
static void compare_events(void)
{
#define EVENT(name, code, prose) code,
	static const uint32_t codes[] = { LR_MPC74XX_EVENTS(EVENT) };
#undef EVENT
	size_t i;

	for (i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		const uint32_t counter = codes[i] >> 8;
		const uint32_t event = codes[i] & 0xff;

		compare("counter of a code", counter <= 6, 1);
		/* Counters 3 to 5 take the least: what any may count must fit them. */
		compare("event of a code",
			event & lr_ppc74xx_field_of(counter ? counter : 3).mask, event);
	}
}

int main(void)
{
	compare_wide();
	compare_short();
	compare_wraps();
	compare_x86();
	compare_selections();
	compare_events();
	printf("registers of counters: %u results compared, %u differ\n", compared, differing);
	return compared == 0 || differing != 0;
}
