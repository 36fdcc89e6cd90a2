/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Takes and gives back the vector registers in every way, a mark before and after each, and says on
 * a line of its own what was done. plugin.c, told where lr_marked stands, counts between the marks:
 * what is there is inline, as in a user's function. The first line, "nothing", is of two marks, to
 * see what belongs to them. Each is done once before it is counted, for the answers that are kept.
 *
 * Leaves out whether any of it is right: native/check/vector.c.
 */
#include "../../native/vector_context/note.h"

#include <linerate/vector_context.h>

#include <stdio.h>

/* Where the plugin is told to look; see calls.c. */
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
	COUNTED("nest and unnest, nobody interrupted",
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
	COUNTED("switch, the one that goes is inside", lr_vec_switch(&unit, &one, &other));
	unit.owner = (uintptr_t)&one;
	COUNTED("switch, the one that comes is inside and finds its registers",
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
