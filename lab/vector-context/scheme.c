/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The schemes, of which the makefile builds one:
 *
 *	scalar		no vectors are used
 *	lazy		vectors are off until a task uses them, which traps; a task that has used
 *			them since it was switched to is saved when it is switched from. As
 *			AN2581, "AltiVec Performance Enhancement in a Multiprocessing Environment",
 *			section 2.1, and Linux 6.1 of 32 bits
 *	per-task	tasks say that they use vectors, and are saved and restored at every switch;
 *			one that did not say so is suspended. Section 2.2
 *	note...		a counter of users and a stack: section 2.3, with its three answers
 *	exclusive	lr_vec_enter, and lr_vec_nest in interrupts
 *	hooked		lr_vec_task_enter with lr_vec_switch in the scheduler, lr_vec_nest in interrupts
 *
 * Leaves out the unit's state beyond what lr_vec_save saves.
 */
#include "scheme.h"

#if SCHEME == NOTE || SCHEME == NOTE_GUARDED || SCHEME == NOTE_SPINNING
#include "../../native/vector_context/note.h"
#endif

#if SCHEME == SCALAR
const char scheme_name[] = "scalar";
#elif SCHEME == LAZY
const char scheme_name[] = "lazy";
#elif SCHEME == PER_TASK
const char scheme_name[] = "per-task";
#elif SCHEME == NOTE
const char scheme_name[] = "note";
#elif SCHEME == NOTE_GUARDED
const char scheme_name[] = "note-semaphore";
#elif SCHEME == NOTE_SPINNING
const char scheme_name[] = "note-spin";
#elif SCHEME == EXCLUSIVE
const char scheme_name[] = "exclusive";
#else
const char scheme_name[] = "hooked";
#endif

#if IS_OF_SYSTEM
/* The registers of a task that has not used them yet. */
static const struct lr_vec_area fresh;

static CONTEXT void save(struct task *task)
{
	const uintptr_t state = lr_vec_on();
	lr_vec_save(&task->area);
	lr_vec_off(state);
	task->is_saved = 1;
	counts.saves++;
}

static CONTEXT void restore(struct task *task)
{
	const uintptr_t state = lr_vec_on();
	lr_vec_restore(task->is_saved ? &task->area : &fresh);
	lr_vec_off(state);
	counts.restores++;
}
#endif

#if SCHEME == LAZY
CONTEXT uint32_t scheme_begin(struct task *task)
{
	task->is_saved = 0;
	return 0;
}

CONTEXT void scheme_switch(struct task *from, struct task *to)
{
	(void)to;
	if (!(from->frame->srr1 & MSR_VEC))
		return;
	save(from);
	from->frame->srr1 &= ~MSR_VEC;
}

/* The last switch from a task is an ordinary switch, and saves its registers needlessly. */
CONTEXT void scheme_end(struct task *task)
{
	if (task->frame->srr1 & MSR_VEC)
		save(task);
}

CONTEXT int scheme_trap(struct task *task)
{
	restore(task);
	task->frame->srr1 |= MSR_VEC;
	return 1;
}

#elif SCHEME == PER_TASK
CONTEXT uint32_t scheme_begin(struct task *task)
{
	task->is_saved = 0;
	return task->is_flagged ? MSR_VEC : 0;
}

CONTEXT void scheme_switch(struct task *from, struct task *to)
{
	if (from->is_flagged)
		save(from);
	if (to->is_flagged)
		restore(to);
}

#elif SCHEME != SCALAR /* vectors are always on, and sections are guarded */

uint32_t scheme_begin(struct task *task)
{
	task->vectors.inside = 0;
	return MSR_VEC;
}

#if SCHEME == NOTE || SCHEME == NOTE_GUARDED || SCHEME == NOTE_SPINNING
static struct note note;

#if SCHEME == NOTE
#define HOW NOTE_SCALAR
#elif SCHEME == NOTE_GUARDED
#define HOW (NOTE_SCALAR | NOTE_SEMAPHORE)
#else
#define HOW NOTE_SPIN
#endif

/* A user beyond the first has saved another one's registers. */
static inline int enter(void)
{
	const int may = note_enter(&note, HOW);
	if (may && note.users > 1)
		COUNT(saves, 1);
	return may;
}

CONTEXT int scheme_enter(struct task *task)
{
	(void)task;
	return enter();
}

CONTEXT void scheme_leave(struct task *task)
{
	(void)task;
	note_leave(&note, HOW);
}

CONTEXT int scheme_interrupt_enter(struct context *context)
{
	(void)context;
	lr_vec_on();
	return enter();
}

CONTEXT void scheme_interrupt_leave(struct context *context)
{
	(void)context;
	note_leave(&note, HOW);
}

#else
static struct lr_vec_unit unit;

#if SCHEME == EXCLUSIVE
CONTEXT int scheme_enter(struct task *task)
{
	(void)task;
	return lr_vec_enter(&unit);
}

CONTEXT void scheme_leave(struct task *task)
{
	(void)task;
	lr_vec_leave(&unit);
}
#else
CONTEXT int scheme_enter(struct task *task)
{
	lr_vec_task_enter(&unit, &task->vectors);
	return 1;
}

CONTEXT void scheme_leave(struct task *task)
{
	lr_vec_task_leave(&unit, &task->vectors);
}

/* Marks the action of lr_vec_switch. */
static HARNESS void count_switch(const struct task *from, const struct task *to)
{
	counts.saves += from->vectors.inside;
	counts.restores += to->vectors.inside && unit.owner != (uintptr_t)&to->vectors;
}

CONTEXT void scheme_switch(struct task *from, struct task *to)
{
	count_switch(from, to);
	const uintptr_t state = lr_vec_on();
	lr_vec_switch(&unit, &from->vectors, &to->vectors);
	lr_vec_off(state);
}
#endif

CONTEXT int scheme_interrupt_enter(struct context *context)
{
	lr_vec_on();
	const int may = lr_vec_nest(&unit, &context->nest);
	COUNT(saves, context->nest.owner != 0);
	return may;
}

CONTEXT void scheme_interrupt_leave(struct context *context)
{
	COUNT(restores, context->nest.owner != 0);
	lr_vec_unnest(&unit, &context->nest);
}
#endif
#endif
