/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * 64-bit PowerPC with VSX as of POWER8: vectors of 16 bytes, at any address. Earlier processors
 * with VSX trap on some unaligned addresses. Lengths for which words are faster are left to the
 * variant "ppc".
 *
 * Vectors start at the first byte. A partial rest is loaded as the 16 bytes that end with it, and
 * the sum masks off bytes already summed. With an odd number, words would be misread: an odd last
 * byte is excluded and added separately.
 *
 * On little-endian machines, lxvd2x loads the two doublewords of a vector in swapped order, and
 * stxvd2x swaps them back: neither sums nor copies are affected.
 */
#if defined(__powerpc64__)
#if defined(__ALTIVEC__)
#define COMPILED
/* Same condition as in altivec.c. */
#elif defined(__BIG_ENDIAN__) && !defined(_SOFT_FLOAT)
#define COMPILED
#endif
#endif

#include "../kernels.h"

#define VARIANT vsx
#define ISA "VSX of POWER8"

#ifdef COMPILED
#include "../ppc_vector.h"

#define NEEDED LR_HAS_VSX

/*
 * 16 bytes of zeros, then 16 of ones: the vector loaded from offset n is a mask that keeps the last
 * n bytes.
 */
static const uint8_t keep_last[2 * VEC] __attribute__((aligned(VEC))) = {
#define KEEP_4 0xff, 0xff, 0xff, 0xff
	[VEC] = KEEP_4, KEEP_4, KEEP_4, KEEP_4,
};

/* AltiVec register n is VSX register 32 + n. */
#define ADD_4(v0, v1, v2, v3) ADD(0, v0) ADD(1, v1) ADD(2, v2) ADD(3, v3)
#define SUM_FIRST_4 AT_FIRST("lxvd2x", "%[src]", "40", "41", "42", "43") ADD_4("8", "9", "10", "11")
#define SUM_NEXT_4 AT_NEXT("lxvd2x", "%[src]", "44", "45", "46", "47") ADD_4("12", "13", "14", "15")
#define STEP_SRC(bytes) "addi %[src],%[src]," bytes "\n\t"

/* Returns the sum of FEW to PIECE bytes, without the last byte if their number is odd. */
ALWAYS_INLINE uint32_t sum_piece(const uint8_t *src, size_t bytes)
{
	uint32_t total;
	INDEX_VARIABLES
	SAVED_VARIABLES

	__asm__ volatile(BEGIN("power8") TURNS INDICES WORDS_OF_1 NO_SUMS_4
			 LOOP(SUM_FIRST_4 SUM_NEXT_4 STEP_SRC("128"), SUM_FIRST_4 STEP_SRC("64"),
			      "lxvd2x 40,0,%[src]\n\tlxvd2x 41,%[i1],%[src]\n\t" ADD(0, "8")
			      ADD(1, "9") STEP_SRC("32"),
			      "lxvd2x 40,0,%[src]\n\t" ADD(2, "8") STEP_SRC("16"),
			      IF_MORE("lxvd2x 41,%[i7],%[keep]\n\taddi %[i7],%[i7],-16\n\t"
				      "lxvd2x 40,%[i7],%[src]\n\tvand 8,8,9\n\t" ADD(3, "8")))
			 TOTAL_4 END
			 : [src] "+&b"(src), [total] "=o"(total), SAVED INDEX_REGISTERS
			 : [left] "r"(bytes & ~(size_t)1), [keep] "b"(keep_last)
			 : OF_LOOP CLOBBERED);
	return total;
}

#define MOVE_4(AT, PLUS, x0, x1, x2, x3, v0, v1, v2, v3)                                     \
	AT("lxvd2x", "%[src]", x0, x1, x2, x3) AT("stxvd2x", "%[dst]", x0, x1, x2, x3)       \
	PLUS(0, v0) PLUS(1, v1) PLUS(0, v2) PLUS(1, v3)
#define MOVE_FIRST_4(PLUS)                                                                   \
	MOVE_4(AT_FIRST, PLUS, "40", "41", "42", "43", "8", "9", "10", "11")
#define MOVE_NEXT_4(PLUS)                                                                    \
	MOVE_4(AT_NEXT, PLUS, "44", "45", "46", "47", "12", "13", "14", "15")
#define STEP(bytes) STEP_SRC(bytes) "addi %[dst],%[dst]," bytes "\n\t"
#define MOVE(PLUS, MASK, SUM_MASKED)                                                         \
	LOOP(MOVE_FIRST_4(PLUS) MOVE_NEXT_4(PLUS) STEP("128"), MOVE_FIRST_4(PLUS) STEP("64"), \
	     "lxvd2x 40,0,%[src]\n\tlxvd2x 41,%[i1],%[src]\n\t"                              \
	     "stxvd2x 40,0,%[dst]\n\tstxvd2x 41,%[i1],%[dst]\n\t"                            \
	     PLUS(0, "8") PLUS(1, "9") STEP("32"),                                           \
	     "lxvd2x 40,0,%[src]\n\tstxvd2x 40,0,%[dst]\n\t" PLUS(0, "8") STEP("16"),        \
	     IF_MORE(MASK "addi %[i7],%[i7],-16\n\tlxvd2x 40,%[i7],%[src]\n\t"               \
		     "stxvd2x 40,%[i7],%[dst]\n\t" SUM_MASKED))

/* Copies FEW or more bytes. */
ALWAYS_INLINE void move(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	INDEX_VARIABLES
	SAVED_VARIABLES
	__asm__ volatile(BEGIN("power8") TURNS INDICES MOVE(NO_ADD, , ) END
			 : [src] "+&b"(src), [dst] "+&b"(dst), SAVED INDEX_REGISTERS
			 : [left] "r"(bytes)
			 : OF_LOOP CLOBBERED);
}

/* Copies FEW to PIECE bytes; returns their sum, without the last byte if their number is odd. */
ALWAYS_INLINE uint32_t move_piece(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	const size_t last = bytes - 1;
	uint32_t total;
	INDEX_VARIABLES
	SAVED_VARIABLES

	dst[last] = src[last];
	__asm__ volatile(BEGIN("power8") TURNS INDICES WORDS_OF_1 NO_SUMS_2
			 MOVE(ADD, "lxvd2x 41,%[i7],%[keep]\n\t", "vand 8,8,9\n\t" ADD(1, "8"))
			 TOTAL_2 END
			 : [src] "+&b"(src), [dst] "+&b"(dst), [total] "=o"(total),
			   SAVED INDEX_REGISTERS
			 : [left] "r"(bytes & ~(size_t)1), [keep] "b"(keep_last)
			 : OF_LOOP CLOBBERED);
	return total;
}

/*
 * Returns the odd last byte, which the sums above leave out, in its half of a word; 0 if there is
 * none.
 */
ALWAYS_INLINE uint32_t odd_byte(const uint8_t *src, size_t bytes)
{
	const uint32_t last = bytes & 1 ? src[bytes - 1] : 0;
	return LR_BYTE_SWAP ? last << 8 : last;
}

ALWAYS_INLINE uint32_t join(uint32_t seed, uint32_t sum, uint32_t last)
{
	return fold64((uint64_t)seed + sum + last);
}

SOME uint32_t sum_some(const uint8_t *src, size_t bytes, uint32_t seed)
{
	const uint32_t last = odd_byte(src, bytes);
	return join(seed, sum_piece(src, bytes), last);
}

SOME uint32_t copy_sum_some(uint8_t *dst, const uint8_t *src, size_t bytes, uint32_t seed)
{
	const uint32_t last = odd_byte(src, bytes);
	return join(seed, move_piece(dst, src, bytes), last);
}

SOME void *copy_some(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	move(dst, src, bytes);
	return dst;
}

SOME void *fill_some(uint8_t *dst, uint8_t value, size_t bytes)
{
	const uint64_t word = value * 0x0101010101010101u;
	uint8_t *to = dst;
	INDEX_VARIABLES
	SAVED_VARIABLES

	store64(to + bytes - 16, word);
	store64(to + bytes - 8, word);
#define SET_4(AT) AT("stxvd2x", "%[dst]", "40", "40", "40", "40")
#define SET_STEP(bytes) "addi %[dst],%[dst]," bytes "\n\t"
	__asm__ volatile(BEGIN("power8") TURNS INDICES
			 "mtvsrd 40,%[word]\n\txxpermdi 40,40,40,0\n\t"
			 LOOP(SET_4(AT_FIRST) SET_4(AT_NEXT) SET_STEP("128"),
			      SET_4(AT_FIRST) SET_STEP("64"),
			      "stxvd2x 40,0,%[dst]\n\tstxvd2x 40,%[i1],%[dst]\n\t" SET_STEP("32"),
			      "stxvd2x 40,0,%[dst]\n\t", ) END
			 : [dst] "+&b"(to), SAVED INDEX_REGISTERS
			 : [left] "r"(bytes), [word] "r"(word)
			 : OF_LOOP CLOBBERED);
	return dst;
}

#include "../ppc_vector_row.h"
#else
#include "../not_compiled.h"
#endif
