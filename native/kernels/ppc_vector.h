/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Shared by the PowerPC vector variants: their sum, and the loop around the parts that differ. It
 * is in assembly, so that no file needs special flags or the compiler's vector types: gcc refuses
 * to enable AltiVec for single functions or files of a 32-bit ABI built without it. Each variant
 * defines its own loads and stores of vectors.
 *
 * vmsumuhm multiplies the eight unsigned words of a vector by those of another, here 1, and adds
 * them in pairs to four lanes of 32 bits: one instruction for what takes three, around vaddcuw, in
 * the loop of the white paper "Enhanced TCP/IP Performance with AltiVec". The sum of at most PIECE
 * + FEW bytes is at most half their number times 65535, less than 2^32: the total of all lanes
 * modulo 2^32 is therefore the sum itself, not merely congruent to it, and 0 only if all bytes are
 * 0.
 *
 * To use the paper's loop instead, define ADD and its helpers before including this file, as
 * lab/icount/carries.c does to compare the two.
 */
#ifndef LINERATE_PPC_VECTOR_H
#define LINERATE_PPC_VECTOR_H

#include "ppc.h"
#include "processor.h"

#define VEC 16

/*
 * Shorter lengths are handled by words, which then take fewer instructions: below FEW for sums,
 * below FEW_MOVED for a copy or fill without a sum. The 64-bit architecture has longer words.
 */
#ifdef __powerpc64__
#define FEW 256
#define FEW_MOVED 128
#else
#define FEW 96
#define FEW_MOVED 96
#endif

#define SOME static __attribute__((noinline))

/*
 * Bytes per call of the loops. Restarting them for every piece makes long sums a twentieth slower,
 * but those are limited by memory anyway; and with pieces this short, the quick check covers two of
 * them. A comparison with this number fits into one instruction.
 */
#define PIECE ((size_t)1 << 13)

_Static_assert(PIECE + FEW <= (size_t)1 << 17, "the sum of a piece is below 2^32");
_Static_assert(PIECE % 2 == 0, "words of one piece are words of the message in the next");

/*
 * For a system that saves only the vector registers that a thread has marked in VRSAVE, define
 * LR_VRSAVE: the loops then mark v0 to v19, which they use. Linux saves all.
 */
#ifdef LR_VRSAVE
#define MARK "mfspr %[saved],256\n\toris %[t],%[saved],0xffff\n\tori %[t],%[t],0xf000\n\t" \
	     "mtspr 256,%[t]\n\t"
#define UNMARK "mtspr 256,%[saved]\n\t"
#define SAVED [saved] "=&r"(saved), [t] "=&r"(t),
#define SAVED_VARIABLES uintptr_t saved, t;
#else
#define MARK
#define UNMARK
#define SAVED
#define SAVED_VARIABLES
#endif

/* Clobbers for compilers that know vector registers. */
#ifdef __ALTIVEC__
#define CLOBBERED , "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",     \
		  "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19"
#else
#define CLOBBERED
#endif

/* Enclose instructions that the build's target processor may lack. */
#define BEGIN(machine) ".machine push\n\t.machine \"" machine "\"\n\t" MARK
#define END UNMARK ".machine pop"

/* Index registers with the offsets 16, 32, ... 112. */
#define INDICES \
	"li %[i1],16\n\tli %[i2],32\n\tli %[i3],48\n\tli %[i4],64\n\t" \
	"li %[i5],80\n\tli %[i6],96\n\tli %[i7],112\n\t"
#define INDEX_VARIABLES uintptr_t i1, i2, i3, i4, i5, i6, i7;
#define INDEX_REGISTERS                                                                       \
	[i1] "=&b"(i1), [i2] "=&b"(i2), [i3] "=&b"(i3), [i4] "=&b"(i4), [i5] "=&b"(i5), \
		[i6] "=&b"(i6), [i7] "=&b"(i7)

#ifndef ADD
/*
 * Vector registers: v0 to v3 are sums, v4 holds words of 1. A sum alone needs four, because
 * vmsumuhm takes four cycles; when vectors are also stored, two suffice, because the loads and
 * stores take as long.
 */
#define WORDS_OF_1 "vspltish 4,1\n\t"
#define NO_SUMS_2 "vspltisw 0,0\n\tvspltisw 1,0\n\t"
#define NO_SUMS_4 NO_SUMS_2 "vspltisw 2,0\n\tvspltisw 3,0\n\t"
#define ADD(sum, v) "vmsumuhm " #sum "," v ",4," #sum "\n\t"

/*
 * Add up all lanes of two or four sums. Every lane then holds the total, so that any may be stored.
 */
#define TOTAL_2                                                                              \
	"vadduwm 0,0,1\n\tvsldoi 1,0,0,8\n\tvadduwm 0,0,1\n\tvsldoi 1,0,0,4\n\t"             \
	"vadduwm 0,0,1\n\tla %[i7],%[total]\n\tstvewx 0,0,%[i7]\n\t"
#define TOTAL_4 "vadduwm 0,0,2\n\tvadduwm 1,1,3\n\t" TOTAL_2
#endif

/*
 * LOOP runs TURN for every 128 bytes of left, then FOUR, TWO and ONE for 64, 32 and 16 bytes, then
 * LAST, which IF_MORE makes conditional on bytes left over. TURNS must come somewhere before it and
 * sets up the counter and the conditions: mtcrf puts the bits of left from 128 down to 16 into bits
 * 24 to 27 of the condition register, counted from 0. The seventh index register is a temporary
 * before it is set and after its last use.
 */
#define TURNS                                                                                \
	PPC_SHIFT_RIGHT " %[i7],%[left],7\n\tmtcrf 2,%[left]\n\t"                            \
	PPC_COMPARE " 1,%[i7],0\n\tmtctr %[i7]\n\t"
#define LOOP(TURN, FOUR, TWO, ONE, LAST)                                                     \
	"beq 1,2f\n"                                                                         \
	"1:\n\t" TURN "bdnz 1b\n"                                                            \
	"2:\n\t"                                                                             \
	"bf 25,3f\n\t" FOUR "3:\n\t"                                                         \
	"bf 26,4f\n\t" TWO "4:\n\t"                                                          \
	"bf 27,5f\n\t" ONE "5:\n\t" LAST
#define IF_MORE(LAST) "andi. %[i7],%[left],15\n\tbeq 0,6f\n\t" LAST "6:\n\t"
#define OF_LOOP "cr0", "cr1", "cr6", "ctr", "memory"

/* Apply an instruction to four registers, at the offsets 0 to 48 from base, or 64 to 112. */
#define AT_FIRST(what, base, v0, v1, v2, v3)                                                 \
	what " " v0 ",0," base "\n\t" what " " v1 ",%[i1]," base "\n\t"                      \
	what " " v2 ",%[i2]," base "\n\t" what " " v3 ",%[i3]," base "\n\t"
#define AT_NEXT(what, base, v0, v1, v2, v3)                                                  \
	what " " v0 ",%[i4]," base "\n\t" what " " v1 ",%[i5]," base "\n\t"                  \
	what " " v2 ",%[i6]," base "\n\t" what " " v3 ",%[i7]," base "\n\t"

/* Takes the place of ADD in copies without a sum. */
#define NO_ADD(sum, v)

ALWAYS_INLINE void copy_16(uint8_t *dst, const uint8_t *src)
{
	const uint64_t a = load64(src), b = load64(src + 8);
	store64(dst, a);
	store64(dst + 8, b);
}

#endif
