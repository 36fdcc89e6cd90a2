/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What lwIP asks of a platform; its defaults fit a hosted compiler but for these. */
#ifndef ARCH_CC_H
#define ARCH_CC_H

/* Ports and first sequence numbers: the same for the same seed. */
unsigned lr_plugin_random(void);
#define LWIP_RAND() lr_plugin_random()

/* The program has its own checks, and a library prints nothing. */
#define LWIP_NOASSERT
#define LWIP_PLATFORM_DIAG(message) ((void)0)
#define LWIP_PLATFORM_ERROR(message) ((void)0)

#endif
