/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * PowerPC with AltiVec: vectors of 16 bytes that are loaded and stored only where their address is
 * a multiple of 16, which the body of the other vectors is not made for. Leaves out lengths for
 * which words are cheaper.
 *
 * Loads ignore the last four bits of an address: lvx from any byte yields the aligned 16 among
 * which it is. Every load here is from the address of a named byte. The others of its 16 are in
 * the same page and line, and are masked or shifted out.
 *
 * The sum uses aligned vectors of the source, with bytes outside of it masked in the first and the
 * last. Words are then those of even addresses: the sum of a source at an odd address has its bytes
 * swapped, and is swapped back.
 *
 *	source	. . . . . p q r s t | u v w x ... | y z . . . . . . . .
 *	masked	0 0 0 0 0 p q r s t | u v w x ... | y z 0 0 0 0 0 0 0 0
 *
 * A copy stores aligned vectors of the destination. Each is shifted out of two neighbours of the
 * source, of which one is kept from the vector before. The first and the last 16 bytes are copied
 * by words as well; vectors store over what they share with these.
 *
 *	p = the vector around the first byte
 * for each aligned vector d of the destination, from the first whole one on, and s its source:
 *		n = the vector around s + 15, the last byte that d needs
 *		store the 16 bytes of p, n that begin at s;	p = n
 *
 * If source and destination are aligned to each other, n is all of it.
 */
#if defined(__powerpc__) && !defined(__SPE__)
#if defined(__ALTIVEC__)
#define COMPILED
/* By default the others are built without vectors; these, with them. */
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
 * SHIFT: to of the bytes of before and after those that NUMBERS of an address has put into the
 * register numbers: the last n of before, the rest from after, where n is the address modulo 16;
 * none of before if it is 0. In a register of a little-endian machine the bytes are reversed.
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

/* Registers 7, zeros, and 15, ones. */
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

/* The sum of FEW to PIECE bytes, as if the words were those of even addresses. */
ALWAYS_INLINE uint32_t sum_piece(const uint8_t *src, size_t bytes)
{
	/* Behind the first vector. Modulo VEC this is where the message ends. */
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

/* Four vectors with the one before them, two, one: 6 is kept, 5 the numbers of the shift. */
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

/* The same where nothing is shifted. */
#define STRAIGHT_4(AT, PLUS, before, v0, v1, v2, v3)                                         \
	AT("lvx", "%[src]", v0, v1, v2, v3) AT("stvx", "%[dst]", v0, v1, v2, v3)             \
	PLUS(0, v0) PLUS(1, v1) PLUS(0, v2) PLUS(1, v3)
#define STRAIGHT_2(PLUS)                                                                     \
	"lvx 8,0,%[src]\n\tlvx 9,%[i1],%[src]\n\t"                                           \
	"stvx 8,0,%[dst]\n\tstvx 9,%[i1],%[dst]\n\t" PLUS(0, "8") PLUS(1, "9")
#define STRAIGHT_1(PLUS)                                                                     \
	"lvx 8,0,%[src]\n\tstvx 8,0,%[dst]\n\taddi %[src],%[src],16\n\t" PLUS(0, "8")
#define STRAIGHT_KEEP

/* HOW is SHIFTED or STRAIGHT, PLUS is ADD or NO_ADD; FIRST and LAST sum what is not stored here. */
#define STEP(bytes) "addi %[src],%[src]," bytes "\n\taddi %[dst],%[dst]," bytes "\n\t"
#define MOVE(HOW, PLUS, FIRST, LAST)                                                         \
	TURNS HOW##_BEGIN FIRST INDICES                                                      \
	LOOP(HOW##_4(AT_FIRST, PLUS, "6", "8", "9", "10", "11")                              \
	     HOW##_4(AT_NEXT, PLUS, "11", "12", "13", "14", "6") STEP("128"),                \
	     HOW##_4(AT_FIRST, PLUS, "6", "8", "9", "10", "11") HOW##_KEEP STEP("64"),       \
	     HOW##_2(PLUS) STEP("32"), HOW##_1(PLUS), LAST)

/* src is 15 past the bytes for dst: the shift numbers, and the previous vector. */
#define SHIFTED_BEGIN "li %[i7],-15\n\t" SHIFT_NUMBERS " 5,%[i7],%[src]\n\tlvx 6,%[i7],%[src]\n\t"
#define STRAIGHT_BEGIN

/*
 * The bytes before the first stored vector, and after the last: a partial vector each. The message
 * begins at the fifth index in the destination, at the sixth in the source; its last byte is 16 -
 * left % 16 before src.
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
 * Copies FEW bytes and more, at most PIECE if sum is set; returns the sum then, as if the words
 * were those of even addresses of the destination.
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

/* A multiple of VEC bytes to an aligned address; at least one vector, the last perhaps twice. */
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

/* Joins the sum of a piece whose vectors began at an address. */
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
