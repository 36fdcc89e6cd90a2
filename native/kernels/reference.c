/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The specification: simple code, not optimized. */
#include "no_vectors.h"

#include "kernels.h"

uint16_t lr_checksum16(const void *src, size_t bytes, uint32_t sum, int byte_swap)
{
	const unsigned char *at = (const unsigned char *)src;

	sum = lr_csum_fold(sum);
	for (; bytes > 1; bytes -= 2, at += 2)
		sum = lr_csum_fold(sum + load16(at));
	if (bytes == 1)
		sum = lr_csum_fold(sum + (byte_swap ? (uint32_t)*at << 8 : *at));
	return (uint16_t)~sum;
}

#include "no_vectors_end.h"
