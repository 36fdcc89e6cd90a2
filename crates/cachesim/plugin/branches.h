/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Recognizes branches in QEMU's disassembly. */
#ifndef LINERATE_BRANCHES_H
#define LINERATE_BRANCHES_H

#include "cpu.h"

typedef enum branch branch_reader(const char *disassembly);

/* Returns the reader for a QEMU target such as "arm"; NULL if there is none. */
branch_reader *branches_of(const char *target);

/* Returns whether an x86 instruction has a repeat prefix. */
bool has_repeat_prefix(const char *disassembly);

#endif
