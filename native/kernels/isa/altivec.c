/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * PowerPC with AltiVec: vectors of 16 bytes that can be loaded and stored only at multiples of 16,
 * for which the shared body of other vector variants (body.h) is not suited. Lengths for which
 * words are faster are left to the variant "ppc".
 *
 * Loads ignore the last four bits of an address: lvx from any byte loads the aligned 16 bytes that
 * contain it. Every load here uses the address of a byte of the buffer. The other bytes of its 16
 * are in the same page and line, and are masked or shifted out.
 *
 * The sum uses aligned vectors of the source; bytes outside of it are masked off in the first and
 * the last. Words therefore begin at even addresses: for a source at an odd address, the bytes of
 * the sum are swapped, and are swapped back at the end.
 *
 *	source	. . . . . p q r s t | u v w x ... | y z . . . . . . . .
 *	masked	0 0 0 0 0 p q r s t | u v w x ... | y z 0 0 0 0 0 0 0 0
 *
 * A copy stores aligned vectors of the destination. Each is shifted out of two neighbouring vectors
 * of the source, one of which is kept from the previous step. The first and the last 16 bytes are
 * also copied by words, whose bytes the vectors partly overwrite.
 *
 *	p = the vector around the first byte
 * for each aligned vector d of the destination, from the first whole one on, and s its source:
 *		n = the vector around s + 15, the last byte that d needs
 *		store the 16 bytes of p, n that begin at s;	p = n
 *
 * If source and destination have the same alignment, n alone is stored.
 */
#if defined(__powerpc__) && !defined(__SPE__)
#if defined(__ALTIVEC__)
#define COMPILED
/*
 * Little-endian ABIs build without AltiVec only by choice; for big-endian ones that is the default.
 */
#elif defined(__BIG_ENDIAN__) && !defined(_SOFT_FLOAT)
#define COMPILED
#endif
#endif

#include "../kernels.h"

#ifndef VARIANT
#define VARIANT altivec
#endif
#define ISA "AltiVec"

#ifdef COMPILED
#include "../ppc_vector.h"

#define NEEDED LR_HAS_ALTIVEC

/*
 * SHIFT combines the last n bytes of the vector before with the first bytes of the vector after,
 * into the vector to. n is an address modulo 16; if it is 0, to is a copy of after. The operand
 * numbers is a vector that NUMBERS has computed from the address. In a register of a little-endian
 * machine the bytes are reversed.
 */
#if LR_BYTE_SWAP
#define NUMBERS "lvsr"
#define SHIFT_NUMBERS "lvsl"
#define SHIFT(to, before, after, numbers) "vperm " to "," before "," after "," numbers "\n\t"
#else
#define NUMBERS "lvsl"
#define SHIFT_NUMBERS "lvsr"
#define SHIFT(to, before, after, numbers) "vperm " to "," after "," before "," numbers "\n\t"
#endif

/* v7 holds zeros, v15 ones. */
#define CONSTANTS WORDS_OF_1 "vspltisw 7,0\n\tvspltisw 15,-1\n\t"

/* Clears the bytes of v before an address, or those from it on. */
#define NOT_BEFORE(v, address)                                          \
	NUMBERS " 16,0," address "\n\t" SHIFT("16", "7", "15", "16") \
	"vand " v "," v ",16\n\t"
#define BEFORE(v, address)                                              \
	NUMBERS " 16,0," address "\n\t" SHIFT("16", "15", "7", "16") \
	"vand " v "," v ",16\n\t"

#define SUM_4(at0, at1, at2, at3, v0, v1, v2, v3)                            \
	"lvx " v0 "," at0 "\n\tlvx " v1 "," at1 "\n\t"                       \
	"lvx " v2 "," at2 "\n\tlvx " v3 "," at3 "\n\t"                       \
	ADD(0, v0) ADD(1, v1) ADD(2, v2) ADD(3, v3)
#define SUM_FIRST_4 SUM_4("0,%[src]", "%[i1],%[src]", "%[i2],%[src]", "%[i3],%[src]", \
			  "8", "9", "10", "11")
#define SUM_NEXT_4 SUM_4("%[i4],%[src]", "%[i5],%[src]", "%[i6],%[src]", "%[i7],%[src]", \
			 "12", "13", "14", "16")
#define SUM_TURN SUM_FIRST_4 SUM_NEXT_4 "addi %[src],%[src],128\n\t"

/* Returns the sum of FEW to PIECE bytes, taken in words that begin at even addresses. */
ALWAYS_INLINE uint32_t sum_piece(const uint8_t *src, size_t bytes)
{
	/*
	 * Number of bytes after the first vector. Modulo VEC, it is the offset of the end of the message
	 * in its last vector.
	 */
	const size_t left = bytes + (uintptr_t)src % VEC - VEC;
	uint32_t total;
	INDEX_VARIABLES
	SAVED_VARIABLES

	__asm__ volatile(BEGIN("altivec") TURNS INDICES CONSTANTS NO_SUMS_4
			 "lvx 8,0,%[src]\n\t" NOT_BEFORE("8", "%[src]") ADD(0, "8")
			 "addi %[src],%[src],16\n\t"
			 LOOP(SUM_TURN, SUM_FIRST_4 "addi %[src],%[src],64\n\t",
			      "lvx 8,0,%[src]\n\tlvx 9,%[i1],%[src]\n\t" ADD(1, "8") ADD(2, "9")
			      "addi %[src],%[src],32\n\t",
			      "lvx 8,0,%[src]\n\t" ADD(3, "8") "addi %[src],%[src],16\n\t",
			      IF_MORE("lvx 8,0,%[src]\n\t" BEFORE("8", "%[left]") ADD(0, "8")))
			 TOTAL_4 END
			 : [src] "+&b"(src), [total] "=o"(total), SAVED INDEX_REGISTERS
			 : [left] "r"(left)
			 : OF_LOOP CLOBBERED);
	return total;
}

/*
 * Copy four, two or one vectors, shifted: v6 keeps the vector before them, v5 holds the shift
 * numbers.
 */
#define SHIFTED_4(AT, PLUS, before, v0, v1, v2, v3)                                          \
	AT("lvx", "%[src]", v0, v1, v2, v3)                                                  \
	SHIFT("16", before, v0, "5") SHIFT("17", v0, v1, "5")                                \
	SHIFT("18", v1, v2, "5") SHIFT("19", v2, v3, "5")                                    \
	AT("stvx", "%[dst]", "16", "17", "18", "19")                                         \
	PLUS(0, "16") PLUS(1, "17") PLUS(0, "18") PLUS(1, "19")
#define SHIFTED_2(PLUS)                                                                      \
	"lvx 8,0,%[src]\n\tlvx 9,%[i1],%[src]\n\t"                                           \
	SHIFT("16", "6", "8", "5") SHIFT("17", "8", "9", "5")                                \
	"stvx 16,0,%[dst]\n\tstvx 17,%[i1],%[dst]\n\tvor 6,9,9\n\t"                          \
	PLUS(0, "16") PLUS(1, "17")
#define SHIFTED_1(PLUS)                                                                      \
	"lvx 8,0,%[src]\n\t" SHIFT("16", "6", "8", "5")                                      \
	"stvx 16,0,%[dst]\n\tvor 6,8,8\n\taddi %[src],%[src],16\n\t" PLUS(0, "16")
#define SHIFTED_KEEP "vor 6,11,11\n\t"

/* Copy four, two or one vectors without shifting. */
#define STRAIGHT_4(AT, PLUS, before, v0, v1, v2, v3)                                         \
	AT("lvx", "%[src]", v0, v1, v2, v3) AT("stvx", "%[dst]", v0, v1, v2, v3)             \
	PLUS(0, v0) PLUS(1, v1) PLUS(0, v2) PLUS(1, v3)
#define STRAIGHT_2(PLUS)                                                                     \
	"lvx 8,0,%[src]\n\tlvx 9,%[i1],%[src]\n\t"                                           \
	"stvx 8,0,%[dst]\n\tstvx 9,%[i1],%[dst]\n\t" PLUS(0, "8") PLUS(1, "9")
#define STRAIGHT_1(PLUS)                                                                     \
	"lvx 8,0,%[src]\n\tstvx 8,0,%[dst]\n\taddi %[src],%[src],16\n\t" PLUS(0, "8")
#define STRAIGHT_KEEP

/*
 * Assembles a copy loop. HOW is SHIFTED or STRAIGHT, PLUS is ADD or NO_ADD; FIRST and LAST sum the
 * bytes that are not stored by vectors.
 */
#define STEP(bytes) "addi %[src],%[src]," bytes "\n\taddi %[dst],%[dst]," bytes "\n\t"
#define MOVE(HOW, PLUS, FIRST, LAST)                                                         \
	TURNS HOW##_BEGIN FIRST INDICES                                                      \
	LOOP(HOW##_4(AT_FIRST, PLUS, "6", "8", "9", "10", "11")                              \
	     HOW##_4(AT_NEXT, PLUS, "11", "12", "13", "14", "6") STEP("128"),                \
	     HOW##_4(AT_FIRST, PLUS, "6", "8", "9", "10", "11") HOW##_KEEP STEP("64"),       \
	     HOW##_2(PLUS) STEP("32"), HOW##_1(PLUS), LAST)

/*
 * src is 15 bytes past the byte that goes to dst. Loads the shift numbers and the previous vector.
 */
#define SHIFTED_BEGIN "li %[i7],-15\n\t" SHIFT_NUMBERS " 5,%[i7],%[src]\n\tlvx 6,%[i7],%[src]\n\t"
#define STRAIGHT_BEGIN

/*
 * Sum the bytes before the first stored vector, and after the last: a partial vector each. On
 * entry, the fifth index register holds the start of the message in the destination and the sixth
 * its start in the source; its last byte is 16 - left % 16 before src.
 */
#define FIRST_OF_SUM(SHIFT_IT)                                                               \
	CONSTANTS NO_SUMS_2 "andi. %[i7],%[i5],15\n\tbeq 0,7f\n\t"                           \
	"lvx 8,0,%[i6]\n\t" SHIFT_IT NOT_BEFORE("8", "%[i5]") ADD(1, "8") "7:\n\t"
#define LAST_OF_SUM(SHIFT_IT)                                                                \
	IF_MORE("addi %[i7],%[i7],-16\n\tlvx 8,%[i7],%[src]\n\t" SHIFT_IT                    \
		BEFORE("8", "%[left]") ADD(1, "8"))

#define MOVED [src] "+&b"(at), [dst] "+&b"(to), SAVED INDEX_REGISTERS
#define OF_SUM , [total] "=o"(total)

/*
 * Copies FEW or more bytes, at most PIECE if sum is set; then also returns their sum, taken in
 * words that begin at even addresses of the destination.
 */
ALWAYS_INLINE uint32_t move_piece(uint8_t *dst, const uint8_t *src, size_t bytes,
				  const int shifted, const int sum)
{
	const size_t head = -(uintptr_t)dst % VEC;
	const size_t left = bytes - head;
	const uint8_t *at = src + head + VEC - 1;
	uint8_t *to = dst + head;
	uint32_t total = 0;
	INDEX_VARIABLES
	SAVED_VARIABLES

	copy_16(dst, src);
	copy_16(dst + bytes - VEC, src + bytes - VEC);
	if (shifted && sum)
		__asm__ volatile(BEGIN("altivec")
				 MOVE(SHIFTED, ADD, FIRST_OF_SUM(SHIFT("8", "8", "6", "5")),
				      LAST_OF_SUM(SHIFT("8", "6", "8", "5"))) TOTAL_2 END
				 : MOVED OF_SUM
				 : [left] "r"(left), "[i5]"(dst), "[i6]"(src)
				 : OF_LOOP CLOBBERED);
	else if (shifted)
		__asm__ volatile(BEGIN("altivec") MOVE(SHIFTED, NO_ADD, , ) END
				 : MOVED
				 : [left] "r"(left)
				 : OF_LOOP CLOBBERED);
	else if (sum)
		__asm__ volatile(BEGIN("altivec")
				 MOVE(STRAIGHT, ADD, FIRST_OF_SUM(), LAST_OF_SUM()) TOTAL_2 END
				 : MOVED OF_SUM
				 : [left] "r"(left), "[i5]"(dst), "[i6]"(src)
				 : OF_LOOP CLOBBERED);
	else
		__asm__ volatile(BEGIN("altivec") MOVE(STRAIGHT, NO_ADD, , ) END
				 : MOVED
				 : [left] "r"(left)
				 : OF_LOOP CLOBBERED);
	return total;
}

/*
 * Fills a multiple of VEC bytes at an aligned address, at least one vector; the last one may be
 * stored twice.
 */
ALWAYS_INLINE void fill_vectors(uint8_t *dst, size_t bytes, const uint8_t *vector)
{
	INDEX_VARIABLES
	SAVED_VARIABLES
#define SET_4(AT) AT("stvx", "%[dst]", "8", "8", "8", "8")
#define SET_STEP(bytes) "addi %[dst],%[dst]," bytes "\n\t"
	__asm__ volatile(BEGIN("altivec") TURNS INDICES "lvx 8,0,%[vector]\n\t"
			 LOOP(SET_4(AT_FIRST) SET_4(AT_NEXT) SET_STEP("128"),
			      SET_4(AT_FIRST) SET_STEP("64"),
			      "stvx 8,0,%[dst]\n\tstvx 8,%[i1],%[dst]\n\t" SET_STEP("32"),
			      "stvx 8,0,%[dst]\n\t", ) END
			 : [dst] "+&b"(dst), SAVED INDEX_REGISTERS
			 : [left] "r"(bytes), [vector] "b"(vector)
			 : OF_LOOP CLOBBERED);
}

/*
 * Adds the sum of a piece whose bytes began at that address, swapping its bytes if the address is
 * odd.
 */
ALWAYS_INLINE uint32_t join(uint32_t seed, uint32_t sum, const uint8_t *began)
{
	const unsigned turn = (unsigned)((uintptr_t)began & 1) * 8;
	return lr_csum_add(seed, sum << turn | sum >> (-turn & 31));
}

SOME uint32_t sum_some(const uint8_t *src, size_t bytes, uint32_t seed)
{
	return join(seed, sum_piece(src, bytes), src);
}

SOME uint32_t copy_sum_some(uint8_t *dst, const uint8_t *src, size_t bytes, uint32_t seed)
{
	if (((uintptr_t)dst ^ (uintptr_t)src) % VEC)
		return join(seed, move_piece(dst, src, bytes, 1, 1), dst);
	return join(seed, move_piece(dst, src, bytes, 0, 1), dst);
}

SOME void *copy_some(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	if (((uintptr_t)dst ^ (uintptr_t)src) % VEC)
		move_piece(dst, src, bytes, 1, 0);
	else
		move_piece(dst, src, bytes, 0, 0);
	return dst;
}

SOME void *fill_some(uint8_t *dst, uint8_t value, size_t bytes)
{
	const uint64_t word = value * 0x0101010101010101u;
	const uint64_t vector[2] __attribute__((aligned(VEC))) = { word, word };
	const size_t head = -(uintptr_t)dst % VEC;

	store64(dst, word);
	store64(dst + 8, word);
	store64(dst + bytes - 16, word);
	store64(dst + bytes - 8, word);
	fill_vectors(dst + head, bytes - head, (const uint8_t *)vector);
	return dst;
}

#include "../ppc_vector_row.h"
#else
#include "../not_compiled.h"
#endif
