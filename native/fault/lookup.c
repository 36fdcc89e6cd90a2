/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finds the fix-up of an instruction, by a linear search through a few hundred entries. */
#include "../kernels/no_vectors.h"

#include "table.h"

#if LR_FAULT
/*
 * The ends of the table, defined by the linker. They are hidden, so that they refer to the table of
 * this program or library and not to another's.
 */
extern const struct fault_entry table_start[] __asm__("__start_lr_fault_table")
	__attribute__((visibility("hidden")));
extern const struct fault_entry table_end[] __asm__("__stop_lr_fault_table")
	__attribute__((visibility("hidden")));

static uintptr_t target(const int32_t *field)
{
	return (uintptr_t)field + (uintptr_t)(intptr_t)*field;
}

uintptr_t lr_fault_lookup(uintptr_t pc, unsigned *access)
{
	for (const struct fault_entry *entry = table_start; entry < table_end; entry++) {
		if (target(&entry->fault) != pc)
			continue;
		if (access)
			*access = entry->access;
		return target(&entry->resume);
	}
	return 0;
}
#endif

#include "../kernels/no_vectors_end.h"
