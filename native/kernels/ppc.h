/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Shared by the PowerPC variants: sums and copies by words in general registers, of 4 bytes on the
 * 32-bit and 8 on the 64-bit architecture, without vectors.
 *
 * The carry of a chain of adde is kept in XER, which neither a load, nor a branch, nor addi, nor a
 * move to the condition register changes: one chain runs from the first word to the last byte,
 * through the loop, and its carry is added once at its end. That addition cannot carry again: a
 * chain that begins without a carry and ends with one leaves a sum of at most 2^n - 2: s + a + 1 <=
 * (2^n - 2) + (2^n - 1) + 1 = 2^n + (2^n - 2).
 *
 * The length left after the loop is in bits of the condition register, each of which is tested by a
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
 * The functions of the variant "ppc", which the other variants use for short lengths. Hidden,
 * because a call of a function that another library might replace goes through a table whose
 * address takes eight instructions to compute.
 */
#define PPC_OWN __attribute__((visibility("hidden")))
PPC_OWN uint32_t lr_csum_partial_ppc(const void *src, size_t bytes, uint32_t seed);
PPC_OWN uint32_t lr_copy_csum_partial_ppc(void *dst, const void *src, size_t bytes, uint32_t seed);
PPC_OWN void *lr_copy_ppc(void *dst, const void *src, size_t bytes);
PPC_OWN void *lr_fill_ppc(void *dst, uint8_t value, size_t bytes);

/* Bytes per iteration of the loop: sixteen words. */
#define PPC_TURN (16 * sizeof(uintptr_t))

/* Load, store, add or fill a word of src or dst through register t; at is the word's index. */
#define PPC_TAKE(t, at) PPC_LOAD " %[" #t "]," PPC_WORD "*(" #at ")(%[src])\n\t"
#define PPC_GIVE(t, at) PPC_STORE " %[" #t "]," PPC_WORD "*(" #at ")(%[dst])\n\t"
#define PPC_PLUS(t, at) "adde %[sum],%[sum],%[" #t "]\n\t"
#define PPC_SET(t, at) PPC_STORE " %[word]," PPC_WORD "*(" #at ")(%[dst])\n\t"

/* Four words: all loads come first, so that no instruction waits for one. */
#define PPC_EACH(DO, at) DO(a, at) DO(b, at + 1) DO(c, at + 2) DO(d, at + 3)
#define PPC_SUM(at) PPC_EACH(PPC_TAKE, at) PPC_EACH(PPC_PLUS, at)
#define PPC_COPY_SUM(at) PPC_EACH(PPC_TAKE, at) PPC_EACH(PPC_GIVE, at) PPC_EACH(PPC_PLUS, at)
#define PPC_COPY(at) PPC_EACH(PPC_TAKE, at) PPC_EACH(PPC_GIVE, at)
#define PPC_FILL(at) PPC_EACH(PPC_SET, at)

/* One word. */
#define PPC_SUM_1(t, at) PPC_TAKE(t, at) PPC_PLUS(t, at)
#define PPC_COPY_SUM_1(t, at) PPC_TAKE(t, at) PPC_GIVE(t, at) PPC_PLUS(t, at)
#define PPC_COPY_1(t, at) PPC_TAKE(t, at) PPC_GIVE(t, at)

/* Advance the pointers that are in use. */
#define PPC_STEP_SRC(bytes) "addi %[src],%[src]," bytes "\n\t"
#define PPC_STEP_DST(bytes) "addi %[dst],%[dst]," bytes "\n\t"
#define PPC_STEP_BOTH(bytes) PPC_STEP_SRC(bytes) PPC_STEP_DST(bytes)

/*
 * The loop, then eight, four, two words and one, each if its bit is set in the length: FOUR handles
 * four words, ONE a single word.
 *
 * mtcrf moves the low eight bits of the length into the last two fields of the condition register,
 * whose bits are numbered from the most significant one: bit 31 has the value 1.
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

/*
 * What is left, less than a word: PART(load, store) handles two or four bytes, LAST the last byte.
 */
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

/* An odd last byte is the first byte of its 16-bit word. */
#if LR_BYTE_SWAP
#define PPC_PLUS_LAST "slwi %[a],%[a],8\n\t" PPC_PLUS(a, 0)
#else
#define PPC_PLUS_LAST PPC_PLUS(a, 0)
#endif

/* Clear the carry before a chain, and add it after. */
#define PPC_NO_CARRY "addic %[sum],%[sum],0\n\t"
#define PPC_CARRY "addze %[sum],%[sum]"

#define PPC_TEMPORARIES [a] "=&b"(a), [b] "=&b"(b), [c] "=&b"(c), [d] "=&b"(d)
#define PPC_LENGTH [bytes] "r"(bytes), [turns] "r"(bytes / PPC_TURN)
#define PPC_CLOBBERED "cr0", "cr6", "cr7", "ctr", "memory"

/*
 * Adds bytes to sum, without folding; the result is 0 only if all of them and sum are 0. Copies
 * them as well if copy is set.
 */
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
