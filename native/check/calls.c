/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Makes one call of one kernel, checks its result, counts it, and describes it on failure. */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct call now;

static struct arena destination;

void describe_call(char *text, size_t room)
{
	if (!now.kernel) {
		snprintf(text, room, "(no kernel was being called)");
		return;
	}
	size_t used = (size_t)snprintf(text, room, "%s %s: %zu bytes", now.variant, now.kernel,
				       now.bytes);
	if (now.src && used < room)
		used += (size_t)snprintf(text + used, room - used, ", source at 64k+%u",
					 (unsigned)((uintptr_t)now.src % LINE));
	if (now.dst && used < room)
		used += (size_t)snprintf(text + used, room - used, ", destination at 64k+%u",
					 (unsigned)((uintptr_t)now.dst % LINE));
	if (used < room && now.src)
		snprintf(text + used, room - used, ", of %s, seed 0x%08x", now.fill,
			 (unsigned)now.seed);
	else if (used < room)
		snprintf(text + used, room - used, ", value 0x%02x", (unsigned)now.seed);
}

static void fail_with(struct tally *tally, const char *format, va_list arguments)
{
	tally->failures++;
	printf("FAIL ");
	vprintf(format, arguments);
	printf("\n");
	if (tally->failures == FAILURE_LIMIT)
		printf("FAIL %s: further failures are not shown after the first %d\n", tally->name,
		       FAILURE_LIMIT);
}

void fail(struct tally *tally, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fail_with(tally, format, arguments);
	va_end(arguments);
}

void expect(struct tally *tally, int holds, const char *format, ...)
{
	tally->cases++;
	if (holds || tally->failures >= FAILURE_LIMIT)
		return;
	va_list arguments;
	va_start(arguments, format);
	fail_with(tally, format, arguments);
	va_end(arguments);
}

uint16_t reference(const uint8_t *src, size_t bytes, uint32_t seed)
{
	return (uint16_t)~lr_checksum16(src, bytes, seed, LR_BYTE_SWAP);
}

static int begin(struct subject *s, const char *kernel, uint8_t *dst, const uint8_t *src,
		 size_t bytes, uint32_t seed)
{
	if (s->tally.failures >= FAILURE_LIMIT)
		return 0;
	s->tally.cases++;
	now.variant = s->tally.name;
	now.kernel = kernel;
	now.dst = dst;
	now.src = src;
	now.bytes = bytes;
	now.seed = seed;
	if (dst)
		fence(dst, bytes);
	if (src)
		fence(src, bytes);
	return 1;
}

static void end(void)
{
	if (now.dst)
		unfence(now.dst, now.bytes);
	if (now.src)
		unfence(now.src, now.bytes);
}

static void fail_call(struct subject *s, const char *what, unsigned long expected,
		      unsigned long got)
{
	char text[256];
	describe_call(text, sizeof text);
	fail(&s->tally, "%s: %s: expected 0x%lx, got 0x%lx", text, what, expected, got);
}

static void judge_sum(struct subject *s, uint32_t sum, uint16_t expected)
{
	if (lr_csum_fold(sum) != expected)
		fail_call(s, "folded sum", expected, lr_csum_fold(sum));
}

/*
 * Returns the number of guard bytes next to a destination that are checked after every call: a
 * cache line, or fewer at the ends of the arena.
 */
static size_t flank_before(const uint8_t *dst)
{
	const size_t room = (size_t)(dst - destination.first);
	return room < LINE ? room : LINE;
}

static size_t flank_after(const uint8_t *dst, size_t bytes)
{
	const size_t room = (size_t)(destination.first + destination.bytes - (dst + bytes));
	return room < LINE ? room : LINE;
}

void use_destination(const struct arena *arena)
{
	destination = *arena;
	memset(destination.first, GUARD, destination.bytes);
}

/* Returns the index of the first byte that is not GUARD, or bytes if there is none. */
static size_t first_touched(const uint8_t *at, size_t bytes)
{
	static uint8_t guards[4096];
	size_t i = 0;
	if (!guards[0])
		memset(guards, GUARD, sizeof guards);
	while (bytes - i >= sizeof guards && !memcmp(at + i, guards, sizeof guards))
		i += sizeof guards;
	if (bytes - i < sizeof guards && !memcmp(at + i, guards, bytes - i))
		return bytes;
	while (i < bytes && at[i] == GUARD)
		i++;
	return i;
}

void check_destination_clean(struct subject *s)
{
	const size_t at = first_touched(destination.first, destination.bytes);
	if (at == destination.bytes)
		return;
	fail(&s->tally, "%s wrote far outside its destination, in calls of up to %zu bytes",
	     s->tally.name, now.bytes);
	use_destination(&destination);
}

/* Checks the contents in and around the destination, and restores GUARD. */
static void judge_bytes(struct subject *s, uint8_t *dst, const uint8_t *content, size_t bytes)
{
	const size_t before = flank_before(dst), after = flank_after(dst, bytes);
	size_t at = first_touched(dst - before, before);

	if (at < before)
		fail_call(s, "byte before the destination", GUARD, dst[at - before]);
	at = first_touched(dst + bytes, after);
	if (at < after)
		fail_call(s, "byte after the destination", GUARD, dst[bytes + at]);
	if (memcmp(dst, content, bytes)) {
		char what[64];
		for (at = 0; dst[at] == content[at]; at++)
			;
		snprintf(what, sizeof what, "byte %zu of the destination", at);
		fail_call(s, what, content[at], dst[at]);
	}
	memset(dst - before, GUARD, before + bytes + after);
}

static void judge_return(struct subject *s, const void *returned, const uint8_t *dst)
{
	if (returned != dst)
		fail_call(s, "returned pointer", (unsigned long)(uintptr_t)dst,
			  (unsigned long)(uintptr_t)returned);
}

void check_csum(struct subject *s, const uint8_t *src, size_t bytes, uint32_t seed,
		uint16_t expected)
{
	if (!begin(s, "csum_partial", 0, src, bytes, seed))
		return;
	const uint32_t sum = s->kernels.csum_partial(src, bytes, seed);
	end();
	judge_sum(s, sum, expected);
}

/* Stored after the sums of the burst; must not change. */
#define UNTOUCHED 0xc0ffee00

void check_csum_burst(struct subject *s, const struct lr_csum_buffer *buffers,
		      const uint32_t *seeds, const uint16_t *expected, size_t count)
{
	uint32_t sums[BURST_MAX + 1];

	if (s->tally.failures >= FAILURE_LIMIT)
		return;
	memcpy(sums, seeds, count * sizeof *seeds);
	sums[count] = UNTOUCHED;
	for (size_t i = 0; i < count; i++)
		if (buffers[i].src)
			fence(buffers[i].src, buffers[i].bytes);
	now.variant = s->tally.name;
	now.kernel = "csum_burst";
	now.dst = 0;
	now.src = count ? buffers[0].src : 0;
	s->kernels.csum_burst(buffers, sums, count);
	for (size_t i = 0; i < count; i++)
		if (buffers[i].src)
			unfence(buffers[i].src, buffers[i].bytes);
	for (size_t i = 0; i < count; i++) {
		s->tally.cases++;
		now.src = buffers[i].src;
		now.bytes = buffers[i].bytes;
		now.seed = seeds[i];
		judge_sum(s, sums[i], expected[i]);
	}
	expect(&s->tally, sums[count] == UNTOUCHED, "%s csum_burst: wrote past the end of %zu sums",
	       s->tally.name, count);
}

void check_copy_csum(struct subject *s, uint8_t *dst, const uint8_t *src, const uint8_t *content,
		     size_t bytes, uint32_t seed, uint16_t expected)
{
	if (!begin(s, "copy_csum_partial", dst, src, bytes, seed))
		return;
	const uint32_t sum = s->kernels.copy_csum_partial(dst, src, bytes, seed);
	end();
	judge_sum(s, sum, expected);
	judge_bytes(s, dst, content, bytes);
}

void check_copy(struct subject *s, uint8_t *dst, const uint8_t *src, const uint8_t *content,
		size_t bytes)
{
	if (!begin(s, "copy", dst, src, bytes, 0))
		return;
	const void *returned = s->kernels.copy(dst, src, bytes);
	end();
	judge_return(s, returned, dst);
	judge_bytes(s, dst, content, bytes);
}

void check_fill(struct subject *s, uint8_t *dst, uint8_t value, const uint8_t *content,
		size_t bytes)
{
	if (!begin(s, "fill", dst, 0, bytes, value))
		return;
	const void *returned = s->kernels.fill(dst, value, bytes);
	end();
	judge_return(s, returned, dst);
	judge_bytes(s, dst, content, bytes);
}
