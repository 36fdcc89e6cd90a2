/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The check of the kernels against their specification. It knows the table and the headers, nothing
 * of what is inside a variant; only memory.c and huge.c know the operating system.
 */
#ifndef LINERATE_CHECK_H
#define LINERATE_CHECK_H

#include <linerate/checksum.h>
#include <linerate/copy.h>
#include <linerate/variant.h>

/* Failures after which a subject is not called any more. */
#define FAILURE_LIMIT 10

/* Initial contents of a destination, which must remain around it. */
#define GUARD 0xa5

/* Offsets are alignments within this many bytes: a cache line, the widest vector. */
#define LINE 64

/* One line of the result. */
struct tally {
	const char *name;
	unsigned long long cases;
	unsigned failures;
};

/* Four kernels under check: those of a variant, or those that dispatch. */
struct subject {
	struct tally tally;
	struct lr_variant kernels;
};

/* Size of the sweep. A step of 1 covers every offset of a line. */
struct extent {
	size_t every_length_to;
	size_t source_step;
	size_t pair_step;
	size_t long_step;
	/* For the long lengths, and for those in megabytes. */
	size_t longest;
};

/* memory.c: pages without access on both sides of the bytes; what a fault says. */
struct arena {
	uint8_t *first;
	size_t bytes;
};
struct arena arena_new(size_t bytes);
void arena_free(const struct arena *arena);
/* The lowest address in the arena with that offset. */
uint8_t *arena_front(const struct arena *arena, size_t offset);
/* The highest address with that offset followed by this many bytes. */
uint8_t *arena_back(const struct arena *arena, size_t bytes, size_t offset);
/* Under AddressSanitizer or Valgrind, poisons the bytes around these, and unpoisons them. */
void fence(const void *at, size_t bytes);
void unfence(const void *at, size_t bytes);
void report_faults(void);
/* Whether body(which) returns nonzero in a separate process. */
int in_a_process(int (*body)(int which), int which);

/* bytes.c: contents that find different mistakes; numbers that only look random. */
uint64_t random_number(void);
size_t random_below(size_t bound);
extern const size_t fill_count;
const char *fill_name(size_t fill);
#define FILL_RANDOM 0
#define FILL_ONES 1
#define FILL_MOSTLY_ONES 2
void fill_bytes(size_t fill, uint8_t *at, size_t bytes);
/* Bytes of that fill from anywhere in a long row of them. */
const uint8_t *pattern(size_t fill, size_t bytes);

/* calls.c: one call of one kernel, judged. */
struct call {
	const char *variant, *kernel, *fill;
	const uint8_t *dst, *src;
	size_t bytes;
	uint32_t seed;
};
extern struct call now;
void describe_call(char *text, size_t room);
uint16_t reference(const uint8_t *src, size_t bytes, uint32_t seed);
/* Says which bytes destinations are taken from, and fills them with GUARD. */
void use_destination(const struct arena *arena);
void check_destination_clean(struct subject *s);
void check_csum(struct subject *s, const uint8_t *src, size_t bytes, uint32_t seed,
		uint16_t expected);
/* content is what the destination must hold afterwards, out of the reach of the kernel. */
void check_copy_csum(struct subject *s, uint8_t *dst, const uint8_t *src, const uint8_t *content,
		     size_t bytes, uint32_t seed, uint16_t expected);
void check_copy(struct subject *s, uint8_t *dst, const uint8_t *src, const uint8_t *content,
		size_t bytes);
void check_fill(struct subject *s, uint8_t *dst, uint8_t value, const uint8_t *content,
		size_t bytes);
void fail(struct tally *tally, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Counts a case other than a call of a kernel; prints the text if it fails. */
void expect(struct tally *tally, int holds, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The checks. */
void check_arithmetic(struct tally *tally);
void check_packets(struct tally *tally);
void check_fragments(struct subject *subjects, size_t count);
void check_first_calls(struct tally *tally);
void check_dispatch(struct tally *tally);
/* lr_csum_partial and its siblings, as if they were a variant. */
struct lr_variant dispatching(void);
void check_edges(struct subject *subjects, size_t count);
void check_sweep(struct subject *subjects, size_t count, const struct extent *extent);
void check_huge(struct subject *subjects, size_t count);

#endif
