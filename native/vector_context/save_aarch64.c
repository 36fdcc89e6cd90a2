/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Saves and restores all vector registers of AArch64: v0 to v31 or, if the processor has SVE and it
 * may be used, all of z0 to z31, p0 to p15 and FFR; FPCR and FPSR. ZA and the streaming mode of SME
 * are not covered.
 *
 *	at 0	FPCR, FPSR
 *	at 16	the vectors, consecutively
 *	then	the predicates, each an eighth as long as a vector, and FFR
 *
 * FFR is accessible only through a predicate, which is reloaded afterwards.
 */
#include "../kernels/no_vectors.h"

#include "../kernels/processor.h"

#include <linerate/vector_context.h>

#if defined(__aarch64__)

/* Returns the length in bytes of an SVE vector. Must be called only on processors with SVE. */
static uintptr_t sve_bytes(void)
{
	uintptr_t bytes;
	__asm__(".arch_extension sve\n\trdvl %0,#1" : "=r"(bytes));
	return bytes;
}

static int has_sve(void)
{
	return lr_processor_runs(LR_HAS_SVE) != 0;
}

/* Apply an instruction to each vector, or to each predicate. */
#define ALL_Z(what)                                                                                \
	".irp v,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,"  \
	"30,31\n\t" what " z\\v,[%[at],#\\v,mul vl]\n\t.endr\n\t"
#define ALL_P(what)                                                                                \
	".irp v,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"                                         \
	what " p\\v,[%[last],#\\v,mul vl]\n\t.endr\n\t"
#define PAIR(what, first, second) what " q" #first ",q" #second ",[%[at],#16*" #first "]\n\t"
#define ALL_Q(what)                                                                                \
	PAIR(what, 0, 1) PAIR(what, 2, 3) PAIR(what, 4, 5) PAIR(what, 6, 7)                        \
	PAIR(what, 8, 9) PAIR(what, 10, 11) PAIR(what, 12, 13) PAIR(what, 14, 15)                  \
	PAIR(what, 16, 17) PAIR(what, 18, 19) PAIR(what, 20, 21) PAIR(what, 22, 23)                \
	PAIR(what, 24, 25) PAIR(what, 26, 27) PAIR(what, 28, 29) PAIR(what, 30, 31)

int lr_vec_save(struct lr_vec_area *area)
{
	uint8_t *const at = area->bytes + 16;
	uint64_t control, status;
	if (has_sve()) {
		const uintptr_t bytes = sve_bytes();
		if (bytes > LR_VEC_SVE_BYTES)
			return 0;
		__asm__ volatile(".arch_extension sve\n\t" ALL_Z("str") ALL_P("str")
				 "rdffr p0.b\n\tstr p0,[%[last],#16,mul vl]\n\tldr p0,[%[last]]"
				 :
				 : [at] "r"(at), [last] "r"(at + 32 * bytes)
				 : "memory");
	} else {
		__asm__ volatile(".arch_extension simd\n\t" ALL_Q("stp") : : [at] "r"(at)
				 : "memory");
	}
	__asm__ volatile("mrs %0,fpcr\n\tmrs %1,fpsr\n\tstp %0,%1,[%2]"
			 : "=&r"(control), "=&r"(status)
			 : "r"(area->bytes)
			 : "memory");
	return 1;
}

void lr_vec_restore(const struct lr_vec_area *area)
{
	const uint8_t *const at = area->bytes + 16;
	uint64_t control, status;
	if (has_sve())
		__asm__ volatile(".arch_extension sve\n\t" ALL_Z("ldr")
				 "ldr p0,[%[last],#16,mul vl]\n\twrffr p0.b\n\t" ALL_P("ldr")
				 :
				 : [at] "r"(at), [last] "r"(at + 32 * sve_bytes())
				 : "memory");
	else
		__asm__ volatile(".arch_extension simd\n\t" ALL_Q("ldp") : : [at] "r"(at)
				 : "memory");
	__asm__ volatile("ldp %0,%1,[%2]\n\tmsr fpcr,%0\n\tmsr fpsr,%1"
			 : "=&r"(control), "=&r"(status)
			 : "r"(area->bytes)
			 : "memory");
}

#endif

#include "../kernels/no_vectors_end.h"
