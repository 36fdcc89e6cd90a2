/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reads an AArch64 PMU counter; number 31 is the cycle counter.
 *
 * The register accesses are those of native/pmu/aarch64.h; `cargo xtask registers` compares the
 * instruction words.
 */
	.pushsection .text.lr_registers_read, "ax", %progbits
	.balign	4
	.hidden	lr_registers_read, lr_registers_begin, lr_registers_end, lr_registers_closed
	.globl	lr_registers_read, lr_registers_begin, lr_registers_end, lr_registers_closed
	.type	lr_registers_read, %function
lr_registers_read:
	cmp	x1, #31
	b.eq	1f
lr_registers_begin:
	msr	pmselr_el0, x1
	isb
	mrs	x2, pmxevcntr_el0
	b	2f
1:	isb
	mrs	x2, pmccntr_el0
lr_registers_end:
2:	str	x2, [x0]
	mov	w0, #1
	ret
lr_registers_closed:
	mov	w0, #0
	ret
	.size	lr_registers_read, . - lr_registers_read
	.popsection
