/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Random copies over randomly faulting pages, in several threads at once; and the same while every
 * thread re-registers its memory for each copy and one more thread registers and unregisters
 * unrelated ranges.
 */
#include "fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
/* Copies made before the access to pages is changed again, which costs more than copying. */
#define CASES_PER_CHOICE 16

struct worker {
	pthread_t thread;
	struct tally tally;
	uint64_t random;
	unsigned long cases;
	int registers;
};

static size_t below(struct worker *w, size_t bound)
{
	return (size_t)(random_from(&w->random) % bound);
}

static void choose_pages(struct worker *w, struct memory *memory)
{
	static const int choices[] = { CAN_WRITE, CAN_WRITE, CAN_READ, CANNOT };
	for (size_t page = 0; page < PAGES; page++)
		memory_protect(memory, page, choices[below(w, 4)]);
}

/*
 * Chooses an offset that is followed by this many bytes: anywhere, or so that the copy crosses the
 * edge of a page.
 */
static size_t choose_offset(struct worker *w, size_t page, size_t bytes)
{
	const size_t room = PAGES * page - bytes + 1;
	const size_t edge = page * (1 + below(w, PAGES - 1));
	const size_t at = edge - below(w, bytes < page ? bytes + 1 : page);
	return below(w, 2) && at < room ? at : below(w, room);
}

static void choose_copy(struct worker *w, struct try *t)
{
	const size_t page = t->source->page;
	t->bytes = below(w, below(w, 2) ? 300 : below(w, 4) ? 2000 : PAGES * page);
	t->src_at = choose_offset(w, page, t->bytes);
	t->dst_at = choose_offset(w, page, t->bytes);
	t->seed = (uint32_t)random_from(&w->random);
}

static void in_and_out(struct tally *tally, const struct memory *memory, int registers)
{
	const size_t bytes = PAGES * memory->page;
	const int error = registers ? lr_fault_register(memory->view, bytes) :
				      lr_fault_unregister(memory->view, bytes);
	expect(tally, !error, "%s a range: error %d", registers ? "registering" : "taking back",
	       error);
}

static void *work(void *argument)
{
	struct worker *w = argument;
	struct memory source = memory_new(), destination = memory_new();
	struct try t = { .source = &source, .destination = &destination };
	for (size_t at = 0; at < PAGES * source.page; at++) {
		source.truth[at] = (uint8_t)random_from(&w->random);
		destination.truth[at] = GUARD;
	}
	for (unsigned long i = 0; i < w->cases; i++) {
		if (i % CASES_PER_CHOICE == 0) {
			choose_pages(w, &source);
			choose_pages(w, &destination);
		}
		choose_copy(w, &t);
		if (w->registers || i == 0) {
			in_and_out(&w->tally, &source, 1);
			in_and_out(&w->tally, &destination, 1);
		}
		check_try(&w->tally, &t, (int)below(w, 4));
		if (w->registers || i + 1 == w->cases) {
			in_and_out(&w->tally, &source, 0);
			in_and_out(&w->tally, &destination, 0);
		}
	}
	memory_free(&source);
	memory_free(&destination);
	return 0;
}

static void start(struct worker *w, void *(*body)(void *), uint64_t seed)
{
	w->random = seed;
	w->tally.name = "fault";
	if (pthread_create(&w->thread, 0, body, w)) {
		perror("check: pthread_create");
		exit(2);
	}
}

static void finish(struct tally *tally, struct worker *w)
{
	pthread_join(w->thread, 0);
	tally->cases += w->tally.cases;
	tally->failures += w->tally.failures;
}

static void in_threads(struct tally *tally, unsigned long cases, int registers)
{
	struct worker workers[THREADS] = { 0 };
	for (size_t i = 0; i < THREADS; i++) {
		workers[i].cases = cases / THREADS;
		workers[i].registers = registers;
		start(&workers[i], work, i + 1);
	}
	for (size_t i = 0; i < THREADS; i++)
		finish(tally, &workers[i]);
}

void check_fault_random(struct tally *tally, unsigned long cases)
{
	in_threads(tally, cases, 0);
}

/* Number of unrelated ranges: they take more than two chunks of slots. */
#define OTHERS 150

static _Atomic int is_over;

/* Registers and unregisters ranges at the bottom of memory, where nothing is copied. */
static void *register_others(void *argument)
{
	struct worker *w = argument;
	size_t bytes[OTHERS] = { 0 };
	while (!atomic_load(&is_over) || w->cases < OTHERS) {
		const size_t i = below(w, OTHERS);
		const void *first = (const void *)(uintptr_t)(16 * i);
		const size_t changed = bytes[i] ? 0 : 1 + below(w, 3);
		const int error = changed ? lr_fault_register(first, changed) :
					    lr_fault_unregister(first, bytes[i]);
		expect(&w->tally, !error, "range %zu: error %d", i, error);
		bytes[i] = changed;
		w->cases++;
	}
	for (size_t i = 0; i < OTHERS; i++)
		if (bytes[i])
			lr_fault_unregister((const void *)(uintptr_t)(16 * i), bytes[i]);
	return 0;
}

void check_fault_ranges(struct tally *tally, unsigned long cases)
{
	struct worker others = { 0 };
	start(&others, register_others, THREADS + 1);
	in_threads(tally, cases, 1);
	atomic_store(&is_over, 1);
	finish(tally, &others);
}
