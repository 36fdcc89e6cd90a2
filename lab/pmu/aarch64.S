/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * AArch64 on QEMU's board without an operating system: stacks, exceptions, a call into EL0. The
 * processor starts at EL1.
 */
	.set TO_EL0, 0x3c0 /* SPSR: EL0, AArch64, no interrupts there */
	.set SUPERVISOR_CALL, 0x15 /* ESR_EL1.EC */

/* Pairs of registers to where sp points, or from there: what a call may change, and what not. */
	.macro	changed move
	\move	x0, x1, [sp]
	\move	x2, x3, [sp, #16]
	\move	x4, x5, [sp, #32]
	\move	x6, x7, [sp, #48]
	\move	x8, x9, [sp, #64]
	\move	x10, x11, [sp, #80]
	\move	x12, x13, [sp, #96]
	\move	x14, x15, [sp, #112]
	\move	x16, x17, [sp, #128]
	\move	x18, x30, [sp, #144]
	.endm

	.macro	kept move
	\move	x19, x20, [sp]
	\move	x21, x22, [sp, #16]
	\move	x23, x24, [sp, #32]
	\move	x25, x26, [sp, #48]
	\move	x27, x28, [sp, #64]
	\move	x29, x30, [sp, #80]
	.endm

	.macro	save
	sub	sp, sp, #160
	changed	stp
	.endm

	.macro	restore
	changed	ldp
	add	sp, sp, #160
	.endm

	.macro	vector target
	.balign	128
	b	\target
	.endm

	.section .text.vectors, "ax"
	.balign 2048
vectors:
	vector	on_fault
	vector	on_fault
	vector	on_fault
	vector	on_fault
	vector	on_fault
	vector	on_irq
	vector	on_fault
	vector	on_fault
	vector	on_user
	vector	on_fault
	vector	on_fault
	vector	on_fault
	vector	on_fault
	vector	on_fault
	vector	on_fault
	vector	on_fault

	.text
	.globl	start
start:
	msr	spsel, #1
	ldr	x0, =stack
	mov	sp, x0
	ldr	x0, =user_stack
	msr	sp_el0, x0
	ldr	x0, =vectors
	msr	vbar_el1, x0
	isb
	bl	lab
	b	.

on_fault:
	mrs	x0, elr_el1
	bl	give_up
	b	.

on_irq:
	save
	bl	note_interrupt
	restore
	eret

/* The end of a call; or an instruction that is not permitted: noted with its address, left out. */
on_user:
	stp	x0, x1, [sp, #-16]!
	mrs	x0, esr_el1
	lsr	x0, x0, #26
	cmp	x0, #SUPERVISOR_CALL
	ldp	x0, x1, [sp], #16
	b.eq	back
	save
	mrs	x0, elr_el1
	add	x1, x0, #4
	msr	elr_el1, x1
	bl	note_trap
	restore
	eret

/*
 * word call_in_user_mode(word function(word), word argument): the frame that is left on the stack
 * here is taken up again by the supervisor call with which the function's caller ends.
 */
	.globl	call_in_user_mode
call_in_user_mode:
	sub	sp, sp, #96
	kept	stp
	msr	elr_el1, x0
	mov	x0, x1
	mov	x2, #TO_EL0
	msr	spsr_el1, x2
	adr	x30, back_from_user_mode
	eret
back_from_user_mode:
	svc	#0
back:
	kept	ldp
	add	sp, sp, #96
	ret

/* void interrupts(word permitted) */
	.globl	interrupts
interrupts:
	cbnz	x0, 1f
	msr	daifset, #2
	ret
1:	msr	daifclr, #2
	ret

/* Ends the emulator, by semihosting: SYS_EXIT with ADP_Stopped_ApplicationExit and 0. */
	.globl	end
end:
	mov	x0, #0x18
	ldr	x1, =exit_reason
	hlt	#0xf000
	b	end

	.section .rodata
	.balign	8
exit_reason:
	.quad	0x20026, 0

	.bss
	.balign	16
	.space	8192
user_stack:
	.space	16384
stack:
