/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "follow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	/* The kernel's limits on nested interpreters and on the first line of a script. */
	INTERPRETERS = 4,
	LINE_BYTES = 256,
	/* More argument or environment strings than any kernel accepts. */
	STRINGS = 1 << 20,
	/* Terminating NULL, an interpreter and its argument per level, and "-0 NAME PATH". */
	EXTRA = 2 * INTERPRETERS + 4,
};

/* Offsets of class, byte order and e_machine in an ELF header. */
enum { E_CLASS = 4, E_DATA = 5, E_MACHINE = 18 };

static const struct {
	const char *target;
	int64_t execve, execveat;
} SYSTEM_CALLS[] = {
	{ "x86_64", 59, 322 },	 { "i386", 11, 358 },	 { "arm", 11, 387 },
	{ "armeb", 11, 387 },	 { "aarch64", 221, 281 }, { "ppc", 11, 362 },
	{ "ppc64", 11, 362 },	 { "ppc64le", 11, 362 }, { "riscv64", 221, 281 },
	{ "sparc", 59, 350 },	 { "sparc64", 59, 350 }, { "s390x", 11, 354 },
};

/* Returns whether an ELF header has the same class, byte order and machine as `magic`. */
static bool has_magic(const uint8_t *bytes, const uint8_t *magic)
{
	return !memcmp(bytes, "\177ELF", 4) && bytes[E_CLASS] == magic[E_CLASS] &&
	       bytes[E_DATA] == magic[E_DATA] && !memcmp(bytes + E_MACHINE, magic + E_MACHINE, 2);
}

/* Reads the start of a file. Returns the number of bytes read, or -1. */
static ssize_t head(const char *path, void *to, size_t bytes)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t got = fd < 0 ? -1 : read(fd, to, bytes);

	if (fd >= 0)
		close(fd);
	return got;
}

/* Returns this process's arguments, terminated by NULL; NULL if out of memory. */
static char **own_arguments(int *count)
{
	const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	size_t used = 0, room = 0;
	char *text = NULL;
	char **words;
	ssize_t got = 1;

	while (fd >= 0 && got > 0) {
		if (room - used < 4096)
			text = realloc(text, room += 65536);
		if (!text)
			break;
		got = read(fd, text + used, room - used);
		used += got > 0 ? (size_t)got : 0;
	}
	if (fd >= 0)
		close(fd);
	*count = 0;
	words = text ? calloc(used + 1, sizeof *words) : NULL;
	for (size_t at = 0; words && at < used; at += strlen(text + at) + 1)
		words[(*count)++] = text + at;
	return words;
}

const char *follow_init(struct follow *f, const char *target, const char *program, int keep)
{
	const uint16_t one = 1;
	const bool is_host_little = *(const uint8_t *)&one == 1;

	f->execve = f->execveat = -1;
	for (size_t i = 0; i < sizeof SYSTEM_CALLS / sizeof *SYSTEM_CALLS; i++) {
		if (!strcmp(SYSTEM_CALLS[i].target, target)) {
			f->execve = SYSTEM_CALLS[i].execve;
			f->execveat = SYSTEM_CALLS[i].execveat;
		}
	}
	f->emulator = own_arguments(&f->emulator_count);
	if (!f->emulator || f->emulator_count < keep)
		return "/proc/self/cmdline lacks the emulator's arguments";
	f->emulator_count = keep;
	if (head(program, f->magic, sizeof f->magic) < (ssize_t)sizeof f->magic)
		return "cannot read the program";
	f->pointer_bytes = f->magic[E_CLASS] == 2 ? 8 : 4;
	f->is_swapped = (f->magic[E_DATA] == 1) != is_host_little;
	return NULL;
}

/* Reads the program's memory. Returns false if it is not mapped. */
static bool peek(uint64_t address, void *to, size_t bytes)
{
	const struct iovec here = { to, bytes };
	const struct iovec there = { (void *)(uintptr_t)address, bytes };

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

/* Returns the string at an address in this process; NULL if it is not readable. */
static const char *string_at(uint64_t address)
{
	enum { PAGE = 4096 };
	char byte;

	for (uint64_t at = address;; at = (at | (PAGE - 1)) + 1) {
		const size_t left = PAGE - (at & (PAGE - 1));
		if (!peek(at, &byte, 1))
			return NULL;
		if (memchr((const void *)(uintptr_t)at, 0, left))
			return (const char *)(uintptr_t)address;
	}
}

/* Stores the strings of a NULL-terminated pointer array in `to`. Returns their number, or -1. */
static int strings_at(const struct follow *f, uint64_t base, uint64_t array, const char **to,
		      int room)
{
	for (int n = 0; array && n < room; n++) {
		uint64_t pointer = 0;
		uint32_t half = 0;
		const uint64_t at = base + array + (uint64_t)n * f->pointer_bytes;
		const bool is_there = f->pointer_bytes == 8 ? peek(at, &pointer, 8) :
							      peek(at, &half, 4);
		if (!is_there)
			return -1;
		if (f->pointer_bytes == 4)
			pointer = f->is_swapped ? __builtin_bswap32(half) : half;
		else if (f->is_swapped)
			pointer = __builtin_bswap64(pointer);
		if (!pointer)
			return n;
		to[n] = string_at(base + pointer);
		if (!to[n])
			return -1;
	}
	return array ? -1 : 0;
}

/*
 * If words[0] is a script whose first line is in `line`, inserts its interpreter and the
 * interpreter's argument before words[0]. Returns how many words were inserted, or -1 if words[0]
 * is not a script. The inserted words point into `line`.
 */
static int interpret(const char **words, int count, char *line, ssize_t bytes)
{
	char *interpreter, *argument;
	int added = 1;

	if (bytes < 3 || memcmp(line, "#!", 2))
		return -1;
	line[bytes < LINE_BYTES ? bytes : LINE_BYTES - 1] = 0;
	line[strcspn(line, "\n")] = 0;
	interpreter = line + 2 + strspn(line + 2, " \t");
	argument = interpreter + strcspn(interpreter, " \t");
	if (*argument)
		*argument++ = 0;
	argument += strspn(argument, " \t");
	for (char *end = argument + strlen(argument);
	     end > argument && (end[-1] == ' ' || end[-1] == '\t');)
		*--end = 0;
	added += *argument != 0;
	memmove(words + added, words, (size_t)count * sizeof *words);
	words[0] = interpreter;
	if (*argument)
		words[1] = argument;
	return *interpreter ? added : -1;
}

/*
 * Checks access with the effective IDs, which the emulator has, too. Returns 0, or an error number.
 * Seccomp filters that do not know faccessat2(2) may refuse it with EPERM, where C libraries expect
 * ENOSYS. There, the real IDs are checked, which are almost always the same.
 */
static int access_error(const char *path, int mode)
{
	if (!faccessat(AT_FDCWD, path, mode, AT_EACCESS))
		return 0;
	if (errno != EPERM && errno != ENOSYS)
		return errno;
	return access(path, mode) ? errno : 0;
}

/* Returns whether a file is executable. `has_rights` is set if it is setuid or setgid. */
static bool is_plain_program(const char *path, bool *has_rights)
{
	struct stat info;

	if (stat(path, &info) || !S_ISREG(info.st_mode) || access_error(path, X_OK))
		return false;
	*has_rights = info.st_mode & (S_ISUID | S_ISGID);
	return true;
}

/*
 * Returns whether the emulator can load the plugin. The caller has announced its call of execve. If
 * `over` does not exist, then either it was not created yet, and linerate will see the announcement
 * and keep the plugin until the emulator has started; or it was removed, and the plugin before it.
 * Hence the order of the checks.
 */
static bool can_start(const struct follow *f)
{
	char byte;

	return access_error(f->over, F_OK) == ENOENT && head(f->plugin, &byte, 1) == 1;
}

/* Executes the emulator. Returns only on failure. */
static void start(const struct follow *f, const char *name, const char **words, int count,
		  char *const *environment)
{
	const char **const all =
		calloc((size_t)(f->emulator_count + count + EXTRA), sizeof *all);
	int n = 0;

	if (!all)
		return;
	for (; n < f->emulator_count; n++)
		all[n] = f->emulator[n];
	all[n++] = "-0";
	all[n++] = name;
	for (int i = 0; i < count; i++)
		all[n++] = words[i];
	execve(all[0], (char *const *)all, environment);
	free(all);
}

/*
 * Inserts the interpreters of words[0] into `words`. Returns the new number of words, or 0 if the
 * program is not followed: it is setuid, of another architecture or unreadable, or cannot run.
 */
static int resolve(const struct follow *f, const char **words, int count,
		   char (*lines)[LINE_BYTES])
{
	for (int depth = 0; depth < INTERPRETERS; depth++) {
		bool has_rights = false;
		ssize_t bytes;
		int added;
		if (!is_plain_program(words[0], &has_rights))
			return 0;
		bytes = has_rights ? -1 : head(words[0], lines[depth], LINE_BYTES);
		if (bytes >= FOLLOW_MAGIC_BYTES && has_magic((uint8_t *)lines[depth], f->magic))
			return count;
		added = interpret(words, count, lines[depth], bytes);
		if (added < 0)
			return 0;
		count += added;
	}
	return 0;
}

bool follow_exec(const struct follow *f, uint64_t base, uint64_t path, uint64_t argv, uint64_t envp,
		 void (*before)(bool is_next))
{
	const char **const words = calloc(STRINGS + EXTRA, sizeof *words);
	const char **const environment = calloc(STRINGS + 1, sizeof *environment);
	char lines[INTERPRETERS][LINE_BYTES];
	const char *const file = string_at(base + path);
	bool is_file, has_rights;
	int count = -1, resolved;
	const char *name;

	if (words && environment && file &&
	    strings_at(f, base, envp, environment, STRINGS) >= 0)
		count = strings_at(f, base, argv, words, STRINGS);
	if (count < 0)
		goto out;
	name = count ? words[0] : "";
	words[0] = file;
	count += !count;
	resolved = resolve(f, words, count, lines);
	if (resolved > 0) {
		before(true);
		if (can_start(f))
			start(f, resolved > count ? words[0] : name, words, resolved,
			      (char *const *)environment);
		before(false);
	}
out:
	is_file = !file || is_plain_program(file, &has_rights);
	free(words);
	free(environment);
	return is_file;
}
