/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A plugin for QEMU's user-mode emulators. It simulates caches, TLBs and branch predictors (cpu.h)
 * for an unmodified program with all its threads and child processes, and writes the counts to
 * files (sheet.h).
 *
 * Arguments, in addition to the description of a machine (machine.h):
 *
 *	out=		the directory for the files
 *	program=	the program that the emulator was started with
 *	plugin=		the file of this plugin
 *	over=		a file that will exist once no emulator may start any more
 *	keep=		number of emulator arguments that precede those of the program
 *	spots=		a file for counts per instruction (spots.h), which are optional
 *	probe=		a file to create before exiting at once, to test whether this emulator
 *			loads the plugin
 *
 * The plugin is not linked with a C library: it uses the emulator's.
 *
 * Each thread has its own processor, whose caches are not shared with other threads; a forked
 * process starts with a copy of its parent's caches. All instructions of a translated block are
 * counted when the block begins. If QEMU splits an access into several at consecutive addresses,
 * for example a vector access, they count as one. An x86 instruction with a repeat prefix counts
 * once, although QEMU runs each repetition as a block; the data accesses of all repetitions count.
 */
#define _GNU_SOURCE
#include "branches.h"
#include "follow.h"
#include "qemu_plugin.h"
#include "sheet.h"
#include "spots.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int qemu_plugin_version = 1;

/* An instruction that accesses data, with the kind of its last access. */
struct site {
	qemu_plugin_meminfo_t info;
	uint8_t bytes;
	bool is_store;
};

/*
 * Keeps the callbacks without spots from being inlined into those with spots. The compiler inlines
 * the model into the callbacks without spots only if it has no other caller.
 */
#define APART static __attribute__((noinline))

/* A value that no access has: its size would be 2^255 bytes. */
#define NO_INFO UINT32_MAX

/* A translated block: consecutive instructions, of which at most the last one is a branch. */
struct block {
	uint64_t first, last, after;
	uint32_t instructions;
	enum branch branch;
	/* Whether it is a single x86 instruction with a repeat prefix. */
	bool is_repeat;
	/* Address of the branch. */
	uint64_t address;
	struct site sites[];
};

/* A block and a site with counts per instruction. */
struct hot_block {
	struct block *block;
	/* Spots of the first and the last instruction; `weight` is added to the first one. */
	struct spot *first, *last;
	uint32_t weight;
};

struct hot_site {
	struct site site;
	struct spot *spot;
};

struct thread {
	struct cpu cpu;
	const struct block *block;
	/* Last access in the current block, which the next access may continue. */
	const struct site *site;
	uint64_t end;
	/* The thread's counters; with spots, also its counts since the last attribution. */
	uint64_t *row, recent[COUNTERS];
	/* Spot that the branch of the current block is attributed to. */
	struct spot *last_spot;
	/* Whether the thread is in a call of execve that the kernel handles. */
	bool is_leaving;
};

static struct machine machine;
static struct thread *threads[SHEET_ROWS];
static struct sheet *sheet;
/* NULL without counts per instruction. */
static struct spots *spots;
/* Process that owns the sheet. */
static pid_t owner;
static const char *out;
static branch_reader *read_branch;
static struct follow follow;
/* Address of the program's address 0 in this process. */
static uint64_t base;

static void fail(const char *what)
{
	fprintf(stderr, "linerate: %s\n", what);
	_exit(1);
}

/* Assigns a thread its row in this process's sheet. */
static void begin_row(struct thread *t, unsigned vcpu)
{
	t->row = sheet_row(sheet, vcpu);
	t->cpu.counts = spots ? t->recent : t->row;
}

static struct thread *new_thread(unsigned vcpu)
{
	struct thread *const t = calloc(1, sizeof *t);

	if (!t || !cpu_init(&t->cpu, &machine, NULL))
		fail("out of memory for a thread's caches");
	begin_row(t, vcpu);
	sheet_use_thread(sheet, vcpu);
	return threads[vcpu % SHEET_ROWS] = t;
}

/* A new thread has cold caches, even if it reuses the number of a finished thread. */
static void on_thread(uint64_t id, unsigned vcpu)
{
	struct thread *const old = threads[vcpu % SHEET_ROWS];

	(void)id;
	if (old && vcpu < SHEET_ROWS) {
		cpu_free(&old->cpu);
		free(old);
		threads[vcpu] = NULL;
	}
}

APART void on_block(unsigned vcpu, void *data)
{
	const struct block *const b = data;
	struct thread *t = threads[vcpu % SHEET_ROWS];
	const struct block *before;

	if (!t)
		t = new_thread(vcpu);
	before = t->block;
	if (before && before->branch != NO_BRANCH)
		cpu_branch(&t->cpu, before->branch, before->address, before->after, b->first);
	/* Only a repetition follows on itself: any other loop ends in a branch. */
	if (!b->is_repeat || !before || before->address != b->first)
		t->cpu.counts[INSTRUCTIONS] += b->instructions;
	cpu_fetch(&t->cpu, b->first, b->last);
	t->block = b;
	t->site = NULL;
}

/* Adds the thread's counts since the last call to a spot and to the thread's row. */
static void attribute(struct thread *t, struct spot *spot, enum counter first, enum counter end)
{
	for (unsigned i = first; i < end; i++) {
		if (!t->recent[i])
			continue;
		t->row[i] += t->recent[i];
		spot_add(spot, (enum counter)i, t->recent[i]);
		t->recent[i] = 0;
	}
}

/* Like on_block(), with spots. The branch counted here is that of the previous block. */
static void on_hot_block(unsigned vcpu, void *data)
{
	const struct hot_block *const hot = data;
	struct thread *t;

	on_block(vcpu, hot->block);
	t = threads[vcpu % SHEET_ROWS];
	if (t->recent[INSTRUCTIONS]) {
		t->row[INSTRUCTIONS] += t->recent[INSTRUCTIONS];
		t->recent[INSTRUCTIONS] = 0;
		spot_add(hot->first, INSTRUCTIONS, hot->weight);
	}
	if (t->last_spot)
		attribute(t, t->last_spot, BRANCHES, COUNTERS);
	attribute(t, hot->first, LOADS, BRANCHES);
	t->last_spot = hot->last;
}

static void learn(struct site *s, qemu_plugin_meminfo_t info)
{
	s->info = info;
	s->bytes = (uint8_t)(1u << qemu_plugin_mem_size_shift(info));
	s->is_store = qemu_plugin_mem_is_store(info);
}

APART void on_data(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	struct site *const s = data;
	struct thread *const t = threads[vcpu % SHEET_ROWS];
	const bool was_store = s->is_store;

	if (info != s->info)
		learn(s, info);
	if (s != t->site || address != t->end || s->is_store != was_store)
		t->cpu.counts[s->is_store ? STORES : LOADS]++;
	cpu_touch(&t->cpu, address, s->bytes, s->is_store);
	t->site = s;
	t->end = address + s->bytes;
}

/* Like on_data(), with spots. */
static void on_hot_data(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	struct hot_site *const s = data;

	on_data(vcpu, info, address, &s->site);
	attribute(threads[vcpu % SHEET_ROWS], s->spot, LOADS, BRANCHES);
}

/* Classifies a block by its last instruction. */
static void classify(struct block *b, const struct qemu_plugin_insn *last)
{
	char *const text = read_branch ? qemu_plugin_insn_disas(last) : NULL;

	b->branch = text ? read_branch(text) : NO_BRANCH;
	b->is_repeat = text && b->instructions == 1 && has_repeat_prefix(text);
	if (!text)
		sheet->has_branches = 0;
	free(text);
}

/*
 * Saves the first bytes of a block's last instruction; only the last one may be unknown to QEMU.
 * Stops at the end of the page, because the length of an unknown instruction is not known.
 */
static void keep_instruction(const struct qemu_plugin_insn *insn)
{
	enum { PAGE = 4096 };
	const uint8_t *const at = qemu_plugin_insn_haddr(insn);
	const size_t left = PAGE - ((uintptr_t)at & (PAGE - 1));

	sheet->insn_bytes = left < INSN_BYTES ? (uint32_t)left : INSN_BYTES;
	memcpy(sheet->insn, at, sheet->insn_bytes);
}

static void watch_data(struct qemu_plugin_insn *insn, on_access *callback, void *site)
{
	qemu_plugin_register_vcpu_mem_cb(insn, callback, QEMU_PLUGIN_NO_REGISTERS,
					 QEMU_PLUGIN_READS | QEMU_PLUGIN_WRITES, site);
}

/*
 * Gives each instruction of a block its own spot or, if there is no room left, gives all of them
 * the spot that spots_rest() returns.
 */
static void watch_spots(struct block *b, struct qemu_plugin_tb *tb, size_t insns)
{
	struct hot_block *const hot = malloc(sizeof *hot);
	struct hot_site *const sites = malloc(insns * sizeof *sites);
	struct spot *const own = spots_block(spots, (uint32_t)insns);

	if (!sites || !hot)
		fail("out of memory for translated blocks");
	for (size_t i = 0; i < insns; i++) {
		struct qemu_plugin_insn *const insn = qemu_plugin_tb_get_insn(tb, i);
		sites[i].site = (struct site){ .info = NO_INFO };
		sites[i].spot = own ? own + i : spots_rest(spots);
		if (own)
			spots_place(spots, own + i, qemu_plugin_insn_vaddr(insn),
				    (uint64_t)(uintptr_t)qemu_plugin_insn_haddr(insn));
		watch_data(insn, on_hot_data, &sites[i]);
	}
	*hot = (struct hot_block){ b, sites[0].spot, sites[insns - 1].spot,
				   own ? 1 : (uint32_t)insns };
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_hot_block, QEMU_PLUGIN_NO_REGISTERS, hot);
}

static void on_translation(uint64_t id, struct qemu_plugin_tb *tb)
{
	const size_t insns = qemu_plugin_tb_n_insns(tb);
	struct block *const b = malloc(sizeof *b + (spots ? 0 : insns) * sizeof *b->sites);
	const struct qemu_plugin_insn *last;

	(void)id;
	if (!b)
		fail("out of memory for translated blocks");
	for (size_t i = 0; i < insns && !spots; i++) {
		b->sites[i] = (struct site){ .info = NO_INFO };
		watch_data(qemu_plugin_tb_get_insn(tb, i), on_data, &b->sites[i]);
	}
	if (spots)
		watch_spots(b, tb, insns);
	last = qemu_plugin_tb_get_insn(tb, insns - 1);
	b->instructions = (uint32_t)insns;
	b->first = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
	b->address = qemu_plugin_insn_vaddr(last);
	b->after = b->address + qemu_plugin_insn_size(last);
	b->last = b->after - 1;
	classify(b, last);
	base = (uint64_t)(uintptr_t)qemu_plugin_insn_haddr(last) - b->address;
	keep_instruction(last);
	if (!spots)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_NO_REGISTERS, b);
}

static void next_program(bool is_next)
{
	/* In order with the check for the file `over`: linerate creates it, then reads the state. */
	__atomic_store_n(&sheet->state, is_next ? SHEET_EXECUTES : SHEET_RUNS, __ATOMIC_SEQ_CST);
}

static void on_call(uint64_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2,
		    uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
	struct thread *const t = threads[vcpu % SHEET_ROWS];
	bool is_leaving = number == follow.execveat;

	(void)id, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
	if (number == follow.execve)
		is_leaving = follow_exec(&follow, base, a1, a2, a3, next_program);
	if (!is_leaving || !t)
		return;
	t->is_leaving = true;
	sheet_add_unfollowed(sheet, 1);
}

static void on_end(uint64_t id, void *data)
{
	(void)id, (void)data;
	sheet->state = SHEET_ENDED;
}

/*
 * Starts a new sheet in a forked process: the counts so far are in its parent's file. Without a
 * file (other user or root directory, the measurement is over, no free descriptor), the process
 * runs on uncounted, and its parent's file says so.
 */
static void begin_child(void)
{
	struct sheet *const parent = sheet;

	sheet = sheet_new(out);
	if (!sheet) {
		sheet = sheet_private();
		if (!sheet)
			fail("out of memory for a process's counts");
		sheet_add_unfollowed(parent, 1);
		if (spots)
			spots_detach(spots);
	}
	owner = getpid();
	sheet->has_branches = parent->has_branches;
	for (unsigned i = 0; i < SHEET_ROWS; i++)
		if (threads[i])
			begin_row(threads[i], i);
}

static void on_result(uint64_t id, unsigned vcpu, int64_t number, int64_t result)
{
	struct thread *const t = threads[vcpu % SHEET_ROWS];

	(void)id, (void)number, (void)result;
	if (spots)
		spots_forget_files();
	/* The call of execve failed: it would not return otherwise. */
	if (t && t->is_leaving) {
		t->is_leaving = false;
		sheet_add_unfollowed(sheet, -1);
	}
	if (getpid() == owner)
		return;
	begin_child();
	sheet_use_thread(sheet, vcpu);
}

static const char *value_of(const char *argument, const char *key)
{
	const size_t length = strlen(key);

	return strncmp(argument, key, length) ? NULL : argument + length;
}

/* Plugin arguments that are used only during installation. */
struct arguments {
	const char *program, *spots;
	int keep;
};

static const char *take(struct arguments *a, const char *argument)
{
	const char *value;

	if ((value = value_of(argument, "probe="))) {
		const int fd = open(value, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		_exit(fd < 0);
	}
	if ((value = value_of(argument, "out=")))
		out = strdup(value);
	else if ((value = value_of(argument, "program=")))
		a->program = value;
	else if ((value = value_of(argument, "plugin=")))
		follow.plugin = strdup(value);
	else if ((value = value_of(argument, "over=")))
		follow.over = strdup(value);
	else if ((value = value_of(argument, "keep=")))
		a->keep = atoi(value);
	else if ((value = value_of(argument, "spots=")))
		a->spots = value;
	else
		return machine_take(&machine, argument);
	return NULL;
}

static const char *prepare(const char *target, int count, char **values)
{
	struct arguments a = { 0 };
	const char *wrong = NULL;

	for (int i = 0; i < count && !wrong; i++)
		wrong = take(&a, values[i]);
	if (!wrong)
		wrong = machine_check(&machine);
	if (!wrong && (!out || !a.program || !follow.plugin || !follow.over || !a.keep))
		wrong = "out, program, plugin, over and keep are required";
	if (!wrong)
		wrong = follow_init(&follow, target, a.program, a.keep);
	if (!wrong && a.spots && !(spots = spots_open(a.spots)))
		wrong = "cannot create the file for the counts per instruction (--hot), a sparse "
			"file of up to 640 MiB";
	/* Last, because the directory may be removed as soon as the file is there. */
	if (!wrong && !(sheet = sheet_new(out)))
		wrong = "cannot create the count file";
	return wrong;
}

int qemu_plugin_install(uint64_t id, const void *info, int count, char **values)
{
	const char *const target = ((const struct qemu_plugin_info *)info)->target_name;
	const char *const wrong = prepare(target, count, values);

	if (wrong) {
		fprintf(stderr, "linerate: %s\n", wrong);
		return -1;
	}
	read_branch = branches_of(target);
	sheet->has_branches = read_branch != NULL;
	owner = getpid();
	qemu_plugin_register_vcpu_init_cb(id, on_thread);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_vcpu_syscall_cb(id, on_call);
	qemu_plugin_register_vcpu_syscall_ret_cb(id, on_result);
	qemu_plugin_register_atexit_cb(id, on_end, NULL);
	return 0;
}
