/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A fault at every byte of the source and of the destination: the first page of each is accessible,
 * the second is not, and copies begin a given number of bytes before its edge. Also edges on both
 * sides at once, copies that begin inaccessible, and truncated files.
 */
#include "fault.h"

/*
 * Lengths below this are all checked: enough for two steps of the widest loop, one of the next, a
 * word and a byte together.
 */
#define EVERY_LENGTH_TO 80
static const size_t longer[] = { 96, 127, 128, 129, 161, 200, 256, 299 };
#define LENGTHS (EVERY_LENGTH_TO + sizeof longer / sizeof *longer)

static size_t length(size_t i)
{
	return i < EVERY_LENGTH_TO ? i : longer[i - EVERY_LENGTH_TO];
}

/* Makes the same copy with and without a checksum. */
static void both(struct tally *tally, struct try *t)
{
	t->seed = (uint32_t)(t->bytes * 0x10001 + t->dst_at);
	check_try(tally, t, 1);
	check_try(tally, t, 0);
}

/*
 * Lets the source fault at every byte, with the destination at every offset within 16 bytes, the
 * widest access of any copy.
 */
static void at_source(struct tally *tally, struct try *t)
{
	for (size_t i = 0; i < LENGTHS; i++)
		for (size_t k = 0; k <= length(i); k++)
			for (size_t offset = 0; offset < 16; offset += i % 3 + 1) {
				t->bytes = length(i);
				t->src_at = t->source->page - k;
				t->dst_at = LINE + offset;
				both(tally, t);
			}
}

static void at_destination(struct tally *tally, struct try *t)
{
	for (size_t i = 0; i < LENGTHS; i++)
		for (size_t k = 0; k <= length(i); k++)
			for (size_t offset = 0; offset < 16; offset += i % 3 + 1) {
				t->bytes = length(i);
				t->dst_at = t->destination->page - k;
				t->src_at = LINE + offset;
				both(tally, t);
			}
}

static void at_both(struct tally *tally, struct try *t)
{
	static const size_t lengths[] = { 1, 8, 31, 33, 65, 130, 200 };
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		for (size_t k = 0; k <= lengths[i]; k++)
			for (size_t j = 0; j <= lengths[i]; j += i + 1) {
				t->bytes = lengths[i];
				t->src_at = t->source->page - k;
				t->dst_at = t->destination->page - j;
				both(tally, t);
			}
}

/* Copies that begin in an inaccessible page and end in an accessible one. */
static void without_a_first_byte(struct tally *tally, struct try *t)
{
	for (size_t k = 1; k < 40; k++) {
		t->bytes = 2 * k;
		t->src_at = 2 * t->source->page - k;
		t->dst_at = LINE + k;
		both(tally, t);
		t->src_at = LINE + k;
		t->dst_at = 2 * t->destination->page - k;
		both(tally, t);
	}
}

static struct memory filled(size_t fill, int guard)
{
	struct memory memory = memory_new();
	for (size_t i = 0; guard && i < PAGES * memory.page; i++)
		memory.truth[i] = GUARD;
	if (!guard)
		fill_bytes(fill, memory.truth, PAGES * memory.page);
	return memory;
}

static void with(struct tally *tally, size_t fill, int truncated, int can)
{
	struct memory source = filled(fill, 0), destination = filled(0, 1);
	struct try t = { .source = &source, .destination = &destination };
	lr_fault_register(source.view, PAGES * source.page);
	lr_fault_register(destination.view, PAGES * destination.page);
	if (truncated)
		memory_truncate(&source, 1);
	else
		memory_protect(&source, 1, CANNOT);
	at_source(tally, &t);
	if (truncated)
		memory_truncate(&destination, 1);
	else
		memory_protect(&destination, 1, can);
	at_both(tally, &t);
	if (!truncated)
		without_a_first_byte(tally, &t);
	at_destination(tally, &t);
	lr_fault_unregister(source.view, PAGES * source.page);
	lr_fault_unregister(destination.view, PAGES * destination.page);
	memory_free(&source);
	memory_free(&destination);
}

void check_fault_edges(struct tally *tally, int bus_errors)
{
	with(tally, FILL_RANDOM, 0, CANNOT);
	if (bus_errors)
		with(tally, FILL_MOSTLY_ONES, 1, CANNOT);
	with(tally, FILL_ONES, 0, CAN_READ);
}
