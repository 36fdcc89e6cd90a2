/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* x86-64 with AVX-512 as of Skylake-X: vectors of 64 bytes, with masks for parts of a vector. */
#if defined(__x86_64__) && defined(__SSE2__) && __has_include(<avx512bwintrin.h>)
#define COMPILED
#endif

#if defined(__clang__) && defined(COMPILED)
#pragma clang attribute push(                                                     \
	__attribute__((target("avx512f,avx512bw,avx512vl,bmi2"))), apply_to = function)
#elif defined(COMPILED)
#pragma GCC target("avx512f,avx512bw,avx512vl,bmi2")
#endif

#include "../kernels.h"

#define VARIANT avx512
#define ISA "AVX-512 F, BW, VL; BMI2"

#ifdef COMPILED
#include "../avx512.h"

#define SUPPORTED lr_x86_has_avx512
#define PREFERRED LR_ALL

ALWAYS_INLINE vec vec_accumulate(vec lanes, vec v, struct constants k)
{
	return vec_join(lanes, vec_pairs(v, k));
}

#include "../body.h"
#else
#include "../not_compiled.h"
#endif

#if defined(__clang__) && defined(COMPILED)
#pragma clang attribute pop
#endif
