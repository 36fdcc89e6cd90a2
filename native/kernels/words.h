/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sums, copies and fills by words of 64 bits and less: short lengths and the ends of long ones. */
#ifndef LINERATE_WORDS_H
#define LINERATE_WORDS_H

#include "kernels.h"

/*
 * The sum of any number of octets, copied to dst if copy is set. Words of 64 bits with end-around
 * carry, then halves of what is left.
 */
ALWAYS_INLINE uint64_t sum_words(uint8_t *dst, const uint8_t *src, size_t octets, const int copy)
{
	uint64_t sum = 0;
	for (; octets >= 8; octets -= 8, src += 8, dst += copy ? 8 : 0) {
		const uint64_t word = load64(src);
		if (copy)
			store64(dst, word);
		sum = add_carry(sum, word);
	}
	for (unsigned size = 4; size; size >>= 1) {
		if (!(octets & size))
			continue;
		uint64_t word = 0;
		__builtin_memcpy(&word, src, size);
		if (copy) {
			__builtin_memcpy(dst, src, size);
			dst += size;
		}
		src += size;
		sum = add_carry(sum, word);
	}
	return sum;
}

/* Hides from the compiler where a word came from: it would make a call to memcpy of a copying loop. */
ALWAYS_INLINE uint64_t opaque(uint64_t word)
{
	__asm__("" : "+r"(word));
	return word;
}

/* Fewer than 16 octets: the first and the last 8, 4 or 2 of them, which may overlap. */
ALWAYS_INLINE void copy_below_16(uint8_t *dst, const uint8_t *src, size_t octets)
{
	if (octets & 8) {
		const uint64_t first = load64(src), last = load64(src + octets - 8);
		store64(dst, first);
		store64(dst + octets - 8, last);
	} else if (octets & 4) {
		const uint32_t first = lr_load32(src), last = lr_load32(src + octets - 4);
		__builtin_memcpy(dst, &first, 4);
		__builtin_memcpy(dst + octets - 4, &last, 4);
	} else if (octets) {
		/* One, two or three: the first, the middle and the last. */
		const uint8_t first = src[0], middle = src[octets / 2], last = src[octets - 1];
		dst[0] = first;
		dst[octets / 2] = middle;
		dst[octets - 1] = last;
	}
}

/* Two words per step, and the last two once more if they do not end a step. */
ALWAYS_INLINE void copy_words(uint8_t *dst, const uint8_t *src, size_t octets)
{
	if (octets < 16) {
		copy_below_16(dst, src, octets);
		return;
	}
	const size_t last = octets - 16;
	for (size_t at = 0; at < last; at += 16) {
		const uint64_t a = opaque(load64(src + at)), b = opaque(load64(src + at + 8));
		store64(dst + at, a);
		store64(dst + at + 8, b);
	}
	const uint64_t a = load64(src + last), b = load64(src + last + 8);
	store64(dst + last, a);
	store64(dst + last + 8, b);
}

ALWAYS_INLINE void fill_words(uint8_t *dst, uint8_t value, size_t octets)
{
	const uint64_t word = value * 0x0101010101010101u;
	if (octets < 8) {
		for (size_t i = 0; i < octets; i++)
			*(volatile uint8_t *)(dst + i) = value;
		return;
	}
	for (size_t at = 0; at < octets - 8; at += 8)
		store64(dst + at, opaque(word));
	store64(dst + octets - 8, word);
}

#endif
