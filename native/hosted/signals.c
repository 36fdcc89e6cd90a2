/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The signal handlers that let copies survive, and that pass other signals on to the previously
 * installed actions.
 *
 *   if the kernel reports a fault, of an instruction in the fix-up table:
 *       if the access is wide, or the address is in a registered range: resume at the fix-up
 *   otherwise do what the previous action would have done
 *
 * The address of a fault by a wide access is ignored, because it depends on the processor which of
 * its bytes is reported. After resuming, the access is repeated byte by byte, and that fault
 * reports the exact address.
 *
 * Our actions have the flags and the mask of those they replace, so that the kernel itself chooses
 * the stack, blocks signals and restarts calls as it would have for them.
 */
#define _GNU_SOURCE
#include "context.h"
#include "ranges.h"

#include <linerate/hosted.h>

#if LR_FAULT
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int signals[] = { SIGSEGV, SIGBUS };
#define SIGNALS (sizeof signals / sizeof *signals)

/*
 * The previous actions, in the order of signals. The structures pointed to are never changed or
 * freed: a handler in another thread may be using one while the handlers are uninstalled and
 * installed again.
 */
static const struct sigaction *_Atomic before[SIGNALS];
static const struct sigaction standard = { .sa_handler = SIG_DFL };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t installations;

static const struct sigaction *_Atomic *before_of(int signal)
{
	return &before[signal == SIGBUS];
}

/* Returns nonzero if the thread itself caused the signal, as opposed to one that was sent. */
static int is_fault(int signal, const siginfo_t *info)
{
	return info->si_code > 0 && !(signal == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

/*
 * Resumes at the fix-up and returns 1 if one of our copies faulted as expected; otherwise returns
 * 0.
 */
static int resume(const siginfo_t *info, ucontext_t *context)
{
	unsigned access;
	const uintptr_t pc = (uintptr_t)PROGRAM_COUNTER(context);
	const uintptr_t fixup = lr_fault_lookup(pc, &access);
	if (!fixup)
		return 0;
	if (!(access & LR_FAULT_WIDE) && !lr_fault_expected((uintptr_t)info->si_addr))
		return 0;
	PROGRAM_COUNTER(context) = (__typeof__(PROGRAM_COUNTER(context)))fixup;
	return 1;
}

/*
 * Ends the process by the default action, at the interrupted instruction. A fault recurs, with the
 * same siginfo, when our handler returns. A sent signal is sent again, to this thread and with its
 * data; it stays blocked until then.
 */
static void end_process(int signal, siginfo_t *info)
{
	sigaction(signal, &standard, 0);
	if (!is_fault(signal, info) &&
	    syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info))
		raise(signal);
}

/*
 * Returns the previous action. If that has SA_RESETHAND, the default action replaces it from now
 * on.
 */
static const struct sigaction *take_before(int signal)
{
	const struct sigaction *_Atomic *place = before_of(signal);
	const struct sigaction *action = atomic_load(place);
	while (action->sa_flags & (int)SA_RESETHAND &&
	       !atomic_compare_exchange_weak(place, &action, &standard))
		;
	return action;
}

static void pass_on(int signal, siginfo_t *info, void *context)
{
	const struct sigaction *action = take_before(signal);
	/* The kernel does not allow a fault to be ignored. */
	if (action->sa_handler == SIG_DFL ||
	    (action->sa_handler == SIG_IGN && is_fault(signal, info)))
		end_process(signal, info);
	else if (action->sa_handler == SIG_IGN)
		return;
	else if (action->sa_flags & SA_SIGINFO)
		action->sa_sigaction(signal, info, context);
	else
		action->sa_handler(signal);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
	if (!is_fault(signal, info) || !resume(info, context))
		pass_on(signal, info, context);
}

static int is_ours(const struct sigaction *action)
{
	return action->sa_flags & SA_SIGINFO && action->sa_sigaction == on_signal;
}

/* Returns nonzero if the action has a handler: only then do its flags and mask have a meaning. */
static int has_handler(const struct sigaction *action)
{
	return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

static int is_same(const struct sigaction *a, const struct sigaction *b)
{
	return a->sa_sigaction == b->sa_sigaction && a->sa_flags == b->sa_flags &&
	       !memcmp(&a->sa_mask, &b->sa_mask, sizeof a->sa_mask);
}

/*
 * Records the action to pass signals on to. An earlier record is not freed, because handlers may be
 * using it.
 */
static int remember(int signal, const struct sigaction *action)
{
	const struct sigaction *known = atomic_load(before_of(signal));
	if (known && is_same(known, action))
		return 0;
	struct sigaction *copy = malloc(sizeof *copy);
	if (!copy)
		return ENOMEM;
	*copy = *action;
	atomic_store(before_of(signal), copy);
	return 0;
}

/* Installs our handler in front of the current action. */
static int install(int signal)
{
	struct sigaction old, ours = { .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };
	if (sigaction(signal, 0, &old))
		return errno;
	if (has_handler(&old)) {
		ours.sa_flags = (old.sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
		ours.sa_mask = old.sa_mask;
	}
	ours.sa_sigaction = on_signal;
	const int error = remember(signal, &old);
	if (error)
		return error;
	return sigaction(signal, &ours, 0) ? errno : 0;
}

static void restore(int signal)
{
	sigaction(signal, atomic_load(before_of(signal)), 0);
}

static int install_all(void)
{
	for (size_t i = 0; i < SIGNALS; i++) {
		const int error = install(signals[i]);
		if (!error)
			continue;
		while (i)
			restore(signals[--i]);
		return error;
	}
	return 0;
}

int lr_fault_install(void)
{
	int error = 0;
	pthread_mutex_lock(&lock);
	if (!installations)
		error = install_all();
	installations += !error;
	pthread_mutex_unlock(&lock);
	return error;
}

/* Returns nonzero if no other handler has been installed after ours. */
static int all_ours(void)
{
	for (size_t i = 0; i < SIGNALS; i++) {
		struct sigaction action;
		if (sigaction(signals[i], 0, &action) || !is_ours(&action))
			return 0;
	}
	return 1;
}

int lr_fault_uninstall(void)
{
	int error = 0;
	pthread_mutex_lock(&lock);
	if (!installations)
		error = EINVAL;
	else if (installations == 1 && !all_ours())
		error = EBUSY;
	else if (--installations == 0)
		for (size_t i = 0; i < SIGNALS; i++)
			restore(signals[i]);
	pthread_mutex_unlock(&lock);
	return error;
}
#endif
