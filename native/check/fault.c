/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The check of copies that survive a fault: the order of its parts, and their result. */
#include "fault.h"

#include <stdio.h>
#include <string.h>

#if LR_FAULT

static unsigned print_result(const struct tally *tally)
{
	printf("%-12s %llu cases, %u failures\n", tally->name, tally->cases, tally->failures);
	return tally->failures;
}

static unsigned under_our_handlers(unsigned long random_cases, int huge)
{
	struct tally edges = { "edges", 0, 0 }, random = { "random", 0, 0 };
	struct tally ranges = { "ranges", 0, 0 }, beyond = { "huge", 0, 0 };
	struct tally installing = { "installing", 0, 0 };
	int error = lr_fault_install();
	expect(&installing, !error, "lr_fault_install: error %d", error);
	check_fault_edges(&edges, bus_errors_have_addresses());
	check_fault_random(&random, random_cases);
	check_fault_ranges(&ranges, random_cases);
	if (huge)
		check_fault_huge(&beyond);
	error = lr_fault_uninstall();
	expect(&installing, !error, "lr_fault_uninstall: error %d", error);
	return print_result(&edges) + print_result(&random) + print_result(&ranges) +
	       (huge ? print_result(&beyond) : 0) + print_result(&installing);
}

int main(int argc, char **argv)
{
	const char *option = argc == 2 ? argv[1] : "";
	const int quick = !strcmp(option, "--quick"), speed = !strcmp(option, "--speed");
	struct tally signals = { "signals", 0, 0 }, handlers = { "handlers", 0, 0 };
	struct tally embedded = { "embedded", 0, 0 };

	if (argc > 2 || (argc == 2 && !quick && !speed)) {
		fputs("usage: lr-check-fault [--quick | --speed]\n"
		      "  checks the copies that survive a fault; exits with 1 if a check fails\n"
		      "  --quick  no lengths above 4 GiB: for emulators\n"
		      "  --speed  no checks; measures what surviving faults costs here\n",
		      stderr);
		return 2;
	}
	if (speed) {
		print_fault_speed();
		return 0;
	}
	report_faults();
	/* First, because it switches off core files. */
	check_fault_signals(&signals);
	check_fault_handlers(&handlers);
	check_fault_embedded(&embedded);
	unsigned failures = print_result(&signals) + print_result(&handlers) +
			    print_result(&embedded);
	failures += under_our_handlers(100000, !quick);
	return failures ? 1 : 0;
}

#else

int main(void)
{
	printf("SKIP: copies that survive a fault are not supported on this architecture\n");
	return 0;
}

#endif
