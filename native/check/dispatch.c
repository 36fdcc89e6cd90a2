/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Checks the table, the selection from it, and the effects and errors of forcing a variant. */
#include "check.h"

#include <pthread.h>
#include <string.h>

struct lr_variant dispatching(void)
{
	return (struct lr_variant){
		.csum_partial = lr_csum_partial,
		.csum_burst = lr_csum_burst,
		.copy_csum_partial = lr_copy_csum_partial,
		.copy = lr_copy,
		.fill = lr_fill,
	};
}

static const uint8_t message[] = "selected at the first call";

static int first_burst(uint16_t expected)
{
	const struct lr_csum_buffer buffer = { message, sizeof message };
	uint32_t sum = 0;
	lr_csum_burst(&buffer, &sum, 1);
	return lr_csum_fold(sum) == expected;
}

/* LR_CSUM covers two functions. Here, it stands for lr_csum_partial, and this for lr_csum_burst. */
#define FIRST_BURST 0

/* Returns nonzero if a dispatching function works as the first one called in a process. */
static int first_call(int which)
{
	uint8_t room[sizeof message] = { 0 };
	const uint16_t expected = reference(message, sizeof message, 0);

	now = (struct call){ "selected", "(first call)", "text", room, message, sizeof message, 0 };
	switch (which) {
	case FIRST_BURST:
		return first_burst(expected);
	case LR_CSUM:
		return lr_csum_fold(lr_csum_partial(message, sizeof message, 0)) == expected;
	case LR_COPY_CSUM:
		return lr_csum_fold(lr_copy_csum_partial(room, message, sizeof message, 0)) ==
			       expected &&
		       !memcmp(room, message, sizeof message);
	case LR_COPY:
		return lr_copy(room, message, sizeof message) == room &&
		       !memcmp(room, message, sizeof message);
	default:
		return lr_fill(room, 7, sizeof room) == room && room[0] == 7 &&
		       room[sizeof room - 1] == 7;
	}
}

static void *first_sum(void *unused)
{
	(void)unused;
	return lr_csum_partial(message, sizeof message, 0) ? 0 : (void *)message;
}

/* Returns nonzero if a variant forced while another thread makes the first call stays forced. */
static int forced_during_first_call(int delay)
{
	pthread_t other;
	void *failed = 0;

	if (pthread_create(&other, 0, first_sum, 0))
		return 0;
	for (volatile int i = 0; i < delay; i++)
		continue;
	const int answer = lr_variant_force("portable");
	return !pthread_join(other, &failed) && !failed && answer == 0 &&
	       !strcmp(lr_variant_current().name, "portable");
}

#ifndef __x86_64__
/* Returns nonzero if no vectors are used after the processor was declared to have none. */
static int told_of_no_vectors(int unused)
{
	(void)unused;
	lr_processor_tell(0);
	for (size_t i = 0; i < lr_variant_count; i++)
		if (lr_variants[i]->vector && lr_variants[i]->supported())
			return 0;
	return !lr_variant_current().vector && first_call(LR_CSUM);
}
#endif

void check_first_calls(struct tally *tally)
{
#ifndef __x86_64__
	expect(tally, in_a_process(told_of_no_vectors, 0),
	       "a vector variant was selected, although no vector unit was declared");
#endif
	for (int delay = 0; delay < 100000; delay += 500)
		expect(tally, in_a_process(forced_during_first_call, delay),
		       "portable forced %d iterations after another thread began the first call",
		       delay);
	expect(tally, in_a_process(first_call, FIRST_BURST),
	       "the first call of a process, lr_csum_burst");
	for (int which = LR_CSUM; which <= LR_FILL; which *= 2)
		expect(tally, in_a_process(first_call, which),
		       "the first call of a process, function %d of enum LR_CSUM ...", which);
}

static void table(struct tally *tally)
{
	expect(tally, lr_variant_count > 0 && lr_variants[0]->preferred == LR_ALL &&
			      lr_variants[0]->compiled &&
			      lr_variants[0]->supported() == LR_RUNS_WELL,
	       "the first variant must run anywhere and offer all functions");
	for (size_t i = 0; i < lr_variant_count; i++) {
		const struct lr_variant *v = lr_variants[i];
		const int all = v->csum_partial && v->csum_burst && v->copy_csum_partial &&
				v->copy && v->fill;
		const int any = v->csum_partial || v->csum_burst || v->copy_csum_partial ||
				v->copy || v->fill;
		const size_t word = strspn(v->name, "abcdefghijklmnopqrstuvwxyz0123456789_");

		expect(tally, word && !v->name[word], "%s: the name must be one word", v->name);
		expect(tally, lr_variant_find(v->name) == v, "%s: must be found by its name", v->name);
		expect(tally, *v->isa, "%s: must state which features the processor needs", v->name);
		expect(tally, v->compiled ? all : !any && !v->supported(),
		       "%s: must have functions if and only if it is compiled", v->name);
	}
	expect(tally, !lr_variant_find("") && !lr_variant_find("no such variant"),
	       "a nonexistent variant was found");
}

static int same_functions(const struct lr_variant *a, const struct lr_variant *b)
{
	return a->csum_partial == b->csum_partial && a->csum_burst == b->csum_burst &&
	       a->copy_csum_partial == b->copy_csum_partial && a->copy == b->copy &&
	       a->fill == b->fill;
}

/*
 * Expects for each function the last variant in the table that runs well here and is preferred for
 * it.
 */
static struct lr_variant expected_selection(void)
{
	struct lr_variant best = { .name = "selected" };
	for (size_t i = 0; i < lr_variant_count; i++) {
		const struct lr_variant *v = lr_variants[i];
		if (!v->compiled || v->supported() < LR_RUNS_WELL)
			continue;
		if (v->preferred & LR_CSUM) {
			best.csum_partial = v->csum_partial;
			best.csum_burst = v->csum_burst;
		}
		if (v->preferred & LR_COPY_CSUM)
			best.copy_csum_partial = v->copy_csum_partial;
		if (v->preferred & LR_COPY)
			best.copy = v->copy;
		if (v->preferred & LR_FILL)
			best.fill = v->fill;
		best.vector |= v->preferred && v->vector;
	}
	return best;
}

static void is_selected(struct tally *tally, const char *when)
{
	const struct lr_variant best = expected_selection(), current = lr_variant_current();
	expect(tally, !strcmp(current.name, "selected") && same_functions(&current, &best),
	       "%s: the last preferred implementation of each function must be selected", when);
}

/* Expects that forcing fails with that code and leaves the current targets unchanged. */
static void refused(struct tally *tally, const char *name, int code)
{
	const struct lr_variant before = lr_variant_current();
	const int got = lr_variant_force(name);
	const struct lr_variant after = lr_variant_current();
	expect(tally, got == code, "forcing \"%s\" returned %d instead of %d", name, got, code);
	expect(tally, !strcmp(before.name, after.name) && same_functions(&before, &after),
	       "forcing \"%s\" failed, but changed the called functions", name);
}

/*
 * Forces a variant, and expects that it becomes the current target and passes a short sweep through
 * the dispatching functions.
 */
static void forced(struct tally *tally, const struct lr_variant *v)
{
	static const struct extent few = { 300, 21, 21, LINE, 10000 };
	struct subject through = {
		.tally = { .name = v->name },
		.kernels = dispatching(),
	};

	expect(tally, lr_variant_force(v->name) == 0, "forcing \"%s\" failed", v->name);
	const struct lr_variant current = lr_variant_current();
	expect(tally, !strcmp(current.name, v->name) && same_functions(&current, v) &&
			      current.vector == v->vector,
	       "forcing \"%s\": another variant is called", v->name);
	check_bursts(&through, 1, &few);
	check_sweep(&through, 1, &few);
	tally->cases += through.tally.cases;
	tally->failures += through.tally.failures;
	refused(tally, "no such variant", LR_UNKNOWN);
}

void check_dispatch(struct tally *tally)
{
	table(tally);
	is_selected(tally, "at first");
	refused(tally, "no such variant", LR_UNKNOWN);
	refused(tally, "", LR_UNKNOWN);
	refused(tally, "selected", LR_UNKNOWN);
	for (size_t i = 0; i < lr_variant_count; i++) {
		const struct lr_variant *v = lr_variants[i];
		if (!v->compiled)
			refused(tally, v->name, LR_NOT_COMPILED);
		else if (!v->supported())
			refused(tally, v->name, LR_NOT_SUPPORTED);
		else
			forced(tally, v);
	}
	expect(tally, lr_variant_force(0) == 0, "forcing nothing failed");
	is_selected(tally, "after forcing");
}
