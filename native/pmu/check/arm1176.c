/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The accesses of arm1176.h, for arm1176.txt. */
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
