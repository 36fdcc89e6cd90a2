/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The tutorial's programs in a process of Linux, counted by the registers themselves or by perf:
 *
 *   pmu_programs registers CPU   by the registers, or "SIGILL" where they are closed
 *   pmu_programs perf CPU        by perf, cycles and instructions of user mode
 *   pmu_programs hold COMMAND    runs a command while perf counts cycles on every CPU
 *   pmu_programs near CPU        sets both registers some millions below 2^32
 *   pmu_programs raw CPU         prints them: "raw INSTRUCTIONS CYCLES"
 *
 * Prints the lines "program ..." of lab.c; an error on standard error, and status 2. Counter 0 must
 * count instructions, in user mode only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../native/pmu/arm.h"
#include "programs.h"

struct counted {
	unsigned long instructions, cycles, result;
};

typedef struct counted measure(lab_program *program, unsigned long n);

static int failed(const char *what)
{
	fprintf(stderr, "cannot %s: %s\n", what, strerror(errno));
	return 2;
}

static __attribute__((noinline)) struct counted by_registers(lab_program *program, unsigned long n)
{
	const lr_arm_counts before = LR_ARM_READ_COUNTS();
	const unsigned long result = program(n);
	const lr_arm_counts after = LR_ARM_READ_COUNTS();
	const struct counted counted = {
		.instructions = (uint32_t)(after.event[0] - before.event[0]),
		.cycles = (unsigned long)(after.cycles - before.cycles),
		.result = result,
	};

	return counted;
}

/* The group: instructions, led by cycles. */
static int leader = -1, instructions = -1;

static int open_event(uint64_t config, int group, int cpu, int user)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = config,
		.disabled = group < 0,
		.exclude_kernel = user ? 1 : 0,
		.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};

	return (int)syscall(SYS_perf_event_open, &attr, cpu < 0 ? 0 : -1, cpu, group, 0);
}

/* Reads of the group are done by the kernel; the empty program measures its return to user mode. */
static __attribute__((noinline)) struct counted by_perf(lab_program *program, unsigned long n)
{
	struct {
		uint64_t count, running, cycles, instructions;
	} before, after;
	unsigned long result;

	if (read(leader, &before, sizeof(before)) != sizeof(before))
		exit(failed("read perf's counters"));
	result = program(n);
	if (read(leader, &after, sizeof(after)) != sizeof(after))
		exit(failed("read perf's counters"));
	if (after.running == 0) {
		puts("perf does not count");
		exit(1);
	}
	return (struct counted){
		.instructions = (unsigned long)(after.instructions - before.instructions),
		.cycles = (unsigned long)(after.cycles - before.cycles),
		.result = result,
	};
}

/*
 * The least of some runs. What disturbs only adds: another process on this CPU, and on QEMU with
 * several CPUs whatever the others do, for all their counters count one time.
 */
#define RUNS 5

static struct counted least(measure *by, lab_program *program, unsigned long n)
{
	struct counted least = by(program, n);
	int i;

	for (i = 1; i < RUNS; i++) {
		const struct counted counted = by(program, n);

		if (counted.instructions < least.instructions)
			least = counted;
	}
	return least;
}

static void print_programs(measure *by)
{
	static const unsigned long lengths[] = { 1, 10, 1000 };
	static const struct {
		const char *name;
		lab_program *program;
	} programs[] = {
		{ "empty", program_empty },
		{ "c_loop", program_c_loop },
		{ "loop", program_loop },
		{ "two_branches", program_two_branches },
		{ "sum_average", program_sum_average },
	};
	struct counted own, counted;
	unsigned int i, k;

	program_prepare();
	own = least(by, program_empty, 0);
	printf("program reads 0 %lu %lu 0\n", own.instructions, own.cycles);
	for (i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
		for (k = 0; k < sizeof(programs) / sizeof(*programs); k++) {
			counted = least(by, programs[k].program, lengths[i]);
			printf("program %s %lu %lu %lu %lu\n", programs[k].name, lengths[i],
			       counted.instructions - own.instructions,
			       counted.cycles - own.cycles, counted.result);
		}
}

static sigjmp_buf closed;

static void on_illegal(int signal)
{
	siglongjmp(closed, signal);
}

static int count_by_registers(void)
{
	struct sigaction action = { .sa_handler = on_illegal };

	sigaction(SIGILL, &action, NULL);
	if (sigsetjmp(closed, 1)) {
		puts("SIGILL");
		return 1;
	}
	(void)LR_ARM_READ(pmccntr);
	print_programs(by_registers);
	return 0;
}

/* As far below: more than a process takes to begin, less than `known regions` runs for. */
#define NEAR 4000000u

static int set_near(void)
{
	LR_ARM_WRITE(pmselr, 0);
	LR_ARM(barrier)();
	LR_ARM_WRITE(pmxevcntr, 0u - NEAR);
	LR_ARM_WRITE(pmccntr, 0u - NEAR);
	return 0;
}

static int print_raw(void)
{
	printf("raw %lu ", (unsigned long)LR_ARM(event)(0));
	printf("%lu\n", (unsigned long)LR_ARM_READ(pmccntr));
	return 0;
}

static int count_by_perf(void)
{
	leader = open_event(PERF_COUNT_HW_CPU_CYCLES, -1, -1, 1);
	if (leader < 0)
		return failed("open perf's cycles");
	instructions = open_event(PERF_COUNT_HW_INSTRUCTIONS, leader, -1, 1);
	if (instructions < 0)
		return failed("open perf's instructions");
	ioctl(leader, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
	print_programs(by_perf);
	return 0;
}

static int hold(char **command)
{
	const int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	int cpu, status;

	for (cpu = 0; cpu < cpus; cpu++) {
		const int event = open_event(PERF_COUNT_HW_CPU_CYCLES, -1, cpu, 0);

		if (event < 0 || ioctl(event, PERF_EVENT_IOC_ENABLE, 0))
			return failed("count cycles of a CPU");
	}
	if (fork() == 0) {
		execvp(*command, command);
		exit(failed(*command));
	}
	return wait(&status) > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

int main(int count, char **arguments)
{
	cpu_set_t one;

	if (count >= 3 && !strcmp(arguments[1], "hold"))
		return hold(arguments + 2);
	if (count != 3)
		return 2;
	CPU_ZERO(&one);
	CPU_SET(atoi(arguments[2]), &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return failed("go to that CPU");
	if (!strcmp(arguments[1], "registers"))
		return count_by_registers();
	if (!strcmp(arguments[1], "near"))
		return set_near();
	if (!strcmp(arguments[1], "raw"))
		return print_raw();
	return strcmp(arguments[1], "perf") ? 2 : count_by_perf();
}
