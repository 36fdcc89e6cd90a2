/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hooks of lwIP (2.0 and later), implemented by the kernels: include this file in lwipopts.h, link
 * lr_lwip.c and the kernels. lwIP itself is unchanged. docs/ports.md describes other settings and
 * what to measure.
 *
 * lwIP calls these from whatever context runs the stack; if that context may not use vector
 * registers, force a scalar variant first (linerate/variant.h). Sums are not complemented, as lwIP
 * expects.
 */
#ifndef LINERATE_PORTS_LWIP_H
#define LINERATE_PORTS_LWIP_H

#include <linerate/copy.h>

#include <stdint.h>

/*
 * Returns the folded sum of bytes at any address, in the byte order of memory; bytes must not be
 * negative. The sum is 0 only if all bytes are 0.
 */
uint16_t lr_lwip_chksum(const void *src, int bytes);

/* Like lr_lwip_chksum, but also copies the bytes to dst; the ranges must not overlap. */
uint16_t lr_lwip_chksum_copy(void *dst, const void *src, uint16_t bytes);

#define LWIP_CHKSUM lr_lwip_chksum
#define LWIP_CHKSUM_COPY(dst, src, bytes) lr_lwip_chksum_copy(dst, src, bytes)
/*
 * With this, tcp_write() with TCP_WRITE_FLAG_COPY sums the bytes as it copies them, and
 * retransmissions need no sum.
 */
#define LWIP_CHECKSUM_ON_COPY 1
/*
 * SMEMCPY is not replaced: its lengths are small constants, for which compilers emit a few moves.
 */
#define MEMCPY(dst, src, bytes) lr_copy(dst, src, bytes)

#endif
