/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Linked before what is counted: its instructions stand between lr_text_begin and lr_text_end. */
__asm__(".text\n"
	".globl lr_text_begin\n"
	"lr_text_begin:\n");
