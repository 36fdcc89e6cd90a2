/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loads and stores of 128, 256 and 512 bits on x86-64, eight per step, written in assembly so that
 * exactly these are executed. Pointers are used as given: the cost of a misaligned buffer is part
 * of the bound.
 *
 *	while eight vectors are left: eight loads     head of the loop at a multiple of 32 bytes
 *	while a vector is left: one load
 *	if bytes are left: one load that ends with the last of them
 *
 * Buffers shorter than one vector are accessed in 64-bit words in the same way.
 */
#include "bounds.h"

#ifdef __x86_64__
#include "words.h"

#define COMPILED 1

/* A bound needs the same processor features as the variant that uses vectors of its width. */
static int supported_as(const char *name)
{
	const struct lr_variant *v = lr_variant_find(name);
	return v && v->supported();
}

/* SSE2 is part of x86-64. */
static int supported_128(void)
{
	return 1;
}

static int supported_256(void)
{
	return supported_as("avx2");
}

static int supported_512(void)
{
	return supported_as("avx512");
}

/*
 * One load or store of vector n at an offset from the pointer. Loads into different registers are
 * independent; register 0 holds the value to store. Registers 16 to 31 need no vzeroupper.
 */
#define LOAD128(behind, n) "	movdqu	" behind "(%[at]), %%xmm" n "\n"
#define LOAD256(behind, n) "	vmovdqu	" behind "(%[at]), %%ymm" n "\n"
#define LOAD512(behind, n) "	vmovdqu64	" behind "(%[at]), %%zmm2" n "\n"
#define STORE128(behind, n) "	movdqu	%%xmm0, " behind "(%[at])\n"
#define STORE256(behind, n) "	vmovdqu	%%ymm0, " behind "(%[at])\n"
#define STORE512(behind, n) "	vmovdqu64	%%zmm20, " behind "(%[at])\n"

/* Broadcasts the 64-bit word to all of register 0. */
#define SPREAD128 "	movq	%[word], %%xmm0\n	punpcklqdq	%%xmm0, %%xmm0\n"
#define SPREAD256 "	vmovq	%[word], %%xmm0\n	vpbroadcastq	%%xmm0, %%ymm0\n"
#define SPREAD512 "	vpbroadcastq	%[word], %%zmm20\n"

#define EIGHT(one, size)                                                                           \
	one("0*" #size, "0") one("1*" #size, "1") one("2*" #size, "2") one("3*" #size, "3")        \
	one("4*" #size, "4") one("5*" #size, "5") one("6*" #size, "6") one("7*" #size, "7")

/*
 * Accesses all bytes in vectors of this size, of which there must be at least one. At label 2, left
 * is the number of bytes that the steps of eight vectors leave over.
 */
#define WALK(one, size)                                                                            \
	"	test	%[steps], %[steps]\n"                                                      \
	"	jz	2f\n"                                                                      \
	"	.p2align 5\n"                                                                      \
	"1:\n" EIGHT(one, size)                                                                    \
	"	add	$8*" #size ", %[at]\n"                                                     \
	"	dec	%[steps]\n"                                                                \
	"	jnz	1b\n"                                                                      \
	"2:	sub	$" #size ", %[left]\n"                                                     \
	"	jc	4f\n"                                                                      \
	"3:\n" one("0", "0")                                                                       \
	"	add	$" #size ", %[at]\n"                                                       \
	"	sub	$" #size ", %[left]\n"                                                     \
	"	jnc	3b\n"                                                                      \
	"4:	add	$" #size ", %[left]\n"                                                     \
	"	jz	5f\n"                                                                      \
	"	add	%[left], %[at]\n" one("-" #size, "0")                                      \
	"5:\n"

/*
 * Clobbers: the first sixteen registers, which vzeroupper partly clears. The compiler accepts the
 * names of registers 16 to 31 only if it may use AVX-512 (-march=native); otherwise it keeps
 * nothing in them.
 */
#ifdef __AVX512F__
#define CLOBBERS_UPPER                                                                             \
	, "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27"
#else
#define CLOBBERS_UPPER
#endif
#define CLOBBERS                                                                                   \
	"memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",    \
		"xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15" CLOBBERS_UPPER

#define LOADS(bits, size, end)                                                                     \
	static uint32_t load##bits(const void *src, size_t bytes, uint32_t sum)                   \
	{                                                                                          \
		const uint8_t *at = src;                                                           \
		size_t steps = bytes / (8 * size), left = bytes % (8 * size);                    \
		if (bytes < size)                                                                 \
			load_words(at, bytes);                                                    \
		else                                                                               \
			__asm__ volatile(WALK(LOAD##bits, size) end                                \
					 : [at] "+&r"(at), [steps] "+&r"(steps),                   \
					   [left] "+&r"(left)                                      \
					 :                                                         \
					 : CLOBBERS);                                              \
		return sum;                                                                        \
	}

#define STORES(bits, size, end)                                                                    \
	static void *store##bits(void *dst, uint8_t value, size_t bytes)                          \
	{                                                                                          \
		uint8_t *at = dst;                                                                 \
		size_t steps = bytes / (8 * size), left = bytes % (8 * size);                    \
		const uint64_t word = eightfold(value);                                            \
		if (bytes < size)                                                                 \
			store_words(at, word, bytes);                                             \
		else                                                                               \
			__asm__ volatile(SPREAD##bits WALK(STORE##bits, size) end                  \
					 : [at] "+&r"(at), [steps] "+&r"(steps),                   \
					   [left] "+&r"(left)                                      \
					 : [word] "r"(word)                                        \
					 : CLOBBERS);                                              \
		return dst;                                                                        \
	}

LOADS(128, 16, "")
LOADS(256, 32, "	vzeroupper\n")
LOADS(512, 64, "")
STORES(128, 16, "")
STORES(256, 32, "	vzeroupper\n")
STORES(512, 64, "")

#define FUNCTION(of) of

#else /* not __x86_64__ */

#define COMPILED 0
#define FUNCTION(of) 0

static int supported_never(void)
{
	return 0;
}
#define supported_128 supported_never
#define supported_256 supported_never
#define supported_512 supported_never

#endif

#define ROW(kind, bits, words, member)                                                             \
	const struct lr_variant lr_bound_##kind##bits = {                                          \
		.name = #kind #bits,                                                               \
		.isa = words,                                                                      \
		.vector = 1,                                                                       \
		.compiled = COMPILED,                                                              \
		.supported = supported_##bits,                                                     \
		.member = FUNCTION(kind##bits),                                                    \
	}

ROW(load, 128, "SSE2", csum_partial);
ROW(load, 256, "AVX2", csum_partial);
ROW(load, 512, "AVX-512", csum_partial);
ROW(store, 128, "SSE2", fill);
ROW(store, 256, "AVX2", fill);
ROW(store, 512, "AVX-512", fill);
