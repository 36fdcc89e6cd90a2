/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Count file of a simulated process: a header of one page, then a row of counters per thread. It is
 * memory-mapped, so that the counts survive however the process ends. Numbers are in host byte
 * order. Each process has its own file, and starts a new one when it executes another program.
 */
#ifndef LINERATE_SHEET_H
#define LINERATE_SHEET_H

#include "cpu.h"

#define SHEET_MAGIC "LRSHEET1"

enum {
	SHEET_HEAD = 4096,
	/* Numbers per row; the first COUNTERS are used. */
	SHEET_ROW = 32,
	/* Number of rows. Threads with a higher number share rows with others. */
	SHEET_ROWS = 4096,
	INSN_BYTES = 8,
};

enum sheet_state {
	SHEET_RUNS,
	SHEET_ENDED,
	/* The process executes another program, which has a file of its own. */
	SHEET_EXECUTES,
};

struct sheet {
	char magic[8];
	uint32_t counters, row, rows;
	/* Whether branches are recognized in this program. */
	uint32_t has_branches;
	/* An enum sheet_state. */
	uint32_t state;
	/*
	 * Number of programs that this process executed outside the simulation, and of forked
	 * processes that could not create a file.
	 */
	uint32_t unfollowed;
	/* Highest thread number so far. */
	uint32_t last_thread;
	/*
	 * First bytes of the last translated instruction. If an unknown instruction killed the
	 * process, it is this one.
	 */
	uint32_t insn_bytes;
	uint8_t insn[INSN_BYTES];
};

/*
 * Creates the file counts.PID.N in a directory and maps it. Returns NULL on failure. The magic
 * number is stored last: a file that still begins with zeros contains no counts yet.
 */
struct sheet *sheet_new(const char *folder);

/* Like sheet_new(), but in memory of this process, which is lost when it ends. */
struct sheet *sheet_private(void);

/* Adds to the number of programs that are not followed; `change` may be negative. */
void sheet_add_unfollowed(struct sheet *sheet, int change);

/* Records that this thread number is in use. */
void sheet_use_thread(struct sheet *sheet, unsigned thread);

/* Returns the row of a thread. */
uint64_t *sheet_row(struct sheet *sheet, unsigned thread);

#endif
