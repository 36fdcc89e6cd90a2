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
 * The single step reads three registers, which on Zen 5 interferes with the stores (8000 bytes
 * copied in 180 cycles, in 152 with two steps). Sums alone are limited by the number of
 * instructions.
 */
#define TWO_STEPS_BESIDE_STORES 1

/*
 * One instruction multiplies, adds neighbours and adds to the lanes. As an intrinsic gcc 12 copies
 * the lanes around it: 38 cycles against 34 for 1460 bytes on Zen 4.
 */
ALWAYS_INLINE vec vec_accumulate(vec lanes, vec v, struct constants k)
{
	const vec flipped = _mm512_xor_si512(v, k.flip);
	__asm__("vpdpwssd %2, %1, %0" : "+v"(lanes) : "v"(flipped), "v"(k.ones));
	return lanes;
}

#include "../body.h"
#else
#include "../not_compiled.h"
#endif

#if defined(__clang__) && defined(COMPILED)
#pragma clang attribute pop
#endif
