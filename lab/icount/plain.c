/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The unoptimized default of a stack: a loop over words of 16 bits whose sum is folded once at the
 * end, as in the white paper "Enhanced TCP/IP Performance with AltiVec", figure 1, and the same
 * loop with a store in it. The paper's plain copy with checksum is two loops, of which this one is
 * the cheaper half: ratios to it are on the safe side.
 */
#include "plain.h"

#include <linerate/checksum.h>

static uint32_t last_byte(uint8_t byte)
{
	return LR_BYTE_SWAP ? (uint32_t)byte << 8 : byte;
}

uint32_t plain_csum(const void *src, size_t bytes, uint32_t sum)
{
	const uint8_t *at = src;
	for (; bytes > 1; bytes -= 2, at += 2) {
		uint16_t word;
		__builtin_memcpy(&word, at, sizeof word);
		sum += word;
	}
	return lr_csum_fold(bytes ? sum + last_byte(*at) : sum);
}

uint32_t plain_copy_csum(void *dst, const void *src, size_t bytes, uint32_t sum)
{
	const uint8_t *at = src;
	uint8_t *to = dst;
	for (; bytes > 1; bytes -= 2, at += 2, to += 2) {
		uint16_t word;
		__builtin_memcpy(&word, at, sizeof word);
		__builtin_memcpy(to, &word, sizeof word);
		sum += word;
	}
	if (bytes)
		sum += last_byte(*to = *at);
	return lr_csum_fold(sum);
}

uint32_t plain_nothing(void *dst, const void *src, size_t bytes, uint32_t sum)
{
	(void)dst;
	(void)src;
	(void)bytes;
	return sum;
}
