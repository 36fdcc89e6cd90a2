/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernels for callers that may not always use vector registers: each function tries to acquire
 * the registers by the rules of vector_context.h, which also says which callers may use which of
 * the two methods below, and uses scalar code if it cannot. Short lengths always use scalar code.
 *
 *	unit	the vector registers of this processor
 *	nest	null to acquire them as lr_vec_enter does; otherwise the save area with which to
 *		acquire them as lr_vec_nest does, in a handler that ends before the interrupted
 *		code resumes
 *
 * On bare metal and in a kernel, call lr_processor_tell (variant.h) first to declare the available
 * vector units; without it these functions use no vectors, except on x86-64.
 *
 * Results and contracts are those of lr_csum_partial, lr_copy_csum_partial, lr_copy and lr_fill.
 * Tasks of a scheduler that calls lr_vec_switch do not need these functions: between
 * lr_vec_task_enter and lr_vec_task_leave they call the kernels directly.
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
