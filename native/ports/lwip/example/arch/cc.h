/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Platform definitions for lwIP. Its defaults for hosted compilers apply to everything else. */
#ifndef ARCH_CC_H
#define ARCH_CC_H

#include <stdlib.h>

/* Ports and first sequence numbers: the same in every run. */
unsigned example_random(void);
#define LWIP_RAND() example_random()

#endif
