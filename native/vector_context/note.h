/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The scheme of the application note AN2581, "AltiVec Performance Enhancement in a Multiprocessing
 * Environment", section 2.3 and appendix: a counter of users and a bounded stack of saved
 * registers. It is here for comparison and to show where it fails, and is not part of any library.
 * Use <linerate/vector_context.h> instead.
 *
 *	enter	increment the counter; if there were users already, push the registers
 *	leave	decrement the counter; if there are users left, pop the registers
 *
 * Flags select what the note leaves open: whether a binary semaphore guards push and pop, as in its
 * text, or not, as in its appendix; and the behaviour on a full stack: scalar code, spinning until
 * there is room, or, as in the code of the appendix, no check. NOTE_POP_FIRST is not in the note:
 * it pops before it decrements.
 *
 * The note saves v0 to v31 but neither VSCR nor VRSAVE; here push and pop are lr_vec_save and
 * lr_vec_restore, so that any failure is due to the order of steps alone.
 */
#ifndef LINERATE_VECTOR_CONTEXT_NOTE_H
#define LINERATE_VECTOR_CONTEXT_NOTE_H

#include <linerate/vector_context.h>

#if LR_VEC

/* Capacity of the stack of saved registers; 4 in the note. */
#ifndef NOTE_DEPTH
#define NOTE_DEPTH 4
#endif

enum {
	NOTE_SEMAPHORE = 1, /* a binary semaphore guards push and pop */
	NOTE_SCALAR = 2,    /* if the stack is full, use scalar code */
	NOTE_SPIN = 4,	    /* if the stack is full, retry until there is room */
	NOTE_POP_FIRST = 8, /* pop the registers before decrementing the counter */
};

/* Initially all zero. */
struct note {
	uint32_t users;
	uint32_t semaphore;
	/* How often the stack was full, and how often another context held the semaphore. */
	uint32_t overflows, waits;
	/*
	 * The last element stands for the memory past the stack, which is overwritten if there is
	 * no check.
	 */
	struct lr_vec_area stack[NOTE_DEPTH + 1];
};

/* Returns the slot for a saved context. All indices beyond the stack share the last slot. */
static inline struct lr_vec_area *note_slot(struct note *note, uint32_t index)
{
	return &note->stack[index < NOTE_DEPTH ? index : NOTE_DEPTH];
}

static inline void note_take(struct note *note, const unsigned how)
{
	if (!(how & NOTE_SEMAPHORE))
		return;
	for (;;) {
		LR_VEC_STEP(take);
		if (!__atomic_exchange_n(&note->semaphore, 1, __ATOMIC_RELAXED))
			return;
		note->waits++;
	}
}

static inline void note_give(struct note *note, const unsigned how)
{
	if (!(how & NOTE_SEMAPHORE))
		return;
	LR_VEC_STEP(hand_back);
	LR_VEC_STORE(&note->semaphore, 0);
}

/*
 * Returns 1 if vectors may be used until note_leave, else 0. how must be a compile-time constant.
 */
static inline int note_enter(struct note *note, const unsigned how)
{
	uint32_t users;
	for (;;) {
		LR_VEC_STEP(count_up);
		users = __atomic_add_fetch(&note->users, 1, __ATOMIC_RELAXED);
		if (!(how & (NOTE_SCALAR | NOTE_SPIN)) || users <= NOTE_DEPTH + 1)
			break;
		note->overflows++;
		LR_VEC_STEP(step_back);
		__atomic_sub_fetch(&note->users, 1, __ATOMIC_RELAXED);
		if (how & NOTE_SCALAR)
			return 0;
	}
	LR_VEC_ORDER();
	if (users > 1) {
		note_take(note, how);
		LR_VEC_STEP(push);
		lr_vec_save(note_slot(note, users - 2));
		note_give(note, how);
	}
	LR_VEC_ORDER();
	return 1;
}

/*
 * Without NOTE_POP_FIRST, there is a race between two steps of this function, count_down and pop.
 */
static inline void note_leave(struct note *note, const unsigned how)
{
	LR_VEC_ORDER();
	if (!(how & NOTE_POP_FIRST)) {
		LR_VEC_STEP(count_down);
		const uint32_t left = __atomic_sub_fetch(&note->users, 1, __ATOMIC_RELAXED);
		LR_VEC_ORDER();
		if (left) {
			note_take(note, how);
			LR_VEC_STEP(pop);
			lr_vec_restore(note_slot(note, left - 1));
			note_give(note, how);
		}
		return;
	}
	LR_VEC_STEP(read);
	const uint32_t users = LR_VEC_LOAD(&note->users);
	if (users > 1) {
		note_take(note, how);
		LR_VEC_STEP(pop);
		lr_vec_restore(note_slot(note, users - 2));
		note_give(note, how);
	}
	LR_VEC_ORDER();
	LR_VEC_STEP(count_down);
	__atomic_sub_fetch(&note->users, 1, __ATOMIC_RELAXED);
}

#endif
#endif
