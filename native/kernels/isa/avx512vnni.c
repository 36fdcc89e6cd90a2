/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* x86-64 with AVX-512 and its dot products, as of Ice Lake and Zen 4. */
#if defined(__x86_64__) && defined(__SSE2__) && __has_include(<avx512vnniintrin.h>)
#define COMPILED
#endif

#if defined(__clang__) && defined(COMPILED)
#pragma clang attribute push(                                                     \
	__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,bmi2"))), apply_to = function)
#elif defined(COMPILED)
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vnni,bmi2")
#endif

#include "../kernels.h"

#define VARIANT avx512vnni
#define ISA "AVX-512 F, BW, VL, VNNI; BMI2"

#ifdef COMPILED
#include "../avx512.h"

#define SUPPORTED lr_x86_has_avx512_vnni
#define PREFERRED LR_CSUM | LR_COPY_CSUM

/*
 * vpdpwssd reads three registers, which on Zen 5 interferes with stores: copying 8000 bytes takes
 * 180 cycles, but 152 with two steps. Sums alone are limited by the number of instructions.
 */
#define TWO_STEPS_BESIDE_STORES 1

/*
 * Adds the pairs of words of v to the lanes by one instruction, which multiplies, adds neighbours
 * and adds the result to the lanes. It is written in assembly, because with the intrinsic gcc 12
 * copies the lanes around it: 38 cycles against 34 for 1460 bytes on Zen 4.
 */
ALWAYS_INLINE vec vec_accumulate(vec lanes, vec v, struct constants k)
{
	const vec flipped = _mm512_xor_si512(v, k.flip);
	__asm__("vpdpwssd %2, %1, %0" : "+v"(lanes) : "v"(flipped), "v"(k.ones));
	return lanes;
}

/*
 * One step of add_left. Each takes exactly STEP_BYTES of code: the base is fixed to rsi because
 * some base registers need another byte, and .org fails if a step is longer.
 */
#define STEP(n, lane)                                                                              \
	"vpxord -" #n "*64(%[end]), %[flip], %%zmm31\n\t"                                         \
	"vpdpwssd %[ones], %%zmm31, %[" #lane "]\n\t"
#define STEP_4(n, m, l, k) STEP(n, a) STEP(m, b) STEP(l, c) STEP(k, d)
#define STEP_BYTES 13

/*
 * Adds the last vectors before end, at most 28, to four accumulators. The address of the step to
 * jump to is computed. Compilers would load it from a table, and after a mispredicted jump,
 * everything would wait for that load, too. Compared with a switch, on Sapphire Rapids: 0.94 of the
 * time for lengths of 20 to 1500 at random, and 0.97 to 1.00 for lengths that repeat, because gcc
 * 12 copies accumulators between the cases of a switch.
 *
 * The steps are not padded to 16 bytes: on Zen 5, 1460 bytes of cold buffers at equal distances
 * then take 1.6 times as long, probably because its prefetcher distinguishes loads by the lower
 * bits of their instruction addresses.
 */
ALWAYS_INLINE void add_left(vec *a, vec *b, vec *c, vec *d, const uint8_t *end, size_t vectors,
			    struct constants k)
{
	uintptr_t to;
	__asm__("lea 1f(%%rip), %[to]\n\t"
		"sub %[bytes], %[to]\n\t"
		"notrack jmp *%[to]\n\t"
		".p2align 6\n"
		"0:\n\t"
		STEP_4(28, 27, 26, 25) STEP_4(24, 23, 22, 21) STEP_4(20, 19, 18, 17)
		STEP_4(16, 15, 14, 13) STEP_4(12, 11, 10, 9) STEP_4(8, 7, 6, 5)
		STEP_4(4, 3, 2, 1)
		".org 0b + 28*%c[step]\n"
		"1:"
		: [a] "+v"(*a), [b] "+v"(*b), [c] "+v"(*c), [d] "+v"(*d), [to] "=&r"(to)
		: [end] "S"(end), [flip] "v"(k.flip), [ones] "v"(k.ones),
		  [bytes] "r"(STEP_BYTES * vectors), [step] "i"(STEP_BYTES)
		: "cc", "memory", "xmm31");
}
#define ADD_LEFT add_left

#include "../body.h"
#else
#include "../not_compiled.h"
#endif

#if defined(__clang__) && defined(COMPILED)
#pragma clang attribute pop
#endif
