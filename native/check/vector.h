/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The check of vector register sharing. It runs with known register contents, compiled without
 * vectors: between leave_home() and come_home() the C library must not be called.
 */
#ifndef LINERATE_CHECK_VECTOR_H
#define LINERATE_CHECK_VECTOR_H

#include "check.h"

#include <linerate/vector_context.h>

/* Not on ABIs that call functions through descriptors, which the assembly here does not define. */
#if LR_VEC && (!defined(__powerpc64__) || _CALL_ELF == 2)
#define CHECKED 1
#else
#define CHECKED 0
#endif

#if CHECKED

/* Register image as written by vector_registers.S, large enough for every architecture. */
struct registers {
	uint8_t bytes[16 + 34 * 256 + 64];
} __attribute__((aligned(64)));

/*
 * Returns which registers are available: 0 for the minimum of the architecture, 1 for AVX or SVE, 2
 * for AVX-512.
 */
int vector_kind(void);

/* vector_registers.S */
void vector_fill(const struct registers *from, int kind);
void vector_dump(struct registers *to, int kind);
int vector_asm_user(struct lr_vec_unit *unit, int exit);
#ifdef __powerpc__
void vector_asm_handler(struct lr_vec_unit *unit, struct lr_vec_nest *nest,
			const struct registers *from);
#endif

/*
 * vector.c: makes contents unlike those of any other call, valid for control and status registers
 * too.
 */
void make_registers(struct registers *registers);
/* Returns nonzero if both images agree in all registers that this processor has. */
int are_same(const struct registers *a, const struct registers *b);
/* Save the register values of the C library, and restore them. */
void leave_home(void);
void come_home(void);

/* vector_nested.c: each scheme, interrupted by handlers at each of its steps. */
void check_vector_nested(struct tally *tally);

#endif
#endif
