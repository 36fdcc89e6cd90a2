/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The table of variants, the selection, and the functions that call the selected variants. */
#include "no_vectors.h"

#include "kernels.h"

extern const struct lr_variant lr_variant_portable;
extern const struct lr_variant lr_variant_adc;
extern const struct lr_variant lr_variant_sse2;
extern const struct lr_variant lr_variant_avx2;
extern const struct lr_variant lr_variant_avx512;
extern const struct lr_variant lr_variant_avx512vnni;
extern const struct lr_variant lr_variant_adcs;
extern const struct lr_variant lr_variant_armv6;
extern const struct lr_variant lr_variant_neon;
extern const struct lr_variant lr_variant_sve;
extern const struct lr_variant lr_variant_ppc;
extern const struct lr_variant lr_variant_altivec;
extern const struct lr_variant lr_variant_vsx;
extern const struct lr_variant lr_variant_aligned;
extern const struct lr_variant lr_variant_alcg;

const struct lr_variant *const lr_variants[] = {
	&lr_variant_portable,
	/* x86-64 */
	&lr_variant_adc,
	&lr_variant_sse2,
	&lr_variant_avx2,
	&lr_variant_avx512,
	&lr_variant_avx512vnni,
	/* ARM */
	&lr_variant_armv6,
	&lr_variant_adcs,
	&lr_variant_neon,
	&lr_variant_sve,
	/* PowerPC */
	&lr_variant_ppc,
	&lr_variant_altivec,
	&lr_variant_vsx,
	/* others */
	&lr_variant_aligned,
	&lr_variant_alcg,
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

static uint32_t first_csum_partial(const void *src, size_t bytes, uint32_t sum);
static void first_csum_burst(const struct lr_csum_buffer *buffers, uint32_t *sums, size_t count);
static uint32_t first_copy_csum_partial(void *dst, const void *src, size_t bytes, uint32_t sum);
static void *first_copy(void *dst, const void *src, size_t bytes);
static void *first_fill(void *dst, uint8_t value, size_t bytes);

/* The initial targets: functions that detect the processor, then call the selected variant. */
static const struct lr_variant first = {
	.name = "selected",
	.csum_partial = first_csum_partial,
	.csum_burst = first_csum_burst,
	.copy_csum_partial = first_copy_csum_partial,
	.copy = first_copy,
	.fill = first_fill,
};

/* The best function of each kind, after selected() has been called. */
static struct lr_variant best;

/*
 * Systems with ARM processors before ARMv6 have a single processor, and no memory barrier
 * instruction: for ordered atomics, compilers call functions of their library. A single processor
 * sees its own accesses in order; only the compiler must be kept from reordering them.
 */
#if defined(__arm__) && __ARM_ARCH < 6
#define ORDERED(how) __ATOMIC_RELAXED
#else
#define ORDERED(how) how
#endif

/*
 * The current targets. A thread fills in the structure before it stores the pointer, so the store
 * must be at least a release, and the load an acquire.
 */
static const struct lr_variant *current = &first;

/*
 * The variant that was forced last, or &best if the best of each kind was selected again; null
 * before the first of these calls.
 */
static const struct lr_variant *forced;

static void publish(const struct lr_variant **where, const struct lr_variant *v)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(where, v, ORDERED(__ATOMIC_SEQ_CST));
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#define SET(member, value) __atomic_store_n(&into->member, value, __ATOMIC_RELAXED)

/*
 * Fills in the best function of each kind: going through the table, every variant that the
 * processor runs well replaces the earlier ones for the functions it is preferred for. Threads that
 * do so at the same time write the same values, member by member.
 */
const struct lr_variant *lr_variant_select(struct lr_variant *into, int with_vectors)
{
	struct lr_variant b = { .vector = 0 };

	for (size_t i = 0; i < lr_variant_count; i++) {
		const struct lr_variant *v = lr_variants[i];
		if (!v->compiled || v->supported() < LR_RUNS_WELL || (v->vector && !with_vectors))
			continue;
		b.vector |= v->preferred && v->vector;
		b.supported = v->supported;
		b.preferred |= v->preferred;
		if (v->preferred & LR_CSUM) {
			b.csum_partial = v->csum_partial;
			b.csum_burst = v->csum_burst;
		}
		if (v->preferred & LR_COPY_CSUM)
			b.copy_csum_partial = v->copy_csum_partial;
		if (v->preferred & LR_COPY)
			b.copy = v->copy;
		if (v->preferred & LR_FILL)
			b.fill = v->fill;
	}
	SET(name, "selected");
	SET(isa, "");
	SET(vector, b.vector);
	SET(compiled, 1);
	SET(supported, b.supported);
	SET(preferred, b.preferred);
	SET(csum_partial, b.csum_partial);
	SET(csum_burst, b.csum_burst);
	SET(copy_csum_partial, b.copy_csum_partial);
	SET(copy, b.copy);
	SET(fill, b.fill);
	return into;
}

static const struct lr_variant *selected(void)
{
	return lr_variant_select(&best, 1);
}

/*
 * Returns the current targets, selecting them first if nothing has been selected or forced.
 *
 * If another thread forces a variant at the same time, that takes precedence. The other thread
 * stores to forced and then to current; this one stores to current and then loads forced; all four
 * are sequentially consistent. Either the load therefore sees the forced value, which this thread
 * then stores, repeating until the value no longer changes; or the other thread's store to current
 * comes after this one. Compare-and-exchange is not used, because not every processor has it. The
 * function is not inlined, because it has six callers, each of which needs it once.
 */
__attribute__((noinline)) const struct lr_variant *lr_variant_called(void)
{
	const struct lr_variant *v = __atomic_load_n(&current, ORDERED(__ATOMIC_ACQUIRE));
	if (v != &first)
		return v;
	const struct lr_variant *wanted = selected();
	do {
		v = wanted;
		publish(&current, v);
		wanted = __atomic_load_n(&forced, ORDERED(__ATOMIC_SEQ_CST));
	} while (wanted && wanted != v);
	return v;
}

int lr_variant_force(const char *name)
{
	const struct lr_variant *v = name ? lr_variant_find(name) : selected();
	if (!v)
		return LR_UNKNOWN;
	if (!v->compiled)
		return LR_NOT_COMPILED;
	if (!v->supported())
		return LR_NOT_SUPPORTED;
	publish(&forced, v);
	publish(&current, v);
	return 0;
}

#define GET(v, member) __atomic_load_n(&(v)->member, __ATOMIC_RELAXED)

struct lr_variant lr_variant_current(void)
{
	const struct lr_variant *const v = lr_variant_called();
	return (struct lr_variant){
		.name = GET(v, name),
		.isa = GET(v, isa),
		.vector = GET(v, vector),
		.compiled = GET(v, compiled),
		.supported = GET(v, supported),
		.preferred = GET(v, preferred),
		.csum_partial = GET(v, csum_partial),
		.csum_burst = GET(v, csum_burst),
		.copy_csum_partial = GET(v, copy_csum_partial),
		.copy = GET(v, copy),
		.fill = GET(v, fill),
	};
}

static uint32_t first_csum_partial(const void *src, size_t bytes, uint32_t sum)
{
	return GET(lr_variant_called(), csum_partial)(src, bytes, sum);
}

static void first_csum_burst(const struct lr_csum_buffer *buffers, uint32_t *sums, size_t count)
{
	GET(lr_variant_called(), csum_burst)(buffers, sums, count);
}

static uint32_t first_copy_csum_partial(void *dst, const void *src, size_t bytes, uint32_t sum)
{
	return GET(lr_variant_called(), copy_csum_partial)(dst, src, bytes, sum);
}

static void *first_copy(void *dst, const void *src, size_t bytes)
{
	return GET(lr_variant_called(), copy)(dst, src, bytes);
}

static void *first_fill(void *dst, uint8_t value, size_t bytes)
{
	return GET(lr_variant_called(), fill)(dst, value, bytes);
}

#define CALLED(member) GET(__atomic_load_n(&current, ORDERED(__ATOMIC_ACQUIRE)), member)

uint32_t lr_csum_partial(const void *src, size_t bytes, uint32_t sum)
{
	return CALLED(csum_partial)(src, bytes, sum);
}

void lr_csum_burst(const struct lr_csum_buffer *buffers, uint32_t *sums, size_t count)
{
	CALLED(csum_burst)(buffers, sums, count);
}

uint32_t lr_copy_csum_partial(void *dst, const void *src, size_t bytes, uint32_t sum)
{
	return CALLED(copy_csum_partial)(dst, src, bytes, sum);
}

void *lr_copy(void *dst, const void *src, size_t bytes)
{
	return CALLED(copy)(dst, src, bytes);
}

void *lr_fill(void *dst, uint8_t value, size_t bytes)
{
	return CALLED(fill)(dst, value, bytes);
}

#include "no_vectors_end.h"
