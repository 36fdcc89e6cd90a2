/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Fills all vector and vector control registers from memory and dumps them to memory, independently
 * of lr_vec_save; also users of the assembly macros.
 *
 *	vector_fill(from, kind), vector_dump(to, kind)	kind: see vector.h; its layout is below
 *	vector_asm_user(unit, exit)	1 where it may use vectors, 0 where not; two exits
 *	vector_asm_handler(unit, nest, from)	PowerPC: nests, fills, unnests
 *
 * PowerPC	v0-31 at 0, VSCR at 512, VRSAVE at 528
 * ARM		d0-31 at 0, FPSCR at 256
 * AArch64	FPCR at 0, FPSR at 8, v0-31 or z0-31 at 16, then p0-15, then FFR
 * x86-64	MXCSR at 0, registers of 64 bytes from 64 on, k0-7 after them
 */
#include <linerate/vector_context_asm.h>

	.text

#if defined(__powerpc__)
#if !defined(__powerpc64__) || _CALL_ELF == 2
	.machine "altivec"

.macro EVERY what
	li	5, 0
	.irp v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, \
		23, 24, 25, 26, 27, 28, 29, 30, 31
	\what	\v, 5, 3
	addi	5, 5, 16
	.endr
.endm

	.globl	vector_fill
	.type	vector_fill, @function
vector_fill:
	li	5, 512
	lvx	0, 5, 3
	mtvscr	0
	lwz	5, 528(3)
	mtspr	256, 5
	EVERY	lvx
	blr

	.globl	vector_dump
	.type	vector_dump, @function
vector_dump:
	EVERY	stvx
	mfvscr	0
	stvx	0, 5, 3
	lvx	0, 0, 3
	mfspr	5, 256
	stw	5, 528(3)
	blr

	.globl	vector_asm_user
	.type	vector_asm_user, @function
vector_asm_user:
	LR_VEC_ENTER 3, 5, 2f
	cmpwi	4, 0
	beq	1f
	vxor	0, 0, 0
1:	LR_VEC_LEAVE 3, 5
	li	3, 1
	blr
2:	li	3, 0
	blr

	.globl	vector_asm_handler
	.type	vector_asm_handler, @function
vector_asm_handler:
	mflr	8
	mr	6, 3
	mr	7, 4
	mr	9, 5
	LR_VEC_NEST 6, 7, 4
	mr	3, 9
	bl	vector_fill
	LR_VEC_UNNEST 6, 7, 4
	mtlr	8
	blr
#endif

#elif defined(__aarch64__)
	.arch_extension sve

.macro SVE_EVERY what, base, last
	.irp v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, \
		23, 24, 25, 26, 27, 28, 29, 30, 31
	\what	z\v, [\base, #\v, mul vl]
	.endr
	.irp v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	\what	p\v, [\last, #\v, mul vl]
	.endr
.endm

.macro EVERY what, base
	.irp v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, \
		23, 24, 25, 26, 27, 28, 29, 30, 31
	\what	q\v, [\base, #16 * \v]
	.endr
.endm

	.globl	vector_fill
	.type	vector_fill, %function
vector_fill:
	ldp	x2, x3, [x0], #16
	msr	fpcr, x2
	msr	fpsr, x3
	cbz	w1, 1f
	addvl	x2, x0, #31
	addvl	x2, x2, #1
	ldr	p0, [x2, #16, mul vl]
	wrffr	p0.b
	SVE_EVERY ldr, x0, x2
	ret
1:	EVERY	ldr, x0
	ret

	.globl	vector_dump
	.type	vector_dump, %function
vector_dump:
	mrs	x2, fpcr
	mrs	x3, fpsr
	stp	x2, x3, [x0], #16
	cbz	w1, 1f
	addvl	x2, x0, #31
	addvl	x2, x2, #1
	SVE_EVERY str, x0, x2
	rdffr	p0.b
	str	p0, [x2, #16, mul vl]
	ldr	p0, [x2]
	ret
1:	EVERY	str, x0
	ret

	.globl	vector_asm_user
	.type	vector_asm_user, %function
vector_asm_user:
	LR_VEC_ENTER 0, 2, 2f
	cbz	w1, 1f
	movi	v0.16b, #0
1:	LR_VEC_LEAVE 0, 2
	mov	w0, #1
	ret
2:	mov	w0, #0
	ret

#elif defined(__arm__)
	.syntax unified
	.arm
	.arch	armv7-a
	.fpu	neon

	.globl	vector_fill
	.type	vector_fill, %function
vector_fill:
	vldmia	r0!, {d0-d15}
	vldmia	r0!, {d16-d31}
	ldr	r1, [r0]
	vmsr	fpscr, r1
	bx	lr

	.globl	vector_dump
	.type	vector_dump, %function
vector_dump:
	vstmia	r0!, {d0-d15}
	vstmia	r0!, {d16-d31}
	vmrs	r1, fpscr
	str	r1, [r0]
	bx	lr

	.globl	vector_asm_user
	.type	vector_asm_user, %function
vector_asm_user:
	LR_VEC_ENTER 0, 2, 2f
	cmp	r1, #0
	beq	1f
	vmov.i8	q0, #0
1:	LR_VEC_LEAVE 0, 2
	mov	r0, #1
	bx	lr
2:	mov	r0, #0
	bx	lr

#elif defined(__x86_64__)
	.globl	vector_fill
	.type	vector_fill, @function
vector_fill:
	ldmxcsr	(%rdi)
	cmpl	$1, %esi
	je	1f
	ja	2f
	.irp v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	movups	64 + 64 * \v(%rdi), %xmm\v
	.endr
	ret
1:	.irp v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	vmovups	64 + 64 * \v(%rdi), %ymm\v
	.endr
	ret
2:	.irp v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, \
		23, 24, 25, 26, 27, 28, 29, 30, 31
	vmovups	64 + 64 * \v(%rdi), %zmm\v
	.endr
	.irp v, 0, 1, 2, 3, 4, 5, 6, 7
	kmovq	64 * 33 + 8 * \v(%rdi), %k\v
	.endr
	ret

	.globl	vector_dump
	.type	vector_dump, @function
vector_dump:
	stmxcsr	(%rdi)
	cmpl	$1, %esi
	je	1f
	ja	2f
	.irp v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	movups	%xmm\v, 64 + 64 * \v(%rdi)
	.endr
	ret
1:	.irp v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	vmovups	%ymm\v, 64 + 64 * \v(%rdi)
	.endr
	ret
2:	.irp v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, \
		23, 24, 25, 26, 27, 28, 29, 30, 31
	vmovups	%zmm\v, 64 + 64 * \v(%rdi)
	.endr
	.irp v, 0, 1, 2, 3, 4, 5, 6, 7
	kmovq	%k\v, 64 * 33 + 8 * \v(%rdi)
	.endr
	ret

	.globl	vector_asm_user
	.type	vector_asm_user, @function
vector_asm_user:
	LR_VEC_ENTER rdi, rdx, 2f
	testl	%esi, %esi
	je	1f
	pxor	%xmm0, %xmm0
1:	LR_VEC_LEAVE rdi, rdx
	movl	$1, %eax
	ret
2:	xorl	%eax, %eax
	ret
#endif

#ifdef __ELF__
#ifdef __arm__
	.section .note.GNU-stack, "", %progbits
#else
	.section .note.GNU-stack, "", @progbits
#endif
#endif
