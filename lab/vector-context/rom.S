/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The board's ROM: the reset vector of the processor, which branches to the image. */
	.section .reset,"ax"
	li	3,0x100
	mtctr	3
	bctr
