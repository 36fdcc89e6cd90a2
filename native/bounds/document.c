/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The checksum and the copy that a stack without optimized routines would use: the C checksum from
 * figure 1 of the white paper "Enhanced TCP/IP Performance with AltiVec", which adds words of 16
 * bits, and a copy by machine words. Both are compiled as written: an empty assembly statement,
 * which might change the sum or the word, keeps the compiler from vectorizing them and from calling
 * memcpy.
 */
#include "bounds.h"

#include <string.h>

static int supported(void)
{
	return 1;
}

/* Sums like lr_csum_partial. Up to 2^48 words cannot overflow 64 bits. */
static uint32_t checksum(const void *src, size_t bytes, uint32_t sum)
{
	const uint8_t *at = src;
	uint64_t wide = sum;
	for (; bytes > 1; bytes -= 2, at += 2) {
		uint16_t word;
		memcpy(&word, at, 2);
		wide += word;
		__asm__("" : "+r"(wide));
	}
	if (bytes) {
		uint8_t last[2] = { *at, 0 };
		uint16_t word;
		memcpy(&word, last, 2);
		wide += word;
	}
	wide = (wide >> 32) + (wide & 0xffffffff);
	return (uint32_t)((wide >> 32) + (wide & 0xffffffff));
}

static void *copy(void *dst, const void *src, size_t bytes)
{
	uint8_t *to = dst;
	const uint8_t *from = src;
	for (; bytes >= sizeof(size_t); bytes -= sizeof(size_t)) {
		size_t word;
		memcpy(&word, from, sizeof word);
		__asm__("" : "+r"(word));
		memcpy(to, &word, sizeof word);
		to += sizeof word;
		from += sizeof word;
	}
	while (bytes--) {
		uint8_t byte = *from++;
		__asm__("" : "+r"(byte));
		*to++ = byte;
	}
	return dst;
}

const struct lr_variant lr_document = {
	.name = "document",
	.isa = "C",
	.compiled = 1,
	.supported = supported,
	.csum_partial = checksum,
	.copy = copy,
};

/* Returns 1 too much if folding the sum carries, otherwise the right sum. */
static uint32_t wrong_checksum(const void *src, size_t bytes, uint32_t sum)
{
	const uint32_t right = checksum(src, bytes, sum);
	const uint32_t folded = (right >> 16) + (right & 0xffff);
	return (folded & 0xffff) + 2 * (folded >> 16);
}

const struct lr_variant lr_wrong_by_a_carry = {
	.name = "wrong",
	.isa = "C",
	.compiled = 1,
	.supported = supported,
	.csum_partial = wrong_checksum,
	.copy = copy,
};
