/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The table of bounds, and the bounds that call the C library. */
#include "bounds.h"

#include <string.h>

extern const struct lr_variant lr_bound_load64, lr_bound_load128, lr_bound_load256,
	lr_bound_load512;
extern const struct lr_variant lr_bound_store64, lr_bound_store128, lr_bound_store256,
	lr_bound_store512;

static int supported(void)
{
	return 1;
}

/* Volatile, so that the compiler neither knows nor replaces the functions that are called. */
static void *(*volatile const library_memcpy)(void *, const void *, size_t) = memcpy;
static void *(*volatile const library_memset)(void *, int, size_t) = memset;

/*
 * memcpy in the form of a copy with checksum. The result is meaningless: returning the low half of
 * the pointer that memcpy returned costs nothing.
 */
static uint32_t memcpy_for_csum(void *dst, const void *src, size_t bytes, uint32_t sum)
{
	(void)sum;
	return (uint32_t)(uintptr_t)library_memcpy(dst, src, bytes);
}

static void *memset_for_fill(void *dst, uint8_t value, size_t bytes)
{
	return library_memset(dst, value, bytes);
}

static const struct lr_variant bound_memcpy = {
	.name = "memcpy",
	.isa = "C library",
	.compiled = 1,
	.supported = supported,
	.copy_csum_partial = memcpy_for_csum,
	.copy = memcpy,
};

static const struct lr_variant bound_memset = {
	.name = "memset",
	.isa = "C library",
	.compiled = 1,
	.supported = supported,
	.fill = memset_for_fill,
};

const struct lr_variant *const lr_bounds[] = {
	&lr_bound_load64,   &lr_bound_load128,	&lr_bound_load256,  &lr_bound_load512,
	&lr_bound_store64,  &lr_bound_store128, &lr_bound_store256, &lr_bound_store512,
	&bound_memcpy,	    &bound_memset,
};
const size_t lr_bound_count = sizeof lr_bounds / sizeof *lr_bounds;
