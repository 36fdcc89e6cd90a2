// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A Linux module that counts events on the PowerPC G4, on all processors that are online: selects
 * them by name on the four counters of the MPC7400 and MPC7410 or on the six of their successors,
 * says what is selected and what the registers read, and gives back what it took. After AN2581,
 * "AltiVec, multiprocessing", whose module does so for four counters and two of their registers.
 *
 *   insmod pmc74xx.ko events=PM_CYC,PM_INST_CMPL,PM_L1_DCACHE_MISS user_only=1
 *   cat /proc/pmc74xx
 *   rmmod pmc74xx
 *
 * An event is a name of native/pmu/events/mpc74xx.h (on an MPC7400 or 7410, of the note's matrix),
 * or a number: the counter in bits 8 to 10, the selection below, as Linux' driver has it. User
 * programs read the counts by native/pmu/ppc74xx.h at any time. Counters wrap at 2^32 and nothing
 * interrupts. Linux itself says whose the counters are (reserve_pmc_hardware), so neither perf nor
 * this loads over the other.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <asm/pmc.h>
#include <asm/reg.h>

#include "an2581.h"
#include "event_names.h"
#include "events/mpc74xx.h"
#include "ppc74xx.h"

#define MAX_COUNTERS 6

static char *events[MAX_COUNTERS] = { "0x001" };
static unsigned int event_count = 1;
module_param_array(events, charp, &event_count, 0444);
MODULE_PARM_DESC(events, "what to count: names or numbers; cycles unless told otherwise");

static bool user_only;
module_param(user_only, bool, 0444);
MODULE_PARM_DESC(user_only, "leave out what happens in the kernel");

#define NOTE_NAME(name, code) { #name, code },
static const struct event_name of_7450[] = { LR_MPC74XX_EVENTS(EVENT_NAME) };
static const struct event_name of_7400[] = { AN2581_EVENTS(NOTE_NAME) };

/* This processor's: its counters, and its names. */
static u32 counters;
static const struct event_name *known;
static size_t known_count;

/* What each counter, from 1, counts; 0 is nothing. */
static u32 selected[MAX_COUNTERS + 1];

struct registers {
	u32 mmcr0, mmcr1, mmcr2, pmc[MAX_COUNTERS + 1];
};

static DEFINE_PER_CPU(struct registers, found);

/*
 * The counters that can count this, as a mask of bits 1 to 6. A number names one. Selections that
 * several counters have are the same number on all of them: up to 1 on any, up to 7 on 1 to 4, up
 * to 13 on 1, 2 and 4, up to 22 on 1 and 2 (MPC7450UM, tables of chapter 11; Linux' mpc7450-pmu.c
 * has the same).
 */
static u32 counters_for(u32 code)
{
	const u32 all = (2u << counters) - 2;
	const u32 counter = code >> 8, selection = code & 0xff;
	const struct lr_ppc74xx_field field = lr_ppc74xx_field_of(counter);

	if (counter)
		return selection <= field.mask ? 1u << counter & all : 0;
	return all & (selection <= 1 ? 0x7e : selection <= 7 ? 0x1e : selection <= 13 ? 0x16 :
		      selection <= 22 ? 0x06 : 0);
}

static int parse(const char *text, u32 *code)
{
	const struct event_name *event;

	if (!kstrtou32(text, 0, code))
		return 0;
	event = event_named(known, known_count, text);
	if (!event) {
		event_name_help(known, known_count, text);
		return -EINVAL;
	}
	*code = event->code;
	return 0;
}

/*
 * A counter for each event. The sets of counters that events can have are single ones and a chain
 * in which each holds the one before, so it is right to begin with the smallest set and to take any
 * counter of it that is free: no later event could use that one where this one could not.
 */
static int assign(const u32 *codes)
{
	u32 size, i, taken = 0;

	for (size = 1; size <= MAX_COUNTERS; size++)
		for (i = 0; i < event_count; i++) {
			const u32 possible = counters_for(codes[i]);
			const u32 counter = __ffs(possible & ~taken ? possible & ~taken : 1);

			if (hweight32(possible) != size)
				continue;
			if (!counter) {
				pr_err("%s: each counter that has it is taken by another event\n",
				       events[i]);
				return -EBUSY;
			}
			taken |= 1u << counter;
			selected[counter] = codes[i];
		}
	return 0;
}

static int choose(void)
{
	u32 codes[MAX_COUNTERS];
	unsigned int i;
	int error;

	if (event_count > counters) {
		pr_err("%u events for %u counters; leave %u out\n", event_count, counters,
		       event_count - counters);
		return -EINVAL;
	}
	for (i = 0; i < event_count; i++) {
		error = parse(events[i], &codes[i]);
		if (error)
			return error;
		if (!counters_for(codes[i])) {
			pr_err("%s: no counter of this processor has it\n", events[i]);
			return -EINVAL;
		}
	}
	return assign(codes);
}

/* All of these run on the processor that they are about. */

static void read_all(struct registers *to)
{
	to->mmcr0 = lr_ppc74xx_read_mmcr0();
	to->mmcr1 = lr_ppc74xx_read_mmcr1();
	to->mmcr2 = lr_ppc74xx_read_mmcr2();
	to->pmc[1] = lr_ppc74xx_read_pmc1();
	to->pmc[2] = lr_ppc74xx_read_pmc2();
	to->pmc[3] = lr_ppc74xx_read_pmc3();
	to->pmc[4] = lr_ppc74xx_read_pmc4();
	to->pmc[5] = counters > 4 ? lr_ppc74xx_read_pmc5() : 0;
	to->pmc[6] = counters > 4 ? lr_ppc74xx_read_pmc6() : 0;
}

static void read_here(void *to)
{
	read_all(to);
}

static void start_here(void *unused)
{
	u32 counter;

	read_all(this_cpu_ptr(&found));
	lr_ppc74xx_reset(counters);
	for (counter = 1; counter <= counters; counter++)
		lr_ppc74xx_select(counter, selected[counter]);
	if (user_only)
		lr_ppc74xx_write_mmcr0(lr_ppc74xx_read_mmcr0() |
				       LR_PPC74XX_MMCR0_NOT_KERNEL);
	lr_ppc74xx_start();
}

static void restore_here(void *unused)
{
	const struct registers *const before = this_cpu_ptr(&found);

	lr_ppc74xx_stop();
	lr_ppc74xx_write_pmc1(before->pmc[1]);
	lr_ppc74xx_write_pmc2(before->pmc[2]);
	lr_ppc74xx_write_pmc3(before->pmc[3]);
	lr_ppc74xx_write_pmc4(before->pmc[4]);
	if (counters > 4) {
		lr_ppc74xx_write_pmc5(before->pmc[5]);
		lr_ppc74xx_write_pmc6(before->pmc[6]);
	}
	lr_ppc74xx_write_mmcr2(before->mmcr2);
	lr_ppc74xx_write_mmcr1(before->mmcr1);
	lr_ppc74xx_write_mmcr0(before->mmcr0);
	lr_ppc74xx_barrier();
}

/* What a counter's field of the registers says. */
static u32 selection_in(const struct registers *registers, u32 counter)
{
	const struct lr_ppc74xx_field field = lr_ppc74xx_field_of(counter);

	return (counter <= 2 ? registers->mmcr0 : registers->mmcr1) >> field.shift & field.mask;
}

/* The registers of each processor, what they select by name, and the counts. */
static int show(struct seq_file *file, void *unused)
{
	struct registers now;
	u32 cpu, counter;

	for_each_online_cpu(cpu) {
		smp_call_function_single(cpu, read_here, &now, 1);
		seq_printf(file, "cpu %u MMCR0 %#010x MMCR1 %#010x MMCR2 %#010x\n", cpu, now.mmcr0,
			   now.mmcr1, now.mmcr2);
		for (counter = 1; counter <= counters; counter++)
			seq_printf(file, "counter %u selects %#04x %s count %u\n", counter,
				   selection_in(&now, counter),
				   selected[counter] ? event_name_of(known, known_count,
								     selected[counter]) : "nothing",
				   now.pmc[counter]);
	}
	return 0;
}

/* Whether what was written is what is read. */
static bool reads_back(void)
{
	struct registers now;
	bool is_right = true;
	u32 counter;

	read_all(&now);
	for (counter = 1; counter <= counters; counter++) {
		const u32 wanted = selected[counter] & 0xff;

		pr_info("counter %u selects %#04x %s\n", counter, selection_in(&now, counter),
			selected[counter] ? event_name_of(known, known_count, selected[counter]) :
					    "nothing");
		is_right &= selection_in(&now, counter) == wanted;
	}
	pr_info("MMCR0 %#010x MMCR1 %#010x, user's UMMCR0 %#010x UMMCR1 %#010x: %s\n", now.mmcr0,
		now.mmcr1, lr_ppc74xx_read_ummcr0(), lr_ppc74xx_read_ummcr1(),
		is_right ? "as written" : "not as written");
	return is_right;
}

static int __init pmc74xx_init(void)
{
	const u32 version = mfspr(SPRN_PVR) >> 16;
	int error;

	counters = lr_ppc74xx_counters(version);
	if (!counters) {
		pr_err("a processor of version %#06x has no counters that are known here\n",
		       version);
		return -ENODEV;
	}
	known = counters > 4 ? of_7450 : of_7400;
	known_count = counters > 4 ? ARRAY_SIZE(of_7450) : ARRAY_SIZE(of_7400);
	error = choose();
	if (error)
		return error;
	error = reserve_pmc_hardware(NULL);
	if (error) {
		pr_err("perf or another module has the counters; end it first\n");
		return error;
	}
	on_each_cpu(start_here, NULL, 1);
	error = reads_back() ? 0 : -EIO;
	if (!error && !proc_create_single(KBUILD_MODNAME, 0444, NULL, show))
		error = -ENOMEM;
	if (error) {
		on_each_cpu(restore_here, NULL, 1);
		release_pmc_hardware();
	}
	return error;
}

static void __exit pmc74xx_exit(void)
{
	struct registers last, now;
	u32 counter, counted = 0;

	remove_proc_entry(KBUILD_MODNAME, NULL);
	read_all(&last);
	for (counter = 1; counter <= counters; counter++)
		counted |= last.pmc[counter];
	on_each_cpu(restore_here, NULL, 1);
	release_pmc_hardware();
	read_all(&now);
	pr_info("unloaded: %s; MMCR0 %#010x MMCR1 %#010x\n",
		counted ? "counted" : "all counts are 0, as an emulator's are", now.mmcr0,
		now.mmcr1);
}

module_init(pmc74xx_init);
module_exit(pmc74xx_exit);
MODULE_DESCRIPTION("Counts events on the PowerPC G4");
MODULE_LICENSE("Dual MIT/GPL");
