/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Handlers of copy faults: a trap handler that only knows the fix-up table, ours behind another
 * handler, none; and the errors of the calls.
 */
#define _GNU_SOURCE
#include "fault.h"

#include "../hosted/context.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Does what the trap handler of a kernel does: resumes at the fix-up, without checking the address.
 */
static void trap(int signal, siginfo_t *info, void *opaque)
{
	ucontext_t *context = opaque;
	const uintptr_t fixup = lr_fault_lookup((uintptr_t)PROGRAM_COUNTER(context), 0);
	(void)signal, (void)info;
	if (!fixup)
		abort();
	PROGRAM_COUNTER(context) = (__typeof__(PROGRAM_COUNTER(context)))fixup;
}

void check_fault_embedded(struct tally *tally)
{
	static const int signals[] = { SIGSEGV, SIGBUS };
	struct sigaction old[2], action = { .sa_flags = SA_SIGINFO };
	action.sa_sigaction = trap;
	for (size_t i = 0; i < 2; i++)
		sigaction(signals[i], &action, &old[i]);
	check_fault_edges(tally, 1);
	for (size_t i = 0; i < 2; i++)
		sigaction(signals[i], &old[i], 0);
	expect(tally,
	       !lr_fault_lookup(0, 0) && !lr_fault_lookup((uintptr_t)&check_fault_embedded, 0),
	       "an instruction outside the copies has a fix-up");
}

static uint8_t *closed;
static size_t page;
static volatile sig_atomic_t passed_on;
static struct sigaction ours;

/* Stands for a library that installs its handler after ours. */
static void later(int signal, siginfo_t *info, void *context)
{
	passed_on++;
	ours.sa_sigaction(signal, info, context);
}

static int survives(void)
{
	uint8_t bytes[40];
	const struct lr_tried tried = lr_try_copy(bytes, closed, sizeof bytes);
	return tried.residue == sizeof bytes && tried.side == LR_FAULT_SOURCE;
}

static int somebody_after_us(int unused)
{
	struct sigaction theirs = { .sa_flags = SA_SIGINFO };
	(void)unused;
	theirs.sa_sigaction = later;
	int holds = !lr_fault_install() && !lr_fault_register(closed, page);
	sigaction(SIGSEGV, &theirs, &ours);
	holds = holds && survives() && passed_on > 0;
	/*
	 * Uninstalling is refused while the later handler may still call ours; the attempt changes
	 * nothing.
	 */
	holds = holds && lr_fault_uninstall() == EBUSY && lr_fault_uninstall() == EBUSY;
	holds = holds && !lr_fault_install() && !lr_fault_uninstall() && survives();
	sigaction(SIGSEGV, &ours, 0);
	return holds && survives() && !lr_fault_uninstall() && lr_fault_uninstall() == EINVAL;
}

/* Installs and uninstalls our handlers several times, in front of a different action each time. */
static int again(int unused)
{
	(void)unused;
	int holds = !lr_fault_register(closed, page);
	for (int round = 0; round < 3; round++) {
		holds = holds && !lr_fault_install() && survives() && !lr_fault_uninstall();
		signal(SIGSEGV, round & 1 ? SIG_IGN : SIG_DFL);
	}
	return holds;
}

/* A range registered twice stays registered until it has been unregistered twice. */
static int twice(int unused)
{
	(void)unused;
	return !lr_fault_install() && !lr_fault_register(closed, page) &&
	       !lr_fault_register(closed, page) && !lr_fault_unregister(closed, page) &&
	       survives() && !lr_fault_unregister(closed, page) &&
	       lr_fault_unregister(closed, page) == ENOENT;
}

static int refusals(int unused)
{
	(void)unused;
	return lr_fault_uninstall() == EINVAL && lr_fault_register(closed, 0) == EINVAL &&
	       lr_fault_register(closed, SIZE_MAX) == EINVAL &&
	       lr_fault_register((void *)UINTPTR_MAX, 2) == EINVAL &&
	       !lr_fault_register((void *)UINTPTR_MAX, 1) &&
	       !lr_fault_unregister((void *)UINTPTR_MAX, 1) &&
	       lr_fault_unregister(closed, page) == ENOENT &&
	       lr_fault_unregister(closed, 0) == ENOENT;
}

static void copy_after_uninstall(void)
{
	lr_fault_register(closed, page);
	if (lr_fault_install() || !survives() || lr_fault_uninstall())
		_exit(100);
	survives();
}

static void copy_after_unregister(void)
{
	lr_fault_register(closed, page);
	if (lr_fault_install() || !survives() || lr_fault_unregister(closed, page))
		_exit(100);
	survives();
}

static void copy_beside_a_range(void)
{
	lr_fault_register(closed, 20);
	lr_fault_register(closed + 21, page - 21);
	if (lr_fault_install())
		_exit(100);
	/* The first byte is expected to fault, the one at 20 is not. */
	uint8_t byte;
	if (lr_try_copy(&byte, closed + 19, 1).residue != 1)
		_exit(100);
	lr_try_copy(&byte, closed + 20, 1);
}

static const struct {
	const char *name;
	void (*body)(void);
} ends[] = {
	{ "a copy after uninstall", copy_after_uninstall },
	{ "a copy after unregister", copy_after_unregister },
	{ "a copy between two ranges", copy_beside_a_range },
};

static int run_ending(int which)
{
	signal(SIGSEGV, SIG_DFL);
	ends[which].body();
	return 1;
}

void check_fault_handlers(struct tally *tally)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	closed = mmap(0, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	expect(tally, closed != MAP_FAILED, "cannot map a page without access: mmap failed");
	expect(tally, in_a_process(somebody_after_us, 0), "another handler after ours");
	expect(tally, in_a_process(again, 0), "installed again");
	expect(tally, in_a_process(twice, 0), "a range registered twice");
	expect(tally, in_a_process(refusals, 0), "invalid calls must be refused");
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		expect(tally, ended_by(run_ending, (int)i) == SIGSEGV,
		       "%s does not end the process", ends[i].name);
}
