/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sums, copies and fills by words of 64 bits or fewer, for short lengths and the ends of long ones.
 */
#ifndef LINERATE_WORDS_H
#define LINERATE_WORDS_H

#include "kernels.h"

/*
 * Returns the sum of fewer than 8 bytes. Each byte counts in the half of its 16-bit word that is
 * given by its position in memory. The result is meaningful only as a sum.
 */
ALWAYS_INLINE uint64_t sum_below_8(const uint8_t *src, size_t bytes)
{
	uint64_t sum = 0;
	if (bytes & 4) {
		sum += load32(src);
		src += 4;
	}
	if (bytes & 2) {
		sum += load16(src);
		src += 2;
	}
	if (bytes & 1)
		sum += LR_BYTE_SWAP ? (uint32_t)*src << 8 : *src;
	return sum;
}

/*
 * Hides the origin of a word from the compiler, which would otherwise vectorize loops over words,
 * and turn those that copy into calls of memcpy.
 */
ALWAYS_INLINE uint64_t opaque(uint64_t word)
{
	__asm__ volatile("" : "+r"(word));
	return word;
}

/* Copies fewer than 16 bytes: the first and the last 8, 4 or 2 of them, which may overlap. */
ALWAYS_INLINE void copy_below_16(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	if (bytes & 8) {
		const uint64_t first = load64(src), last = load64(src + bytes - 8);
		store64(dst, first);
		store64(dst + bytes - 8, last);
	} else if (bytes & 4) {
		const uint32_t first = load32(src), last = load32(src + bytes - 4);
		store32(dst, first);
		store32(dst + bytes - 4, last);
	} else if (bytes) {
		/*
		 * One to three bytes are left: the first, the middle and the last one, which may be
		 * the same.
		 */
		const uint8_t first = src[0], middle = src[bytes / 2], last = src[bytes - 1];
		dst[0] = first;
		dst[bytes / 2] = middle;
		dst[bytes - 1] = last;
	}
}

/* Copies two words per step, then the last 16 bytes, which may overlap those of the last step. */
ALWAYS_INLINE void copy_words(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	if (bytes < 16) {
		copy_below_16(dst, src, bytes);
		return;
	}
	const size_t last = bytes - 16;
	const uint64_t y = opaque(load64(src + last)), z = opaque(load64(src + last + 8));
	for (size_t at = 0; at < last; at += 16) {
		const uint64_t a = opaque(load64(src + at)), b = opaque(load64(src + at + 8));
		store64(dst + at, a);
		store64(dst + at + 8, b);
	}
	store64(dst + last, y);
	store64(dst + last + 8, z);
}

/*
 * Returns the sum of fewer than 2^31 bytes, which it also copies to dst if copy is set; 0 only if
 * all bytes are 0. The upper and the lower halves of the words are added to separate 64-bit sums,
 * two of each, so that no carry is lost: 2^31 bytes are 2^28 words, of which each sum takes half,
 * which is less than 2^27 * 2^32.
 */
ALWAYS_INLINE uint64_t sum_words(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	uint64_t low[2] = { 0, 0 }, high[2] = { 0, 0 };
	for (; bytes >= 16; bytes -= 16, src += 16, dst += 16) {
		for (unsigned i = 0; i < 2; i++) {
			const uint64_t word = opaque(load64(src + 8 * i));
			if (copy)
				store64(dst + 8 * i, word);
			low[i] += (uint32_t)word;
			high[i] += word >> 32;
		}
	}
	if (copy)
		copy_below_16(dst, src, bytes);
	if (bytes & 8) {
		const uint64_t word = load64(src);
		low[0] += (uint32_t)word;
		high[0] += word >> 32;
		src += 8;
	}
	return low[0] + low[1] + high[0] + high[1] + sum_below_8(src, bytes & 7);
}

/* Fills fewer than 16 bytes, by the same stores as copy_below_16. */
ALWAYS_INLINE void fill_below_16(uint8_t *dst, uint64_t word, size_t bytes)
{
	if (bytes & 8) {
		store64(dst, word);
		store64(dst + bytes - 8, word);
	} else if (bytes & 4) {
		store32(dst, (uint32_t)word);
		store32(dst + bytes - 4, (uint32_t)word);
	} else if (bytes) {
		dst[0] = (uint8_t)word;
		dst[bytes / 2] = (uint8_t)word;
		dst[bytes - 1] = (uint8_t)word;
	}
}

ALWAYS_INLINE void fill_words(uint8_t *dst, uint8_t value, size_t bytes)
{
	const uint64_t word = value * 0x0101010101010101u;
	if (bytes < 16) {
		fill_below_16(dst, word, bytes);
		return;
	}
	const size_t last = bytes - 16;
	for (size_t at = 0; at < last; at += 16) {
		store64(dst + at, opaque(word));
		store64(dst + at + 8, opaque(word));
	}
	store64(dst + last, opaque(word));
	store64(dst + last + 8, opaque(word));
}

#endif
