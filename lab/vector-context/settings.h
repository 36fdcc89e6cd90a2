/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Settings of a run, written to memory by the emulator before it starts, each a 32-bit word in
 * network order; printed again with the result. xtask/src/lab/vector_context/run.rs writes it.
 */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdint.h>

#define SETTINGS_AT 0x2000000u

/* Kinds of preemption. */
enum {
	/* Interrupts wake tasks that go before the background; tasks of one priority take turns. */
	MODE_LOAD,
	/* Interrupts nest, and use vectors themselves. */
	MODE_NESTED,
	/* Every task has a different priority; interrupts wake one at random. */
	MODE_PRIORITY,
	/* All are always ready, and are switched round-robin by interrupts. */
	MODE_SLICED,
	/* The three at once. */
	MODE_ALL,
	/* As MODE_LOAD, but those who are always busy let others go first after each packet. */
	MODE_YIELD,
	/* The same, and while they have vector registers; interrupts come as where they nest. */
	MODE_SLEEP,
};

/* A fixed length, and the patterns of "Enhanced TCP/IP Performance with AltiVec". */
enum { PATTERN_FIXED, PATTERN_BULK, PATTERN_INTERACTIVE, PATTERN_JUMBO, PATTERN_MIXED,
       PATTERN_RESPONSE };

struct settings {
	uint32_t mode;
	/* Whether registers are compared; otherwise, instructions are counted. */
	uint32_t check;
	/* Ticks of the scheduler and interrupts of the device in a second of 10^9 instructions. */
	uint32_t ticks_per_s;
	uint32_t interrupts_per_s;
	/* Tasks that handle packets, and how many of them always have one. */
	uint32_t tasks;
	uint32_t busy;
	uint32_t pattern;
	/* With PATTERN_FIXED. */
	uint32_t bytes;
	/* Iterations of two instructions for each packet in addition to sum and copy. */
	uint32_t path;
	/* Packets until a task ends and another begins in its place; 0: never. */
	uint32_t life;
	/* Tasks, the last ones, that use vectors without the flag. */
	uint32_t unflagged;
	/* The run ends after this many 1/1000 s, or if check is set, after this many switches. */
	uint32_t duration_ms;
	uint32_t switches;
	uint32_t seed;
};

#define SETTINGS ((const struct settings *)SETTINGS_AT)

#endif
