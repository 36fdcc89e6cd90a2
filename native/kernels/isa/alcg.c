/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* z/Architecture without vector registers: chains of additions with carry, from memory. */
#include "../no_vectors.h"

#include "../kernels.h"
#include "../scalar_row.h"

#define VARIANT alcg
#define ISA "z/Architecture"

#ifdef __s390x__

ALWAYS_INLINE uint64_t add_16(uint64_t sum, uint8_t *dst, const uint8_t *src, const int copy)
{
	if (copy) {
		store64(dst, load64(src));
		store64(dst + 8, load64(src + 8));
	}
	__asm__("alg %0, 0(%1)\n\t"
		"alcg %0, 8(%1)\n\t"
		"alcgr %0, %2"
		: "+&d"(sum)
		: "a"(src), "d"((uint64_t)0), "m"(*(const uint8_t(*)[16])src)
		: "cc");
	return sum;
}

ALWAYS_INLINE uint64_t add_32(uint64_t sum, uint8_t *dst, const uint8_t *src, const int copy)
{
	if (copy) {
		store64(dst, load64(src));
		store64(dst + 8, load64(src + 8));
		store64(dst + 16, load64(src + 16));
		store64(dst + 24, load64(src + 24));
	}
	__asm__("alg %0, 0(%1)\n\t"
		"alcg %0, 8(%1)\n\t"
		"alcg %0, 16(%1)\n\t"
		"alcg %0, 24(%1)\n\t"
		"alcgr %0, %2"
		: "+&d"(sum)
		: "a"(src), "d"((uint64_t)0), "m"(*(const uint8_t(*)[32])src)
		: "cc");
	return sum;
}

#include "../chains.h"

#include "../chains_body.h"
#else
SCALAR_ROW_WITHOUT;
#endif

#include "../no_vectors_end.h"
