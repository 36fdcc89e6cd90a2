/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The AltiVec variant with the loop of the white paper "Enhanced TCP/IP Performance with AltiVec" in
 * place of vmsumuhm: six instructions a vector, of which a turn of eight vectors shares two.
 *
 *	per vector: load, vaddcuw, vadduwm, vadduwm; per iteration: step, branch
 *
 * Words of 32 bits are added modulo 2^32; vaddcuw yields the carries of the lanes, which are added
 * up separately, each worth 1 modulo 2^32 - 1. Everything else is the file of the variant, so that
 * a difference of the counts is due to the method of addition. It is not a variant of the library,
 * because it takes more instructions at every length. Without AltiVec the row says so.
 *
 * Registers: 0 and 1 sums, 3 and 4 their carries, 2 the carries of one addition.
 */
#define VARIANT vaddcuw

#define WORDS_OF_1
#define NO_SUMS_2 \
	"vspltisw 0,0\n\tvspltisw 1,0\n\tvspltisw 3,0\n\tvspltisw 4,0\n\t"
#define NO_SUMS_4 NO_SUMS_2
#define CARRY(sum, carries, v)                                      \
	"vaddcuw 2," sum "," v "\n\tvadduwm " sum "," sum "," v "\n\t" \
	"vadduwm " carries "," carries ",2\n\t"
#define ADD_0(v) CARRY("0", "3", v)
#define ADD_1(v) CARRY("1", "4", v)
/* An addition takes a cycle: two sums are as good as four. */
#define ADD_2(v) ADD_0(v)
#define ADD_3(v) ADD_1(v)
#define ADD(sum, v) ADD_##sum(v)

/*
 * Adds a carry where it came from, which cannot carry again: a sum that carried is at most
 * 2^32 - 2.
 */
#define END_AROUND(v) CARRY("0", "0", v)
#define TOTAL_2                                                                      \
	"vadduwm 3,3,4\n\t" END_AROUND("1") END_AROUND("3")                          \
	"vsldoi 1,0,0,8\n\t" END_AROUND("1") "vsldoi 1,0,0,4\n\t" END_AROUND("1")    \
	"la %[i7],%[total]\n\tstvewx 0,0,%[i7]\n\t"
#define TOTAL_4 TOTAL_2

#include "../../native/kernels/isa/altivec.c"
