/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Linked after what is counted: see begin.c. */
__asm__(".text\n"
	".globl lr_text_end\n"
	"lr_text_end:\n");
