/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "spots.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	/* Maximum length of a name: device, inode, spaces and path. */
	NAME_MOST = 4096 + 128,
	PAGE = 4096,
	/*
	 * MADV_POPULATE_WRITE of madvise(2), since Linux 5.14: fails if the disk is full, where a
	 * later write to the mapping would raise SIGBUS.
	 */
	POPULATE_WRITE = 23,
};

#define SPOTS_BYTES (SPOTS_HEAD + (size_t)SPOTS_ROWS * sizeof(struct spot))

/* A memory mapping of this process, with or without a file. */
struct mapping {
	uint64_t start, end, offset;
	uint32_t file;
};

/* A file name that has been stored, and the number of its row. */
struct name {
	uint32_t row, length;
	char text[NAME_MOST];
};

static struct mapping *mappings;
static size_t mapping_count;
static struct name **names;
static size_t name_count;
static bool is_stale = true;

static struct spot *row(struct spots *spots, uint32_t number)
{
	return (struct spot *)((char *)spots + SPOTS_HEAD) + number;
}

/* Allocates disk space for a range of the file. Returns false if the disk is full. */
static bool populate(void *start, size_t bytes)
{
	const uintptr_t first = (uintptr_t)start & ~(uintptr_t)(PAGE - 1);
	const size_t length = (uintptr_t)start + bytes - first;

	return !madvise((void *)first, length, POPULATE_WRITE) || errno == EINVAL;
}

struct spots *spots_open(const char *path)
{
	struct spots *spots = MAP_FAILED;
	int fd;

	/* Without atomic additions, counts of concurrent threads would be lost. */
	if (__GCC_ATOMIC_LLONG_LOCK_FREE != 2)
		return NULL;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return NULL;
	if (!ftruncate(fd, (off_t)SPOTS_BYTES))
		spots = mmap(NULL, SPOTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			     fd, 0);
	close(fd);
	if (spots == MAP_FAILED || !populate(spots, SPOTS_HEAD + sizeof(struct spot)))
		return NULL;
	spots->counters = COUNTERS;
	spots->row_bytes = sizeof(struct spot);
	spots->rows = SPOTS_ROWS;
	row(spots, 0)->block = 1;
	memcpy(spots->magic, SPOTS_MAGIC, sizeof spots->magic);
	return spots;
}

struct spot *spots_rest(struct spots *spots)
{
	return row(spots, 0);
}

/* Allocates `n` rows. Returns the number of the first one, or 0 if there is no room. */
static uint32_t take(struct spots *spots, uint32_t n)
{
	uint32_t used = __atomic_load_n(&spots->used, __ATOMIC_RELAXED);

	do
		if (n > SPOTS_ROWS - 1 - used)
			return 0;
	while (!__atomic_compare_exchange_n(&spots->used, &used, used + n, true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED));
	return populate(row(spots, used + 1), n * sizeof(struct spot)) ? used + 1 : 0;
}

struct spot *spots_block(struct spots *spots, uint32_t n)
{
	const uint32_t first = take(spots, n);

	if (!first)
		return NULL;
	row(spots, first)->block = n;
	return row(spots, first);
}

/* Returns the row of a name, allocating it if the name is new; SPOT_NO_FILE on failure. */
static uint32_t row_of(struct spots *spots, const char *text, size_t length)
{
	const size_t bytes = offsetof(struct spot, counts) + length;
	struct name **const more = realloc(names, (name_count + 1) * sizeof *names);
	struct name *name;
	uint32_t number;

	if (!more)
		return SPOT_NO_FILE;
	names = more;
	for (size_t i = 0; i < name_count; i++)
		if (names[i]->length == length && !memcmp(names[i]->text, text, length))
			return names[i]->row;
	number = take(spots, (uint32_t)((bytes + sizeof(struct spot) - 1) / sizeof(struct spot)));
	name = number ? malloc(sizeof *name) : NULL;
	if (!name)
		return SPOT_NO_FILE;
	row(spots, number)->position = length;
	/* A reader that comes in between sees a zero byte in the name, and skips it. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	row(spots, number)->file = SPOT_IS_NAME;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(row(spots, number)->counts, text, length);
	name->row = number;
	name->length = (uint32_t)length;
	memcpy(name->text, text, length);
	names[name_count++] = name;
	return number;
}

/* Parses a line of /proc/self/maps. Returns false if it is invalid. */
static bool read_line(struct spots *spots, const char *line, const char *end, struct mapping *to)
{
	char *at;
	const char *name;

	to->start = strtoull(line, &at, 16);
	if (*at != '-')
		return false;
	to->end = strtoull(at + 1, &at, 16);
	if (*at != ' ' || end - at < 6)
		return false;
	/* Skip the permissions, " r-xp ", which precede the offset. */
	to->offset = strtoull(at + 6, &at, 16);
	if (*at != ' ')
		return false;
	name = at + 1;
	to->file = SPOT_NO_FILE;
	if (memchr(name, '/', (size_t)(end - name)) && end - name <= NAME_MOST)
		to->file = row_of(spots, name, (size_t)(end - name));
	return true;
}

/* Returns the NUL-terminated contents of a file in /proc; NULL if it cannot be read. */
static char *contents(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0, room = 0;
	char *text = NULL;
	ssize_t got = fd < 0 ? -1 : 1;

	while (got > 0) {
		char *more;
		room += 65536;
		more = realloc(text, room);
		if (!more)
			break;
		text = more;
		while (room - used > 1 && (got = read(fd, text + used, room - used - 1)) > 0)
			used += (size_t)got;
	}
	if (fd >= 0)
		close(fd);
	if (text)
		text[used] = 0;
	return text;
}

static const struct mapping *find(uint64_t here)
{
	for (size_t i = 0; i < mapping_count; i++)
		if (here >= mappings[i].start && here < mappings[i].end)
			return &mappings[i];
	return NULL;
}

/* Finds the mapping of an address in /proc/self/maps, and caches it. */
static const struct mapping *look_up(struct spots *spots, uint64_t here)
{
	char *const text = contents("/proc/self/maps");
	struct mapping *const more = realloc(mappings, (mapping_count + 1) * sizeof *mappings);
	const struct mapping *found = NULL;

	if (more)
		mappings = more;
	for (const char *line = text, *end; more && !found && line && *line; line = end + !!*end) {
		char *dash;
		end = strchrnul(line, '\n');
		if (here < strtoull(line, &dash, 16) || here >= strtoull(dash + 1, NULL, 16))
			continue;
		if (!read_line(spots, line, end, &mappings[mapping_count]))
			break;
		found = &mappings[mapping_count++];
	}
	free(text);
	return found;
}

void spots_place(struct spots *spots, struct spot *spot, uint64_t address, uint64_t here)
{
	const struct mapping *known;
	bool is_in_file;

	if (__atomic_exchange_n(&is_stale, false, __ATOMIC_RELAXED))
		mapping_count = 0;
	known = find(here);
	if (!known)
		known = look_up(spots, here);
	is_in_file = known && known->file != SPOT_NO_FILE;
	spot->position = is_in_file ? here - known->start + known->offset : address;
	spot->file = is_in_file ? known->file : SPOT_NO_FILE;
}

void spots_detach(struct spots *spots)
{
	mmap(spots, SPOTS_BYTES, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void spots_forget_files(void)
{
	__atomic_store_n(&is_stale, true, __ATOMIC_RELAXED);
}
