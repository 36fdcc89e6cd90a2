/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared by the x86-64 variants: CPU features, and additions with carry. */
#ifndef LINERATE_X86_64_H
#define LINERATE_X86_64_H

#include "words.h"

/*
 * Shared by the vector variants: flipping the top bit of a word turns an unsigned w into the signed
 * w - 2^15, as required by the instruction that multiplies signed words and adds neighbours; the
 * other factor is 1. Each word is then 2^15 too small.
 */
#define MISSING ((uint32_t)VEC / 2 << 15)
#define STREAMS 1

/*
 * Results for supported(): what this processor and its operating system can run. These functions
 * are in a separate file compiled without extensions, since the processor may lack them.
 */
int lr_x86_has_avx2(void);
int lr_x86_has_avx512(void);
int lr_x86_has_avx512_vnni(void);

/* Loads words into registers if they are also copied; otherwise adds them from memory. */
ALWAYS_INLINE uint64_t add_16(uint64_t sum, uint8_t *dst, const uint8_t *src, const int copy)
{
	if (copy) {
		const uint64_t a = load64(src), b = load64(src + 8);
		store64(dst, a);
		store64(dst + 8, b);
		__asm__("addq %1, %0\n\t"
			"adcq %2, %0\n\t"
			"adcq $0, %0"
			: "+&r"(sum)
			: "r"(a), "r"(b)
			: "cc");
	} else {
		__asm__("addq 0(%1), %0\n\t"
			"adcq 8(%1), %0\n\t"
			"adcq $0, %0"
			: "+&r"(sum)
			: "r"(src), "m"(*(const uint8_t(*)[16])src)
			: "cc");
	}
	return sum;
}

ALWAYS_INLINE uint64_t add_32(uint64_t sum, uint8_t *dst, const uint8_t *src, const int copy)
{
	if (copy) {
		const uint64_t a = load64(src), b = load64(src + 8);
		const uint64_t c = load64(src + 16), d = load64(src + 24);
		store64(dst, a);
		store64(dst + 8, b);
		store64(dst + 16, c);
		store64(dst + 24, d);
		__asm__("addq %1, %0\n\t"
			"adcq %2, %0\n\t"
			"adcq %3, %0\n\t"
			"adcq %4, %0\n\t"
			"adcq $0, %0"
			: "+&r"(sum)
			: "r"(a), "r"(b), "r"(c), "r"(d)
			: "cc");
	} else {
		__asm__("addq 0(%1), %0\n\t"
			"adcq 8(%1), %0\n\t"
			"adcq 16(%1), %0\n\t"
			"adcq 24(%1), %0\n\t"
			"adcq $0, %0"
			: "+&r"(sum)
			: "r"(src), "m"(*(const uint8_t(*)[32])src)
			: "cc");
	}
	return sum;
}

#include "chains.h"

#endif
