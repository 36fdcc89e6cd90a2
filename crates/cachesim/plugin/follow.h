/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Follows simulated processes through execve(2). QEMU passes the call to the kernel, which would
 * run the new program outside the emulator. Instead, the emulator is executed with the new program.
 */
#ifndef LINERATE_FOLLOW_H
#define LINERATE_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

enum { FOLLOW_MAGIC_BYTES = 20 };

struct follow {
	/* This emulator's command line up to the program, terminated by NULL. */
	char **emulator;
	int emulator_count;
	/* Path of the plugin, without which the emulator would not start. */
	const char *plugin;
	/* Path of a file that exists once no emulator may start any more. */
	const char *over;
	/* System call numbers; -1 if not known. */
	int64_t execve, execveat;
	/* Bytes per pointer of the program, and whether its byte order differs from the host's. */
	unsigned pointer_bytes;
	bool is_swapped;
	/* ELF header that identifies the architecture by class, byte order and machine. */
	uint8_t magic[FOLLOW_MAGIC_BYTES];
};

/*
 * Reads the header of `program` and the first `keep` arguments of this process. Returns NULL, or an
 * error message.
 */
const char *follow_init(struct follow *f, const char *target, const char *program, int keep);

/*
 * Executes the emulator with the new program. `path`, `argv` and `envp` are the arguments of
 * execve(2), as addresses in the program; adding `base` gives addresses in this process. Calls
 * before(true) first, and before(false) if the emulator is not executed. Returns only if the kernel
 * has to handle the call: true if the file is executable, or its name cannot be read here, so that
 * it runs outside the emulator unless the kernel refuses the call; false if the call will fail.
 */
bool follow_exec(const struct follow *f, uint64_t base, uint64_t path, uint64_t argv, uint64_t envp,
		 void (*before)(bool is_next));

#endif
