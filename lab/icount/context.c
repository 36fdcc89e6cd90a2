/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Acquires and releases the vector registers in every way, with a mark before and after each, and
 * prints a line for each. plugin.c, given the address of lr_marked, counts between the marks: the
 * code there is inline, as in a user's function. The first line, "nothing", is for two marks only,
 * to get their overhead. Each operation runs once before it is counted, to fill caches of detected
 * features.
 *
 * Leaves out whether any of it is right: native/check/vector.c.
 */
#include "../../native/vector_context/note.h"

#include <linerate/vector_context.h>

#include <stdio.h>

/* Address for the plugin; see calls.c. */
static __attribute__((noinline, noclone)) void mark(void)
{
	__asm__ volatile(".globl lr_marked\n"
			 "lr_marked:\n\t"
			 "nop");
}

static struct lr_vec_unit unit;
static struct lr_vec_nest nest;
static struct lr_vec_task one, other;
static struct note note;
static volatile int answer;

#define COUNTED(name, ...)                                                                         \
	do {                                                                                       \
		for (int i = 0; i < 2; i++) {                                                      \
			mark();                                                                    \
			__VA_ARGS__;                                                               \
			mark();                                                                    \
		}                                                                                  \
		puts(name);                                                                        \
	} while (0)

static void ours(void)
{
	COUNTED("enter and leave", if (lr_vec_enter(&unit)) lr_vec_leave(&unit));
	COUNTED("nest and unnest, no user interrupted",
		if (lr_vec_nest(&unit, &nest)) lr_vec_unnest(&unit, &nest));
	COUNTED("enter and leave of a task", lr_vec_task_enter(&unit, &one);
		lr_vec_task_leave(&unit, &one));
	unit.owner = LR_VEC_CLAIMED;
	COUNTED("enter, refused", if (lr_vec_enter(&unit)) answer = 1);
	COUNTED("nest and unnest, a user interrupted",
		if (lr_vec_nest(&unit, &nest)) lr_vec_unnest(&unit, &nest));
	unit.owner = 0;
	COUNTED("switch, neither task inside", lr_vec_switch(&unit, &one, &other));
	one.inside = 1;
	COUNTED("switch, outgoing task inside", lr_vec_switch(&unit, &one, &other));
	unit.owner = (uintptr_t)&one;
	COUNTED("switch, incoming task inside, its registers still loaded",
		lr_vec_switch(&unit, &other, &one));
	other.inside = 1;
	COUNTED("switch, both inside", lr_vec_switch(&unit, &one, &other);
		unit.owner = (uintptr_t)&one);
	one.inside = other.inside = 0;
	unit.owner = 0;
}

static void the_notes(void)
{
	COUNTED("the note's, first user", if (note_enter(&note, NOTE_SCALAR))
		note_leave(&note, NOTE_SCALAR));
	note.users = 1;
	COUNTED("the note's, second user", if (note_enter(&note, NOTE_SCALAR))
		note_leave(&note, NOTE_SCALAR));
}

int main(void)
{
	COUNTED("nothing", );
	ours();
	the_notes();
	return 0;
}
