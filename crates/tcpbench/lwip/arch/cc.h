/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Platform definitions for lwIP. Its defaults for hosted compilers apply to everything else. */
#ifndef ARCH_CC_H
#define ARCH_CC_H

/* Source of ports and initial sequence numbers, which depend only on the seed. */
unsigned lr_plugin_random(void);
#define LWIP_RAND() lr_plugin_random()

/* Byte swaps that compile to one instruction; lwIP's own swaps are function calls. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define lwip_htons(number) __builtin_bswap16(number)
#define lwip_htonl(number) __builtin_bswap32(number)
#define LWIP_DONT_PROVIDE_BYTEORDER_FUNCTIONS
#endif

/* No assertions or messages: the program has its own checks, and a library must not print. */
#define LWIP_NOASSERT
#define LWIP_PLATFORM_DIAG(message) ((void)0)
#define LWIP_PLATFORM_ERROR(message) ((void)0)

#endif
