/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * 64-bit machines that load and store aligned words only and have no 64-bit addition with carry:
 * SPARC V9, RISC-V. No vector registers, no assembly.
 *
 * The first bytes are handled separately until the source is aligned; the rest is then a fragment,
 * which may begin at an odd offset. Each word takes a load and three instructions. Two sums are
 * kept, of the words modulo 2^64 and of their upper halves, from which the sum of the lower halves
 * follows:
 *
 *	all += word;  high += word >> 32
 *	low = all - high * 2^32			modulo 2^64; CHUNK keeps the true value below that
 *
 * Copies between addresses that differ in alignment are not optimized: they store single bytes.
 */
#include "../no_vectors.h"

#include "../kernels.h"
#include "../scalar_row.h"

#define VARIANT aligned
#define ISA "SPARC V9, RISC-V in 64 bits"

#if (defined(__sparc__) && defined(__arch64__)) || (defined(__riscv) && __riscv_xlen == 64)
#include "../words.h"

static int supported(void)
{
	return LR_RUNS_WELL;
}

/*
 * Bytes summed before the two sums are combined: 2^27 words, so that both sums and their total are
 * below 2^60.
 */
#define CHUNK ((size_t)1 << 30)

typedef uint64_t __attribute__((may_alias)) aligned_word;

ALWAYS_INLINE uint64_t load(const uint8_t *at)
{
	return *(const aligned_word *)__builtin_assume_aligned(at, 8);
}

enum { SUM, COPY, COPY_ALIGNED };

ALWAYS_INLINE void store(uint8_t *at, uint64_t word, const int copy)
{
	if (copy == COPY_ALIGNED)
		*(aligned_word *)__builtin_assume_aligned(at, 8) = word;
	else if (copy == COPY)
		store64(at, word);
}

/* Returns the sum of at most CHUNK bytes that begin at an aligned address. */
ALWAYS_INLINE uint64_t sum_chunk(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	uint64_t all = 0, high = 0;
	for (; bytes >= 32; bytes -= 32, src += 32, dst += 32) {
		const uint64_t a = load(src), b = load(src + 8);
		const uint64_t c = load(src + 16), d = load(src + 24);
		store(dst, a, copy);
		store(dst + 8, b, copy);
		store(dst + 16, c, copy);
		store(dst + 24, d, copy);
		all += a + b + c + d;
		high += (a >> 32) + (b >> 32) + (c >> 32) + (d >> 32);
	}
	for (; bytes >= 8; bytes -= 8, src += 8, dst += 8) {
		const uint64_t word = load(src);
		store(dst, word, copy);
		all += word;
		high += word >> 32;
	}
	if (copy)
		copy_below_16(dst, src, bytes);
	return all - (high << 32) + high + sum_below_8(src, bytes);
}

ALWAYS_INLINE uint64_t sum_from_aligned(uint8_t *dst, const uint8_t *src, size_t bytes,
					const int copy)
{
	uint64_t total = 0;
	for (; UNLIKELY(bytes > CHUNK); bytes -= CHUNK, src += CHUNK, dst += CHUNK)
		total = add_carry(total, sum_chunk(dst, src, CHUNK, copy));
	return add_carry(total, sum_chunk(dst, src, bytes, copy));
}

/* Returns the number of bytes before the next aligned address, or bytes if there are fewer. */
ALWAYS_INLINE size_t head_of(const uint8_t *at, size_t bytes)
{
	const size_t unaligned = -(uintptr_t)at & 7;
	return bytes < unaligned ? bytes : unaligned;
}

ALWAYS_INLINE int alike(const uint8_t *dst, const uint8_t *src)
{
	return !(((uintptr_t)dst ^ (uintptr_t)src) & 7);
}

ALWAYS_INLINE uint32_t sum(uint8_t *dst, const uint8_t *src, size_t bytes, uint32_t seed,
			   const int copy)
{
	const size_t head = head_of(src, bytes);
	const uint64_t before = add_carry(sum_below_8(src, head), seed);
	if (copy)
		copy_below_16(dst, src, head);
	const uint64_t rest = sum_from_aligned(dst + head, src + head, bytes - head, copy);
	return lr_csum_combine(fold64(before), fold64(rest), head);
}

uint32_t lr_csum_partial_aligned(const void *src, size_t bytes, uint32_t seed)
{
	return sum(unused(src), src, bytes, seed, SUM);
}

uint32_t lr_copy_csum_partial_aligned(void *dst, const void *src, size_t bytes, uint32_t seed)
{
	return alike(dst, src) ? sum(dst, src, bytes, seed, COPY_ALIGNED) :
				 sum(dst, src, bytes, seed, COPY);
}

ALWAYS_INLINE void copy_bytes(uint8_t *dst, const uint8_t *src, size_t bytes, const int copy)
{
	const size_t head = head_of(src, bytes);
	copy_below_16(dst, src, head);
	src += head;
	dst += head;
	bytes -= head;
	for (; bytes >= 16; bytes -= 16, src += 16, dst += 16) {
		const uint64_t a = opaque(load(src)), b = opaque(load(src + 8));
		store(dst, a, copy);
		store(dst + 8, b, copy);
	}
	copy_below_16(dst, src, bytes);
}

void *lr_copy_aligned(void *dst, const void *src, size_t bytes)
{
	if (alike(dst, src))
		copy_bytes(dst, src, bytes, COPY_ALIGNED);
	else
		copy_bytes(dst, src, bytes, COPY);
	return dst;
}

void *lr_fill_aligned(void *dst, uint8_t value, size_t bytes)
{
	const uint64_t word = value * 0x0101010101010101u;
	uint8_t *at = dst;
	const size_t head = head_of(at, bytes);

	fill_below_16(at, word, head);
	at += head;
	bytes -= head;
	for (; bytes >= 8; bytes -= 8, at += 8)
		store(at, opaque(word), COPY_ALIGNED);
	fill_below_16(at, word, bytes);
	return dst;
}

SCALAR_ROW(LR_ALL);
#else
SCALAR_ROW_WITHOUT;
#endif

#include "../no_vectors_end.h"
