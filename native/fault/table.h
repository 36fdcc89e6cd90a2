/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The fix-up table: for every instruction that may fault, where to resume and what it accesses.
 * <linerate/fault.h> documents its use by handlers.
 *
 * Addresses are stored as offsets from the field that holds them, so that a table in read-only
 * memory needs no relocation when a program is loaded. The name of the section is a C identifier,
 * for which linkers define start and stop symbols.
 */
#ifndef LINERATE_FAULT_TABLE_H
#define LINERATE_FAULT_TABLE_H

#include <linerate/fault.h>

#define AS_TEXT_(x) #x
#define AS_TEXT(x) AS_TEXT_(x)

/* An entry as emitted by the directives below. */
struct fault_entry {
	/* Offset from this field to the instruction. */
	int32_t fault;
	/* Offset from this field to the address at which to resume. */
	int32_t resume;
	uint32_t access;
};

/* Emits an instruction that may fault, and its entry; resume is a label, such as "9f". */
#define MAY_FAULT(instruction, resume, access)                                                     \
	"77: " instruction "\n\t"                                                                  \
	".pushsection lr_fault_table, \"a\"\n\t"                                                   \
	".balign 4\n\t"                                                                            \
	".long 77b - .\n\t"                                                                        \
	".long " resume " - .\n\t"                                                                 \
	".long " AS_TEXT(access) "\n\t"                                                            \
	".popsection\n\t"

/* Accesses to one byte, and to several. */
#define READS(instruction, resume) MAY_FAULT(instruction, resume, LR_FAULT_SOURCE)
#define WRITES(instruction, resume) MAY_FAULT(instruction, resume, LR_FAULT_DESTINATION)
#define READS_WIDE(instruction, resume)                                                            \
	MAY_FAULT(instruction, resume, (LR_FAULT_SOURCE + LR_FAULT_WIDE))
#define WRITES_WIDE(instruction, resume)                                                           \
	MAY_FAULT(instruction, resume, (LR_FAULT_DESTINATION + LR_FAULT_WIDE))

#endif
