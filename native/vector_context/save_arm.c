/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Saves and restores all vector registers of ARMv7: d0 to d31, and FPSCR, which holds the
 * saturation flag of Advanced SIMD and the modes of floating point. For processors with 32 such
 * registers, which are all those with Advanced SIMD; must not be called on others.
 */
#include "../kernels/no_vectors.h"

#include <linerate/vector_context.h>

#if defined(__arm__) && __ARM_ARCH >= 7

_Static_assert(LR_VEC_AREA_BYTES == 32 * 8 + 8, "FPSCR behind 32 registers");

/*
 * An instruction can load or store at most 16 registers. The directive applies to the rest of the
 * file.
 */
#define BEGIN ".fpu neon\n\t"
#define ALL_VECTORS(what) what " %[at]!,{d0-d15}\n\t" what " %[at]!,{d16-d31}\n\t"

int lr_vec_save(struct lr_vec_area *area)
{
	uint8_t *at = area->bytes;
	uint32_t status;
	__asm__ volatile(BEGIN ALL_VECTORS("vstmia")
			 "vmrs %[status],fpscr\n\tstr %[status],[%[at]]"
			 : [at] "+&r"(at), [status] "=&r"(status)
			 :
			 : "memory");
	return 1;
}

void lr_vec_restore(const struct lr_vec_area *area)
{
	const uint8_t *at = area->bytes;
	uint32_t status;
	__asm__ volatile(BEGIN ALL_VECTORS("vldmia")
			 "ldr %[status],[%[at]]\n\tvmsr fpscr,%[status]"
			 : [at] "+&r"(at), [status] "=&r"(status)
			 :
			 : "memory");
}

#endif

#include "../kernels/no_vectors_end.h"
