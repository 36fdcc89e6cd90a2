// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A Linux module that counts events on the PowerPC G4, on all online processors. It selects events
 * by name on the four counters of the MPC7400 and MPC7410 or the six of their successors, reports
 * the selection and the register values, and restores the registers when unloaded. It follows the
 * module in AN2581, "AltiVec, multiprocessing", which supports four counters and two of their
 * registers.
 *
 *   insmod pmc74xx.ko events=PM_CYC,PM_INST_CMPL,PM_L1_DCACHE_MISS user_only=1
 *   cat /proc/pmc74xx /proc/pmc74xx_events
 *   rmmod pmc74xx
 *
 * An event is a name from native/pmu/events/mpc74xx.h (on an MPC7400 or 7410, from mpc7400.h), or a
 * number as in Linux' driver: the counter in bits 8 to 10, the selection below. The module finds an
 * assignment of events to counters if there is one. User programs can read the counts with
 * native/pmu/ppc74xx.h at any time. Counters wrap at 2^32 without an interrupt. The counters are
 * reserved through Linux (reserve_pmc_hardware), so perf and this module cannot use them at the
 * same time.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <asm/pmc.h>
#include <asm/reg.h>

#include "event_names.h"
#include "events/mpc7400.h"
#include "events/mpc74xx.h"
#include "ppc74xx.h"

#define MAX_COUNTERS 6
/* Larger than the number of counters, so that the error message can give the number requested. */
#define MAX_EVENTS 32

static char *events[MAX_EVENTS] = { "0x001" };
static unsigned int event_count = 1;
module_param_array(events, charp, &event_count, 0444);
MODULE_PARM_DESC(events, "events to count, by name or number; default: cycles");

static unsigned int threshold;
module_param(threshold, uint, 0444);
MODULE_PARM_DESC(threshold,
		 "threshold of events with EXCEED in their names: 0 to 63 entries, or units of 2 cycles");

static bool threshold_by_32;
module_param(threshold_by_32, bool, 0444);
MODULE_PARM_DESC(threshold_by_32, "the threshold is in units of 32 cycles");

static bool user_only;
module_param(user_only, bool, 0444);
MODULE_PARM_DESC(user_only, "count user mode only");

/* A second code, `also`, of the event whose first code is `code`. */
struct other_code {
	u32 code, also;
};

#define EVENT_PROSE(name, code, prose) prose,
#define EVENT_ALSO(name, code) { LR_MPC74XX_##name, code },
static const struct event_name names_7450[] = { LR_MPC74XX_EVENTS(EVENT_NAME) };
static const char *const prose_7450[] = { LR_MPC74XX_EVENTS(EVENT_PROSE) };
static const struct other_code also_7450[] = { LR_MPC74XX_ALSO(EVENT_ALSO) };
static const struct event_name names_7400[] = { LR_MPC7400_EVENTS(EVENT_NAME) };
static const char *const prose_7400[] = { LR_MPC7400_EVENTS(EVENT_PROSE) };

struct processor {
	u32 counters;
	const struct event_name *names;
	const char *const *prose;
	size_t name_count;
	const struct other_code *also;
	size_t also_count;
};

static const struct processor mpc7450 = {
	6, names_7450, prose_7450, ARRAY_SIZE(names_7450), also_7450, ARRAY_SIZE(also_7450)
};
static const struct processor mpc7400 = {
	4, names_7400, prose_7400, ARRAY_SIZE(names_7400), NULL, 0
};

/* The model that this runs on. */
static const struct processor *here;

/* The selector of each counter, from 1; 0 counts nothing. */
static u32 selected[MAX_COUNTERS + 1];

struct registers {
	u32 mmcr0, mmcr1, mmcr2, pmc[MAX_COUNTERS + 1];
};

static DEFINE_PER_CPU(struct registers, found);

/* Returns the event with this name, on every counter that can count it. */
static struct lr_ppc74xx_event of_name(const struct event_name *name)
{
	struct lr_ppc74xx_event event = { 0 };
	size_t i;

	lr_ppc74xx_add(&event, here->counters, name->code);
	for (i = 0; i < here->also_count; i++)
		if (here->also[i].code == name->code)
			lr_ppc74xx_add(&event, here->counters, here->also[i].also);
	return event;
}

/* Returns the name of the event that this selection means on a counter. */
static const char *name_of(u32 counter, u32 selection)
{
	size_t i;

	if (!selection)
		return "nothing";
	for (i = 0; i < here->name_count; i++) {
		const struct lr_ppc74xx_event event = of_name(&here->names[i]);

		if (event.counters >> counter & 1 && event.selection[counter] == selection)
			return here->names[i].name;
	}
	return "-";
}

static int parse(const char *text, struct lr_ppc74xx_event *event)
{
	const struct event_name *name;
	u32 code;

	*event = (struct lr_ppc74xx_event){ 0 };
	if (!kstrtou32(text, 0, &code)) {
		lr_ppc74xx_add(event, here->counters, code);
	} else {
		name = event_named(here->names, here->name_count, text);
		if (!name) {
			event_name_help(here->names, here->name_count, text);
			return -EINVAL;
		}
		*event = of_name(name);
	}
	if (!event->counters) {
		pr_err("%s: no counter of this processor counts it; a number is 0xCSS, counter and selection\n",
		       text);
		return -EINVAL;
	}
	return 0;
}

/* Reports that no counter is left for this event, and which counters can count it. */
static void say_no_counter(const char *text, const struct lr_ppc74xx_event *event)
{
	char counters[3 * MAX_COUNTERS];
	size_t used = 0;
	u32 counter;

	for (counter = 1; counter <= here->counters; counter++)
		if (event->counters >> counter & 1)
			used += scnprintf(counters + used, sizeof(counters) - used, " %u",
					  counter);
	pr_err("%s: only on%s, which earlier events use; count them in another run\n", text,
	       counters);
}

static int choose(void)
{
	struct lr_ppc74xx_event chosen[MAX_COUNTERS];
	u32 by[MAX_COUNTERS + 1] = { 0 };
	u32 i, counter;

	if (event_count > here->counters) {
		pr_err("%u events for %u counters; leave %u out\n", event_count, here->counters,
		       event_count - here->counters);
		return -EINVAL;
	}
	if (threshold > LR_PPC74XX_MMCR0_THRESHOLD >> LR_PPC74XX_MMCR0_THRESHOLD_SHIFT) {
		pr_err("threshold=%u: 0 to 63\n", threshold);
		return -EINVAL;
	}
	for (i = 0; i < event_count; i++) {
		const int error = parse(events[i], &chosen[i]);
		u32 tried = 0;

		if (error)
			return error;
		if (!lr_ppc74xx_place(chosen, i + 1, by, &tried)) {
			say_no_counter(events[i], &chosen[i]);
			return -EBUSY;
		}
	}
	for (counter = 1; counter <= here->counters; counter++)
		if (by[counter])
			selected[counter] = chosen[by[counter] - 1].selection[counter];
	return 0;
}

/* Except for read_any, the functions below run on the processor whose registers they access. */

static void read_all(struct registers *to)
{
	to->mmcr0 = lr_ppc74xx_read_mmcr0();
	to->mmcr1 = lr_ppc74xx_read_mmcr1();
	to->mmcr2 = lr_ppc74xx_read_mmcr2();
	to->pmc[1] = lr_ppc74xx_read_pmc1();
	to->pmc[2] = lr_ppc74xx_read_pmc2();
	to->pmc[3] = lr_ppc74xx_read_pmc3();
	to->pmc[4] = lr_ppc74xx_read_pmc4();
	to->pmc[5] = here->counters > 4 ? lr_ppc74xx_read_pmc5() : 0;
	to->pmc[6] = here->counters > 4 ? lr_ppc74xx_read_pmc6() : 0;
}

static void read_here(void *to)
{
	read_all(to);
}

/* Reads the registers of whichever processor this runs on. */
static void read_any(struct registers *to)
{
	get_cpu();
	read_all(to);
	put_cpu();
}

static void start_here(void *unused)
{
	u32 counter;

	read_all(this_cpu_ptr(&found));
	lr_ppc74xx_reset(here->counters);
	for (counter = 1; counter <= here->counters; counter++)
		lr_ppc74xx_select(counter, selected[counter]);
	lr_ppc74xx_write_mmcr0(lr_ppc74xx_read_mmcr0() |
			       (user_only ? LR_PPC74XX_MMCR0_NOT_KERNEL : 0) |
			       threshold << LR_PPC74XX_MMCR0_THRESHOLD_SHIFT);
	lr_ppc74xx_write_mmcr2(threshold_by_32 ? LR_PPC74XX_MMCR2_BY_32 : 0);
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
	if (here->counters > 4) {
		lr_ppc74xx_write_pmc5(before->pmc[5]);
		lr_ppc74xx_write_pmc6(before->pmc[6]);
	}
	lr_ppc74xx_write_mmcr2(before->mmcr2);
	lr_ppc74xx_write_mmcr1(before->mmcr1);
	lr_ppc74xx_write_mmcr0(before->mmcr0);
	lr_ppc74xx_barrier();
}

/* Returns the selection of a counter in the registers. */
static u32 selection_in(const struct registers *registers, u32 counter)
{
	const struct lr_ppc74xx_field field = lr_ppc74xx_field_of(counter);

	return (counter <= 2 ? registers->mmcr0 : registers->mmcr1) >> field.shift & field.mask;
}

/* Shows the registers of each processor, the names of the selected events, and the counts. */
static int show(struct seq_file *file, void *unused)
{
	struct registers now;
	u32 cpu, counter;

	cpus_read_lock();
	for_each_online_cpu(cpu) {
		smp_call_function_single(cpu, read_here, &now, 1);
		seq_printf(file, "cpu %u MMCR0 %#010x MMCR1 %#010x MMCR2 %#010x\n", cpu, now.mmcr0,
			   now.mmcr1, now.mmcr2);
		for (counter = 1; counter <= here->counters; counter++) {
			const u32 selection = selection_in(&now, counter);

			seq_printf(file, "counter %u selects %#04x %s count %u\n", counter,
				   selection, name_of(counter, selection), now.pmc[counter]);
		}
	}
	cpus_read_unlock();
	return 0;
}

/*
 * Shows every event of this processor: its name, its counters and selections, and what it counts.
 */
static int show_events(struct seq_file *file, void *unused)
{
	size_t i;
	u32 counter;

	for (i = 0; i < here->name_count; i++) {
		const struct lr_ppc74xx_event event = of_name(&here->names[i]);

		seq_printf(file, "%s", here->names[i].name);
		for (counter = 1; counter <= here->counters; counter++)
			if (event.counters >> counter & 1)
				seq_printf(file, " %u:%#04x", counter, event.selection[counter]);
		seq_printf(file, " %s\n", here->prose[i]);
	}
	return 0;
}

/* Returns whether the registers read back as written. */
static bool reads_back(void)
{
	const u32 wanted_threshold = threshold << LR_PPC74XX_MMCR0_THRESHOLD_SHIFT;
	const u32 wanted_mmcr2 = threshold_by_32 ? LR_PPC74XX_MMCR2_BY_32 : 0;
	struct registers now;
	u32 counter, ummcr0, ummcr1;
	bool is_right;

	get_cpu();
	read_all(&now);
	ummcr0 = lr_ppc74xx_read_ummcr0();
	ummcr1 = lr_ppc74xx_read_ummcr1();
	put_cpu();
	is_right = (now.mmcr0 & LR_PPC74XX_MMCR0_THRESHOLD) == wanted_threshold &&
		   now.mmcr2 == wanted_mmcr2;
	for (counter = 1; counter <= here->counters; counter++) {
		const u32 selection = selection_in(&now, counter);

		pr_info("counter %u selects %#04x %s\n", counter, selection,
			name_of(counter, selection));
		is_right &= selection == selected[counter];
	}
	pr_info("MMCR0 %#010x MMCR1 %#010x, user's UMMCR0 %#010x UMMCR1 %#010x: %s\n", now.mmcr0,
		now.mmcr1, ummcr0, ummcr1, is_right ? "as written" : "not as written");
	return is_right;
}

#define EVENTS_NAME KBUILD_MODNAME "_events"

/* Creates both files, or neither. */
static int make_files(void)
{
	if (!proc_create_single(KBUILD_MODNAME, 0444, NULL, show))
		return -ENOMEM;
	if (!proc_create_single(EVENTS_NAME, 0444, NULL, show_events)) {
		remove_proc_entry(KBUILD_MODNAME, NULL);
		return -ENOMEM;
	}
	return 0;
}

static int __init pmc74xx_init(void)
{
	const u32 version = mfspr(SPRN_PVR) >> 16;
	const u32 counters = lr_ppc74xx_counters(version);
	int error;

	if (!counters) {
		pr_err("a processor of version %#06x has no counters that are supported here\n",
		       version);
		return -ENODEV;
	}
	here = counters > 4 ? &mpc7450 : &mpc7400;
	error = choose();
	if (error)
		return error;
	error = reserve_pmc_hardware(NULL);
	if (error) {
		pr_err("perf or another module uses the counters; stop it first\n");
		return error;
	}
	on_each_cpu(start_here, NULL, 1);
	error = reads_back() ? make_files() : -EIO;
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

	remove_proc_entry(EVENTS_NAME, NULL);
	remove_proc_entry(KBUILD_MODNAME, NULL);
	read_any(&last);
	for (counter = 1; counter <= here->counters; counter++)
		counted |= last.pmc[counter];
	on_each_cpu(restore_here, NULL, 1);
	release_pmc_hardware();
	read_any(&now);
	pr_info("unloaded: %s; MMCR0 %#010x MMCR1 %#010x\n",
		counted ? "counted" : "all counts are 0, as an emulator's are", now.mmcr0,
		now.mmcr1);
}

module_init(pmc74xx_init);
module_exit(pmc74xx_exit);
MODULE_DESCRIPTION("Counts events on the PowerPC G4");
MODULE_LICENSE("Dual MIT/GPL");
