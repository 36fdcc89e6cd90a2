/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The register accesses of arm1176.h, to be compared with arm1176.txt. */
#include "../arm1176.h"
#include "head.h"

#define R(name, crm, opc2) \
	READ(lr_arm1176, uint32_t, name) \
	WRITE(lr_arm1176, uint32_t, name)
LR_ARM1176_REGISTERS(R)

void barrier(void);
void barrier(void)
{
	lr_arm1176_barrier();
}
