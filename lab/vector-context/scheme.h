/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Interface of a scheme for sharing and saving vector registers. One is built into an image. Every
 * nonempty function of a scheme is in the section counted as context management; unneeded ones are
 * empty inline functions without cost.
 */
#ifndef SCHEME_H
#define SCHEME_H

#include "kernel.h"
#include "machine.h"

/* As the makefile numbers them. */
#define SCALAR 0
#define LAZY 1
#define PER_TASK 2
#define NOTE 3
#define NOTE_GUARDED 4
#define NOTE_SPINNING 5
#define EXCLUSIVE 6
#define HOOKED 7

/* Those that save the registers of whole tasks; the others are aware of sections. */
#define IS_OF_SYSTEM (SCHEME == LAZY || SCHEME == PER_TASK)

extern const char scheme_name[];

/* The machine state's bits with which a task begins, and its registers if any are kept. */
#if SCHEME == SCALAR
static inline uint32_t scheme_begin(struct task *task)
{
	(void)task;
	return 0;
}
#else
uint32_t scheme_begin(struct task *task);
#endif

/* A task ends. */
#if SCHEME == LAZY
void scheme_end(struct task *task);
#else
static inline void scheme_end(struct task *task)
{
	(void)task;
}
#endif

/* The processor goes from one task to another; interrupts are shut out. */
#if SCHEME == LAZY || SCHEME == PER_TASK || SCHEME == HOOKED
void scheme_switch(struct task *from, struct task *to);
#else
static inline void scheme_switch(struct task *from, struct task *to)
{
	(void)from;
	(void)to;
}
#endif

/* A task has used vectors where they are off: 1 if it may go on, 0 if it is to be suspended. */
#if SCHEME == LAZY
int scheme_trap(struct task *task);
#else
static inline int scheme_trap(struct task *task)
{
	(void)task;
	return 0;
}
#endif

/* Before and behind a routine that uses vectors, in tasks; 0: use scalar code. */
#if SCHEME == SCALAR
static inline int scheme_enter(struct task *task)
{
	(void)task;
	return 0;
}
static inline int scheme_interrupt_enter(struct context *context)
{
	(void)context;
	return 0;
}
#elif IS_OF_SYSTEM
static inline int scheme_enter(struct task *task)
{
	(void)task;
	return 1;
}
/* Such systems have no vectors in interrupts. */
static inline int scheme_interrupt_enter(struct context *context)
{
	(void)context;
	return 0;
}
#else
int scheme_enter(struct task *task);
int scheme_interrupt_enter(struct context *context);
#endif

#if SCHEME == SCALAR || IS_OF_SYSTEM
static inline void scheme_leave(struct task *task)
{
	(void)task;
}
static inline void scheme_interrupt_leave(struct context *context)
{
	(void)context;
}
#else
void scheme_leave(struct task *task);
void scheme_interrupt_leave(struct context *context);
#endif

#endif
