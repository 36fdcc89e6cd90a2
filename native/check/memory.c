/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Buffers enclosed by inaccessible pages, and child processes: the part of the check that depends
 * on POSIX.
 */
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define CLOSE(at, bytes) __asan_poison_memory_region(at, bytes)
#define OPEN(at, bytes) __asan_unpoison_memory_region(at, bytes)
#elif defined(__has_include) && __has_include(<valgrind/memcheck.h>)
/*
 * These requests are a few instructions without effect, unless the program runs under Valgrind;
 * there are none on architectures that Valgrind does not support.
 */
#include <valgrind/memcheck.h>
#define CLOSE(at, bytes) VALGRIND_MAKE_MEM_NOACCESS(at, bytes)
#define OPEN(at, bytes) VALGRIND_MAKE_MEM_DEFINED(at, bytes)
#else
#define CLOSE(at, bytes) (void)(at), (void)(bytes)
#define OPEN(at, bytes) (void)(at), (void)(bytes)
#endif

static size_t page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

struct arena arena_new(size_t bytes)
{
	bytes = (bytes + page() - 1) / page() * page();
	uint8_t *all = mmap(0, bytes + 2 * page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED || mprotect(all + page(), bytes, PROT_READ | PROT_WRITE)) {
		perror("check: mmap");
		exit(2);
	}
	return (struct arena){ all + page(), bytes };
}

void arena_free(const struct arena *arena)
{
	munmap(arena->first - page(), arena->bytes + 2 * page());
}

uint8_t *arena_front(const struct arena *arena, size_t offset)
{
	return arena->first + offset;
}

uint8_t *arena_back(const struct arena *arena, size_t bytes, size_t offset)
{
	uint8_t *at = arena->first + (arena->bytes - bytes);
	return at - (((uintptr_t)at - offset) & (LINE - 1));
}

void fence(const void *at, size_t bytes)
{
	(void)at, (void)bytes;
	CLOSE((const uint8_t *)at - LINE, LINE);
	CLOSE((const uint8_t *)at + bytes, LINE);
}

void unfence(const void *at, size_t bytes)
{
	(void)at, (void)bytes;
	OPEN((const uint8_t *)at - LINE, LINE);
	OPEN((const uint8_t *)at + bytes, LINE);
}

static void print_call(void)
{
	char text[256] = "in ";
	describe_call(text + 3, sizeof text - 4);
	strcat(text, "\n");
	if (write(STDOUT_FILENO, text, strlen(text)) < 0)
		_exit(2);
}

/* Prints where a call faulted, relative to the source or the destination, whichever is nearer. */
static void report_fault(int signal, siginfo_t *info, void *context)
{
	(void)context;
	char text[128] = "";
	const intptr_t fault = (intptr_t)info->si_addr;
	const char *name = signal == SIGILL ? "illegal instruction" :
			   fault	    ? "memory fault" :
					      "memory fault at null or because of misalignment";
	const intptr_t from_src = fault - (intptr_t)now.src, from_dst = fault - (intptr_t)now.dst;
	const int is_src = !now.dst || labs(from_src) < labs(from_dst);

	/*
	 * If an access violates the alignment that its instruction requires, processors do not
	 * report its address.
	 */
	if (signal == SIGILL || !now.kernel || !fault)
		snprintf(text, sizeof text, "FAIL %s ", name);
	else
		snprintf(text, sizeof text, "FAIL %s at %s%+ld, ", name,
			 is_src ? "source" : "destination",
			 (long)(is_src ? from_src : from_dst));
	if (write(STDOUT_FILENO, text, strlen(text)) >= 0)
		print_call();
	_exit(1);
}

void report_faults(void)
{
	const int signals[] = { SIGSEGV, SIGBUS, SIGILL };
	struct sigaction action = { .sa_flags = SA_SIGINFO };

	/* Flush earlier output, so that child processes neither lose nor repeat it. */
	setvbuf(stdout, 0, _IOLBF, BUFSIZ);
	action.sa_sigaction = report_fault;
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &action, 0);
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_set_death_callback(print_call);
#endif
}

int in_a_process(int (*body)(int which), int which)
{
	int status = 0;
	fflush(stdout);
	const pid_t child = fork();
	if (child == 0)
		_exit(body(which) ? 0 : 1);
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}
