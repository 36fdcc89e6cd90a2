/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The register accesses of armv7.h, to be compared with armv7.txt. */
#include "../armv7.h"
#include "head.h"

#define O(name, crm, opc2) READ(lr_armv7, uint32_t, name)
#define W(name, crm, opc2) WRITE(lr_armv7, uint32_t, name)
#define R(name, crm, opc2) O(name, crm, opc2) W(name, crm, opc2)
LR_ARMV7_REGISTERS(R, O, W)

void barrier(void);
void barrier(void)
{
	lr_armv7_barrier();
}

uint32_t event(uint32_t n);
uint32_t event(uint32_t n)
{
	return lr_armv7_event(n);
}

void counts(uint32_t first);
void counts(uint32_t first)
{
	const struct lr_armv7_counts c = lr_armv7_read_counts(first);

	__asm__ __volatile__("" : : "r"(c.cycles), "r"(c.event[0]), "r"(c.event[1]),
			     "r"(c.event[2]), "r"(c.event[3]));
}
