/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks the arithmetic of the headers, without register access: counts against a 64-bit counter of
 * which only the lower part is visible, and selections against the decoding of AN2581, "AltiVec,
 * multiprocessing", for the MPC7400. Runs on any machine; prints differences, and the number of
 * comparisons.
 */
#include <stdio.h>

#include "../events/mpc7400.h"
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

/* Step sizes around every boundary that 32 bits have. */
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

/*
 * Expects a count to be reported as short exactly if the flag is set and the step was 2^32 or more,
 * for steps below 2 * 2^32.
 */
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
				/*
				 * After a second wrap the register is below its old value, which is
				 * not detected.
				 */
				const int is_short = turn && count >> 32 == 1;

				compare("may be short",
					(uint64_t)lr_pmu_wide_may_be_short(&wide, (uint32_t)count,
									   overflowed),
					(uint64_t)is_short);
			}
}

/* Compares 64-bit counts, before and after the interrupt of a wrap was taken. */
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

/* Decodes the selectors of counters 1 to 4 as the note does. */
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

/*
 * Selects every event on each counter, in registers of all zeros and all ones; the other selections
 * must not change.
 */
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

#define CODE(name, code, prose) code,
#define ALSO(name, code) { LR_MPC74XX_##name, code },

/*
 * Expects that every event of a table has a counter, and that its selection fits the field of each
 * counter that has it.
 */
static void compare_codes(const uint32_t *codes, size_t count, uint32_t counters)
{
	size_t i;

	for (i = 0; i < count; i++) {
		const uint32_t possible = lr_ppc74xx_counters_for(counters, codes[i]);
		uint32_t counter;

		compare("has a counter", possible != 0 && !(possible & ~((2u << counters) - 2)), 1);
		for (counter = 1; counter <= counters; counter++)
			if (possible >> counter & 1)
				compare("fits its counter",
					codes[i] & 0xff & lr_ppc74xx_field_of(counter).mask,
					codes[i] & 0xff);
	}
}

static void compare_tables(void)
{
	static const uint32_t of_7450[] = { LR_MPC74XX_EVENTS(CODE) };
	static const uint32_t of_7400[] = { LR_MPC7400_EVENTS(CODE) };
	static const uint32_t also[][2] = { LR_MPC74XX_ALSO(ALSO) };
	/*
	 * Number of counters, a selection, and the mask of the counters on which it is the same
	 * event.
	 */
	static const uint32_t common[][3] = {
		{ 6, 1, 0x7e }, { 6, 2, 0x1e },	 { 6, 7, 0x1e },  { 6, 8, 0x16 },
		{ 6, 13, 0x16 }, { 6, 14, 0x06 }, { 6, 22, 0x06 }, { 4, 4, 0x1e },
	};
	size_t i;

	compare_codes(of_7450, sizeof(of_7450) / sizeof(*of_7450), 6);
	compare_codes(of_7400, sizeof(of_7400) / sizeof(*of_7400), 4);
	for (i = 0; i < sizeof(also) / sizeof(*also); i++) {
		compare_codes(&also[i][1], 1, 6);
		compare("another counter", lr_ppc74xx_counters_for(6, also[i][0]) &
						   lr_ppc74xx_counters_for(6, also[i][1]),
			0);
	}
	for (i = 0; i < sizeof(common) / sizeof(*common); i++)
		compare("counters in common",
			lr_ppc74xx_counters_for(common[i][0], common[i][1]), common[i][2]);
	compare("no counter 5", lr_ppc74xx_counters_for(4, 0x501), 0);
	compare("no counter 7", lr_ppc74xx_counters_for(6, 0x701), 0);
	compare("more than fits", lr_ppc74xx_counters_for(6, 0x320), 0);
	compare("in common with none", lr_ppc74xx_counters_for(6, 23), 0);
	compare("not in common there", lr_ppc74xx_counters_for(4, 5), 0);
}

/*
 * Returns nonzero if the events from `from` on can be assigned to the free counters, by trying all
 * assignments.
 */
static int can_place(const struct lr_ppc74xx_event *events, uint32_t from, uint32_t count,
		     uint32_t taken)
{
	uint32_t counter;

	if (from == count)
		return 1;
	for (counter = 1; counter <= 6; counter++)
		if (events[from].counters & ~taken & 1u << counter &&
		    can_place(events, from + 1, count, taken | 1u << counter))
			return 1;
	return 0;
}

/* Returns nonzero if each event has a counter that can count it, and no counter has two events. */
static int is_placed(const struct lr_ppc74xx_event *events, uint32_t count, const uint32_t *by)
{
	uint32_t counter, seen = 0;

	for (counter = 1; counter <= 6; counter++) {
		if (!by[counter])
			continue;
		if (!(events[by[counter] - 1].counters >> counter & 1))
			return 0;
		seen |= 1u << (by[counter] - 1);
	}
	return seen == (1u << count) - 1;
}

/*
 * Places synthetic events, and expects that a set is refused exactly if brute force finds no
 * assignment.
 */
static void compare_placing(void)
{
	struct lr_ppc74xx_event events[6];
	uint32_t random = 1, turn, i;

	for (turn = 0; turn < 20000; turn++) {
		const uint32_t count = turn % 6 + 1;
		uint32_t by[7] = { 0 }, placed = 0;

		for (i = 0; i < count; i++) {
			random = random * 1664525u + 1013904223u;
			/* Few counters per event, because otherwise any assignment would work. */
			events[i].counters = random >> 16 & random >> 24 & 0x7e;
			if (!events[i].counters)
				events[i].counters = 2u << (random >> 10) % 6;
		}
		for (i = 1; i <= count; i++) {
			uint32_t tried = 0;

			if (!lr_ppc74xx_place(events, i, by, &tried))
				break;
			placed = i;
			compare("placed", (uint64_t)is_placed(events, placed, by), 1);
		}
		compare("as many as can be", placed == count,
			(uint64_t)can_place(events, 0, count, 0));
	}
}

/*
 * Checks the selection of an event on each counter: PM_SNOOP_RETRY has a different one on each of
 * three.
 */
static void compare_adding(void)
{
	struct lr_ppc74xx_event event = { 0 };

	lr_ppc74xx_add(&event, 6, LR_MPC74XX_PM_SNOOP_RETRY);
	compare("of one code", event.counters, 0x10);
	lr_ppc74xx_add(&event, 6, 0x50f);
	lr_ppc74xx_add(&event, 6, 0x60f);
	compare("of three codes", event.counters, 0x70);
	compare("on counter 4", event.selection[4], 0x18);
	compare("on counter 6", event.selection[6], 0x0f);
	lr_ppc74xx_add(&event, 4, 0x60f);
	compare("not there", event.counters, 0x70);
}

int main(void)
{
	compare_wide();
	compare_short();
	compare_wraps();
	compare_x86();
	compare_selections();
	compare_tables();
	compare_placing();
	compare_adding();
	printf("registers of counters: %u results compared, %u differ\n", compared, differing);
	return compared == 0 || differing != 0;
}
