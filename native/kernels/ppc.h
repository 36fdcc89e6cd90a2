/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Shared by the PowerPC variants: sums and copies by words of the general registers, 4 bytes on the
 * 32-bit and 8 on the 64-bit architecture. Without vectors.
 *
 * The carry of a chain of adde lives in XER, which neither a load, nor a branch, nor addi, nor a
 * move to the condition register touches: one chain runs from the first word to the last byte,
 * through the loop, and its carry is added once at its end. That is enough: a sum that began
 * without carry is at most 2^n - 2 where it left one:
 * s + a + 1 <= (2^n - 2) + (2^n - 1) + 1 = 2^n + (2^n - 2).
 *
 * The length of the rest after the loop is in bits of the condition register, each tested by a
 * branch.
 */
#ifndef LINERATE_PPC_H
#define LINERATE_PPC_H

#include "words.h"

#ifdef __powerpc64__
#define PPC_WORD "8"
#define PPC_LOAD "ld"
#define PPC_STORE "std"
#define PPC_SHIFT_RIGHT "srdi"
#define PPC_COMPARE "cmpldi"
#else
#define PPC_WORD "4"
#define PPC_LOAD "lwz"
#define PPC_STORE "stw"
#define PPC_SHIFT_RIGHT "srwi"
#define PPC_COMPARE "cmplwi"
#endif

/*
 * The functions of the variant "ppc", with which the others do short lengths. Hidden, because a
 * call of what another library might replace goes through a table whose address takes eight
 * instructions.
 */
#define PPC_OWN __attribute__((visibility("hidden")))
PPC_OWN uint32_t lr_csum_partial_ppc(const void *src, size_t bytes, uint32_t seed);
PPC_OWN uint32_t lr_copy_csum_partial_ppc(void *dst, const void *src, size_t bytes, uint32_t seed);
PPC_OWN void *lr_copy_ppc(void *dst, const void *src, size_t bytes);
PPC_OWN void *lr_fill_ppc(void *dst, uint8_t value, size_t bytes);

/* Bytes per iteration of the loop: sixteen words. */
#define PPC_TURN (16 * sizeof(uintptr_t))

/* One word, the at-th from src and dst on, through the register t. */
#define PPC_TAKE(t, at) PPC_LOAD " %[" #t "]," PPC_WORD "*(" #at ")(%[src])\n\t"
#define PPC_GIVE(t, at) PPC_STORE " %[" #t "]," PPC_WORD "*(" #at ")(%[dst])\n\t"
#define PPC_PLUS(t, at) "adde %[sum],%[sum],%[" #t "]\n\t"
#define PPC_SET(t, at) PPC_STORE " %[word]," PPC_WORD "*(" #at ")(%[dst])\n\t"

/* Four words: loads first, so that none is waited for. */
#define PPC_EACH(DO, at) DO(a, at) DO(b, at + 1) DO(c, at + 2) DO(d, at + 3)
#define PPC_SUM(at) PPC_EACH(PPC_TAKE, at) PPC_EACH(PPC_PLUS, at)
#define PPC_COPY_SUM(at) PPC_EACH(PPC_TAKE, at) PPC_EACH(PPC_GIVE, at) PPC_EACH(PPC_PLUS, at)
#define PPC_COPY(at) PPC_EACH(PPC_TAKE, at) PPC_EACH(PPC_GIVE, at)
#define PPC_FILL(at) PPC_EACH(PPC_SET, at)

/* One word. */
#define PPC_SUM_1(t, at) PPC_TAKE(t, at) PPC_PLUS(t, at)
#define PPC_COPY_SUM_1(t, at) PPC_TAKE(t, at) PPC_GIVE(t, at) PPC_PLUS(t, at)
#define PPC_COPY_1(t, at) PPC_TAKE(t, at) PPC_GIVE(t, at)

/* Steps the pointers in use by some bytes. */
#define PPC_STEP_SRC(bytes) "addi %[src],%[src]," bytes "\n\t"
#define PPC_STEP_DST(bytes) "addi %[dst],%[dst]," bytes "\n\t"
#define PPC_STEP_BOTH(bytes) PPC_STEP_SRC(bytes) PPC_STEP_DST(bytes)

/*
 * The loop, then eight, four, two words and one, if the length has their bit: FOUR handles four
 * words, ONE one of them.
 *
 * Bits of the condition register are counted from 0: mtcrf takes the last eight of the length into
 * its last two fields; bit 31 is the one of value 1.
 */
#ifdef __powerpc64__
#define PPC_BIT_8 "25"
#define PPC_BIT_4 "26"
#define PPC_BIT_2 "27"
#define PPC_BIT_1 "28"
#else
#define PPC_BIT_8 "26"
#define PPC_BIT_4 "27"
#define PPC_BIT_2 "28"
#define PPC_BIT_1 "29"
#endif
#define PPC_WORDS(FOUR, ONE, STEP)                                                         \
	PPC_COMPARE " 0,%[turns],0\n\t"                                                    \
	"mtcrf 2,%[bytes]\n\t"                                                            \
	"mtcrf 1,%[bytes]\n\t"                                                            \
	"beq 0,2f\n\t"                                                                     \
	"mtctr %[turns]\n"                                                                 \
	"1:\n\t" FOUR(0) FOUR(4) FOUR(8) FOUR(12) STEP("16*" PPC_WORD) "bdnz 1b\n"         \
	"2:\n\t"                                                                           \
	"bf " PPC_BIT_8 ",3f\n\t" FOUR(0) FOUR(4) STEP("8*" PPC_WORD) "3:\n\t"             \
	"bf " PPC_BIT_4 ",4f\n\t" FOUR(0) STEP("4*" PPC_WORD) "4:\n\t"                     \
	"bf " PPC_BIT_2 ",5f\n\t" ONE(a, 0) ONE(b, 1) STEP("2*" PPC_WORD) "5:\n\t"         \
	"bf " PPC_BIT_1 ",6f\n\t" ONE(a, 0) STEP(PPC_WORD) "6:\n\t"

/* The rest of less than a word: PART(load, store) two or four bytes, LAST the last byte. */
#ifdef __powerpc64__
#define PPC_REST(PART, STEP, LAST)                                            \
	"bf 29,7f\n\t" PART("lwz", "stw") STEP("4") "7:\n\t"                  \
	"bf 30,8f\n\t" PART("lhz", "sth") STEP("2") "8:\n\t"                  \
	"bf 31,9f\n\t" LAST "9:\n\t"
#else
#define PPC_REST(PART, STEP, LAST)                                            \
	"bf 30,8f\n\t" PART("lhz", "sth") STEP("2") "8:\n\t"                  \
	"bf 31,9f\n\t" LAST "9:\n\t"
#endif
#define PPC_TAKE_PART(load, store) load " %[a],0(%[src])\n\t"
#define PPC_GIVE_PART(load, store) store " %[a],0(%[dst])\n\t"
#define PPC_SUM_PART(load, store) PPC_TAKE_PART(load, store) PPC_PLUS(a, 0)
#define PPC_COPY_PART(load, store) PPC_TAKE_PART(load, store) PPC_GIVE_PART(load, store)
#define PPC_COPY_SUM_PART(load, store) PPC_COPY_PART(load, store) PPC_PLUS(a, 0)
#define PPC_FILL_PART(load, store) store " %[word],0(%[dst])\n\t"

/* The last byte is in the first half of its word. */
#if LR_BYTE_SWAP
#define PPC_PLUS_LAST "slwi %[a],%[a],8\n\t" PPC_PLUS(a, 0)
#else
#define PPC_PLUS_LAST PPC_PLUS(a, 0)
#endif

/* Clears the carry, and adds it. */
#define PPC_NO_CARRY "addic %[sum],%[sum],0\n\t"
#define PPC_CARRY "addze %[sum],%[sum]"

#define PPC_TEMPORARIES [a] "=&b"(a), [b] "=&b"(b), [c] "=&b"(c), [d] "=&b"(d)
#define PPC_LENGTH [bytes] "r"(bytes), [turns] "r"(bytes / PPC_TURN)
#define PPC_CLOBBERED "cr0", "cr6", "cr7", "ctr", "memory"

/* Adds bytes to sum, without folding; 0 only if all is 0. Copies them as well if copy is set. */
ALWAYS_INLINE uintptr_t ppc_sum(uintptr_t sum, uint8_t *dst, const uint8_t *src, size_t bytes,
				const int copy)
{
	uintptr_t a, b, c, d;
	if (copy)
		__asm__ volatile(PPC_NO_CARRY PPC_WORDS(PPC_COPY_SUM, PPC_COPY_SUM_1, PPC_STEP_BOTH)
				 PPC_REST(PPC_COPY_SUM_PART, PPC_STEP_BOTH,
					  PPC_COPY_PART("lbz", "stb") PPC_PLUS_LAST) PPC_CARRY
				 : [sum] "+&r"(sum), [src] "+&b"(src), [dst] "+&b"(dst),
				   PPC_TEMPORARIES
				 : PPC_LENGTH
				 : PPC_CLOBBERED, "xer");
	else
		__asm__ volatile(PPC_NO_CARRY PPC_WORDS(PPC_SUM, PPC_SUM_1, PPC_STEP_SRC)
				 PPC_REST(PPC_SUM_PART, PPC_STEP_SRC,
					  PPC_TAKE_PART("lbz", "stb") PPC_PLUS_LAST) PPC_CARRY
				 : [sum] "+&r"(sum), [src] "+&b"(src), PPC_TEMPORARIES
				 : PPC_LENGTH
				 : PPC_CLOBBERED, "xer");
	return sum;
}

ALWAYS_INLINE void ppc_copy(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	uintptr_t a, b, c, d;
	__asm__ volatile(PPC_WORDS(PPC_COPY, PPC_COPY_1, PPC_STEP_BOTH)
			 PPC_REST(PPC_COPY_PART, PPC_STEP_BOTH, PPC_COPY_PART("lbz", "stb"))
			 : [src] "+&b"(src), [dst] "+&b"(dst), PPC_TEMPORARIES
			 : PPC_LENGTH
			 : PPC_CLOBBERED);
}

ALWAYS_INLINE void ppc_fill(uint8_t *dst, uint8_t value, size_t bytes)
{
	const uintptr_t word = (uintptr_t)-1 / 0xff * value;
	__asm__ volatile(PPC_WORDS(PPC_FILL, PPC_SET, PPC_STEP_DST)
			 PPC_REST(PPC_FILL_PART, PPC_STEP_DST, PPC_FILL_PART("lbz", "stb"))
			 : [dst] "+&b"(dst)
			 : [word] "r"(word), PPC_LENGTH
			 : PPC_CLOBBERED);
}

#endif
