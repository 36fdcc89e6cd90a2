/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The first process of Linux on the 7455, where there is no shell. For each line of /loads, a
 * module, its parameters and a file of /proc to print next to /proc/MODULE, with tabs between: loads
 * the module, prints those files if they exist, unloads it, and prints the kernel's messages
 * meanwhile. Then shuts the machine down. Framed like the answers of lab/init, named load_1, load_2
 * and so on; an error of this program is on a line that begins with "! ".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* syslog(2) has no header for them. */
#define SYSLOG_ACTION_READ_CLEAR 4
#define SYSLOG_ACTION_SIZE_BUFFER 10

/* Whether that failed; prints a message if so. */
static int failed(const char *what, const char *name, long result)
{
	if (result < 0)
		printf("! cannot %s %s: %s\n", what, name, strerror(errno));
	return result < 0;
}

static int load(const char *module, const char *parameters)
{
	char path[64];

	snprintf(path, sizeof(path), "/%s.ko", module);

	const int file = open(path, O_RDONLY | O_CLOEXEC);

	return failed("open", path, file) ||
	       failed("load", module, syscall(SYS_finit_module, file, parameters, 0));
}

/* Not every module has one. */
static void print_state(const char *name)
{
	char text[256], path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s", name);
	file = fopen(path, "r");
	while (file && fgets(text, sizeof(text), file))
		printf("/proc: %s", text);
	if (file)
		fclose(file);
}

static int print_log(void)
{
	const int size = klogctl(SYSLOG_ACTION_SIZE_BUFFER, NULL, 0);
	char *const text = size > 0 ? malloc((size_t)size) : NULL;

	if (!text)
		return failed("make room for", "the kernel's log", -1);
	const int bytes = klogctl(SYSLOG_ACTION_READ_CLEAR, text, size);
	if (failed("read", "the kernel's log", bytes))
		return 1;
	fwrite(text, 1, (size_t)bytes, stdout);
	free(text);
	return 0;
}

/* Parses the request of a line, which loses its end. */
static int answer(char *line)
{
	char *rest = line;
	int status;

	line[strcspn(line, "\n")] = '\0';

	const char *const module = strsep(&rest, "\t");
	const char *const parameters = strsep(&rest, "\t");

	status = load(module, parameters ? parameters : "");
	if (!status) {
		print_state(module);
		if (rest)
			print_state(rest);
		status = failed("unload", module,
				syscall(SYS_delete_module, module, O_NONBLOCK));
	}
	return status | print_log();
}

int main(void)
{
	char line[512];
	FILE *loads;
	int i;

	mkdir("/proc", 0555);
	failed("mount", "/proc", mount("proc", "/proc", "proc", 0, NULL));
	loads = fopen("/loads", "r");
	for (i = 1; loads && fgets(line, sizeof(line), loads); i++) {
		printf("@begin load_%d\n", i);
		printf("@end load_%d %d\n", i, answer(line));
	}
	fflush(stdout);
	reboot(RB_POWER_OFF);
	return 1;
}
