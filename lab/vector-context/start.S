/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Parts that C cannot express: entry and exit of exceptions, switching of tasks, and comparison of
 * their registers. Everything runs privileged, without address translation, as under VxWorks 5.5:
 * an exception uses the stack in r1 for its frame. Machine checks are treated like all unexpected
 * exceptions.
 *
 * The frame, as kernel.h declares it:
 *
 *	0 r1 before	8 r0	12..48 r3 to r12	52 LR	56 CR	60 CTR	64 XER
 *	68 SRR0		72 SRR1		80 its length
 */
#define FRAME 80
#define EE 0x8000

	.macro	exception at, handler
	.org	\at
	b	\handler
	.endm

	.section .vectors,"ax"
	exception 0x100, start
	exception 0x200, unexpected
	exception 0x300, unexpected
	exception 0x400, unexpected
	exception 0x500, unexpected
	exception 0x600, unexpected
	exception 0x700, unexpected
	exception 0x800, unexpected
	.globl	at_decrementer, at_call, at_unavailable
	.org	0x900
at_decrementer:
	b	decrementer
	.org	0xc00
at_call:
	b	call
	exception 0xd00, unexpected
	.org	0xf20
at_unavailable:
	b	unavailable

	.macro	enter handler
	stwu	1,-FRAME(1)
	stw	0,8(1)
	stw	3,12(1)
	stw	4,16(1)
	stw	5,20(1)
	stw	6,24(1)
	stw	7,28(1)
	stw	8,32(1)
	stw	9,36(1)
	stw	10,40(1)
	stw	11,44(1)
	stw	12,48(1)
	mflr	3
	mfcr	4
	mfctr	5
	mfxer	6
	mfsrr0	7
	mfsrr1	8
	stw	3,52(1)
	stw	4,56(1)
	stw	5,60(1)
	stw	6,64(1)
	stw	7,68(1)
	stw	8,72(1)
	mr	3,1
	bl	\handler
	.endm

	.text
unexpected:
	enter	on_unexpected
decrementer:
	enter	on_decrementer
	b	exception_exit
call:
	enter	on_call
	b	exception_exit
unavailable:
	enter	on_unavailable

/* A reservation must not outlive its context: the stwcx. clears any reservation. */
	.globl	exception_exit, exception_return
exception_exit:
	stwcx.	1,0,1
	lwz	3,52(1)
	lwz	4,56(1)
	lwz	5,60(1)
	lwz	6,64(1)
	lwz	7,68(1)
	lwz	8,72(1)
	mtlr	3
	mtcr	4
	mtctr	5
	mtxer	6
	mtsrr0	7
	mtsrr1	8
	lwz	0,8(1)
	lwz	3,12(1)
	lwz	4,16(1)
	lwz	5,20(1)
	lwz	6,24(1)
	lwz	7,28(1)
	lwz	8,32(1)
	lwz	9,36(1)
	lwz	10,40(1)
	lwz	11,44(1)
	lwz	12,48(1)
	lwz	1,0(1)
exception_return:
	rfi

/* switch_stacks(&old, new): suspends here, and resumes where the other stack was suspended. */
	.globl	switch_stacks
switch_stacks:
	mflr	0
	stw	0,4(1)
	mfcr	0
	stwu	1,-96(1)
	stmw	13,20(1)
	stw	0,16(1)
	stw	1,0(3)
	mr	1,4
	lwz	0,16(1)
	lmw	13,20(1)
	mtcr	0
	addi	1,1,96
	lwz	0,4(1)
	mtlr	0
	blr

/* A task starts or restarts: r3 is its struct, whose second word is the top of its stack. */
	.globl	task_start
task_start:
	lwz	1,4(3)
	li	0,0
	stwu	0,-16(1)
	bl	task_main
1:	b	1b

/* Interrupts are enabled while another is served, and disabled again. */
	.globl	let_in, let_in_done, shut_out, shut_out_done
let_in:
	mfmsr	3
	ori	3,3,EE
let_in_done:
	mtmsr	3
	blr
shut_out:
	mfmsr	3
	rlwinm	3,3,0,17,15
	mtmsr	3
shut_out_done:
	blr

	.globl	call_kernel
call_kernel:
	sc
	blr

	.globl	start
start:
	lis	1,stack_top@ha
	la	1,stack_top@l(1)
	li	0,0
	stwu	0,-16(1)
	mfmsr	3
	rlwinm	3,3,0,26,24		/* exception vectors at 0 instead of in the ROM */
	mtmsr	3
	isync
	bl	image_main
1:	b	1b

	.section .text.harness,"ax"
/* vectors_same(area): 1 if v0 to v31 and VSCR are those of area; leaves them as they are. */
	.globl	vectors_same
	.machine push
	.machine "altivec"
vectors_same:
	lis	5,vectors_kept@ha
	la	5,vectors_kept@l(5)
	stvx	0,0,5
	.irp	v,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	li	4,16*\v
	lvx	0,4,3
	vcmpequw. 0,0,\v
	bnl	6,2f
	.endr
	li	4,16
	stvx	1,4,5
	lvx	0,0,5
	lvx	1,0,3
	vcmpequw. 1,0,1
	bnl	6,1f
	li	4,512
	lvx	1,4,3
	mfvscr	0
	vcmpequw. 0,0,1
	li	4,16
	lvx	1,4,5
	bnl	6,2f
	lvx	0,0,5
	li	3,1
	blr
1:	li	4,16
	lvx	1,4,5
2:	lvx	0,0,5
	li	3,0
	blr
	.machine pop

	.bss
	.balign	16
vectors_kept:
	.space	32
	.space	16384
stack_top:
	.space	16
