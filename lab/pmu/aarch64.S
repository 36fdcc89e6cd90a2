/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * AArch64 on QEMU's board without an operating system: stacks, exceptions, a call into EL0. The
 * processor starts at EL1.
 */
	.set TO_EL0, 0x3c0 /* SPSR: EL0, AArch64, no interrupts there */
	.set SUPERVISOR_CALL, 0x15 /* ESR_EL1.EC */

	.macro	save
	sub	sp, sp, #160
	stp	x0, x1, [sp]
	stp	x2, x3, [sp, #16]
	stp	x4, x5, [sp, #32]
	stp	x6, x7, [sp, #48]
	stp	x8, x9, [sp, #64]
	stp	x10, x11, [sp, #80]
	stp	x12, x13, [sp, #96]
	stp	x14, x15, [sp, #112]
	stp	x16, x17, [sp, #128]
	stp	x18, x30, [sp, #144]
	.endm

	.macro	restore
	ldp	x0, x1, [sp]
	ldp	x2, x3, [sp, #16]
	ldp	x4, x5, [sp, #32]
	ldp	x6, x7, [sp, #48]
	ldp	x8, x9, [sp, #64]
	ldp	x10, x11, [sp, #80]
	ldp	x12, x13, [sp, #96]
	ldp	x14, x15, [sp, #112]
	ldp	x16, x17, [sp, #128]
	ldp	x18, x30, [sp, #144]
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
	stp	x19, x20, [sp]
	stp	x21, x22, [sp, #16]
	stp	x23, x24, [sp, #32]
	stp	x25, x26, [sp, #48]
	stp	x27, x28, [sp, #64]
	stp	x29, x30, [sp, #80]
	msr	elr_el1, x0
	mov	x0, x1
	mov	x2, #TO_EL0
	msr	spsr_el1, x2
	adr	x30, back_from_user_mode
	eret
back_from_user_mode:
	svc	#0
back:
	ldp	x19, x20, [sp]
	ldp	x21, x22, [sp, #16]
	ldp	x23, x24, [sp, #32]
	ldp	x25, x26, [sp, #48]
	ldp	x27, x28, [sp, #64]
	ldp	x29, x30, [sp, #80]
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
