/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Counts per instruction, for finding hot spots: one file for all processes of a command. A head
 * of one page, then rows of equal size: spots, and names of files. It is mapped, so that the counts
 * are there however a process ends. Numbers are in the byte order of the host.
 *
 *	row 0		what no room was left for
 *	a block		a spot for each of its instructions, in order
 *	a name		"DEVICE INODE PATH" as in /proc/PID/maps, over as many rows as it needs
 *
 * Rows are taken in order and never given back. A block translated twice has spots twice.
 * Processes and threads count in the same rows, by atomic additions.
 */
#ifndef LINERATE_SPOTS_H
#define LINERATE_SPOTS_H

#include "cpu.h"

#define SPOTS_MAGIC "LRSPOTS1"

enum {
	SPOTS_HEAD = 4096,
	/* A bound of the file, 640 MiB: more instructions than almost all programs execute. */
	SPOTS_ROWS = 1 << 22,
};

/* The file of a spot if its code is in none, and what a row that begins a name has there. */
#define SPOT_NO_FILE 0u
#define SPOT_IS_NAME UINT32_MAX

struct spot {
	/* Offset of the instruction in its file, or its address; of a name, its length in bytes. */
	uint64_t position;
	/* Row of the name of its file. */
	uint32_t file;
	/* Number of instructions of the block that begins here; 0 within a block. */
	uint32_t block;
	/*
	 * Counts of the instruction. INSTRUCTIONS is how often the block that begins here was
	 * executed; what the fetch of a block misses is that of its first instruction.
	 */
	uint64_t counts[COUNTERS];
};

struct spots {
	char magic[8];
	uint32_t counters, row_bytes, rows;
	/* Rows in use after row 0. */
	uint32_t used;
};

/* Opens the file at a path, which is created if it is not there; NULL if that fails. */
struct spots *spots_open(const char *path);

/* The row for what has no row of its own. */
struct spot *spots_rest(struct spots *spots);

/* Rows for a block of `n` instructions; NULL if there is no room. */
struct spot *spots_block(struct spots *spots, uint32_t n);

/*
 * Says where an instruction is: at an address of the program, and of this process. Only one thread
 * at a time may call this.
 */
void spots_place(struct spots *spots, struct spot *spot, uint64_t address, uint64_t here);

/* What is mapped where may have changed. */
void spots_forget_files(void);

static inline void spot_add(struct spot *s, enum counter counter, uint64_t count)
{
#if __GCC_ATOMIC_LLONG_LOCK_FREE == 2
	/* Relaxed: sums are read after the processes have ended. */
	__atomic_fetch_add(&s->counts[counter], count, __ATOMIC_RELAXED);
#else
	(void)s, (void)counter, (void)count;
#endif
}

#endif
