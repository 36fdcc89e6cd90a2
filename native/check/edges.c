/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lengths of 0 with null pointers, and ranges that touch without overlapping. */
#include "check.h"

#include <stdio.h>
#include <string.h>

/*
 * Null plus zero bytes is null in C++, in C as of 2024 (WG14 N3322) and for every compiler, but not
 * in C11; clang's sanitizer reports it.
 */
#ifdef __has_feature
#define NULL_OFFENDS __has_feature(undefined_behavior_sanitizer)
#else
#define NULL_OFFENDS 0
#endif

/* Longest length: the arena has room for twice this and an offset. */
#define LONGEST 1500

static void nothing_at_null(struct subject *s)
{
	const struct lr_variant *k = &s->kernels;
	static const uint32_t seeds[] = { 0, 1, 0xffff, 0x10000, 0xfffe0001, 0xffffffff };
	static const uint16_t folded[] = { 0, 1, 0xffff, 1, 0xffff, 0xffff };
	static const struct lr_csum_buffer empty[sizeof seeds / sizeof *seeds] = { { 0, 0 } };

	now = (struct call){ s->tally.name, "(nothing at null)", "nothing", 0, 0, 0, 0 };
	for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
		const uint16_t expected = lr_csum_fold(seeds[i]);
		expect(&s->tally, lr_csum_fold(k->csum_partial(0, 0, seeds[i])) == expected,
		       "%s csum_partial: nothing at null, seed 0x%08x", s->tally.name,
		       (unsigned)seeds[i]);
		expect(&s->tally,
		       lr_csum_fold(k->copy_csum_partial(0, 0, 0, seeds[i])) == expected,
		       "%s copy_csum_partial: nothing at null, seed 0x%08x", s->tally.name,
		       (unsigned)seeds[i]);
	}
	k->csum_burst(0, 0, 0);
	for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
		check_csum_burst(s, empty, seeds, folded, i + 1);
	expect(&s->tally, !k->copy(0, 0, 0), "%s copy: nothing at null", s->tally.name);
	expect(&s->tally, !k->fill(0, 0xff, 0), "%s fill: nothing at null", s->tally.name);
}

/* Copies between two halves that touch, and expects both halves to hold the content afterwards. */
static void adjacent(struct subject *s, uint8_t *dst, uint8_t *src, size_t length)
{
	const uint8_t *content = pattern(FILL_RANDOM, length);
	const uint16_t expected = reference(content, length, 1);

	memcpy(src, content, length);
	memset(dst, GUARD, length);
	now = (struct call){ s->tally.name, "copy", fill_name(FILL_RANDOM), dst, src, length, 0 };
	s->kernels.copy(dst, src, length);
	expect(&s->tally, !memcmp(src, content, length) && !memcmp(dst, content, length),
	       "%s copy: %zu bytes, destination %+ld from the source", s->tally.name, length,
	       (long)(dst - src));

	memset(dst, GUARD, length);
	now.kernel = "copy_csum_partial";
	const uint32_t sum = s->kernels.copy_csum_partial(dst, src, length, 1);
	expect(&s->tally,
	       !memcmp(src, content, length) && !memcmp(dst, content, length) &&
		       lr_csum_fold(sum) == expected,
	       "%s copy_csum_partial: %zu bytes, destination %+ld from the source", s->tally.name,
	       length, (long)(dst - src));
}

void check_edges(struct subject *subjects, size_t count)
{
	const struct arena arena = arena_new(2 * LONGEST + LINE);

	if (NULL_OFFENDS)
		printf("SKIP: nothing at null: clang rejects adding 0 to a null pointer\n");
	for (struct subject *s = subjects; s < subjects + count; s++) {
		if (!NULL_OFFENDS)
			nothing_at_null(s);
		for (size_t length = 1; length <= LONGEST; length += length < 300 ? 1 : 61) {
			for (size_t offset = 0; offset < LINE; offset += 7) {
				uint8_t *low = arena_front(&arena, offset);
				uint8_t *high = arena_back(&arena, length, offset);
				adjacent(s, low, low + length, length);
				adjacent(s, low + length, low, length);
				adjacent(s, high, high - length, length);
				adjacent(s, high - length, high, length);
			}
		}
	}
	arena_free(&arena);
}
