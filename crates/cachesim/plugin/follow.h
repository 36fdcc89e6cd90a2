/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Programs that a simulated process executes. QEMU passes execve(2) to the kernel, which would run
 * the new program outside of the emulator. Instead, the emulator is executed with that program.
 */
#ifndef LINERATE_FOLLOW_H
#define LINERATE_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

enum { FOLLOW_MAGIC_BYTES = 20 };

struct follow {
	/* The command line of this emulator up to the program, ends with NULL. */
	char **emulator;
	int emulator_count;
	/* The file that the emulator loads as plugin; without it, it would not start. */
	const char *plugin;
	/* Number of the system call. */
	int64_t execve;
	/* Bytes per pointer of the program, and whether its byte order is not the host's. */
	unsigned pointer_bytes;
	bool is_swapped;
	/* Identification of programs of this architecture: class, byte order, machine. */
	uint8_t magic[FOLLOW_MAGIC_BYTES];
};

/*
 * Reads the head of `program` and the first `keep` arguments of this process. Returns NULL, or what
 * is wrong.
 */
const char *follow_init(struct follow *f, const char *target, const char *program, int keep);

/*
 * Executes the emulator for the arguments of execve, addresses of the program; `base` is added to
 * them in this process. `before` is called just before, and again with false if it failed. Returns
 * false if the program exists but cannot be followed, true if the kernel shall decide.
 */
bool follow_exec(const struct follow *f, uint64_t base, uint64_t path, uint64_t argv, uint64_t envp,
		 void (*before)(bool is_next));

#endif
