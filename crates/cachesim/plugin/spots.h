/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Counts per instruction, for finding hot spots, in one file for all processes of a command. A
 * header of one page is followed by rows of equal size: spots and file names. The file is
 * memory-mapped, so that the counts survive however a process ends. Numbers are in host byte order.
 *
 *	row 0		a spot for all instructions that have no row of their own
 *	a block		a spot for each of its instructions, in order
 *	a name		"DEVICE INODE PATH" as in /proc/PID/maps, in as many rows as it needs
 *
 * Rows are allocated in order and never freed. A block that is translated twice has two sets of
 * spots. All processes and threads count in the same rows, with atomic additions.
 */
#ifndef LINERATE_SPOTS_H
#define LINERATE_SPOTS_H

#include "cpu.h"

#define SPOTS_MAGIC "LRSPOTS1"

enum {
	SPOTS_HEAD = 4096,
	/* Limits the file to 640 MiB: more instructions than almost any program contains. */
	SPOTS_ROWS = 1 << 22,
};

/* Values of the `file` field: code that is not in a file, and the first row of a file name. */
#define SPOT_NO_FILE 0u
#define SPOT_IS_NAME UINT32_MAX

struct spot {
	/* An instruction's offset in its file, or its address; for a name, its length in bytes. */
	uint64_t position;
	/* Row of the file name, or one of the values above. */
	uint32_t file;
	/* Number of instructions of the block that begins here; 0 within a block. */
	uint32_t block;
	/*
	 * Counts of the instruction. INSTRUCTIONS is the number of executions of the block that
	 * begins here. Misses while fetching a block are attributed to its first instruction.
	 */
	uint64_t counts[COUNTERS];
};

struct spots {
	char magic[8];
	uint32_t counters, row_bytes, rows;
	/* Number of rows in use, not counting row 0. */
	uint32_t used;
};

/* Opens the file at a path, creating it if it does not exist. Returns NULL on failure. */
struct spots *spots_open(const char *path);

/* Returns the spot for instructions without a row of their own. */
struct spot *spots_rest(struct spots *spots);

/* Allocates spots for a block of `n` instructions. Returns NULL if there is no room. */
struct spot *spots_block(struct spots *spots, uint32_t n);

/*
 * Records the location of an instruction, given its address in the program and in this process.
 * Must not be called by two threads at the same time.
 */
void spots_place(struct spots *spots, struct spot *spot, uint64_t address, uint64_t here);

/*
 * Replaces the file's mapping by memory of this process, at the same address: what it counts from
 * now on is lost. If that fails, the file stays mapped.
 */
void spots_detach(struct spots *spots);

/* Discards cached mappings, because the process may have changed them. */
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
