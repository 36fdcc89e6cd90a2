/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * 32-bit ARM from ARMv6 on, without vector registers: many words per load, added with carry.
 *
 * Such a load needs an aligned address, so the first bytes are summed separately until the source
 * is aligned; the rest is then a fragment, which may begin at an odd offset. Stores of single words
 * may be unaligned on these processors; in a build with -mno-unaligned-access they are byte stores.
 */
#include "../no_vectors.h"

#include "../kernels.h"
#include "../scalar_row.h"

#define VARIANT armv6
#define ISA "ARMv6"

#if defined(__arm__) && __ARM_ARCH >= 6 && (!defined(__thumb__) || defined(__thumb2__))
#include "../words.h"

static int supported(void)
{
	return LR_RUNS_WELL;
}

/*
 * Sums a nonzero multiple of 64 bytes, aligned to 4, in one chain across all iterations: neither
 * the comparison nor the branch changes the carry. 20 instructions per 64 bytes. Registers that may
 * be the frame pointer (r7, r11) are not used.
 */
ALWAYS_INLINE uint32_t sum_blocks(uint32_t sum, const uint8_t *src, size_t bytes)
{
	const uint8_t *const end = src + bytes;

#define LOAD_AND_ADD_32                                                                            \
	"ldmia %[src]!, {r3, r4, r5, r6, r8, r9, r10, r12}\n\t"                                    \
	"adcs %[sum], %[sum], r3\n\t"                                                              \
	"adcs %[sum], %[sum], r4\n\t"                                                              \
	"adcs %[sum], %[sum], r5\n\t"                                                              \
	"adcs %[sum], %[sum], r6\n\t"                                                              \
	"adcs %[sum], %[sum], r8\n\t"                                                              \
	"adcs %[sum], %[sum], r9\n\t"                                                              \
	"adcs %[sum], %[sum], r10\n\t"                                                             \
	"adcs %[sum], %[sum], r12\n\t"
	__asm__("adds %[sum], %[sum], #0\n"
		"0:\n\t" LOAD_AND_ADD_32 LOAD_AND_ADD_32
		"teq %[src], %[end]\n\t"
		"bne 0b\n\t"
		"adc %[sum], %[sum], #0"
		: [sum] "+&r"(sum), [src] "+&r"(src)
		: [end] "r"(end)
		: "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "cc", "memory");
#undef LOAD_AND_ADD_32
	return sum;
}

/* The caller's bytes, read as an aligned word; they may belong to objects of any type. */
typedef uint32_t __attribute__((may_alias)) aligned_word;

/* Sums 16 bytes, aligned to 4. */
ALWAYS_INLINE uint32_t add_16(uint32_t sum, uint8_t *dst, const uint8_t *src, const int copy)
{
	const aligned_word *const words = __builtin_assume_aligned(src, 4);
	const uint32_t a = words[0], b = words[1], c = words[2], d = words[3];
	if (copy) {
		store32(dst, a);
		store32(dst + 4, b);
		store32(dst + 8, c);
		store32(dst + 12, d);
	}
	__asm__("adds %0, %0, %1\n\t"
		"adcs %0, %0, %2\n\t"
		"adcs %0, %0, %3\n\t"
		"adcs %0, %0, %4\n\t"
		"adc %0, %0, #0"
		: "+&r"(sum)
		: "r"(a), "r"(b), "r"(c), "r"(d)
		: "cc");
	return sum;
}

/* Returns the sum of bytes that begin at an aligned address. */
ALWAYS_INLINE uint32_t sum_aligned(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	const size_t blocks = copy ? 0 : bytes & ~(size_t)63;
	uint32_t sum = 0;
	if (blocks) {
		sum = sum_blocks(sum, src, blocks);
		src += blocks;
		bytes -= blocks;
	}
	for (; bytes >= 16; bytes -= 16, src += 16, dst += 16)
		sum = add_16(sum, dst, src, copy);
	if (bytes & 8) {
		const uint32_t a = load32(src), b = load32(src + 4);
		if (copy) {
			store32(dst, a);
			store32(dst + 4, b);
		}
		sum = lr_csum_add(lr_csum_add(sum, a), b);
		src += 8;
		dst += 8;
	}
	if (copy)
		copy_below_16(dst, src, bytes & 7);
	return lr_csum_add(sum, fold64(sum_below_8(src, bytes & 7)));
}

ALWAYS_INLINE uint32_t sum(uint8_t *dst, const uint8_t *src, size_t bytes, uint32_t seed,
			   const int copy)
{
	const size_t unaligned = -(uintptr_t)src & 3;
	const size_t head = bytes < unaligned ? bytes : unaligned;
	const uint32_t before = lr_csum_add(fold64(sum_below_8(src, head)), seed);
	if (copy)
		copy_below_16(dst, src, head);
	const uint32_t rest = sum_aligned(dst + head, src + head, bytes - head, copy);
	return lr_csum_combine(before, rest, head);
}

uint32_t lr_csum_partial_armv6(const void *src, size_t bytes, uint32_t seed)
{
	return sum(unused(src), src, bytes, seed, 0);
}

uint32_t lr_copy_csum_partial_armv6(void *dst, const void *src, size_t bytes, uint32_t seed)
{
	return sum(dst, src, bytes, seed, 1);
}

void *lr_copy_armv6(void *dst, const void *src, size_t bytes)
{
	copy_words(dst, src, bytes);
	return dst;
}

void *lr_fill_armv6(void *dst, uint8_t value, size_t bytes)
{
	fill_words(dst, value, bytes);
	return dst;
}

SCALAR_ROW(LR_CSUM | LR_COPY_CSUM);
#else
SCALAR_ROW_WITHOUT;
#endif

#include "../no_vectors_end.h"
