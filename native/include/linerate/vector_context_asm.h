/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lr_vec_enter and lr_vec_leave for functions written in preprocessed assembly (.S).
 * vector_context.h says who may call them.
 *
 *	LR_VEC_ENTER unit, scratch, scalar	branches to scalar if another has the registers
 *	LR_VEC_LEAVE unit, scratch
 *
 * unit is a register that holds the address of the struct lr_vec_unit and is preserved; scratch is
 * a register whose value is lost. Registers are given by name without the percent sign on x86-64,
 * and by number elsewhere. Flags (cr0 on PowerPC) are lost too, except on AArch64. scalar is a
 * label within reach of a conditional branch; the code there must not use LR_VEC_LEAVE. A function
 * with several exits has one LR_VEC_LEAVE, to which the others branch. For PowerPC there are also
 *
 *	LR_VEC_NEST unit, nest, scratch		lr_vec_nest and lr_vec_unnest; nest is a register
 *	LR_VEC_UNNEST unit, nest, scratch	with the address of the struct lr_vec_nest, preserved
 *
 * for handlers that have no stack for a call; the value of r0 is lost as well.
 */
#ifndef LINERATE_VECTOR_CONTEXT_ASM_H
#define LINERATE_VECTOR_CONTEXT_ASM_H
#ifdef __ASSEMBLER__

#if defined(__powerpc__)
#ifdef __powerpc64__
#define LR_VEC_LOAD_OWNER ld
#define LR_VEC_STORE_OWNER std
#define LR_VEC_LOAD_RESERVED ldarx
#define LR_VEC_STORE_RESERVED stdcx.
#define LR_VEC_COMPARE cmpdi
#else
#define LR_VEC_LOAD_OWNER lwz
#define LR_VEC_STORE_OWNER stw
#define LR_VEC_LOAD_RESERVED lwarx
#define LR_VEC_STORE_RESERVED stwcx.
#define LR_VEC_COMPARE cmpwi
#endif

/* Makes the address of the unit the owner: it is not 0, and already in a register. */
.macro LR_VEC_ENTER unit, scratch, scalar
771:	LR_VEC_LOAD_RESERVED \scratch, 0, \unit
	LR_VEC_COMPARE \scratch, 0
	bne	\scalar
	LR_VEC_STORE_RESERVED \unit, 0, \unit
	bne-	771b
.endm

.macro LR_VEC_LEAVE unit, scratch
	li	\scratch, 0
	LR_VEC_STORE_OWNER \scratch, 0(\unit)
.endm

/* Applies the instruction to v0 to v31, stored from nest + 16 on; VSCR and VRSAVE follow. */
.macro LR_VEC_ALL what, nest, scratch
	li	\scratch, 16
	.irp v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, \
		23, 24, 25, 26, 27, 28, 29, 30, 31
	\what	\v, \nest, \scratch
	addi	\scratch, \scratch, 16
	.endr
.endm

.macro LR_VEC_NEST unit, nest, scratch
	LR_VEC_LOAD_OWNER \scratch, 0(\unit)
	LR_VEC_STORE_OWNER \scratch, 0(\nest)
	LR_VEC_COMPARE \scratch, 0
	beq	772f
	LR_VEC_ALL stvx, \nest, \scratch
	mfvscr	0
	stvx	0, \nest, \scratch
	mfspr	0, 256
	stw	0, 544(\nest)
	b	773f
772:	LR_VEC_STORE_OWNER \nest, 0(\unit)
773:
.endm

.macro LR_VEC_UNNEST unit, nest, scratch
	LR_VEC_LOAD_OWNER \scratch, 0(\nest)
	LR_VEC_COMPARE \scratch, 0
	beq	772f
	lwz	0, 544(\nest)
	mtspr	256, 0
	li	\scratch, 528
	lvx	0, \nest, \scratch
	mtvscr	0
	LR_VEC_ALL lvx, \nest, \scratch
	b	773f
772:	LR_VEC_STORE_OWNER \scratch, 0(\unit)
773:
.endm

#elif defined(__aarch64__)
.macro LR_VEC_ENTER unit, scratch, scalar
771:	ldxr	x\scratch, [x\unit]
	cbnz	x\scratch, \scalar
	stxr	w\scratch, x\unit, [x\unit]
	cbnz	w\scratch, 771b
.endm

.macro LR_VEC_LEAVE unit, scratch
	str	xzr, [x\unit]
.endm

#elif defined(__arm__)
.macro LR_VEC_ENTER unit, scratch, scalar
771:	ldrex	r\scratch, [r\unit]
	cmp	r\scratch, #0
	bne	\scalar
	strex	r\scratch, r\unit, [r\unit]
	cmp	r\scratch, #0
	bne	771b
.endm

.macro LR_VEC_LEAVE unit, scratch
	mov	r\scratch, #0
	str	r\scratch, [r\unit]
.endm

#elif defined(__x86_64__)
/*
 * Sets the lowest bit of the owner, which is 0 or 1 wherever this macro is used, so that an owned
 * unit does not change. It is a single instruction, so no interrupt on this processor can come in
 * between.
 */
.macro LR_VEC_ENTER unit, scratch, scalar
	btsq	$0, (%\unit)
	jc	\scalar
.endm

.macro LR_VEC_LEAVE unit, scratch
	movq	$0, (%\unit)
.endm
#endif

#endif
#endif
