/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "sheet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, SHEET_BYTES = SHEET_HEAD + SHEET_ROWS * SHEET_ROW * 8 };

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

struct sheet *sheet_new(const char *folder)
{
	const int fd = create(folder);
	struct sheet *sheet = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (!ftruncate(fd, SHEET_BYTES))
		sheet = mmap(NULL, SHEET_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (sheet == MAP_FAILED)
		return NULL;
	sheet->counters = COUNTERS;
	sheet->row = SHEET_ROW;
	sheet->rows = SHEET_ROWS;
	memcpy(sheet->magic, SHEET_MAGIC, sizeof sheet->magic);
	return sheet;
}

uint64_t *sheet_row(struct sheet *sheet, unsigned thread)
{
	uint64_t *const rows = (uint64_t *)((char *)sheet + SHEET_HEAD);

	return rows + thread % SHEET_ROWS * SHEET_ROW;
}
