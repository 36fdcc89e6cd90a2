/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "sheet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	PATH_BYTES = 4096,
	SHEET_BYTES = SHEET_HEAD + SHEET_ROWS * SHEET_ROW * 8,
	/* The header and the rows of 16 threads; on a full disk, writing to others raises SIGBUS. */
	FIRST_BYTES = SHEET_HEAD + 4096,
};

/* Creates a new count file. Returns its descriptor, or -1 on failure. */
static int create(const char *folder)
{
	char path[PATH_BYTES];
	int fd = -1;

	for (unsigned n = 0; fd < 0; n++) {
		const int length = snprintf(path, sizeof path, "%s/counts.%ld.%u", folder,
					    (long)getpid(), n);
		if (length < 0 || length >= (int)sizeof path)
			return -1;
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			return -1;
	}
	return fd;
}

static struct sheet *begin(struct sheet *sheet)
{
	sheet->counters = COUNTERS;
	sheet->row = SHEET_ROW;
	sheet->rows = SHEET_ROWS;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(sheet->magic, SHEET_MAGIC, sizeof sheet->magic);
	return sheet;
}

struct sheet *sheet_new(const char *folder)
{
	const int fd = create(folder);
	struct sheet *sheet = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (!ftruncate(fd, SHEET_BYTES) && !posix_fallocate(fd, 0, FIRST_BYTES))
		sheet = mmap(NULL, SHEET_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return sheet == MAP_FAILED ? NULL : begin(sheet);
}

struct sheet *sheet_private(void)
{
	struct sheet *const sheet = mmap(NULL, SHEET_BYTES, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return sheet == MAP_FAILED ? NULL : begin(sheet);
}

void sheet_add_unfollowed(struct sheet *sheet, int change)
{
	__atomic_fetch_add(&sheet->unfollowed, (uint32_t)change, __ATOMIC_RELAXED);
}

void sheet_use_thread(struct sheet *sheet, unsigned thread)
{
	uint32_t last = __atomic_load_n(&sheet->last_thread, __ATOMIC_RELAXED);

	/* Threads start at the same time, and none may lower the number. */
	while (last < thread &&
	       !__atomic_compare_exchange_n(&sheet->last_thread, &last, thread, true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

uint64_t *sheet_row(struct sheet *sheet, unsigned thread)
{
	uint64_t *const rows = (uint64_t *)((char *)sheet + SHEET_HEAD);

	return rows + thread % SHEET_ROWS * SHEET_ROW;
}
