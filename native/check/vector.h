/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The check of vector register sharing. It runs with known register contents, compiled without
 * vectors: between at_home(0) and at_home(1) the C library must not be called.
 */
#ifndef LINERATE_CHECK_VECTOR_H
#define LINERATE_CHECK_VECTOR_H

#include "check.h"

#include <linerate/vector_context.h>

/* Not where functions are called by descriptors: assembly here has none. */
#if LR_VEC && (!defined(__powerpc64__) || _CALL_ELF == 2)
#define CHECKED 1
#else
#define CHECKED 0
#endif

#if CHECKED

/* Register image of vector_registers.S; as large as the largest. */
struct registers {
	uint8_t bytes[16 + 34 * 256 + 64];
} __attribute__((aligned(64)));

/* Which registers there are: 0 the least, 1 AVX or SVE, 2 AVX-512. */
int vector_kind(void);

/* vector_registers.S */
void vector_fill(const struct registers *from, int kind);
void vector_dump(struct registers *to, int kind);
int vector_asm_user(struct lr_vec_unit *unit, int exit);
#ifdef __powerpc__
void vector_asm_handler(struct lr_vec_unit *unit, struct lr_vec_nest *nest,
			const struct registers *from);
#endif

/* vector.c: contents that no other call makes, valid for control and status too. */
void make_registers(struct registers *registers);
/* Whether both hold the same where there are registers. */
int are_same(const struct registers *a, const struct registers *b);
/* Saves the registers of the C library, and gives them back. */
void leave_home(void);
void come_home(void);

/* vector_nested.c: schemes under handlers at each of their steps. */
void check_vector_nested(struct tally *tally);

#endif
#endif
