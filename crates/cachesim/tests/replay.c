/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Replays a trace from standard input on the simulated machine described by the arguments. There is
 * one command per line, with numbers in hexadecimal:
 *
 *	l ADDRESS BYTES		s ADDRESS BYTES		f FIRST LAST
 *	b KIND ADDRESS AFTER TARGET
 *	p			prints the counters
 */
#include "cpu.h"

#include <stdio.h>

static void step(struct cpu *c, const char *line)
{
	unsigned long a, b, d, e;

	if (sscanf(line, "l %lx %lx", &a, &b) == 2)
		cpu_load(c, a, (unsigned)b);
	else if (sscanf(line, "s %lx %lx", &a, &b) == 2)
		cpu_store(c, a, (unsigned)b);
	else if (sscanf(line, "f %lx %lx", &a, &b) == 2)
		cpu_fetch(c, a, b);
	else if (sscanf(line, "b %lx %lx %lx %lx", &a, &b, &d, &e) == 4)
		cpu_branch(c, (enum branch)a, b, d, e);
	else
		for (int i = 0; i < COUNTERS; i++)
			printf("%lu%c", (unsigned long)c->counts[i], i + 1 < COUNTERS ? ' ' : '\n');
}

int main(int count, char **arguments)
{
	static uint64_t counts[COUNTERS];
	static struct machine machine;
	static struct cpu cpu;
	char line[128];
	const char *wrong = NULL;

	for (int i = 1; i < count && !wrong; i++)
		wrong = machine_take(&machine, arguments[i]);
	if (!wrong)
		wrong = machine_check(&machine);
	if (wrong) {
		puts(wrong);
		return 1;
	}
	if (!cpu_init(&cpu, &machine, counts))
		return 1;
	while (fgets(line, sizeof line, stdin))
		step(&cpu, line);
	cpu_free(&cpu);
	return 0;
}
