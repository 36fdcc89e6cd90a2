/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared by the AArch64 variants: additions with carry. */
#ifndef LINERATE_AARCH64_H
#define LINERATE_AARCH64_H

#include "kernels.h"

ALWAYS_INLINE uint64_t add_16(uint64_t sum, uint8_t *dst, const uint8_t *src, const int copy)
{
	const uint64_t a = load64(src), b = load64(src + 8);
	if (copy) {
		store64(dst, a);
		store64(dst + 8, b);
	}
	__asm__("adds %0, %0, %1\n\t"
		"adcs %0, %0, %2\n\t"
		"adc %0, %0, xzr"
		: "+&r"(sum)
		: "r"(a), "r"(b)
		: "cc");
	return sum;
}

ALWAYS_INLINE uint64_t add_32(uint64_t sum, uint8_t *dst, const uint8_t *src, const int copy)
{
	const uint64_t a = load64(src), b = load64(src + 8);
	const uint64_t c = load64(src + 16), d = load64(src + 24);
	if (copy) {
		store64(dst, a);
		store64(dst + 8, b);
		store64(dst + 16, c);
		store64(dst + 24, d);
	}
	__asm__("adds %0, %0, %1\n\t"
		"adcs %0, %0, %2\n\t"
		"adcs %0, %0, %3\n\t"
		"adcs %0, %0, %4\n\t"
		"adc %0, %0, xzr"
		: "+&r"(sum)
		: "r"(a), "r"(b), "r"(c), "r"(d)
		: "cc");
	return sum;
}

/*
 * Sums a nonzero multiple of 128 bytes, in one chain across all iterations: neither the subtraction
 * nor the branch changes the carry. 26 instructions per 128 bytes, 24 of which load and add.
 */
ALWAYS_INLINE uint64_t sum_in_one_chain(uint64_t sum, const uint8_t *src, size_t bytes)
{
	const uint8_t *const end = src + bytes;
	uint64_t a, b, c, d, left;

#define LOAD_AND_ADD_32                                                                            \
	"ldp %[a], %[b], [%[src]], #16\n\t"                                                        \
	"ldp %[c], %[d], [%[src]], #16\n\t"                                                        \
	"adcs %[sum], %[sum], %[a]\n\t"                                                            \
	"adcs %[sum], %[sum], %[b]\n\t"                                                            \
	"adcs %[sum], %[sum], %[c]\n\t"                                                            \
	"adcs %[sum], %[sum], %[d]\n\t"
	__asm__("cmn xzr, xzr\n"
		"0:\n\t" LOAD_AND_ADD_32 LOAD_AND_ADD_32 LOAD_AND_ADD_32 LOAD_AND_ADD_32
		"sub %[left], %[end], %[src]\n\t"
		"cbnz %[left], 0b\n\t"
		"adc %[sum], %[sum], xzr"
		: [sum] "+&r"(sum), [src] "+&r"(src), [left] "=&r"(left), [a] "=&r"(a),
		  [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d)
		: [end] "r"(end)
		: "cc", "memory");
#undef LOAD_AND_ADD_32
	return sum;
}

/* Sums blocks. If they are copied as well, every 32 bytes have a chain of their own. */
ALWAYS_INLINE uint64_t sum_blocks(uint64_t sum, uint8_t *dst, const uint8_t *src, size_t bytes,
				  const int copy)
{
	if (!copy)
		return sum_in_one_chain(sum, src, bytes);
	const uint8_t *const end = src + bytes;
	uint64_t other = 0;
	for (; src != end; src += 64, dst += 64) {
		sum = add_32(sum, dst, src, copy);
		other = add_32(other, dst + 32, src + 32, copy);
	}
	return add_carry(sum, other);
}
#define SUM_BLOCKS sum_blocks

#include "chains.h"

#endif
