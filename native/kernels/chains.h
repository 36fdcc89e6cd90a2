/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sums by additions with carry, for 64-bit machines that have such instructions and can load
 * unaligned words.
 *
 * The including file defines add_16 and add_32, which add 16 or 32 bytes to a 64-bit sum, and copy
 * them to dst if copy is set. Each is a chain: an addition, then additions with carry, the last one
 * of 0. The last one never carries: an addition that carries out leaves at most 2^64 - 2 without a
 * carry-in, and 2^64 - 1 only if the sum was 2^64 - 1 when a carry came in.
 *
 * This file defines sum_short, and sum_blocks unless the including file has set SUM_BLOCKS to a
 * function of its own.
 */
#ifndef LINERATE_CHAINS_H
#define LINERATE_CHAINS_H

#include "words.h"

#define SUM_SHORT sum_short

/*
 * Moves the last count bytes of a word in memory to its beginning, and clears the bytes after them.
 */
ALWAYS_INLINE uint64_t last_bytes(uint64_t word, unsigned count)
{
	/* The shift is done in two steps, because a shift by 64 is undefined; count is 0 to 7. */
	return LR_BYTE_SWAP ? word << (8 * (7 - count)) << 8 : word >> (8 * (7 - count)) >> 8;
}

/*
 * Returns the sum of fewer than 256 bytes, which it also copies to dst if copy is set; 0 only if
 * all bytes are 0.
 *
 * There is one chain for each bit that is set in the length, except the lowest three. The last 1 to
 * 7 bytes are added by one load of the 8 bytes that end with them; bytes that were already summed
 * are shifted out. The remaining bytes then begin at an even position, as they do in the message.
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
/*
 * Sums a nonzero multiple of 128 bytes in four chains, because within one each addition waits for
 * the one before.
 */
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
