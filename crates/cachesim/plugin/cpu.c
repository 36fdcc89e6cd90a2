/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "cpu.h"

#include <string.h>

static bool init_cache(struct array *a, const struct cache *c)
{
	return array_init(a, c->sets, c->ways, c->policy);
}

static bool init_tlb(struct array *a, const struct tlb *t)
{
	return array_init(a, t->sets, t->ways, t->policy);
}

bool cpu_init(struct cpu *c, const struct machine *m, uint64_t *counts)
{
	bool is_done;

	memset(c, 0, sizeof *c);
	c->machine = *m;
	c->counts = counts;
	c->line = c->page = c->code_line = c->code_page = NO_BLOCK;
	is_done = init_cache(&c->l1i, &m->l1i) & init_tlb(&c->itlb, &m->itlb) &
		  init_tlb(&c->dtlb, &m->dtlb) & init_tlb(&c->tlb2, &m->tlb2);
	for (int level = 0; level < LEVELS; level++)
		is_done &= init_cache(&c->data[level], &m->data[level]);
	if (!is_done)
		cpu_free(c);
	return is_done;
}

void cpu_free(struct cpu *c)
{
	array_free(&c->l1i);
	array_free(&c->itlb);
	array_free(&c->dtlb);
	array_free(&c->tlb2);
	for (int level = 0; level < LEVELS; level++)
		array_free(&c->data[level]);
}

/* Removes all lines within a block of 1 << shift bytes from a level with shorter or equal lines. */
static void remove_from(struct array *a, uint8_t a_shift, uint64_t block, uint8_t shift)
{
	const unsigned difference = shift - a_shift;

	for (uint64_t part = 0; part < UINT64_C(1) << difference; part++)
		array_remove(a, (block << difference) + part);
}

/* Removes a block evicted from an inclusive level from all levels closer to the core. */
static void remove_before(struct cpu *c, int level, uint64_t block)
{
	const struct machine *const m = &c->machine;
	const uint8_t shift = m->data[level].shift;

	remove_from(&c->l1i, m->l1i.shift, block, shift);
	for (int before = 0; before < level; before++)
		remove_from(&c->data[before], m->data[before].shift, block, shift);
	c->line = c->code_line = NO_BLOCK;
}

/* Passes a line evicted from the previous level to `level`, if that level is filled by victims. */
static void evicted_to(struct cpu *c, int level, uint64_t block)
{
	struct array *a;
	uint64_t leaves;

	if (block == NO_BLOCK || level == LEVELS || !array_exists(&c->data[level]) ||
	    c->machine.data[level].contents <= INCLUSIVE)
		return;
	a = &c->data[level];
	if (array_use(a, block))
		return;
	leaves = array_insert(a, block);
	evicted_to(c, level + 1, leaves);
}

/* Inserts a fetched line into a level beyond L1. */
static void fill(struct cpu *c, int level, uint64_t block)
{
	const uint64_t leaves = array_insert(&c->data[level], block);

	if (leaves == NO_BLOCK)
		return;
	if (c->machine.data[level].contents == INCLUSIVE)
		remove_before(c, level, leaves);
	evicted_to(c, level + 1, leaves);
}

/*
 * Looks up a block in a level beyond L1, and counts the access and any miss. Returns true on a hit.
 */
static bool look_up(struct cpu *c, int level, uint64_t block)
{
	c->counts[level == 1 ? L2_ACCESSES : L3_ACCESSES]++;
	if (array_use(&c->data[level], block))
		return true;
	c->counts[level == 1 ? L2_MISSES : L3_MISSES]++;
	return false;
}

/*
 * Fetches the line at an address from `level` or, on a miss, from the levels beyond it and finally
 * from memory. Fills the levels on the way that keep fetched lines.
 */
static void fetch_from(struct cpu *c, int level, uint64_t address)
{
	const bool exists = level < LEVELS && array_exists(&c->data[level]);
	const struct cache *const shape = &c->machine.data[exists ? level : 0];
	const uint64_t block = address >> shape->shift;

	if (!exists) {
		c->counts[MEMORY_READS]++;
		return;
	}
	if (look_up(c, level, block)) {
		if (shape->contents == EXCLUSIVE)
			array_remove(&c->data[level], block);
		return;
	}
	fetch_from(c, level + 1, address);
	if (shape->contents <= INCLUSIVE)
		fill(c, level, block);
}

/*
 * Handles a store that L1D does not keep. L2 keeps it, whatever its contents are otherwise, and
 * fetches the line if it misses. Without an L2, the store goes to memory.
 */
static void write_beyond(struct cpu *c, uint64_t address)
{
	const uint64_t block = address >> c->machine.data[1].shift;

	if (!array_exists(&c->data[1])) {
		c->counts[MEMORY_WRITES]++;
	} else if (!look_up(c, 1, block)) {
		fetch_from(c, 2, address);
		fill(c, 1, block);
	}
}

/* Looks up a page in the first-level and then the second-level TLB, and counts the misses. */
static void translate(struct cpu *c, uint64_t page, struct array *first, enum counter misses,
		      enum counter walks)
{
	if (!array_exists(first) || array_use(first, page))
		return;
	c->counts[misses]++;
	if (!array_exists(&c->tlb2)) {
		c->counts[walks]++;
	} else if (!array_use(&c->tlb2, page)) {
		c->counts[walks]++;
		array_insert(&c->tlb2, page);
	}
	array_insert(first, page);
}

static void access_line(struct cpu *c, uint64_t line, bool is_store)
{
	const enum writes writes = c->machine.writes;
	const uint8_t shift = c->machine.data[0].shift;
	const uint64_t page = line >> (c->machine.page_shift - shift);

	if (page != c->page) {
		translate(c, page, &c->dtlb, DTLB_MISSES, DTLB_WALKS);
		c->page = page;
	}
	if (line != c->line && !array_use(&c->data[0], line)) {
		c->counts[is_store ? L1D_STORE_MISSES : L1D_LOAD_MISSES]++;
		if (is_store && writes != ALLOCATE) {
			/* c->page was just updated, so it may differ from the page of c->line. */
			c->line = NO_BLOCK;
			write_beyond(c, line << shift);
			return;
		}
		fetch_from(c, 1, line << shift);
		evicted_to(c, 1, array_insert(&c->data[0], line));
	}
	c->line = line;
	if (is_store && writes == THROUGH)
		write_beyond(c, line << shift);
}

void cpu_touch_lines(struct cpu *c, uint64_t first, uint64_t last, bool is_store)
{
	for (uint64_t line = first; line <= last; line++)
		access_line(c, line, is_store);
}

static void fetch_line(struct cpu *c, uint64_t line)
{
	const uint8_t shift = c->machine.l1i.shift;
	const uint64_t page = line >> (c->machine.page_shift - shift);

	if (page != c->code_page) {
		translate(c, page, &c->itlb, ITLB_MISSES, ITLB_WALKS);
		c->code_page = page;
	}
	if (!array_use(&c->l1i, line)) {
		c->counts[L1I_MISSES]++;
		fetch_from(c, 1, line << shift);
		evicted_to(c, 1, array_insert(&c->l1i, line));
	}
	c->code_line = line;
}

void cpu_fetch_lines(struct cpu *c, uint64_t first, uint64_t last)
{
	for (uint64_t line = first; line <= last; line++)
		if (line != c->code_line)
			fetch_line(c, line);
}

static bool is_conditional_missed(struct predictor *p, uint64_t address, bool is_taken)
{
	const uint32_t mask = PREDICTOR_COUNTERS - 1;
	uint8_t *const counter = &p->counters[((uint32_t)(address >> 1) ^ p->history) & mask];
	const bool is_missed = (*counter >= 2) != is_taken;

	if (is_taken && *counter < 3)
		++*counter;
	else if (!is_taken && *counter > 0)
		--*counter;
	p->history = (p->history << 1 | is_taken) & mask;
	return is_missed;
}

static bool is_target_missed(struct predictor *p, uint64_t address, uint64_t target)
{
	uint64_t *const last = &p->targets[address >> 1 & (PREDICTOR_TARGETS - 1)];
	const bool is_missed = *last != target;

	*last = target;
	return is_missed;
}

/* The return stack is a ring: pushing to a full stack overwrites the oldest entry. */
static void push_return(struct predictor *p, uint64_t after)
{
	p->returns[p->depth++ % PREDICTOR_RETURNS] = after;
}

static bool is_return_missed(struct predictor *p, uint64_t target)
{
	return p->returns[--p->depth % PREDICTOR_RETURNS] != target;
}

void cpu_branch(struct cpu *c, enum branch kind, uint64_t address, uint64_t after, uint64_t target)
{
	struct predictor *const p = &c->predictor;
	bool is_missed = false;

	c->counts[BRANCHES]++;
	switch (kind) {
	case CONDITIONAL: is_missed = is_conditional_missed(p, address, target != after); break;
	case CALL: push_return(p, after); break;
	case INDIRECT: is_missed = is_target_missed(p, address, target); break;
	case INDIRECT_CALL:
		push_return(p, after);
		is_missed = is_target_missed(p, address, target);
		break;
	case RETURN: is_missed = is_return_missed(p, target); break;
	case NO_BRANCH:
	case DIRECT: break;
	}
	c->counts[BRANCH_MISSES] += is_missed;
}
