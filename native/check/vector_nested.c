/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The code of the schemes, with handlers that interrupt it at any step: the same exploration as in
 * linerate's models of nested interrupts, but with the processor's real registers.
 *
 * LR_VEC_STEP calls a function that, at one step of each level, starts the next level. Levels are a
 * task and three handlers, and every choice of their steps is run:
 *
 *	for each step a of the task, b of the first handler, c of the second:
 *		run the task; count corrupted registers and endless loops
 *
 * Time slices are not covered: a C library's own context switch saves too much for that.
 */
#include "../kernels/no_vectors.h"

void vector_step(void);
#define LR_VEC_STEP(name) vector_step()
/* Capacity of the note's stack: so small that four levels fill it. */
#define NOTE_DEPTH 1

#include "vector.h"

#if CHECKED

#include "../vector_context/note.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#define LEVELS 4
/* STEPS exceeds the number of steps of any level; SPINNING exceeds that of any run that ends. */
#define STEPS 18
#define SPINNING 1000

enum how { NOTE, ENTER, ENTER_AND_NEST, ALL_NEST, TASKS };

struct scheme {
	const char *name;
	enum how how;
	unsigned note;
	int corrupts, spins;
};

/* Results of the models for each scheme under nested interrupts. */
static const struct scheme schemes[] = {
	{ "note's appendix: no semaphore, full unseen", NOTE, 0, 1, 0 },
	{ "note: no semaphore, full: scalar", NOTE, NOTE_SCALAR, 1, 0 },
	{ "note: no semaphore, full: spin", NOTE, NOTE_SPIN, 1, 1 },
	{ "note's text: semaphore spins, full: scalar", NOTE, NOTE_SEMAPHORE | NOTE_SCALAR, 1, 1 },
	{ "note's text: semaphore spins, full: spin", NOTE, NOTE_SEMAPHORE | NOTE_SPIN, 1, 1 },
	{ "note mended: pops first, full: scalar", NOTE, NOTE_POP_FIRST | NOTE_SCALAR, 0, 0 },
	{ "enter", ENTER, 0, 0, 0 },
	{ "enter; interrupts nest", ENTER_AND_NEST, 0, 0, 0 },
	{ "all nest", ALL_NEST, 0, 0, 0 },
	{ "task_enter and switch; interrupts nest", TASKS, 0, 0, 0 },
};

static const struct scheme *scheme;
static struct lr_vec_unit unit;
static struct note note;
static struct lr_vec_task task, other;
static struct lr_vec_nest nests[LEVELS];
static struct registers values[LEVELS], seen;
static unsigned level, steps[LEVELS], when[LEVELS];
static unsigned long corrupted, used_vectors, all_steps;
static jmp_buf given_up;

static int enter(void)
{
	switch (scheme->how) {
	case NOTE:
		return note_enter(&note, scheme->note);
	case TASKS:
		if (level)
			return lr_vec_nest(&unit, &nests[level]);
		lr_vec_task_enter(&unit, &task);
		return 1;
	case ALL_NEST:
		return lr_vec_nest(&unit, &nests[level]);
	case ENTER_AND_NEST:
		return level ? lr_vec_nest(&unit, &nests[level]) : lr_vec_enter(&unit);
	default:
		return lr_vec_enter(&unit);
	}
}

static void leave(void)
{
	if (scheme->how == NOTE)
		note_leave(&note, scheme->note);
	else if (scheme->how == TASKS && !level)
		lr_vec_task_leave(&unit, &task);
	else if (scheme->how == ENTER || (scheme->how == ENTER_AND_NEST && !level))
		lr_vec_leave(&unit);
	else
		lr_vec_unnest(&unit, &nests[level]);
}

/*
 * Enters, writes and reads the registers, and leaves; a task under a scheduler is also switched
 * away from and back to in between.
 */
static void section(void)
{
	if (!enter())
		return;
	used_vectors++;
	vector_fill(&values[level], vector_kind());
	vector_step();
	if (scheme->how == TASKS && !level) {
		lr_vec_switch(&unit, &task, &other);
		lr_vec_task_enter(&unit, &other);
		vector_fill(&values[LEVELS - 1], vector_kind());
		vector_step();
		lr_vec_switch(&unit, &other, &task);
	}
	vector_step();
	vector_dump(&seen, vector_kind());
	corrupted += !are_same(&seen, &values[level]);
	leave();
}

void vector_step(void)
{
	if (++all_steps > SPINNING)
		longjmp(given_up, 1);
	if (level + 1 >= LEVELS || steps[level]++ != when[level])
		return;
	level++;
	steps[level] = 0;
	section();
	level--;
}

/* Runs the task once. Returns 0 if the run did not end and was stopped. */
static int run(void)
{
	unit.owner = 0;
	note.users = note.semaphore = 0;
	task.inside = other.inside = 0;
	level = steps[0] = 0;
	all_steps = 0;
	if (setjmp(given_up))
		return 0;
	section();
	return 1;
}

void check_vector_nested(struct tally *tally)
{
	for (size_t i = 0; i < LEVELS; i++)
		make_registers(&values[i]);
	for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
		unsigned long runs = 0, spinning = 0;
		scheme = &schemes[i];
		corrupted = used_vectors = 0;
		leave_home();
		for (when[0] = 0; when[0] < STEPS; when[0]++)
			for (when[1] = 0; when[1] < STEPS; when[1]++)
				for (when[2] = 0; when[2] < STEPS; when[2]++, runs++)
					spinning += !run();
		come_home();
		printf("%-44s %lu runs, %lu uses of vectors, %lu corrupted, %lu spin for ever\n",
		       scheme->name, runs, used_vectors, corrupted, spinning);
		expect(tally, !corrupted == !scheme->corrupts, "%s: %lu corrupted", scheme->name,
		       corrupted);
		expect(tally, !spinning == !scheme->spins, "%s: %lu spin", scheme->name, spinning);
	}
}

#endif

#include "../kernels/no_vectors_end.h"
