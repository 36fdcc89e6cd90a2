/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The register accesses of x86.h, to be compared with x86.txt. */
#include "../x86.h"

void barrier(void);
void barrier(void)
{
	lr_x86_barrier();
}

/* As the fourth argument of the function, the index is already in ecx. */
void read(uint64_t a, uint64_t b, uint64_t c, uint32_t index);
void read(uint64_t a, uint64_t b, uint64_t c, uint32_t index)
{
	(void)a;
	(void)b;
	(void)c;
	(void)lr_x86_read(index);
}
