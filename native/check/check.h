/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The check of the kernels against their specification. It relies only on the table and the public
 * headers, not on the internals of any variant; only memory.c and huge.c depend on the operating
 * system.
 */
#ifndef LINERATE_CHECK_H
#define LINERATE_CHECK_H

#include <linerate/checksum.h>
#include <linerate/copy.h>
#include <linerate/variant.h>

/* Number of failures after which a subject is no longer called. */
#define FAILURE_LIMIT 10

/*
 * Byte that fills a destination and its surroundings before a call; the surroundings must keep it.
 */
#define GUARD 0xa5

/*
 * Cases begin at every offset within this many bytes: a cache line, which is also the widest
 * vector.
 */
#define LINE 64

/* The largest number of buffers in a checked burst. */
#define BURST_MAX 40

/* Result of one check or subject, printed as one line. */
struct tally {
	const char *name;
	unsigned long long cases;
	unsigned failures;
};

/* The four kernels under check: those of a variant, or the dispatching functions. */
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
	/* Upper limit of the long lengths, and of those in megabytes. */
	size_t longest;
};

/* memory.c: buffers enclosed by inaccessible pages, and reports of faults. */
struct arena {
	uint8_t *first;
	size_t bytes;
};
struct arena arena_new(size_t bytes);
void arena_free(const struct arena *arena);
/* Returns the lowest address in the arena with that offset. */
uint8_t *arena_front(const struct arena *arena, size_t offset);
/* Returns the highest address with that offset that is followed by this many bytes of the arena. */
uint8_t *arena_back(const struct arena *arena, size_t bytes, size_t offset);
/*
 * Under AddressSanitizer or Valgrind, fence poisons the bytes around these, and unfence unpoisons
 * them.
 */
void fence(const void *at, size_t bytes);
void unfence(const void *at, size_t bytes);
void report_faults(void);
/* Returns nonzero if body(which), run in a separate process, does. */
int in_a_process(int (*body)(int which), int which);

/* bytes.c: buffer contents that reveal different errors, and pseudorandom numbers. */
uint64_t random_number(void);
size_t random_below(size_t bound);
extern const size_t fill_count;
const char *fill_name(size_t fill);
#define FILL_RANDOM 0
#define FILL_ONES 1
#define FILL_MOSTLY_ONES 2
void fill_bytes(size_t fill, uint8_t *at, size_t bytes);
/* Returns the given number of bytes at a random position in a long pattern of that fill. */
const uint8_t *pattern(size_t fill, size_t bytes);

/* calls.c: makes one call of one kernel and checks its result. */
struct call {
	const char *variant, *kernel, *fill;
	const uint8_t *dst, *src;
	size_t bytes;
	uint32_t seed;
};
extern struct call now;
void describe_call(char *text, size_t room);
uint16_t reference(const uint8_t *src, size_t bytes, uint32_t seed);
/* Sets the arena in which destinations are, and fills it with GUARD. */
void use_destination(const struct arena *arena);
void check_destination_clean(struct subject *s);
void check_csum(struct subject *s, const uint8_t *src, size_t bytes, uint32_t seed,
		uint16_t expected);
/* content is a copy of the expected destination, in memory that the kernel is not given. */
/* seeds holds the sums before, expected the folded sums after the call. */
void check_csum_burst(struct subject *s, const struct lr_csum_buffer *buffers,
		      const uint32_t *seeds, const uint16_t *expected, size_t count);
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
/* lr_csum_partial and its siblings, in the form of a variant. */
struct lr_variant dispatching(void);
void check_edges(struct subject *subjects, size_t count);
void check_bursts(struct subject *subjects, size_t count, const struct extent *extent);
void check_sweep(struct subject *subjects, size_t count, const struct extent *extent);
void check_huge(struct subject *subjects, size_t count);

#endif
