/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sums by additions with carry, for 64-bit machines that have them and load words from anywhere.
 *
 * What to define: add_16 and add_32, which add this many bytes to a 64-bit sum, and copy them to
 * dst if copy is set. Each is a chain: an addition, then additions with carry, the last one of 0.
 * That one never carries: the result of an addition with carry-out is at most 2^64 - 2 without
 * carry-in, and 2^64 - 1 only if that came in together with a carry.
 *
 * Defined are sum_short, and sum_blocks unless SUM_BLOCKS says that the machine has its own.
 */
#ifndef LINERATE_CHAINS_H
#define LINERATE_CHAINS_H

#include "words.h"

#define SUM_SHORT sum_short

/* The bytes of a word except the first few, at the position where they would be in the message. */
ALWAYS_INLINE uint64_t last_bytes(uint64_t word, unsigned count)
{
	/* Twice, because a shift by 64 is not defined; count is 0 to 7. */
	return LR_BYTE_SWAP ? word << (8 * (7 - count)) << 8 : word >> (8 * (7 - count)) >> 8;
}

/*
 * The sum of fewer than 256 bytes, copied to dst if copy is set; 0 only if all are 0.
 *
 * A chain for each binary digit of the length, then the last bytes in one load: for 1 to 7, the 8
 * that end with them, shifted to drop those already summed. The remaining bytes are at even
 * positions, as if the message continued.
 */
ALWAYS_INLINE uint64_t sum_short(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	const uint8_t *const end = src + bytes;
	uint64_t sum = 0;

	if (bytes & 128) {
		sum = add_32(sum, dst, src, copy);
		sum = add_32(sum, dst + 32, src + 32, copy);
		sum = add_32(sum, dst + 64, src + 64, copy);
		sum = add_32(sum, dst + 96, src + 96, copy);
		src += 128;
		dst += 128;
	}
	if (bytes & 64) {
		sum = add_32(sum, dst, src, copy);
		sum = add_32(sum, dst + 32, src + 32, copy);
		src += 64;
		dst += 64;
	}
	if (bytes & 32) {
		sum = add_32(sum, dst, src, copy);
		src += 32;
		dst += 32;
	}
	if (bytes & 16) {
		sum = add_16(sum, dst, src, copy);
		src += 16;
		dst += 16;
	}
	if (bytes & 8) {
		const uint64_t word = load64(src);
		if (copy) {
			store64(dst, word);
			dst += 8;
		}
		sum = add_carry(sum, word);
	}
	const unsigned left = bytes & 7;
	if (bytes >= 8) {
		const uint64_t last = load64(end - 8);
		if (copy)
			store64(dst + left - 8, last);
		return add_carry(sum, last_bytes(last, left));
	}
	if (copy)
		copy_below_16(dst, src, left);
	return sum_below_8(src, left);
}

#ifndef SUM_BLOCKS
#define SUM_BLOCKS sum_blocks
/* A multiple of 128 bytes, and not 0: four chains, because in one each addition waits for the last. */
ALWAYS_INLINE uint64_t sum_blocks(uint64_t a, uint8_t *dst, const uint8_t *src, size_t bytes,
				  const int copy)
{
	const uint8_t *const end = src + bytes;
	uint64_t b = 0, c = 0, d = 0;
	do {
		a = add_32(a, dst, src, copy);
		b = add_32(b, dst + 32, src + 32, copy);
		c = add_32(c, dst + 64, src + 64, copy);
		d = add_32(d, dst + 96, src + 96, copy);
		src += 128;
		dst += 128;
	} while (src != end);
	return add_carry(add_carry(a, b), add_carry(c, d));
}
#endif

#endif
