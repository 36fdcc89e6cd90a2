/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Detects the vector registers that an x86-64 processor has and its operating system saves. */
#include "no_vectors.h"

#ifdef __x86_64__
#include "x86_64.h"

#include <cpuid.h>

/* Bits of CPUID leaves 1 and 7, and of XCR0 (Intel SDM volume 1, 13.3; AMD64 APM volume 3, E). */
#define ECX1_OSXSAVE (1u << 27)
#define EBX7_AVX2 (1u << 5)
#define EBX7_BMI2 (1u << 8)
#define EBX7_AVX512F (1u << 16)
#define EBX7_AVX512BW (1u << 30)
#define EBX7_AVX512VL (1u << 31)
#define EBX7_AVX512 (EBX7_BMI2 | EBX7_AVX512F | EBX7_AVX512BW | EBX7_AVX512VL)
#define ECX7_AVX512_VBMI2 (1u << 6)
#define ECX7_AVX512_VNNI (1u << 11)
#define XCR0_AVX 0x06u
#define XCR0_AVX512 0xe6u

/*
 * Returns nonzero if the operating system saves all these registers, and CPUID leaf 7 has these
 * bits.
 */
static int has(unsigned xcr0, unsigned ebx, unsigned ecx)
{
	unsigned a, b, c, d, low, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & ECX1_OSXSAVE))
		return 0;
	/*
	 * Volatile, so that it is not moved before the check that the processor has this
	 * instruction.
	 */
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	if ((low & xcr0) != xcr0 || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return 0;
	return (b & ebx) == ebx && (c & ecx) == ecx;
}

int lr_x86_has_avx2(void)
{
	return has(XCR0_AVX, EBX7_AVX2, 0) ? LR_RUNS_WELL : 0;
}

/*
 * On processors before VBMI2 (Skylake-X, Cascade Lake), the whole core runs slower for a while
 * after using wide vectors, which costs the code around short calls more than the calls gain.
 * There, the variants run only by name.
 */
static int has_avx512(unsigned ecx)
{
	if (!has(XCR0_AVX512, EBX7_AVX512, ecx))
		return 0;
	return has(XCR0_AVX512, EBX7_AVX512, ECX7_AVX512_VBMI2) ? LR_RUNS_WELL : LR_RUNS;
}

int lr_x86_has_avx512(void)
{
	return has_avx512(0);
}

int lr_x86_has_avx512_vnni(void)
{
	return has_avx512(ECX7_AVX512_VNNI);
}
#endif

#include "no_vectors_end.h"
