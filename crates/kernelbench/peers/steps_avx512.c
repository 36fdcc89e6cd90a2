/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The inner loop of a checksum with AVX-512 VNNI, built up one instruction at a time to find out
 * which of them limits it. Per vector of 64 bytes:
 *
 *	load		loads
 *	xor		loads and flips the sign of each word
 *	dot		loads and adds words as signed numbers
 *	sum		loads, flips, adds: the kernel's loop
 *	sum_scalar	the same, plus one scalar addition
 *	sum_vector	the same, plus one more vector instruction
 *
 * bytes must be a multiple of 512. The return value depends on all bytes but is not their sum.
 */
#include "peers.h"

#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vnni"))),               \
			     apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vnni")
#endif

#define LOAD(at, lane) "vmovdqu64 " #at "(%[src]), %%zmm31\n\t"
#define XOR(at, lane) "vpxord " #at "(%[src]), %[flip], %%zmm31\n\t"
#define DOT(at, lane) "vpdpwssd " #at "(%[src]), %[ones], %[" #lane "]\n\t"
#define SUM(at, lane) XOR(at, lane) "vpdpwssd %[ones], %%zmm31, %[" #lane "]\n\t"
#define SUM_SCALAR(at, lane) SUM(at, lane) "lea 1(%[count]), %[count]\n\t"
#define SUM_VECTOR(at, lane) SUM(at, lane) "vpord %[ones], %%zmm31, %%zmm30\n\t"

/* Eight accumulators, so that no latency limits the loop. */
#define STEPS(name, STEP)                                                                          \
	__attribute__((aligned(64))) uint32_t peer_steps_##name(const void *src, size_t bytes,     \
								uint32_t sum)                      \
	{                                                                                          \
		const uint8_t *at = src, *const end = at + bytes;                                  \
		const __m512i flip = _mm512_set1_epi32((int)0x80008000);                           \
		const __m512i ones = _mm512_set1_epi16(1);                                         \
		__m512i a = _mm512_setzero_si512(), b = a, c = a, d = a, e = a, f = a, g = a, h = a; \
		uint64_t count = sum;                                                              \
		__asm__ volatile(".p2align 6\n1:\n\t" STEP(0, a) STEP(64, b) STEP(128, c)          \
				 STEP(192, d) STEP(256, e) STEP(320, f) STEP(384, g) STEP(448, h)  \
				 "add $512, %[src]\n\tcmp %[end], %[src]\n\tjne 1b"                \
				 : [src] "+r"(at), [count] "+r"(count), [a] "+v"(a), [b] "+v"(b),  \
				   [c] "+v"(c), [d] "+v"(d), [e] "+v"(e), [f] "+v"(f),             \
				   [g] "+v"(g), [h] "+v"(h)                                        \
				 : [end] "r"(end), [flip] "v"(flip), [ones] "v"(ones)              \
				 : "memory", "cc", "xmm30", "xmm31");                              \
		a = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));              \
		e = _mm512_add_epi32(_mm512_add_epi32(e, f), _mm512_add_epi32(g, h));              \
		return (uint32_t)count +                                                           \
		       (uint32_t)_mm512_reduce_add_epi32(_mm512_add_epi32(a, e));                  \
	}

STEPS(load, LOAD)
STEPS(xor, XOR)
STEPS(dot, DOT)
STEPS(sum, SUM)
STEPS(sum_scalar, SUM_SCALAR)
STEPS(sum_vector, SUM_VECTOR)

#ifdef __clang__
#pragma clang attribute pop
#endif
