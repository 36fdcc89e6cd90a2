/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The first process of Linux on the 7455 when its lazy traps are counted: starts processes that use
 * a vector register and let others go first, round by round, and then children that use one once and
 * end, one behind the other. Every process keeps a value in a register and compares it. Arguments:
 * how many processes, rounds of each, and children. Leaves out everything a scheduler would count.
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

/* Known to the plugin by name. */
static void __attribute__((noinline, used)) counting_begins(void)
{
	__asm__ volatile("");
}

static void __attribute__((noinline, used)) counting_ends(void)
{
	__asm__ volatile("");
}

/* Puts a value into every lane of v20, or compares it with what is there: 1 if it is the same. */
static void keep(uint32_t value)
{
	const uint32_t lanes[4] __attribute__((aligned(16))) = { value, value, value, value };

	__asm__ volatile("lvx 20,0,%0" : : "r"(lanes), "m"(lanes));
}

static int is_kept(uint32_t value)
{
	uint32_t lanes[4] __attribute__((aligned(16)));

	__asm__ volatile("stvx 20,0,%1" : "=m"(lanes) : "r"(lanes));
	return lanes[0] == value && lanes[1] == value && lanes[2] == value && lanes[3] == value;
}

static void __attribute__((noreturn)) use(uint32_t value, long rounds)
{
	int lost = 0;

	keep(value);
	for (long round = 1; round < rounds; round++) {
		sched_yield();
		lost |= !is_kept(value);
	}
	_exit(lost);
}

static int start(uint32_t value, long rounds)
{
	const pid_t child = fork();

	if (child == 0)
		use(value, rounds);
	return child < 0;
}

/* Waits for one process: 0 if it has not lost its register. */
static int end(void)
{
	int status = 1;

	return wait(&status) < 0 || status;
}

int main(int argc, char **argv)
{
	const long processes = argc > 1 ? atol(argv[1]) : 0, rounds = argc > 2 ? atol(argv[2]) : 0;
	const long children = argc > 3 ? atol(argv[3]) : 0;
	int failed = 0;

	counting_begins();
	for (long i = 0; i < processes; i++)
		failed |= start((uint32_t)i + 1, rounds);
	for (long i = 0; i < processes; i++)
		failed |= end();
	for (long i = 0; i < children; i++)
		failed |= start((uint32_t)i, 1) || end();
	counting_ends();
	printf("@begin lazy\n%ld processes, %ld rounds, %ld children\n@end lazy %d\n", processes,
	       rounds, children, failed);
	fflush(stdout);
	reboot(RB_POWER_OFF);
	return 1;
}
