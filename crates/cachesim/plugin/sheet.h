/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The file of a simulated process: one page of facts, then a row of counters per thread. It is
 * mapped, so that the counts are there however the process ends. Numbers are in the byte order of
 * the host. Each process has its own, and begins another when it executes another program.
 */
#ifndef LINERATE_SHEET_H
#define LINERATE_SHEET_H

#include "cpu.h"

#define SHEET_MAGIC "LRSHEET1"

enum {
	SHEET_HEAD = 4096,
	/* Numbers per row; the first COUNTERS are used. */
	SHEET_ROW = 32,
	/* Threads with a number above this share rows. */
	SHEET_ROWS = 4096,
	INSN_BYTES = 8,
};

struct sheet {
	char magic[8];
	uint32_t counters, row, rows;
	/* Whether branches are recognized in this program. */
	uint32_t has_branches;
	/* 1 once the process has ended or executed another program. */
	uint32_t has_ended;
	/* Programs started outside of the simulation: of another architecture, or with other rights. */
	uint32_t unfollowed;
	/* Highest number of a thread so far. */
	uint32_t last_thread;
	/* The instruction translated last, which is the unknown one if that killed the process. */
	uint32_t insn_bytes;
	uint8_t insn[INSN_BYTES];
};

/* Creates the file counts.PID.N in a directory and maps it; NULL if that fails. */
struct sheet *sheet_new(const char *folder);

/* The row of a thread. */
uint64_t *sheet_row(struct sheet *sheet, unsigned thread);

#endif
