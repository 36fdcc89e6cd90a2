/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ARMv7 on QEMU's board without an operating system: stacks, exceptions, a call into user mode. The
 * processor starts in supervisor mode without the hypervisor's and the security extension.
 */
	.arch armv7-a
	.syntax unified

	.set USER, 0x10
	.set IRQ, 0x12
	.set SUPERVISOR, 0x13
	.set UNDEFINED, 0x1b
	.set SYSTEM, 0x1f

	.section .text.vectors, "ax"
	.balign 32
vectors:
	b	.
	b	on_undefined
	b	on_supervisor_call
	b	on_abort
	b	on_abort
	b	.
	b	on_irq
	b	.

	.text
	.globl	start
start:
	cps	#UNDEFINED
	ldr	sp, =undefined_stack
	cps	#IRQ
	ldr	sp, =irq_stack
	cps	#SYSTEM
	ldr	sp, =user_stack
	cps	#SUPERVISOR
	ldr	sp, =stack
	ldr	r0, =vectors
	mcr	p15, 0, r0, c12, c0, 0
	isb
	bl	lab
	b	.

/* An instruction that is not permitted: noted with its address, then left out. */
on_undefined:
	push	{r0-r3, r12, lr}
	sub	r0, lr, #4
	bl	note_trap
	pop	{r0-r3, r12, lr}
	movs	pc, lr

on_irq:
	sub	lr, lr, #4
	push	{r0-r3, r12, lr}
	bl	note_interrupt
	pop	{r0-r3, r12, lr}
	movs	pc, lr

on_abort:
	mov	r0, lr
	bl	give_up
	b	.

/*
 * word call_in_user_mode(word function(word), word argument): the frame that is left on the stack
 * here is taken up again by the supervisor call with which the function's caller ends.
 */
	.globl	call_in_user_mode
call_in_user_mode:
	push	{r4-r11, lr}
	mov	r2, r0
	mov	r0, r1
	cps	#SYSTEM
	ldr	lr, =back_from_user_mode
	cps	#SUPERVISOR
	mov	r3, #USER
	msr	spsr_cxsf, r3
	movs	pc, r2
back_from_user_mode:
	svc	#0
on_supervisor_call:
	pop	{r4-r11, pc}

/* void interrupts(word permitted) */
	.globl	interrupts
interrupts:
	cmp	r0, #0
	bne	1f
	cpsid	i
	bx	lr
1:	cpsie	i
	bx	lr

/* Ends the emulator, by semihosting: SYS_EXIT with ADP_Stopped_ApplicationExit. */
	.globl	end
end:
	mov	r0, #0x18
	ldr	r1, =0x20026
	svc	#0x123456
	b	end

	.bss
	.balign	8
	.space	4096
undefined_stack:
	.space	4096
irq_stack:
	.space	8192
user_stack:
	.space	16384
stack:
