/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls every function of every variant that runs here, with a mark before and after each call, and
 * prints a line for each: "VARIANT FUNCTION BYTES OFFSETS VECTOR PREFERRED", or "SKIP VARIANT" for
 * one that this processor does not run. plugin.c, given the address of lr_marked, counts between
 * the marks.
 *
 * The first line, "call none 0 0 0 0", is of a function that does nothing, to see what belongs to a
 * call. "reference" is lr_checksum16, "plain" plain.c, "vaddcuw" carries.c.
 *
 * A sum that is not the reference's ends the program, because its count would say nothing. Whether
 * the library is right in all else is native/check's to see.
 */
#include "plain.h"

#include <linerate/checksum.h>
#include <linerate/copy.h>
#include <linerate/variant.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A header, a small and a middling packet, the payload of an Ethernet frame, a jumbo frame's. */
static const size_t LENGTHS[] = { 20, 64, 576, 1460, 8000 };

/* Of source and destination, from a multiple of 64: none, and two that are relatively odd. */
static const size_t OFFSETS[][2] = { { 0, 0 }, { 7, 2 } };

static unsigned char from[8192] __attribute__((aligned(64)));
static unsigned char to[8192] __attribute__((aligned(64)));

/* Results are stored here, so that no call is optimized away. */
static volatile uint32_t kept;

/*
 * Address for the plugin: a label and not the function, whose symbol names a descriptor on some
 * architectures.
 */
static __attribute__((noinline, noclone)) void mark(void)
{
	__asm__ volatile(".globl lr_marked\n"
			 "lr_marked:\n\t"
			 "nop");
}

static const struct lr_variant REFERENCE = { .name = "reference" };
static const struct lr_variant PLAIN = {
	.name = "plain",
	.csum_partial = plain_csum,
	.copy_csum_partial = plain_copy_csum,
};

/* The AltiVec variant with other additions; functions without additions are not compared. */
extern const struct lr_variant lr_variant_vaddcuw;

/* Bytes that carry as often as not, the same ones in each run. */
static void scatter(unsigned char *to_fill, size_t bytes)
{
	uint32_t state = 1;
	for (size_t i = 0; i < bytes; i++) {
		state = state * 1664525 + 1013904223;
		to_fill[i] = (unsigned char)(state >> 24);
	}
}

static void compare(const struct lr_variant *v, const char *function, const unsigned char *src,
		    size_t bytes)
{
	const uint16_t right = (uint16_t)~lr_checksum16(src, bytes, 0, LR_BYTE_SWAP);

	if (lr_csum_fold(kept) == right)
		return;
	fprintf(stderr, "%s, %s of %zu bytes: the sum is 0x%04x, not 0x%04x\n", v->name, function,
		bytes, lr_csum_fold(kept), right);
	exit(1);
}

static void said(const struct lr_variant *v, const char *function, size_t bytes, size_t offsets,
		 unsigned preferred)
{
	printf("%s %s %zu %zu %d %d\n", v->name, function, bytes, offsets, v->vector,
	       (v->preferred & preferred) != 0);
}

static void call(const struct lr_variant *v, size_t bytes, size_t offsets)
{
	const unsigned char *const src = from + OFFSETS[offsets][0];
	unsigned char *const dst = to + OFFSETS[offsets][1];

	if (v == &REFERENCE) {
		mark();
		kept = lr_checksum16(src, bytes, 0, LR_BYTE_SWAP);
		mark();
		said(v, "checksum", bytes, offsets, LR_CSUM);
	}
	if (v->csum_partial) {
		mark();
		kept = v->csum_partial(src, bytes, 0);
		mark();
		compare(v, "checksum", src, bytes);
		said(v, "checksum", bytes, offsets, LR_CSUM);
	}
	if (v->copy_csum_partial) {
		mark();
		kept = v->copy_csum_partial(dst, src, bytes, 0);
		mark();
		compare(v, "copy+checksum", src, bytes);
		said(v, "copy+checksum", bytes, offsets, LR_COPY_CSUM);
	}
	if (v->copy) {
		mark();
		v->copy(dst, src, bytes);
		mark();
		said(v, "copy", bytes, offsets, LR_COPY);
	}
	if (v->fill) {
		mark();
		v->fill(dst, 1, bytes);
		mark();
		said(v, "fill", bytes, offsets, LR_FILL);
	}
}

static void calls(const struct lr_variant *v)
{
	for (size_t o = 0; o < COUNT(OFFSETS); o++)
		for (size_t l = 0; l < COUNT(LENGTHS); l++)
			call(v, LENGTHS[l], o);
}

int main(void)
{
	struct lr_variant by_carries = lr_variant_vaddcuw;

	by_carries.copy = NULL;
	by_carries.fill = NULL;
	scatter(from, sizeof from);
	memset(to, 0, sizeof to);
	mark();
	kept = plain_nothing(to, from, 0, 0);
	mark();
	puts("call none 0 0 0 0");
	calls(&REFERENCE);
	calls(&PLAIN);
	if (by_carries.supported())
		calls(&by_carries);
	for (size_t i = 0; i < lr_variant_count; i++) {
		const struct lr_variant *const v = lr_variants[i];
		if (v->compiled && v->supported())
			calls(v);
		else if (v->compiled)
			printf("SKIP %s\n", v->name);
	}
	return 0;
}
