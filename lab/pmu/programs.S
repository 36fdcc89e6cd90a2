/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The programs of the tutorial "Performance Counters on the RPi 2", whose instructions are known:
 * word program(word n), for ARM and AArch64, on bare metal and in Linux. What each takes, what
 * leaves it left out, is with it; branches are those executed.
 */
#ifdef __aarch64__
#define W(n) w##n
#define X(n) x##n
#define LEAVE ret
#else
#define W(n) r##n
#define X(n) r##n
#define LEAVE bx lr
	.syntax unified
	.arm
	.arch armv7-a
	.arch_extension idiv
#endif

	.macro	program name
	.globl	\name
	.balign	16
	.type	\name, %function
\name:
	.endm

	.text

/* The empty program. */
	program	program_empty
	LEAVE

/* A counting loop: 3 n + 5 instructions, n + 2 of them branches. */
	program	program_loop
	mov	W(3), #0
	b	2f
1:	add	W(3), W(3), #1
2:	cmp	W(3), W(0)
	blt	1b
	mov	W(0), W(3)
	LEAVE

/* The same with two executed branches per iteration: 4 n + 4 instructions, 2 n + 1 of them branches. */
	program	program_two_branches
	mov	W(3), #0
1:	cmp	W(3), W(0)
	bge	2f
	add	W(3), W(3), #1
	b	1b
2:	mov	W(0), W(3)
	LEAVE

/*
 * The sum of n numbers, stored in program_sum, and their average, returned: 4 n + 6 instructions, n
 * of them branches.
 */
	program	program_sum_average
	ldr	X(1), =program_numbers
	mov	W(2), #0
	mov	W(3), W(0)
1:	ldr	W(12), [X(1)], #4
	add	W(2), W(2), W(12)
	subs	W(3), W(3), #1
	bne	1b
	ldr	X(1), =program_sum
	str	W(2), [X(1)]
	udiv	W(0), W(2), W(0)
	LEAVE

	.section .note.GNU-stack, "", %progbits
