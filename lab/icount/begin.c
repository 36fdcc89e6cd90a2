/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Linked before the counted code, whose instructions are between lr_text_begin and lr_text_end. */
__asm__(".text\n"
	".globl lr_text_begin\n"
	"lr_text_begin:\n");
