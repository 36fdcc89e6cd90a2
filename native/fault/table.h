/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The fix-up table: for every instruction that may fault, where to resume and what it accesses.
 * <linerate/fault.h> documents its use by handlers.
 *
 * Entries are relative to themselves, so that a table in read-only memory needs no relocation when
 * a program is loaded, and are in a section whose name is a C identifier, for which linkers define
 * start and stop symbols.
 */
#ifndef LINERATE_FAULT_TABLE_H
#define LINERATE_FAULT_TABLE_H

#include <linerate/fault.h>

#define AS_TEXT_(x) #x
#define AS_TEXT(x) AS_TEXT_(x)

/* An entry as emitted by the directives below. */
struct fault_entry {
	/* From this field on to the instruction. */
	int32_t fault;
	/* From this field on to where it is resumed. */
	int32_t resume;
	uint32_t access;
};

/* An instruction that may fault; resume is a label, such as "9f". */
#define MAY_FAULT(instruction, resume, access)                                                     \
	"77: " instruction "\n\t"                                                                  \
	".pushsection lr_fault_table, \"a\"\n\t"                                                   \
	".balign 4\n\t"                                                                            \
	".long 77b - .\n\t"                                                                        \
	".long " resume " - .\n\t"                                                                 \
	".long " AS_TEXT(access) "\n\t"                                                            \
	".popsection\n\t"

/* Of one byte, and of several. */
#define READS(instruction, resume) MAY_FAULT(instruction, resume, LR_FAULT_SOURCE)
#define WRITES(instruction, resume) MAY_FAULT(instruction, resume, LR_FAULT_DESTINATION)
#define READS_WIDE(instruction, resume)                                                            \
	MAY_FAULT(instruction, resume, (LR_FAULT_SOURCE + LR_FAULT_WIDE))
#define WRITES_WIDE(instruction, resume)                                                           \
	MAY_FAULT(instruction, resume, (LR_FAULT_DESTINATION + LR_FAULT_WIDE))

#endif
