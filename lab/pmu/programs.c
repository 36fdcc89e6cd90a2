/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The tutorial's counting loop in C, and what the programs in programs.S work on. */
#include "programs.h"

uint32_t program_numbers[PROGRAM_NUMBERS], program_sum;

void program_prepare(void)
{
	uint32_t i;

	for (i = 0; i < PROGRAM_NUMBERS; i++)
		program_numbers[i] = 3 * i + 1;
}

/* As the tutorial's, which is not optimised: the counter lives in memory. */
unsigned long program_c_loop(unsigned long n)
{
	volatile unsigned long i;

	for (i = 0; i < n; i++)
		;
	return i;
}
