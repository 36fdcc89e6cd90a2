/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The register accesses of ppc74xx.h, to be compared with ppc74xx.txt. */
#include "../ppc74xx.h"
#include "head.h"

#define O(name, number) READ(lr_ppc74xx, uint32_t, name)
#define R(name, number) O(name, number) WRITE(lr_ppc74xx, uint32_t, name)
LR_PPC74XX_REGISTERS(R, O)

void barrier(void);
void barrier(void)
{
	lr_ppc74xx_barrier();
}
