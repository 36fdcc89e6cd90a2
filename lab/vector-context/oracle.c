/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * External check of the schemes: corrupted vector registers, and the number of necessary saves.
 * Schemes do not call it and none of its instructions is counted.
 *
 * The registers of an interrupted context are copied, and compared when it resumes: under operating
 * system schemes, whenever it may use vectors; under the others, within a section, since they are
 * not needed outside. If vectors are off when it resumes, the comparison waits until the trap has
 * loaded them.
 *
 * A save is needed if a context uses vectors while another is within a section and has not been
 * saved yet; every scheme must have saved it then, or refused.
 */
#include "scheme.h"

/* Values to fill all registers with, so that no two sections in a row have the same. */
enum { FILLS = 32 };
static struct lr_vec_area fills[FILLS];
static uint32_t filled;

/* Owner of the register values, with respect to sections. */
static struct context *holder;

void oracle_prepare(void)
{
	for (uint32_t i = 0; i < FILLS; i++) {
		uint32_t *const words = (uint32_t *)(void *)fills[i].bytes;
		for (uint32_t word = 0; word < LR_VEC_AREA_BYTES / 4; word++)
			words[word] = random_below(~0u);
		/* Only two bits of VSCR, the last word of its vector, can be set. */
		words[128] = words[129] = words[130] = 0;
		words[131] &= 1u << 16 | 1;
	}
}

HARNESS void oracle_leave(struct context *context, const struct frame *frame)
{
	const int has = IS_OF_SYSTEM ? (frame->srr1 & MSR_VEC) != 0 : context->is_inside != 0;

	if (!SETTINGS->check || !has)
		return;
	const uintptr_t state = lr_vec_on();
	lr_vec_save(&context->shadow);
	lr_vec_off(state);
	context->is_kept = 1;
}

HARNESS void oracle_return(struct context *context, const struct frame *frame)
{
	section_goes_on(context);
	if (!context->is_kept || !(frame->srr1 & MSR_VEC))
		return;
	const uintptr_t state = lr_vec_on();
	counts.corrupt += !vectors_same(&context->shadow);
	counts.compared++;
	lr_vec_off(state);
	context->is_kept = 0;
}

HARNESS void section_open(struct context *context)
{
	if (holder && holder != context && holder->is_inside)
		COUNT(needed, 1);
	holder = context;
	if (SETTINGS->check)
		lr_vec_restore(&fills[filled++ % FILLS]);
	context->is_inside = 1;
}

HARNESS void section_close(struct context *context)
{
	context->is_inside = 0;
}

HARNESS void section_goes_on(struct context *context)
{
	if (!context->is_inside || holder == context)
		return;
	if (holder->is_inside)
		COUNT(needed, 1);
	holder = context;
}
