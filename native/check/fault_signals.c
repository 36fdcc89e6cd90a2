/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Signals that reach the previously installed actions: each case in a separate process, with and
 * without our handlers, which must not make a difference.
 */
#define _GNU_SOURCE
#include "fault.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A page that cannot be accessed until allow() has been called. */
static uint8_t *closed;
static size_t page;

static void allow(void)
{
	mprotect(closed, page, PROT_READ | PROT_WRITE);
}

/* Returns a mapped page that its file has lost, because the file was truncated. */
static uint8_t *lost_page(void)
{
	const int file = memfd_create("lost", 0);
	uint8_t *at = ftruncate(file, (off_t)page) ? MAP_FAILED :
		      mmap(0, page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (at == MAP_FAILED || ftruncate(file, 0))
		_exit(100);
	return at;
}

/* What a handler saw, as passed out of the process. */
struct seen {
	/* Faulting address, relative to closed. */
	uintptr_t address;
	int calls, signal, code, on_stack, blocks_usr1, blocks_usr2, blocks_itself, errno_kept;
};
static struct seen *seen;
static uint8_t alternate[1 << 16];
static sigjmp_buf out;

static void look(int signal, const siginfo_t *info)
{
	sigset_t blocked;
	const uint8_t here = 0, *at = &here;
	sigprocmask(SIG_BLOCK, 0, &blocked);
	seen->calls++;
	seen->signal = signal;
	seen->code = info ? info->si_code : 0;
	/* In the siginfo of a sent signal, this field holds the process ID. */
	if (seen->code > 0)
		seen->address = (uintptr_t)info->si_addr - (uintptr_t)closed;
	seen->on_stack = at >= alternate && at < alternate + sizeof alternate;
	seen->blocks_usr1 = sigismember(&blocked, SIGUSR1);
	seen->blocks_usr2 = sigismember(&blocked, SIGUSR2);
	seen->blocks_itself = sigismember(&blocked, signal);
	seen->errno_kept = errno == EDOM;
}

static void with_info(int signal, siginfo_t *info, void *context)
{
	look(signal, context ? info : 0);
	allow();
}

static void without_info(int signal)
{
	look(signal, 0);
	allow();
}

static void jumps_out(int signal, siginfo_t *info, void *context)
{
	(void)context;
	look(signal, info);
	siglongjmp(out, 1);
}

/* An action for a signal, and the event that raises the signal. */
struct scene {
	const char *name;
	/* Null if the other member is the action. */
	void (*with_info)(int, siginfo_t *, void *);
	void (*without_info)(int);
	int flags;
	void (*act)(void);
	int signal;
	/* Number of calls of the handler, and whether the signal ends the process. */
	int calls, ends;
};

static void store(void)
{
	errno = EDOM;
	*(volatile uint8_t *)(closed + 7) = 1;
}

static void store_twice(void)
{
	store();
	mprotect(closed, page, PROT_NONE);
	store();
}

static void send(void)
{
	errno = EDOM;
	raise(SIGSEGV);
}

static void send_bus(void)
{
	errno = EDOM;
	kill(getpid(), SIGBUS);
}

static void load_lost(void)
{
	const volatile uint8_t *at = lost_page();
	closed = (uint8_t *)(uintptr_t)at;
	errno = EDOM;
	if (!sigsetjmp(out, 1))
		(void)at[9];
}

/* Copies from an unregistered page, starting at its byte 3. */
static void copy_closed(void)
{
	uint8_t bytes[64];
	errno = EDOM;
	if (!sigsetjmp(out, 1))
		lr_try_copy(bytes, closed + 3, sizeof bytes);
}

static const struct scene scenes[] = {
	{ "a fault under a handler with siginfo", with_info, 0, 0, store, SIGSEGV, 1, 0 },
	{ "a fault under a handler without siginfo", 0, without_info, 0, store, SIGSEGV, 1, 0 },
	{ "a fault on an alternate stack", with_info, 0, SA_ONSTACK, store, SIGSEGV, 1, 0 },
	{ "a fault with SA_NODEFER", with_info, 0, SA_NODEFER, store, SIGSEGV, 1, 0 },
	{ "two faults with SA_RESETHAND", with_info, 0, (int)SA_RESETHAND, store_twice, SIGSEGV, 1,
	  1 },
	{ "a signal sent to a handler", with_info, 0, 0, send, SIGSEGV, 1, 0 },
	{ "a bus error sent to a handler", 0, without_info, 0, send_bus, SIGBUS, 1, 0 },
	{ "a bus error under a handler", jumps_out, 0, 0, load_lost, SIGBUS, 1, 0 },
	{ "a copy with no range registered", jumps_out, 0, 0, copy_closed, SIGSEGV, 1, 0 },
	{ "a fault by default", 0, SIG_DFL, 0, store, SIGSEGV, 0, 1 },
	{ "a signal sent by default", 0, SIG_DFL, 0, send, SIGSEGV, 0, 1 },
	{ "a bus error by default", 0, SIG_DFL, 0, load_lost, SIGBUS, 0, 1 },
	{ "a bus error sent by default", 0, SIG_DFL, 0, send_bus, SIGBUS, 0, 1 },
	{ "a copy by default", 0, SIG_DFL, 0, copy_closed, SIGSEGV, 0, 1 },
	{ "a fault ignored", 0, SIG_IGN, 0, store, SIGSEGV, 0, 1 },
	{ "a signal sent and ignored", 0, SIG_IGN, 0, send, SIGSEGV, 0, 0 },
	{ "a bus error sent and ignored", 0, SIG_IGN, 0, send_bus, SIGBUS, 0, 0 },
};

static void play(const struct scene *scene, int installed)
{
	struct sigaction action = { .sa_flags = scene->flags };
	const stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate };
	/* An ignored fault would recur forever. */
	alarm(60);
	sigaltstack(&stack, 0);
	sigaddset(&action.sa_mask, SIGUSR1);
	if (scene->with_info) {
		action.sa_sigaction = scene->with_info;
		action.sa_flags |= SA_SIGINFO;
	} else {
		action.sa_handler = scene->without_info;
	}
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	sigaction(scene->signal, &action, 0);
	sigaction(scene->signal, 0, &action);
	if (installed && (lr_fault_install() || lr_fault_install()))
		_exit(101);
	scene->act();
	/* In the cases that get this far, the previous action must have been restored. */
	struct sigaction left = { 0 };
	if (installed && (lr_fault_uninstall() || lr_fault_uninstall()))
		_exit(102);
	sigaction(scene->signal, 0, &left);
	_exit(left.sa_handler == action.sa_handler && left.sa_flags == action.sa_flags ? 0 : 103);
}

/* Returns the exit status of the process, and stores in result what the handler saw. */
static int status_of(const struct scene *scene, int installed, struct seen *result)
{
	int status = -1;
	memset(seen, 0, sizeof *seen);
	fflush(stdout);
	const pid_t child = fork();
	if (child == 0)
		play(scene, installed);
	if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("check: fork");
		exit(2);
	}
	*result = *seen;
	return status;
}

static int is_as_told(const struct scene *scene, int status, const struct seen *result)
{
	const int ended = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	return result->calls == scene->calls && ended == (scene->ends ? scene->signal : 0) &&
	       (ended || status == 0);
}

static void no_difference(struct tally *tally)
{
	for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
		const struct scene *scene = &scenes[i];
		struct seen without, with;
		const int status = status_of(scene, 0, &without);
		const int status_with = status_of(scene, 1, &with);
		expect(tally, is_as_told(scene, status, &without),
		       "%s: without our handlers %d calls and status 0x%x", scene->name,
		       without.calls, (unsigned)status);
		expect(tally, status == status_with, "%s: status 0x%x, with our handlers 0x%x",
		       scene->name, (unsigned)status, (unsigned)status_with);
		expect(tally, !memcmp(&without, &with, sizeof with),
		       "%s: %d calls, signal %d, code %d, address +%zd, with our handlers %d, %d, "
		       "%d, +%zd; or stack or mask differ", scene->name, without.calls, without.signal,
		       without.code, (ssize_t)without.address, with.calls, with.signal, with.code,
		       (ssize_t)with.address);
	}
}

void check_fault_signals(struct tally *tally)
{
	const struct rlimit no_core = { 0, 0 };
	setrlimit(RLIMIT_CORE, &no_core);
	page = (size_t)sysconf(_SC_PAGESIZE);
	closed = mmap(0, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	seen = mmap(0, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (closed == MAP_FAILED || seen == MAP_FAILED) {
		perror("check: mmap");
		exit(2);
	}
	no_difference(tally);
}
