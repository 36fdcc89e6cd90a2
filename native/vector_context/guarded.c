/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The guarded kernels: with vectors if the registers can be acquired, otherwise without.
 */
#include "../kernels/no_vectors.h"

#include "../kernels/kernels.h"

#include <linerate/guarded.h>

#if LR_VEC

/*
 * Below this length, the vector variants use words anyway, or take about as long as a scalar
 * variant.
 */
#define FEW 128

#define GET(v, member) __atomic_load_n(&(v)->member, __ATOMIC_RELAXED)

/*
 * Returns the best scalar function of each kind. It is selected at the first call; threads that
 * select at the same time write the same values.
 */
static const struct lr_variant *scalar(void)
{
	static struct lr_variant best;
	static const struct lr_variant *selected;
	const struct lr_variant *v = __atomic_load_n(&selected, __ATOMIC_ACQUIRE);
	if (!v) {
		v = lr_variant_select(&best, 0);
		__atomic_store_n(&selected, v, __ATOMIC_RELEASE);
	}
	return v;
}

/* The variant to use; has_registers is nonzero if the registers were acquired for it. */
struct guarded {
	const struct lr_variant *variant;
	int has_registers;
};

ALWAYS_INLINE struct guarded begin(struct lr_vec_unit *unit, struct lr_vec_nest *nest,
				   size_t bytes)
{
	const struct lr_variant *const called = lr_variant_called();
	if (!GET(called, vector))
		return (struct guarded){ called, 0 };
	if (bytes >= FEW && (nest ? lr_vec_nest(unit, nest) : lr_vec_enter(unit)))
		return (struct guarded){ called, 1 };
	return (struct guarded){ scalar(), 0 };
}

ALWAYS_INLINE void end(struct guarded g, struct lr_vec_unit *unit, const struct lr_vec_nest *nest)
{
	if (!g.has_registers)
		return;
	if (nest)
		lr_vec_unnest(unit, nest);
	else
		lr_vec_leave(unit);
}

uint32_t lr_guarded_csum_partial(struct lr_vec_unit *unit, struct lr_vec_nest *nest,
				 const void *src, size_t bytes, uint32_t sum)
{
	const struct guarded g = begin(unit, nest, bytes);
	sum = GET(g.variant, csum_partial)(src, bytes, sum);
	end(g, unit, nest);
	return sum;
}

uint32_t lr_guarded_copy_csum_partial(struct lr_vec_unit *unit, struct lr_vec_nest *nest, void *dst,
				      const void *src, size_t bytes, uint32_t sum)
{
	const struct guarded g = begin(unit, nest, bytes);
	sum = GET(g.variant, copy_csum_partial)(dst, src, bytes, sum);
	end(g, unit, nest);
	return sum;
}

void *lr_guarded_copy(struct lr_vec_unit *unit, struct lr_vec_nest *nest, void *dst,
		      const void *src, size_t bytes)
{
	const struct guarded g = begin(unit, nest, bytes);
	GET(g.variant, copy)(dst, src, bytes);
	end(g, unit, nest);
	return dst;
}

void *lr_guarded_fill(struct lr_vec_unit *unit, struct lr_vec_nest *nest, void *dst, uint8_t value,
		      size_t bytes)
{
	const struct guarded g = begin(unit, nest, bytes);
	GET(g.variant, fill)(dst, value, bytes);
	end(g, unit, nest);
	return dst;
}

#endif

#include "../kernels/no_vectors_end.h"
