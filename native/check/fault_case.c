/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory with configurable faults, and one verified copy in it. */
#define _GNU_SOURCE
#include "fault.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void *must(void *mapped)
{
	if (mapped == MAP_FAILED) {
		perror("check: mmap");
		exit(2);
	}
	return mapped;
}

struct memory memory_new(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = PAGES * page;
	struct memory memory = { .page = page, .file = memfd_create("memory", 0) };
	if (memory.file < 0 || ftruncate(memory.file, (off_t)bytes)) {
		perror("check: memfd_create");
		exit(2);
	}
	const int all = PROT_READ | PROT_WRITE;
	memory.view = must(mmap(0, bytes, all, MAP_SHARED, memory.file, 0));
	memory.truth = must(mmap(0, bytes, all, MAP_SHARED, memory.file, 0));
	for (size_t i = 0; i < PAGES; i++)
		memory.can[i] = CAN_WRITE;
	return memory;
}

void memory_free(struct memory *memory)
{
	munmap(memory->view, PAGES * memory->page);
	munmap(memory->truth, PAGES * memory->page);
	close(memory->file);
}

void memory_protect(struct memory *memory, size_t page, int can)
{
	const int protection = can == CANNOT ? PROT_NONE :
			       can == CAN_READ ? PROT_READ :
						 PROT_READ | PROT_WRITE;
	if (memory->can[page] == can)
		return;
	if (mprotect(memory->view + page * memory->page, memory->page, protection)) {
		perror("check: mprotect");
		exit(2);
	}
	memory->can[page] = can;
}

void memory_truncate(struct memory *memory, size_t pages)
{
	if (ftruncate(memory->file, (off_t)(pages * memory->page))) {
		perror("check: ftruncate");
		exit(2);
	}
	for (size_t i = pages; i < PAGES; i++)
		memory->can[i] = CANNOT;
}

uint64_t random_from(uint64_t *state)
{
	/* Xorshift (Marsaglia 2003) with a multiplication: the state is never 0. */
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1d;
}

/* Returns how many of the bytes from offset at on can be read or written, depending on can. */
static size_t reach(const struct memory *memory, size_t at, size_t bytes, int can)
{
	const size_t from = at;
	while (at < from + bytes && (memory->can[at / memory->page] & can) == can)
		at = (at / memory->page + 1) * memory->page;
	return at < from ? 0 : at - from < bytes ? at - from : bytes;
}

/*
 * Returns nonzero if all bytes of truth in that range are GUARD, as far as the check can see them;
 * bytes that a truncated file has lost count as GUARD.
 */
static int is_guard(const struct memory *memory, size_t first, size_t end, size_t held)
{
	for (size_t at = first; at < end && at < held; at++)
		if (memory->truth[at] != GUARD)
			return 0;
	return 1;
}

static size_t bytes_held(const struct memory *memory)
{
	const off_t end = lseek(memory->file, 0, SEEK_END);
	return end < 0 ? 0 : (size_t)end;
}

static size_t up_to(size_t at, size_t more, size_t end)
{
	return end - at < more ? end : at + more;
}

static void judge(struct tally *tally, const struct try *t, const struct lr_tried *got, int csum)
{
	const struct memory *d = t->destination, *s = t->source;
	const size_t readable = reach(s, t->src_at, t->bytes, CAN_READ);
	const size_t writable = reach(d, t->dst_at, t->bytes, CAN_WRITE);
	const size_t copied = readable < writable ? readable : writable;
	const uint32_t side = copied == t->bytes ? 0 :
			      readable <= writable ? LR_FAULT_SOURCE :
						     LR_FAULT_DESTINATION;
	const size_t held = bytes_held(d), end = t->dst_at + copied;
	const uint16_t sum = csum ? reference(s->truth + t->src_at, copied, t->seed) : 0;
	const size_t before = t->dst_at < LINE ? 0 : t->dst_at - LINE;
	const char *what = csum ? "lr_try_copy_csum" : "lr_try_copy";

	expect(tally, got->residue == t->bytes - copied && got->side == side,
	       "%s: %zu bytes, from %zu to %zu, of which %zu can be read and %zu written: residue "
	       "%zu, side %u", what, t->bytes, t->src_at, t->dst_at, readable, writable,
	       got->residue, (unsigned)got->side);
	expect(tally, lr_csum_fold(got->sum) == sum && (csum || !got->sum),
	       "%s: %zu bytes, from %zu to %zu, %zu copied, seed 0x%x: expected 0x%x, got 0x%x",
	       what, t->bytes, t->src_at, t->dst_at, copied, (unsigned)t->seed, sum,
	       lr_csum_fold(got->sum));
	expect(tally, !memcmp(d->truth + t->dst_at, s->truth + t->src_at, copied),
	       "%s: %zu bytes, from %zu to %zu: the %zu copied differ", what, t->bytes, t->src_at,
	       t->dst_at, copied);
	expect(tally, is_guard(d, before, t->dst_at, held) &&
	       is_guard(d, end, up_to(t->dst_at + t->bytes, LINE, PAGES * d->page), held),
	       "%s: %zu bytes, from %zu to %zu, %zu copied: a byte outside of those was written",
	       what, t->bytes, t->src_at, t->dst_at, copied);
	memset(d->truth + t->dst_at, GUARD, copied);
}

void check_try(struct tally *tally, const struct try *t, int csum)
{
	uint8_t *dst = t->destination->view + t->dst_at;
	const uint8_t *src = t->source->view + t->src_at;
	const struct lr_tried got = csum ? lr_try_copy_csum(dst, src, t->bytes, t->seed) :
					   lr_try_copy(dst, src, t->bytes);
	judge(tally, t, &got, csum);
}

int ended_by(int (*body)(int which), int which)
{
	int status = 0;
	fflush(stdout);
	const pid_t child = fork();
	if (child == 0)
		_exit(body(which));
	if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("check: fork");
		exit(2);
	}
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static sigjmp_buf out;
static void *reported;

static void report_address(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	reported = info->si_addr;
	siglongjmp(out, 1);
}

int bus_errors_have_addresses(void)
{
	struct memory memory = memory_new();
	struct sigaction old, action = { .sa_flags = SA_SIGINFO };
	const volatile uint8_t *at = memory.view + 5;
	action.sa_sigaction = report_address;
	memory_truncate(&memory, 0);
	sigaction(SIGBUS, &action, &old);
	if (!sigsetjmp(out, 1))
		(void)*at;
	sigaction(SIGBUS, &old, 0);
	const int holds = reported == memory.view + 5;
	if (!holds)
		printf("SKIP: truncated files under our handlers: a bus error is not reported at "
		       "its address here, as emulators may\n");
	memory_free(&memory);
	return holds;
}
