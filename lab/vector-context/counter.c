/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A plugin for QEMU's translator that counts, block by block, what a machine executes: instructions
 * by ranges of addresses, how often single addresses are reached, and the longest stretch between
 * some. The machine does not notice.
 *
 * Arguments, numbers as strtoull reads them; all but out may be given often:
 *
 *	range=LOW-HIGH	instructions at LOW <= address < HIGH
 *	at=ADDRESS	how often the instruction there is executed
 *	close=, open=	addresses between which interrupts are shut out, and let in again
 *	vector=, serve=	where an interrupt begins, and where its service does
 *	begin=, end=	counting begins behind the one and ends before the other; without, it is of
 *			the whole run
 *	out=		a file for one line: "ALL RANGE... AT... CLOSED ENTRY", the last two being the
 *			most instructions in one stretch from close to open, and from vector to serve
 *
 * For one processor, in system emulation. A block that is left in its middle counts as whole; only
 * an access to a device does that, and none happens where something is counted.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../crates/cachesim/plugin/qemu_plugin.h"

int qemu_plugin_version = 1;

enum { MOST = 8 };

struct range {
	uint64_t low, high, executed;
};

enum mark { AT, CLOSE, OPEN, VECTOR, SERVE, BEGIN, END, MARKS };
static const char *const mark_names[MARKS] = {
	"at=", "close=", "open=", "vector=", "serve=", "begin=", "end="
};

struct addresses {
	uint64_t at[MOST];
	size_t count;
};

/* A block: its instructions, all and by range. */
struct block {
	uint64_t all, in_range[MOST];
};

/* An instruction of a block that is marked. */
struct place {
	uint64_t address;
	/* After it in its block. */
	uint64_t behind;
};

static struct range ranges[MOST];
static size_t range_count;
static struct addresses marks[MARKS];
static uint64_t all, reached[MOST];
static uint64_t closed_since, longest_closed, vector_since, longest_entry;
static int is_closed, is_entered, is_counting = 1;
static FILE *out;

static void write_counts(void)
{
	if (!out)
		return;
	fprintf(out, "%llu", (unsigned long long)all);
	for (size_t i = 0; i < range_count; i++)
		fprintf(out, " %llu", (unsigned long long)ranges[i].executed);
	for (size_t i = 0; i < marks[AT].count; i++)
		fprintf(out, " %llu", (unsigned long long)reached[i]);
	fprintf(out, " %llu %llu\n", (unsigned long long)longest_closed,
		(unsigned long long)longest_entry);
	fclose(out);
	out = NULL;
}

static void on_block(unsigned vcpu, void *data)
{
	const struct block *const block = data;

	(void)vcpu;
	if (!is_counting)
		return;
	all += block->all;
	for (size_t i = 0; i < range_count; i++)
		ranges[i].executed += block->in_range[i];
}

static int is_marked(enum mark mark, uint64_t address, size_t *index)
{
	for (size_t i = 0; i < marks[mark].count; i++) {
		if (marks[mark].at[i] == address) {
			*index = i;
			return 1;
		}
	}
	return 0;
}

static uint64_t longer(uint64_t longest, uint64_t since, uint64_t until)
{
	return until - since > longest ? until - since : longest;
}

static void begin(void)
{
	is_counting = 1;
	all = longest_closed = longest_entry = 0;
	is_closed = is_entered = 0;
	memset(reached, 0, sizeof reached);
	for (size_t i = 0; i < range_count; i++)
		ranges[i].executed = 0;
}

/* The whole block of the instruction has been counted by now. */
static void on_mark(unsigned vcpu, void *data)
{
	const struct place *const place = data;
	const uint64_t here = all - place->behind;
	size_t index;

	(void)vcpu;
	if (is_marked(AT, place->address, &index))
		reached[index] += (uint64_t)is_counting;
	if (is_marked(CLOSE, place->address, &index) && !is_closed) {
		is_closed = 1;
		closed_since = here;
	}
	if (is_marked(OPEN, place->address, &index) && is_closed) {
		is_closed = 0;
		longest_closed = longer(longest_closed, closed_since, here);
	}
	if (is_marked(VECTOR, place->address, &index)) {
		is_entered = 1;
		vector_since = here;
	}
	if (is_marked(SERVE, place->address, &index) && is_entered) {
		is_entered = 0;
		longest_entry = longer(longest_entry, vector_since, here);
	}
	if (is_marked(BEGIN, place->address, &index))
		begin();
	if (is_marked(END, place->address, &index)) {
		is_counting = 0;
		write_counts();
	}
}

static void mark(struct qemu_plugin_insn *insn, uint64_t address, uint64_t behind)
{
	size_t index;

	for (enum mark kind = AT; kind < MARKS; kind++) {
		if (!is_marked(kind, address, &index))
			continue;
		struct place *const place = malloc(sizeof *place);
		if (!place)
			abort();
		*place = (struct place){ address, behind };
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, 0, place);
		return;
	}
}

/* The translator does not report when it discards blocks: they are never freed. */
static void on_translation(uint64_t id, struct qemu_plugin_tb *tb)
{
	const size_t insns = qemu_plugin_tb_n_insns(tb);
	struct block *const block = calloc(1, sizeof *block);

	(void)id;
	if (!block)
		abort();
	block->all = insns;
	for (size_t i = 0; i < insns; i++) {
		struct qemu_plugin_insn *const insn = qemu_plugin_tb_get_insn(tb, i);
		const uint64_t address = qemu_plugin_insn_vaddr(insn);
		for (size_t r = 0; r < range_count; r++)
			block->in_range[r] += address >= ranges[r].low && address < ranges[r].high;
		mark(insn, address, insns - i);
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, 0, block);
}

static void at_end(uint64_t id, void *data)
{
	(void)id;
	(void)data;
	if (!marks[END].count)
		write_counts();
}

static int take_range(const char *value)
{
	char *behind;

	if (range_count == MOST)
		return -1;
	ranges[range_count].low = strtoull(value, &behind, 0);
	if (*behind != '-')
		return -1;
	ranges[range_count++].high = strtoull(behind + 1, NULL, 0);
	return 0;
}

/* 0 if the argument was understood. */
static int take(const char *argument)
{
	if (!strncmp(argument, "range=", 6))
		return take_range(argument + 6);
	if (!strncmp(argument, "out=", 4)) {
		out = fopen(argument + 4, "w");
		return 0;
	}
	for (size_t i = 0; i < MARKS; i++) {
		const size_t length = strlen(mark_names[i]);
		if (strncmp(argument, mark_names[i], length) || marks[i].count == MOST)
			continue;
		marks[i].at[marks[i].count++] = strtoull(argument + length, NULL, 0);
		return 0;
	}
	return -1;
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (take(argv[i])) {
			fprintf(stderr, "counter: cannot use '%s': see the head of %s\n", argv[i],
				__FILE__);
			return -1;
		}
	}
	if (!out) {
		fprintf(stderr, "counter: needs out=FILE to be written (%s)\n", strerror(errno));
		return -1;
	}
	is_counting = !marks[BEGIN].count;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, at_end, NULL);
	return 0;
}
