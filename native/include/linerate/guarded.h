/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernels for callers who may not always use vectors: each takes the registers by the rules of
 * vector_context.h, whose header says who may call which way, or else does its work without. Of few
 * bytes it is always done without.
 *
 *	unit	the registers of this processor
 *	nest	null: as lr_vec_enter does; else as lr_vec_nest does, by a handler that ends before
 * 	whom it interrupted goes on, and its area
 *
 * On bare metal and in a kernel lr_processor_tell (variant.h) says first which vectors there are, but
 * on x86-64; else they use none.
 *
 * Results and contracts are those of lr_csum_partial, lr_copy_csum_partial, lr_copy and lr_fill.
 * Tasks of a scheduler that calls lr_vec_switch need none of this: between lr_vec_task_enter and
 * lr_vec_task_leave they call the kernels themselves.
 */
#ifndef LINERATE_GUARDED_H
#define LINERATE_GUARDED_H

#include <linerate/vector_context.h>

#if LR_VEC

#ifdef __cplusplus
extern "C" {
#endif

uint32_t lr_guarded_csum_partial(struct lr_vec_unit *unit, struct lr_vec_nest *nest,
				 const void *src, size_t bytes, uint32_t sum);
uint32_t lr_guarded_copy_csum_partial(struct lr_vec_unit *unit, struct lr_vec_nest *nest, void *dst,
				      const void *src, size_t bytes, uint32_t sum);
void *lr_guarded_copy(struct lr_vec_unit *unit, struct lr_vec_nest *nest, void *dst,
		      const void *src, size_t bytes);
void *lr_guarded_fill(struct lr_vec_unit *unit, struct lr_vec_nest *nest, void *dst, uint8_t value,
		      size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
#endif
