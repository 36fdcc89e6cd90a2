// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A Linux module that enables user access to the PMU of ARMv7 and ARM64, on every CPU including
 * those that come online later, so that programs can count with native/pmu on boards without a perf
 * driver, or read a counter with one instruction.
 *
 *   insmod pmu_user.ko events=INST_RETIRED,L1D_CACHE_REFILL,0x11 user_only=1
 *   cat /proc/pmu_user
 *   rmmod pmu_user
 *
 * Event counter i counts the i-th event; the cycle counter counts cycles. The previous state of a
 * CPU is restored when it goes offline and when the module is unloaded. Linux does not save these
 * counters per process: pin the counting thread to one CPU and keep others off it.
 *
 * With perf: refuses to load while any counter of any CPU counts or may interrupt. Once loaded it
 * holds the counters through an exclusive perf event on each CPU, so that perf can open hardware
 * events but never counts them; otherwise it would report wrong counts. On ARM64 perf disables user
 * access on a CPU whenever it starts its counters there: programs then get SIGILL, not a wrong
 * count. Without a perf driver (no pmu node in the device tree) no coordination is needed.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpu_pm.h>
#include <linux/cpuhotplug.h>
#include <linux/err.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <asm/cputype.h>

#include "arm.h"
#include "event_names.h"

#ifdef CONFIG_ARM64
#include <asm/sysreg.h>
#include "events/armv8.h"
static const struct event_name known[] = { LR_ARMV8_EVENTS(EVENT_NAME) };
#else
#include "events/cortex_a7.h"
static const struct event_name known[] = { LR_CORTEX_A7_EVENTS(EVENT_NAME) };
#endif

/* The number of the cycle counter is 31, so there are never more event counters. */
#define MAX_COUNTERS 31

/* Architectural event number of cycles. */
#define CPU_CYCLES 0x11

static char *events[MAX_COUNTERS];
static unsigned int event_count;
module_param_array(events, charp, &event_count, 0444);
MODULE_PARM_DESC(events, "events for event counters 0, 1 and so on, by name or number");

static bool user_only;
module_param(user_only, bool, 0444);
MODULE_PARM_DESC(user_only, "count user mode only");

static unsigned int codes[MAX_COUNTERS];
/* Properties that all CPUs must share, read on the first one. */
static u32 core, counters;
/* While the module is loading, a CPU that cannot be opened is an error. */
static bool is_loading = true;
static enum cpuhp_state hotplug_state;

/* Per CPU: its previous state, and the perf event that keeps perf away. */
struct opened {
	bool is_open;
	struct perf_event *holder;
	lr_arm_word pmuserenr, pmcr, enabled, interrupts, pmselr, cycles, cycle_filter;
	u32 types[MAX_COUNTERS], counts[MAX_COUNTERS];
};

static DEFINE_PER_CPU(struct opened, opened_cpus);

/* Returns whether this processor has a PMU with the registers that we know. */
static bool has_counters(void)
{
#ifdef CONFIG_ARM64
	/* ID_AA64DFR0_EL1.PMUVer: 0 for no PMU, 15 for an implementation-defined one. */
	const unsigned int version = read_sysreg(id_aa64dfr0_el1) >> 8 & 0xf;

	return version != 0 && version != 15;
#else
	/* With architecture 15 in MIDR, bits 24 to 27 of ID_DFR0 have the version. */
	const bool others_say = (read_cpuid_id() >> 16 & 0xf) == 0xf;
	const unsigned int version = others_say ? read_cpuid_ext(CPUID_EXT_DFR0) >> 24 & 0xf : 0;

	return version != 0 && version != 15;
#endif
}

/*
 * Returns whether this core reports an event as missing; it reports on architectural events only.
 */
static bool lacks_event(unsigned int code)
{
#ifdef CONFIG_ARM64
	if (code < 0x20)
		return !(lr_aarch64_read_pmceid0_el0() >> code & 1);
	if (code < 0x40)
		return !(lr_aarch64_read_pmceid1_el0() >> (code - 0x20) & 1);
#endif
	return false;
}

/* Returns whether the table of event names is valid for this core. */
static bool has_table(void)
{
#ifdef CONFIG_ARM64
	return true;
#else
	return (core & 0xff00fff0) == 0x4100c070;
#endif
}

static int parse_event(unsigned int at)
{
	const struct event_name *event;

	if (!kstrtouint(events[at], 0, &codes[at])) {
		if (codes[at] > 0xffff) {
			pr_err("%s: event numbers go up to 0xffff\n", events[at]);
			return -EINVAL;
		}
	} else if (!has_table()) {
		pr_err("%s: no names are known for this core (MIDR %#x); give a number\n",
		       events[at], core);
		return -EINVAL;
	} else {
		event = event_named(known, ARRAY_SIZE(known), events[at]);
		if (!event) {
			event_name_help(known, ARRAY_SIZE(known), events[at]);
			return -EINVAL;
		}
		codes[at] = event->code;
	}
	if (lacks_event(codes[at])) {
		pr_err("%s: this core (MIDR %#x) does not count it\n", events[at], core);
		return -EOPNOTSUPP;
	}
	return 0;
}

static int parse_events(void)
{
	unsigned int i;
	int error = 0;

	if (event_count > counters) {
		pr_err("%u events for %u counters; leave %u out\n", event_count, counters,
		       event_count - counters);
		return -EINVAL;
	}
	for (i = 0; i < event_count && !error; i++)
		error = parse_event(i);
	return error;
}

/* The functions below run on the CPU whose registers they access. */

static void save(struct opened *cpu)
{
	u32 i;

	cpu->pmuserenr = LR_ARM_READ(pmuserenr);
	cpu->pmcr = LR_ARM_READ(pmcr);
	cpu->pmselr = LR_ARM_READ(pmselr);
	cpu->cycles = LR_ARM_READ(pmccntr);
	LR_ARM_WRITE(pmselr, LR_ARM_BIT(SELECT_CYCLES));
	LR_ARM(barrier)();
	cpu->cycle_filter = LR_ARM_READ(pmxevtyper);
	for (i = 0; i < counters; i++) {
		cpu->counts[i] = LR_ARM(event)(i);
		cpu->types[i] = LR_ARM_READ(pmxevtyper);
	}
}

static void restore(const struct opened *cpu)
{
	u32 i;

	LR_ARM(reset)();
	for (i = 0; i < counters; i++) {
		LR_ARM(select)(i, cpu->types[i]);
		LR_ARM_WRITE(pmxevcntr, cpu->counts[i]);
	}
	LR_ARM(select)(LR_ARM_BIT(SELECT_CYCLES), cpu->cycle_filter);
	LR_ARM_WRITE(pmccntr, cpu->cycles);
	LR_ARM_WRITE(pmselr, cpu->pmselr);
	LR_ARM_WRITE(pmuserenr, cpu->pmuserenr);
	LR_ARM_WRITE(pmcr, cpu->pmcr);
	LR_ARM(barrier)();
}

/* Selects the events, starts the counters from 0, and enables user access. */
static void open_here(void)
{
	const u32 filter = user_only ? LR_ARM_BIT(NOT_KERNEL) : 0;
	lr_arm_word started = LR_ARM_BIT(CYCLES);
	u32 i;

	LR_ARM(reset)();
	for (i = 0; i < event_count; i++) {
		LR_ARM(select)(i, codes[i] | filter);
		started |= (lr_arm_word)1 << i;
	}
	LR_ARM(select)(LR_ARM_BIT(SELECT_CYCLES), filter);
	LR_ARM_WRITE(pmuserenr, LR_ARM_BIT(USER_ENABLE));
	LR_ARM(start)(started);
}

/*
 * Opens a perf event that keeps all others off this CPU: exclusive, and pinned, so that it is
 * either counting or in the error state at once. Returns NULL if perf has no driver for these
 * counters.
 */
static struct perf_event *hold(unsigned int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.size = sizeof(attr),
		.pinned = 1,
		.exclusive = 1,
	};
	struct perf_event *holder = perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);

	if (PTR_ERR(holder) == -ENOENT || PTR_ERR(holder) == -EOPNOTSUPP)
		return NULL;
	if (!IS_ERR(holder) && holder->state != PERF_EVENT_STATE_ACTIVE) {
		perf_event_release_kernel(holder);
		return ERR_PTR(-EBUSY);
	}
	return holder;
}

static int take(unsigned int number, struct opened *cpu)
{
	if (!has_counters() || LR_ARM(counters)() != counters || read_cpuid_id() != core) {
		pr_err("CPU %u has different counters from CPU 0, or none\n", number);
		return -ENODEV;
	}
	cpu->enabled = LR_ARM_READ(pmcntenset);
	cpu->interrupts = LR_ARM_READ_INTERRUPTS();
	if (cpu->enabled || cpu->interrupts) {
		pr_err("CPU %u: perf or another program holds the counters %#x (interrupts %#x): stop it first\n",
		       number, (u32)cpu->enabled, (u32)cpu->interrupts);
		return -EBUSY;
	}
	save(cpu);
	cpu->holder = hold(number);
	if (IS_ERR(cpu->holder)) {
		const int error = PTR_ERR(cpu->holder);

		cpu->holder = NULL;
		pr_err("CPU %u: perf does not release the counters: %d\n", number, error);
		return error;
	}
	open_here();
	cpu->is_open = true;
	return 0;
}

static int come_online(unsigned int number)
{
	const int error = take(number, per_cpu_ptr(&opened_cpus, number));

	/* Errors are fatal while loading. A CPU may come online later, but without user access. */
	return is_loading ? error : 0;
}

static int go_offline(unsigned int number)
{
	struct opened *const cpu = per_cpu_ptr(&opened_cpus, number);

	if (!cpu->is_open)
		return 0;
	cpu->is_open = false;
	/* Before perf is let in again, as it might start using the counters. */
	restore(cpu);
	if (cpu->holder)
		perf_event_release_kernel(cpu->holder);
	cpu->holder = NULL;
	return 0;
}

/* A CPU that was powered down while idle has lost its registers: its counts restart at 0. */
static int on_power(struct notifier_block *block, unsigned long event, void *unused)
{
	if ((event == CPU_PM_EXIT || event == CPU_PM_ENTER_FAILED) &&
	    this_cpu_ptr(&opened_cpus)->is_open)
		open_here();
	return NOTIFY_OK;
}

static struct notifier_block power_notifier = { .notifier_call = on_power };

struct registers {
	u32 pmcr, pmuserenr, enabled;
};

static void read_registers(void *to)
{
	struct registers *const registers = to;

	registers->pmcr = LR_ARM_READ(pmcr);
	registers->pmuserenr = LR_ARM_READ(pmuserenr);
	registers->enabled = LR_ARM_READ(pmcntenset);
}

static void show_counter(struct seq_file *file, u32 counter, u32 code)
{
	seq_printf(file, "counter %u event %#x %s%s\n", counter, code,
		   has_table() ? event_name_of(known, ARRAY_SIZE(known), code) : "-",
		   user_only ? " user" : "");
}

/*
 * Shows a line with the current state of each CPU, one for each event counter, and finally one for
 * the cycle counter. crates/counters/src/registers/module.rs parses this output and accepts nothing
 * else: change both together.
 */
static int show(struct seq_file *file, void *unused)
{
	struct registers now;
	unsigned int cpu, i;

	cpus_read_lock();
	for_each_online_cpu(cpu) {
		const struct opened *const before = per_cpu_ptr(&opened_cpus, cpu);

		smp_call_function_single(cpu, read_registers, &now, 1);
		seq_printf(file, "cpu %u open %d PMUSERENR %#x PMCR %#x counting %#x", cpu,
			   before->is_open, now.pmuserenr, now.pmcr, now.enabled);
		seq_printf(file, " before PMUSERENR %#x PMCR %#x holder %s\n",
			   (u32)before->pmuserenr, (u32)before->pmcr,
			   before->holder ? "perf" : "none");
	}
	cpus_read_unlock();
	seq_printf(file, "counters %u\n", counters);
	for (i = 0; i < event_count; i++)
		show_counter(file, i, codes[i]);
	show_counter(file, LR_ARM_BIT(SELECT_CYCLES), CPU_CYCLES);
	return 0;
}

static int __init pmu_user_init(void)
{
	int error;

	if (!has_counters()) {
		pr_err("this processor reports no counters that are supported here\n");
		return -ENODEV;
	}
	core = read_cpuid_id();
	counters = min_t(u32, LR_ARM(counters)(), MAX_COUNTERS);
	error = parse_events();
	if (error)
		return error;
	error = cpu_pm_register_notifier(&power_notifier);
	if (error)
		return error;
	error = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "linerate/pmu_user:online", come_online,
				  go_offline);
	if (error < 0)
		goto unregister;
	hotplug_state = error;
	is_loading = false;
	error = -ENOMEM;
	if (!proc_create_single(KBUILD_MODNAME, 0444, NULL, show))
		goto close;
	pr_info("open: %u counters, %u of them with events\n", counters, event_count);
	return 0;

close:
	cpuhp_remove_state(hotplug_state);
unregister:
	cpu_pm_unregister_notifier(&power_notifier);
	return error;
}

static void __exit pmu_user_exit(void)
{
	remove_proc_entry(KBUILD_MODNAME, NULL);
	cpuhp_remove_state(hotplug_state);
	cpu_pm_unregister_notifier(&power_notifier);
	pr_info("closed\n");
}

module_init(pmu_user_init);
module_exit(pmu_user_exit);
MODULE_DESCRIPTION("Opens the counters of ARM processors to user programs");
MODULE_LICENSE("Dual MIT/GPL");
