/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Interrupts and the scheduler. The decrementer stands for all sources: ticks and the device each
 * have a time when they are due, and it is set to the earlier one. All exceptions come here from
 * start.S with interrupts shut out, on the stack of whom they interrupted:
 *
 *	decrementer	serve the device if it is due, nested or not; note a tick; if no other
 *			interrupt was interrupted, go on with the task that is due now
 *	call		a task waits for a packet, ends and another begins in its place, or lets
 *			others go first
 *	unavailable	a task used vectors where they are off: the scheme's to decide
 *
 * A task that gets the processor back continues where schedule() left it, on its own stack.
 */
#include "scheme.h"

/* A run without a finished packet for this long, in 1/1000 s, is stopped. */
enum { STALLED_MS = 20 };
/* Between interrupts when registers are compared: ticks of the time base of 60 instructions. */
enum { LEAST_GAP = 8, GAPS = 32 };
enum { MOST_PENDING = 8 };
/* Less often than once in any run: for runs without interrupts. */
#define NEVER_HZ 1u

struct counts counts;
struct task *running;
struct context *now;

static struct task tasks[MOST_TASKS];
static uint8_t stacks[MOST_TASKS][STACK_BYTES] __attribute__((aligned(16)));
static struct context levels[MOST_DEPTH + 1];
static uint32_t task_count, depth, is_turn_over;
/* Anything but 0, until the seed is set. */
static uint32_t random_state = 1;
static uint32_t next_tick_at, next_interrupt_at, began_at, woken;

/* Marsaglia's xorshift with shifts 13, 17 and 5. */
uint32_t random_below(uint32_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state % limit;
}

/* Called once before what is counted and once after it; known to the plugin by name. */
void __attribute__((noinline)) counting_begins(void)
{
	__asm__ volatile("");
}

void __attribute__((noinline)) counting_ends(void)
{
	__asm__ volatile("");
}

static uint32_t gap(void)
{
	if (SETTINGS->mode != MODE_LOAD && SETTINGS->mode != MODE_YIELD)
		return LEAST_GAP + random_below(GAPS);
	return TIMEBASE_HZ / (SETTINGS->interrupts_per_s ? SETTINGS->interrupts_per_s : NEVER_HZ);
}

static int is_due(uint32_t at)
{
	return (int32_t)(timebase() - at) >= 0;
}

static void arm(void)
{
	const uint32_t tick = next_tick_at - timebase(), interrupt = next_interrupt_at - timebase();
	const int32_t next = (int32_t)((int32_t)tick < (int32_t)interrupt ? tick : interrupt);
	set_decrementer(next < 1 ? 1 : (uint32_t)next);
}

/* The first of highest priority, beginning behind who runs if its turn is over. */
static struct task *choose(void)
{
	struct task *best = running;
	uint32_t at = running->number;

	if (running->state != READY)
		best = &tasks[0];
	for (uint32_t i = 0; i < task_count; i++) {
		at = at + 1 == task_count ? 0 : at + 1;
		struct task *const task = &tasks[at];
		if (task->state != READY)
			continue;
		if (task->priority > best->priority ||
		    (is_turn_over && best == running && task->priority == best->priority))
			best = task;
	}
	is_turn_over = 0;
	return best;
}

static void schedule(void)
{
	struct task *const from = running, *const to = choose();

	if (to == from)
		return;
	counts.switches++;
	scheme_switch(from, to);
	running = to;
	now = &to->context;
	switch_stacks(&from->stopped_at, to->stopped_at);
}

/* Lays out a stack as if an interrupt had stopped the task before its first instruction. */
static void begin(struct task *task)
{
	struct frame *const frame = (struct frame *)(task->stack_top - sizeof *frame);
	/* Stack space that switch_stacks pops. */
	uint32_t *const saved = (uint32_t *)((uint32_t)frame - 96);

	for (uint32_t i = 0; i < 24; i++)
		saved[i] = 0;
	*frame = (struct frame){ 0 };
	frame->back = task->stack_top;
	frame->link = (uint32_t)exception_exit;
	frame->srr0 = (uint32_t)task_start;
	frame->srr1 = (machine_state() & ~MSR_VEC) | MSR_EE | scheme_begin(task);
	frame->r3_to_r12[0] = (uint32_t)task;
	task->frame = frame;
	task->stopped_at = (uint32_t)saved;
}

/* A packet for one of those who wait for them. */
static void wake(void)
{
	const uint32_t waiting = SETTINGS->tasks - SETTINGS->busy;

	if (!waiting)
		return;
	woken = SETTINGS->mode == MODE_LOAD ? (woken + 1) % waiting : random_below(waiting);
	struct task *const task = &tasks[1 + SETTINGS->busy + woken];
	if (task->pending >= MOST_PENDING || task->state == SUSPENDED) {
		counts.dropped++;
		return;
	}
	task->pending++;
	task->state = READY;
}

/* Start of the device service, known to the plugin by name. */
void __attribute__((noinline)) serve(void)
{
	const uint32_t mode = SETTINGS->mode;
	const int nests = (mode == MODE_NESTED || mode == MODE_ALL) && depth < MOST_DEPTH;

	counts.interrupts++;
	next_interrupt_at += gap();
	if (is_due(next_interrupt_at))
		next_interrupt_at = timebase() + gap();
	if (mode != MODE_NESTED)
		wake();
	if (mode == MODE_SLICED || mode == MODE_ALL)
		is_turn_over = 1;
	if (!nests)
		return;
	arm();
	let_in();
	interrupt_work(&levels[depth]);
	shut_out();
}

static void watch(void)
{
	const uint32_t end = SETTINGS->check ? SETTINGS->switches : 0;

	if (end ? counts.switches + counts.interrupts >= end :
		  timebase() - began_at >= SETTINGS->duration_ms * (TIMEBASE_HZ / 1000))
		end_run(0);
	if (timebase() - last_packet_at >= STALLED_MS * (TIMEBASE_HZ / 1000))
		end_run(1);
}

void on_decrementer(struct frame *frame);
void on_decrementer(struct frame *frame)
{
	struct context *const interrupted = now;

	oracle_leave(interrupted, frame);
	if (!depth)
		running->frame = frame;
	depth++;
	counts.deepest = depth > counts.deepest ? depth : counts.deepest;
	now = &levels[depth];
	if (is_due(next_interrupt_at))
		serve();
	if (is_due(next_tick_at)) {
		next_tick_at += TIMEBASE_HZ / SETTINGS->ticks_per_s;
		is_turn_over = 1;
	}
	watch();
	arm();
	depth--;
	now = interrupted;
	if (!depth)
		schedule();
	oracle_return(now, frame);
}

void on_call(struct frame *frame);
void on_call(struct frame *frame)
{
	oracle_leave(now, frame);
	running->frame = frame;
	is_turn_over |= frame->r3_to_r12[0] == CALL_YIELD;
	if (frame->r3_to_r12[0] == CALL_END) {
		counts.born++;
		scheme_end(running);
		running->context.is_inside = running->context.is_kept = 0;
		frame->srr0 = (uint32_t)task_start;
		frame->srr1 = (frame->srr1 & ~MSR_VEC) | scheme_begin(running);
		frame->r3_to_r12[0] = (uint32_t)running;
	}
	if (!running->is_busy && --running->pending == 0)
		running->state = WAITING;
	schedule();
	oracle_return(now, frame);
}

void on_unexpected(const struct frame *frame);
void on_unexpected(const struct frame *frame)
{
	print("unexpected exception at ");
	print_hex(frame->srr0);
	print(", state ");
	print_hex(frame->srr1);
	print("\n");
	machine_end();
}

void on_unavailable(struct frame *frame);
void on_unavailable(struct frame *frame)
{
	if (depth)
		on_unexpected(frame);
	counts.traps++;
	running->frame = frame;
	if (!scheme_trap(running)) {
		counts.suspended++;
		running->state = SUSPENDED;
		running->context.is_inside = 0;
		schedule();
	}
	oracle_return(now, frame);
}

/* The first task is the background; then those who are always busy, then those who wait. */
static void add_tasks(void)
{
	const struct settings *const s = SETTINGS;

	task_count = 1 + s->tasks;
	for (uint32_t i = 0; i < task_count; i++) {
		struct task *const task = &tasks[i];
		task->number = i;
		task->stack_top = (uint32_t)stacks[i] + STACK_BYTES - 16;
		task->is_busy = i <= s->busy;
		task->state = task->is_busy ? READY : WAITING;
		task->priority = i == 0 ? 0 : task->is_busy ? 1 : 2;
		if (s->mode == MODE_PRIORITY && !task->is_busy)
			task->priority = 1 + i;
		task->is_flagged = i + s->unflagged < task_count;
		begin(task);
	}
}

void kernel_start(void)
{
	random_state = SETTINGS->seed;
	oracle_prepare();
	add_tasks();
	began_at = last_packet_at = timebase();
	next_interrupt_at = began_at + gap();
	next_tick_at = began_at + TIMEBASE_HZ / SETTINGS->ticks_per_s;
	arm();
	running = &tasks[0];
	running = choose();
	now = &running->context;
	counting_begins();
	uint32_t nowhere;
	switch_stacks(&nowhere, running->stopped_at);
	for (;;)
		;
}

static void print_count(const char *name, uint32_t count)
{
	print(" ");
	print(name);
	print("=");
	print_number(count);
}

static void print_settings(void)
{
	const struct settings *const s = SETTINGS;

	print_count("mode", s->mode);
	print_count("check", s->check);
	print_count("ticks_per_s", s->ticks_per_s);
	print_count("interrupts_per_s", s->interrupts_per_s);
	print_count("tasks", s->tasks);
	print_count("busy", s->busy);
	print_count("pattern", s->pattern);
	print_count("bytes", s->bytes);
	print_count("path", s->path);
	print_count("life", s->life);
	print_count("unflagged", s->unflagged);
	print_count("duration_ms", s->duration_ms);
	print_count("enough", s->switches);
	print_count("seed", s->seed);
}

void end_run(int is_stalled)
{
	counting_ends();
	print("RESULT scheme=");
	print(scheme_name);
	print_settings();
	print_count("switches", counts.switches);
	print_count("interrupts", counts.interrupts);
	print_count("deepest", counts.deepest);
	print_count("dropped", counts.dropped);
	print_count("packets", counts.packets);
	print_count("kilobytes", counts.bytes >> 10);
	print_count("saves", counts.saves);
	print_count("restores", counts.restores);
	print_count("needed", counts.needed);
	print_count("refused", counts.refused);
	print_count("traps", counts.traps);
	print_count("suspended", counts.suspended);
	print_count("born", counts.born);
	print_count("compared", counts.compared);
	print_count("corrupt", counts.corrupt);
	print_count("wrong", counts.wrong);
	print_count("stalled", (uint32_t)is_stalled);
	print("\n");
	machine_end();
}
