/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments, the order of the checks, and their result: a line each, and the exit status. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: check [--quick | --huge | --list]\n"
	"  checks every variant that runs here, and what is selected from them, against the\n"
	"  reference; exits with 1 if one fails, 2 if the check cannot do its work\n"
	"  --quick  few offsets and lengths: for emulators and sanitizers\n"
	"  --huge   lengths above 4 GiB, and nothing else\n"
	"  --list   the table: name, scalar or vector, compiled, how it runs here, what it needs\n";

/* Every length ends well beyond 2048, where a kernel may change its ways, and a few blocks. */
static const struct extent full = { 2800, 1, 1, 1, SIZE_MAX };
static const struct extent quick = { 600, 9, 21, 9, 10000 };

static int list(void)
{
	for (size_t i = 0; i < lr_variant_count; i++) {
		const struct lr_variant *v = lr_variants[i];
		printf("%-12s %s %-12s %-13s %s\n", v->name, v->vector ? "vector" : "scalar",
		       v->compiled ? "compiled" : "not-compiled",
		       v->supported() >= LR_RUNS_WELL ? "selectable" :
		       v->supported()		      ? "by-name" :
							"not-supported",
		       v->isa);
	}
	return 0;
}

/* What runs here, and last what is selected; one line for each that does not. */
static size_t collect(struct subject *subjects)
{
	size_t count = 0;
	for (size_t i = 0; i < lr_variant_count; i++) {
		const struct lr_variant *v = lr_variants[i];
		if (!v->compiled)
			printf("%-12s SKIP: not compiled here: %s\n", v->name, v->isa);
		else if (!v->supported())
			printf("%-12s SKIP: this processor lacks %s\n", v->name, v->isa);
		else
			subjects[count++] = (struct subject){ { v->name, 0, 0 }, *v };
	}
	subjects[count++] = (struct subject){
		.tally = { .name = "selected" },
		.kernels = dispatching(),
	};
	return count;
}

static unsigned print_result(const struct tally *tally)
{
	printf("%-12s %llu cases, %u failures\n", tally->name, tally->cases, tally->failures);
	return tally->failures;
}

static unsigned run(int huge, const struct extent *extent)
{
	struct subject *subjects = calloc(lr_variant_count + 1, sizeof *subjects);
	struct tally arithmetic = { "arithmetic", 0, 0 }, dispatch = { "dispatch", 0, 0 };
	unsigned failures = 0;

	if (!subjects) {
		perror("check: calloc");
		exit(2);
	}
	const size_t count = collect(subjects);
	if (huge) {
		check_huge(subjects, count);
	} else {
		check_first_calls(&dispatch);
		check_arithmetic(&arithmetic);
		check_packets(&arithmetic);
		check_dispatch(&dispatch);
		check_edges(subjects, count);
		check_fragments(subjects, count);
		check_sweep(subjects, count, extent);
		failures += print_result(&arithmetic) + print_result(&dispatch);
	}
	for (size_t i = 0; i < count; i++)
		failures += print_result(&subjects[i].tally);
	free(subjects);
	return failures;
}

int main(int argc, char **argv)
{
	const char *option = argc > 1 ? argv[1] : "";

	report_faults();
	if (argc > 2 || (argc == 2 && strcmp(option, "--quick") && strcmp(option, "--huge") &&
			 strcmp(option, "--list"))) {
		fputs(usage, stderr);
		return 2;
	}
	if (!strcmp(option, "--list"))
		return list();
	return run(!strcmp(option, "--huge"), strcmp(option, "--quick") ? &full : &quick) ? 1 : 0;
}
