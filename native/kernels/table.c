/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The table of variants, what is selected from it, and the functions that call what was selected. */
#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("general-regs-only"))), apply_to = function)
#elif defined(__x86_64__)
#pragma GCC target("general-regs-only")
#endif

#include "kernels.h"

extern const struct lr_variant lr_variant_portable;
extern const struct lr_variant lr_variant_adc;
extern const struct lr_variant lr_variant_sse2;
extern const struct lr_variant lr_variant_avx2;
extern const struct lr_variant lr_variant_avx512;
extern const struct lr_variant lr_variant_avx512vnni;

const struct lr_variant *const lr_variants[] = {
	&lr_variant_portable, &lr_variant_adc,	  &lr_variant_sse2,
	&lr_variant_avx2,     &lr_variant_avx512, &lr_variant_avx512vnni,
};
const size_t lr_variant_count = sizeof lr_variants / sizeof *lr_variants;

static int same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

const struct lr_variant *lr_variant_find(const char *name)
{
	for (size_t i = 0; i < lr_variant_count; i++)
		if (same(lr_variants[i]->name, name))
			return lr_variants[i];
	return 0;
}

static uint32_t first_csum_partial(const void *src, size_t octets, uint32_t sum);
static uint32_t first_copy_csum_partial(void *dst, const void *src, size_t octets, uint32_t sum);
static void *first_copy(void *dst, const void *src, size_t octets);
static void *first_fill(void *dst, uint8_t value, size_t octets);

/*
 * What is called. Members are read and written one by one: any mixture of two variants is right, and
 * no other memory is published through them, so calls read with relaxed accesses. csum_partial is
 * written last, with release, so that whoever sees it chosen (with acquire) sees all chosen.
 */
static struct lr_variant current = {
	.name = "selected",
	.compiled = 1,
	.csum_partial = first_csum_partial,
	.copy_csum_partial = first_copy_csum_partial,
	.copy = first_copy,
	.fill = first_fill,
};

#define GET(member) __atomic_load_n(&current.member, __ATOMIC_RELAXED)
#define SET(member, value) __atomic_store_n(&current.member, value, __ATOMIC_RELAXED)

static void use(const struct lr_variant *v)
{
	SET(name, v->name);
	SET(isa, v->isa);
	SET(vector, v->vector);
	SET(supported, v->supported);
	SET(preferred, v->preferred);
	SET(copy_csum_partial, v->copy_csum_partial);
	SET(copy, v->copy);
	SET(fill, v->fill);
	__atomic_store_n(&current.csum_partial, v->csum_partial, __ATOMIC_RELEASE);
}

/* Each variant that the processor runs well replaces what it is preferred for. */
static void select_best(void)
{
	struct lr_variant best = { .name = "selected", .isa = "", .compiled = 1 };

	for (size_t i = 0; i < lr_variant_count; i++) {
		const struct lr_variant *v = lr_variants[i];
		if (!v->compiled || v->supported() < LR_RUNS_WELL)
			continue;
		best.vector |= v->preferred && v->vector;
		best.supported = v->supported;
		best.preferred |= v->preferred;
		if (v->preferred & LR_CSUM)
			best.csum_partial = v->csum_partial;
		if (v->preferred & LR_COPY_CSUM)
			best.copy_csum_partial = v->copy_csum_partial;
		if (v->preferred & LR_COPY)
			best.copy = v->copy;
		if (v->preferred & LR_FILL)
			best.fill = v->fill;
	}
	use(&best);
}

int lr_variant_force(const char *name)
{
	if (!name) {
		select_best();
		return 0;
	}
	const struct lr_variant *v = lr_variant_find(name);
	if (!v)
		return LR_UNKNOWN;
	if (!v->compiled)
		return LR_NOT_COMPILED;
	if (!v->supported())
		return LR_NOT_SUPPORTED;
	use(v);
	return 0;
}

struct lr_variant lr_variant_current(void)
{
	if (__atomic_load_n(&current.csum_partial, __ATOMIC_ACQUIRE) == first_csum_partial)
		select_best();
	return (struct lr_variant){
		.name = GET(name),
		.isa = GET(isa),
		.vector = GET(vector),
		.compiled = 1,
		.supported = GET(supported),
		.preferred = GET(preferred),
		.csum_partial = GET(csum_partial),
		.copy_csum_partial = GET(copy_csum_partial),
		.copy = GET(copy),
		.fill = GET(fill),
	};
}

static uint32_t first_csum_partial(const void *src, size_t octets, uint32_t sum)
{
	return lr_variant_current().csum_partial(src, octets, sum);
}

static uint32_t first_copy_csum_partial(void *dst, const void *src, size_t octets, uint32_t sum)
{
	return lr_variant_current().copy_csum_partial(dst, src, octets, sum);
}

static void *first_copy(void *dst, const void *src, size_t octets)
{
	return lr_variant_current().copy(dst, src, octets);
}

static void *first_fill(void *dst, uint8_t value, size_t octets)
{
	return lr_variant_current().fill(dst, value, octets);
}

uint32_t lr_csum_partial(const void *src, size_t octets, uint32_t sum)
{
	return GET(csum_partial)(src, octets, sum);
}

uint32_t lr_copy_csum_partial(void *dst, const void *src, size_t octets, uint32_t sum)
{
	return GET(copy_csum_partial)(dst, src, octets, sum);
}

void *lr_copy(void *dst, const void *src, size_t octets)
{
	return GET(copy)(dst, src, octets);
}

void *lr_fill(void *dst, uint8_t value, size_t octets)
{
	return GET(fill)(dst, value, octets);
}

#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute pop
#endif
