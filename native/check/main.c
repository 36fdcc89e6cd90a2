/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments, the order of the checks, and their result: a line each, and the exit status. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: check [--quick | --huge | --list | --force NAME]\n"
	"  checks every variant that runs here, and what is selected from them, against the\n"
	"  reference; exits with 1 if one fails, 2 if the check cannot do its work\n"
	"  --quick  few offsets and lengths: for emulators and sanitizers\n"
	"  --huge   lengths above 4 GiB, and nothing else\n"
	"  --list   the table: name, scalar or vector, compiled, how it runs here, what it needs; last\n"
	"           of which variants csum_partial, copy_csum_partial, copy and fill are selected\n"
	"  --force  makes every call use a variant, and checks it so; exits with 1 if it cannot run\n";

/* Covers every length up to a few blocks beyond 2048, where a kernel may switch methods. */
static const struct extent full = { 2800, 1, 1, 1, SIZE_MAX };
static const struct extent quick = { 600, 9, 21, 9, 10000 };

/* Name of the first variant in the table whose given member is the function. */
#define ORIGIN(member, function)                                                                   \
	static const char *origin_of_##member(void)                                                \
	{                                                                                          \
		for (size_t i = 0; i < lr_variant_count; i++)                                      \
			if (lr_variants[i]->member == (function))                                  \
				return lr_variants[i]->name;                                       \
		return "none";                                                                     \
	}
ORIGIN(csum_partial, lr_variant_current().csum_partial)
ORIGIN(copy_csum_partial, lr_variant_current().copy_csum_partial)
ORIGIN(copy, lr_variant_current().copy)
ORIGIN(fill, lr_variant_current().fill)

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
	printf("%-12s %s %s %s %s\n", "selected", origin_of_csum_partial(),
	       origin_of_copy_csum_partial(), origin_of_copy(), origin_of_fill());
	return 0;
}

/*
 * Collects the variants that run here, and finally the selected one; prints a line for each that
 * does not.
 */
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
		check_bursts(subjects, count, extent);
		check_sweep(subjects, count, extent);
		failures += print_result(&arithmetic) + print_result(&dispatch);
	}
	for (size_t i = 0; i < count; i++)
		failures += print_result(&subjects[i].tally);
	free(subjects);
	return failures;
}

/* Runs the quick sweep through the dispatching functions, with one variant forced. */
static int force(const char *name)
{
	static const char *const reasons[] = {
		[LR_UNKNOWN] = "no such variant",
		[LR_NOT_COMPILED] = "it is not part of this build",
		[LR_NOT_SUPPORTED] = "this processor does not support it",
	};
	struct subject subject = { .tally = { .name = name }, .kernels = dispatching() };
	const int refused = lr_variant_force(name);

	if (refused) {
		fprintf(stderr, "check: %s cannot be forced: %s; see --list\n", name,
			reasons[refused]);
		return 1;
	}
	check_bursts(&subject, 1, &quick);
	check_sweep(&subject, 1, &quick);
	return print_result(&subject.tally) ? 1 : 0;
}

int main(int argc, char **argv)
{
	const char *option = argc > 1 ? argv[1] : "";

	report_faults();
	if (argc == 3 && !strcmp(option, "--force"))
		return force(argv[2]);
	if (argc > 2 || (argc == 2 && strcmp(option, "--quick") && strcmp(option, "--huge") &&
			 strcmp(option, "--list"))) {
		fputs(usage, stderr);
		return 2;
	}
	if (!strcmp(option, "--list"))
		return list();
	return run(!strcmp(option, "--huge"), strcmp(option, "--quick") ? &full : &quick) ? 1 : 0;
}
