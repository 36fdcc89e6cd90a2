/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Saves and restores all vector registers of PowerPC: v0 to v31, VSCR, VRSAVE. Every second vector
 * is addressed through an index register, so that two vectors take three instructions; incrementing
 * the base for each would take four. Written in assembly, because the build need not enable
 * AltiVec; must not be called on processors without it.
 */
#include "../kernels/no_vectors.h"

#include <linerate/vector_context.h>

#if defined(__powerpc__) && !defined(__SPE__)

/* Layout after the 32 vectors: VSCR in a separate vector, then VRSAVE. */
#define VECTORS 512
_Static_assert(LR_VEC_AREA_BYTES == VECTORS + 32, "VSCR and VRSAVE behind the vectors");

#define ALL_VECTORS(what)                                                                          \
	".irp v,0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30\n\t"                                    \
	what " \\v,0,%[at]\n\t"                                                                    \
	what " \\v+1,%[index],%[at]\n\t"                                                           \
	"addi %[at],%[at],32\n\t"                                                                  \
	".endr\n\t"
#define BEGIN ".machine push\n\t.machine \"altivec\"\n\tli %[index],16\n\t"
#define END ".machine pop"
#define VRSAVE "256"

/* VSCR is accessible only through a vector register, which is reloaded afterwards. */
int lr_vec_save(struct lr_vec_area *area)
{
	uint8_t *at = area->bytes;
	intptr_t index;
	uint32_t marks;
	__asm__ volatile(BEGIN ALL_VECTORS("stvx")
			 "mfvscr 0\n\tstvx 0,0,%[at]\n\t"
			 "mfspr %[marks]," VRSAVE "\n\tstw %[marks],16(%[at])\n\t"
			 "li %[index],-512\n\tlvx 0,%[index],%[at]\n\t" END
			 : [at] "+&b"(at), [index] "=&b"(index), [marks] "=&r"(marks)
			 :
			 : "memory");
	return 1;
}

/* VSCR is restored through a vector register, hence before the vectors. */
void lr_vec_restore(const struct lr_vec_area *area)
{
	const uint8_t *at = area->bytes;
	intptr_t index;
	uint32_t marks;
	__asm__ volatile(BEGIN
			 "lwz %[marks],528(%[at])\n\tmtspr " VRSAVE ",%[marks]\n\t"
			 "li %[marks],512\n\tlvx 0,%[marks],%[at]\n\tmtvscr 0\n\t"
			 ALL_VECTORS("lvx") END
			 : [at] "+&b"(at), [index] "=&b"(index), [marks] "=&b"(marks)
			 :
			 : "memory");
}

#endif

#include "../kernels/no_vectors_end.h"
