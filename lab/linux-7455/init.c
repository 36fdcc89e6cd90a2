/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The first process of Linux on the 7455, where there is no shell: loads a module, prints what the
 * kernel said meanwhile, unloads it, and ends the machine. Framed as lab/init frames the answer to a
 * question; an error of this program stands on a line that begins with "! ".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MODULE "csum_compare"
/* syslog(2) has no header for them. */
#define SYSLOG_ACTION_READ_ALL 3
#define SYSLOG_ACTION_SIZE_BUFFER 10

/* Whether that failed; if so, it is said. */
static int failed(const char *what, long result)
{
	if (result < 0)
		printf("! cannot %s: %s\n", what, strerror(errno));
	return result < 0;
}

static int load(void)
{
	const int file = open("/" MODULE ".ko", O_RDONLY | O_CLOEXEC);

	return failed("open /" MODULE ".ko", file) ||
	       failed("load " MODULE, syscall(SYS_finit_module, file, "", 0));
}

static int print_log(void)
{
	const int size = klogctl(SYSLOG_ACTION_SIZE_BUFFER, NULL, 0);
	char *const text = size > 0 ? malloc((size_t)size) : NULL;

	if (!text)
		return failed("make room for the kernel's log", -1);
	const int octets = klogctl(SYSLOG_ACTION_READ_ALL, text, size);
	if (failed("read the kernel's log", octets))
		return 1;
	fwrite(text, 1, (size_t)octets, stdout);
	return 0;
}

int main(void)
{
	int status = 0;

	puts("@begin " MODULE);
	status |= load();
	status |= failed("unload " MODULE, syscall(SYS_delete_module, MODULE, O_NONBLOCK));
	status |= print_log();
	printf("@end " MODULE " %d\n", status);
	fflush(stdout);
	reboot(RB_POWER_OFF);
	return 1;
}
