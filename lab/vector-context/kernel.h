/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A kernel as small as the question allows: tasks with priorities and turns, interrupts that may
 * nest, and vector registers in the hands of one scheme (scheme.h). Tasks run privileged and share
 * memory. Leaves out address translation, floating point, and tasks that wait for each other.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include <linerate/vector_context.h>
#include <stdint.h>

#include "settings.h"

enum { MOST_TASKS = 18, STACK_BYTES = 8192, MOST_DEPTH = 7 };

/* Stack frame of an exception, as laid out by start.S. */
struct frame {
	uint32_t back, link, r0, r3_to_r12[10], lr, cr, ctr, xer, srr0, srr1, unused;
};
_Static_assert(sizeof(struct frame) == 80, "start.S steps by as much");

/* An interruptible context: a task, or the service of an interrupt. */
struct context {
	/* Its registers when it was interrupted, kept for comparison. */
	struct lr_vec_area shadow;
	uint32_t is_kept;
	/* Whether it is between taking vector registers and giving them back. */
	volatile uint32_t is_inside;
	/* For schemes in which an interrupt saves what it finds. */
	struct lr_vec_nest nest;
};

enum state { READY, WAITING, SUSPENDED };

struct task {
	/* Known to start.S: where it stopped, and where its stack begins. */
	uint32_t stopped_at, stack_top;
	/* Frame of the exception that interrupted it. */
	struct frame *frame;
	enum state state;
	uint32_t number, priority;
	/* Whether it always has a packet; otherwise the number of packets announced to it. */
	uint32_t is_busy, pending;
	/* Whether it has said that it uses vectors. */
	uint32_t is_flagged;
	struct context context;
	/* For schemes that save the registers of tasks; whether they have been since it began. */
	struct lr_vec_area area;
	uint32_t is_saved;
	struct lr_vec_task vectors;
};

/* System calls of tasks: wait for a packet, end, yield. */
enum { CALL_WAIT, CALL_END, CALL_YIELD };

/* Counted over a run. */
struct counts {
	uint32_t switches, interrupts, deepest, dropped;
	uint32_t packets, bytes, wrong;
	uint32_t saves, restores, needed, refused, traps, suspended, born;
	uint32_t compared, corrupt;
};

extern struct counts counts;

/* A task that counts may be interrupted by another that counts the same. */
#define COUNT(what, more) __atomic_fetch_add(&counts.what, more, __ATOMIC_RELAXED)

extern struct task *running;
extern struct context *now;

/* Begins the run; returns never. */
void kernel_start(void) __attribute__((noreturn));

/* Ends the run, because it is complete or stalled. */
void end_run(int is_stalled) __attribute__((noreturn));

/* A number below limit, the next of the seed's. */
uint32_t random_below(uint32_t limit);

/* In start.S. */
uint32_t vectors_same(const struct lr_vec_area *area);
void switch_stacks(uint32_t *stopped_at, uint32_t go_on_at);
void exception_exit(void);
void task_start(void);
void call_kernel(uint32_t what);
void let_in(void);
void shut_out(void);

/* In work.c. */
void work_prepare(void);
void task_main(struct task *task) __attribute__((noreturn));
void interrupt_work(struct context *context);
extern uint32_t last_packet_at;

/* In oracle.c. */
void oracle_prepare(void);
void oracle_leave(struct context *context, const struct frame *frame);
void oracle_return(struct context *context, const struct frame *frame);
void section_open(struct context *context);
void section_close(struct context *context);
void section_goes_on(struct context *context);

#define HARNESS __attribute__((noinline, section(".text.harness")))
#define CONTEXT __attribute__((noinline, section(".text.context")))

#endif
