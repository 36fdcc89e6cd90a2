/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * int lr_registers_read(size_t *count, size_t counter): reads an ARMv7 PMU counter; number 31 is
 * the cycle counter. Returns 1, or 0 without a count if the register is not accessible: an
 * instruction between lr_registers_begin and lr_registers_end then raises SIGILL, and the signal
 * handler resumes at lr_registers_closed. The code therefore neither uses the stack nor changes lr.
 *
 * The register accesses are those of native/pmu/armv7.h; `cargo xtask registers` compares the
 * instruction words.
 */
	.pushsection .text.lr_registers_read, "ax", %progbits
	.arm
	.balign	4
	.hidden	lr_registers_read, lr_registers_begin, lr_registers_end, lr_registers_closed
	.globl	lr_registers_read, lr_registers_begin, lr_registers_end, lr_registers_closed
	.type	lr_registers_read, %function
lr_registers_read:
	cmp	r1, #31
	beq	1f
lr_registers_begin:
	mcr	p15, 0, r1, c9, c12, 5
	.inst	0xf57ff06f /* isb, which assemblers for ARMv6 reject */
	mrc	p15, 0, r2, c9, c13, 2
	b	2f
1:	.inst	0xf57ff06f /* isb */
	mrc	p15, 0, r2, c9, c13, 0
lr_registers_end:
2:	str	r2, [r0]
	mov	r0, #1
	bx	lr
lr_registers_closed:
	mov	r0, #0
	bx	lr
	.size	lr_registers_read, . - lr_registers_read
	.popsection
