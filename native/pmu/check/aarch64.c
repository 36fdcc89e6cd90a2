/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The register accesses of aarch64.h, to be compared with aarch64.txt. */
#include "../aarch64.h"
#include "head.h"

#define O(name) READ(lr_aarch64, uint64_t, name)
#define W(name) WRITE(lr_aarch64, uint64_t, name)
#define R(name) O(name) W(name)
#define C(n) R(pmevcntr##n##_el0) R(pmevtyper##n##_el0)
LR_AARCH64_REGISTERS(R, O, W)
LR_AARCH64_EVENT_COUNTERS(C)

void barrier(void);
void barrier(void)
{
	lr_aarch64_barrier();
}

void event(uint64_t n);
void event(uint64_t n)
{
	const uint32_t counted = lr_aarch64_event(n);

	__asm__ __volatile__("" : : "r"(counted));
}

void counts(void);
void counts(void)
{
	const struct lr_aarch64_counts c = lr_aarch64_read_counts();

	__asm__ __volatile__("" : : "r"(c.cycles), "r"(c.event[0]), "r"(c.event[1]),
			     "r"(c.event[2]), "r"(c.event[3]));
}
