// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A Linux module that, when loaded, compares every variant of the kernels with Linux' own
 * csum_partial() and csum_partial_copy_nocheck() on random buffers, and checks what lr_linux.h
 * promises about contexts. It prints its findings, ending with a RESULT line, and stays loaded only
 * if everything agreed. It has no other function and measures no time.
 */
#include "lr_linux.h"

#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <net/checksum.h>

#undef pr_fmt
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

/* More than a jumbo frame, and more than two steps of lr_linux_csum. */
#define MAX_BYTES 9000
/* Buffers begin at random offsets below this. */
#define OFFSETS 64
/* Guard bytes around a destination that must not change. */
#define GUARD 64
#define GUARD_BYTE 0xa5
#define ROOM (GUARD + OFFSETS + MAX_BYTES + GUARD)

static unsigned int buffers = 100000;
module_param(buffers, uint, 0444);
MODULE_PARM_DESC(buffers, "number of random buffers to compare each variant on");

static u8 *source, *ours, *theirs;
static struct rnd_state random;

static u32 random_below(u32 bound)
{
	return prandom_u32_state(&random) % bound;
}

/* Mostly short lengths and lengths of network packets, sometimes anything. */
static size_t random_bytes(void)
{
	const u32 kind = random_below(10);

	return random_below(kind < 3 ? 128 : kind < 9 ? 1600 : MAX_BYTES + 1);
}

/* Random bytes, all ones (which always carry), or zeros with a single 1. */
static void fill(u8 *at, size_t bytes)
{
	switch (random_below(4)) {
	case 0:
		memset(at, 0xff, bytes);
		break;
	case 1:
		memset(at, 0, bytes);
		if (bytes)
			at[random_below(bytes)] = 1;
		break;
	default:
		prandom_bytes_state(&random, at, bytes);
	}
}

static u16 folded(u32 sum)
{
	return (__force u16)~csum_fold((__force __wsum)sum);
}

/*
 * Linux starts the sum of a copy at 0 or ~0, depending on the architecture. These are congruent
 * modulo 65535.
 */
static bool are_congruent(u32 a, u32 b)
{
	return folded(a) % 0xffff == folded(b) % 0xffff;
}

struct differences {
	unsigned int sums, copies;
};

/* Sums and copies one buffer with the variant and with Linux, and counts differences. */
static void compare_buffer(const struct lr_variant *v, struct differences *found)
{
	const size_t bytes = random_bytes();
	const size_t to = GUARD + random_below(OFFSETS);
	const u32 seed = prandom_u32_state(&random);
	u8 *const from = source + random_below(OFFSETS);
	u32 sum, copied;

	fill(from, bytes);
	memset(ours, GUARD_BYTE, to + bytes + GUARD);
	memset(theirs, GUARD_BYTE, to + bytes + GUARD);
	if (v->vector && !lr_linux_begin()) {
		found->sums++;
		return;
	}
	sum = v->csum_partial(from, bytes, seed);
	copied = v->copy_csum_partial(ours + to, from, bytes, 0);
	if (v->vector)
		lr_linux_end();
	if (folded(sum) != folded((__force u32)csum_partial(from, bytes, (__force __wsum)seed)))
		found->sums++;
	if (!are_congruent(copied, (__force u32)csum_partial_copy_nocheck(from, theirs + to,
									  bytes)) ||
	    memcmp(ours, theirs, to + bytes + GUARD))
		found->copies++;
}

static bool compare(const struct lr_variant *v)
{
	struct differences found = { 0, 0 };
	unsigned int i;

	for (i = 0; i < buffers; i++) {
		compare_buffer(v, &found);
		cond_resched();
	}
	pr_info("%s: %u buffers, %u sums and %u copies differ\n", v->name, buffers, found.sums,
		found.copies);
	return !found.sums && !found.copies;
}

/* A dummy vector variant that counts its calls, and those made with preemption enabled. */
static atomic_t spied, spied_preemptible;

static void spy(void)
{
	atomic_inc(&spied);
	if (preemptible())
		atomic_inc(&spied_preemptible);
}

static uint32_t spy_csum(const void *src, size_t bytes, uint32_t sum)
{
	spy();
	return lr_variant_find("portable")->csum_partial(src, bytes, sum);
}

static uint32_t spy_copy_csum(void *dst, const void *src, size_t bytes, uint32_t sum)
{
	spy();
	return lr_variant_find("portable")->copy_csum_partial(dst, src, bytes, sum);
}

static const struct lr_variant spying = {
	.name = "spy",
	.vector = 1,
	.compiled = 1,
	.csum_partial = spy_csum,
	.copy_csum_partial = spy_copy_csum,
};

/* Sums and copies this many bytes; returns the number of vector calls, or -1 on a wrong result. */
static int vector_calls(size_t bytes)
{
	const int before = atomic_read(&spied);
	const u16 want = folded((__force u32)csum_partial(source, bytes, 0));

	if (folded(lr_linux_csum(source, bytes, 0)) != want ||
	    folded(lr_linux_copy_csum(ours, source, bytes, 0)) != want ||
	    memcmp(ours, source, bytes))
		return -1;
	return atomic_read(&spied) - before;
}

struct interrupt {
	struct hrtimer timer;
	struct completion done;
	/* Whether vectors may be used in this interrupt, and the vector calls in it. */
	int may_use_vectors, calls;
};

static enum hrtimer_restart on_interrupt(struct hrtimer *timer)
{
	struct interrupt *const interrupt = container_of(timer, struct interrupt, timer);

	interrupt->may_use_vectors = lr_linux_begin();
	if (interrupt->may_use_vectors)
		lr_linux_end();
	interrupt->calls = in_hardirq() ? vector_calls(MAX_BYTES) : -1;
	complete(&interrupt->done);
	return HRTIMER_NORESTART;
}

static void set_up_timer(struct hrtimer *timer)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup_on_stack(timer, on_interrupt, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
#else
	hrtimer_init_on_stack(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	timer->function = on_interrupt;
#endif
}

static void call_in_interrupt(struct interrupt *interrupt)
{
	init_completion(&interrupt->done);
	set_up_timer(&interrupt->timer);
	hrtimer_start(&interrupt->timer, ns_to_ktime(NSEC_PER_MSEC), HRTIMER_MODE_REL_HARD);
	wait_for_completion(&interrupt->done);
	hrtimer_cancel(&interrupt->timer);
	destroy_hrtimer_on_stack(&interrupt->timer);
}

/*
 * Checks that vectors are used only for long buffers, in steps with preemption disabled, and only
 * where Linux allows it: in tasks and, on x86-64, in interrupts of code that does not use them in
 * the kernel. On a processor without vectors, not at all.
 */
static bool keep_to_contexts(void)
{
	const int has_vectors = lr_linux_begin();
	const int whole_steps = MAX_BYTES / LR_LINUX_STEP_BYTES;
	const int rest = MAX_BYTES % LR_LINUX_STEP_BYTES >= LR_LINUX_VECTOR_BYTES;
	const int expected = has_vectors ? 2 * (whole_steps + rest) : 0;
	struct interrupt interrupt;
	int in_task, below, in_interrupt;

	if (has_vectors)
		lr_linux_end();
	prandom_bytes_state(&random, source, MAX_BYTES);
	lr_linux_use(lr_variant_find("portable"), &spying);
	in_task = vector_calls(MAX_BYTES);
	below = vector_calls(LR_LINUX_VECTOR_BYTES - 1);
	call_in_interrupt(&interrupt);
	in_interrupt = interrupt.may_use_vectors ? expected : 0;
	lr_linux_select();
	pr_info("vectors taken: task %d of %d, short %d, interrupt %d of %d, preemptible %d\n",
		in_task, expected, below, interrupt.calls, in_interrupt,
		atomic_read(&spied_preemptible));
	return in_task == expected && !below && interrupt.calls == in_interrupt &&
	       (IS_ENABLED(CONFIG_X86_64) || !interrupt.may_use_vectors) &&
	       !atomic_read(&spied_preemptible);
}

/* Checks the selected variant in a task and in an interrupt. */
static bool selected_agree(void)
{
	struct interrupt interrupt;
	size_t bytes;

	for (bytes = 0; bytes <= MAX_BYTES; bytes++)
		if (vector_calls(bytes) < 0) {
			pr_err("the selected variant differs at %zu bytes\n", bytes);
			return false;
		}
	call_in_interrupt(&interrupt);
	return interrupt.calls == 0;
}

static int compare_all(void)
{
	unsigned int ran = 0, vector = 0, agreed = 0;
	bool holds;
	size_t i;

	lr_linux_select();
	for (i = 0; i < lr_variant_count; i++) {
		const struct lr_variant *const v = lr_variants[i];

		if (!v->compiled || !v->supported()) {
			pr_info("%s: %s\n", v->name, v->compiled ? "not on this processor" :
								   "not in this build");
			continue;
		}
		ran++;
		vector += !!v->vector;
		agreed += compare(v);
	}
	holds = keep_to_contexts() && selected_agree() && ran && agreed == ran;
	pr_info("RESULT %s: %u of %u variants agree, %u of them with vectors, %u buffers each\n",
		holds ? "PASS" : "FAIL", agreed, ran, vector, buffers);
	return holds ? 0 : -EBADMSG;
}

static int __init csum_compare_init(void)
{
	int error = -ENOMEM;

	prandom_seed_state(&random, 1);
	source = kmalloc(ROOM, GFP_KERNEL);
	ours = kmalloc(ROOM, GFP_KERNEL);
	theirs = kmalloc(ROOM, GFP_KERNEL);
	if (source && ours && theirs)
		error = compare_all();
	kfree(theirs);
	kfree(ours);
	kfree(source);
	return error;
}

static void __exit csum_compare_exit(void)
{
	pr_info("unloaded\n");
}

module_init(csum_compare_init);
module_exit(csum_compare_exit);
MODULE_DESCRIPTION("Compares linerate's checksum kernels with those of Linux");
MODULE_LICENSE("Dual MIT/GPL");
