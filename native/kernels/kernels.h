/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared by the files of the kernels: loads, stores and arithmetic of 64-bit sums. */
#ifndef LINERATE_KERNELS_H
#define LINERATE_KERNELS_H

#include <linerate/checksum.h>
#include <linerate/copy.h>
#include <linerate/variant.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/*
 * Unaligned words. Packed structures instead of memcpy, for which compilers emit a function call on
 * machines without unaligned loads.
 */
struct word64 {
	uint64_t value;
} __attribute__((packed, may_alias));
struct word32 {
	uint32_t value;
} __attribute__((packed, may_alias));
struct word16 {
	uint16_t value;
} __attribute__((packed, may_alias));

ALWAYS_INLINE uint64_t load64(const uint8_t *at)
{
	return ((const struct word64 *)at)->value;
}

ALWAYS_INLINE void store64(uint8_t *at, uint64_t word)
{
	((struct word64 *)at)->value = word;
}

ALWAYS_INLINE uint32_t load32(const uint8_t *at)
{
	return ((const struct word32 *)at)->value;
}

ALWAYS_INLINE void store32(uint8_t *at, uint32_t word)
{
	((struct word32 *)at)->value = word;
}

ALWAYS_INLINE uint16_t load16(const uint8_t *at)
{
	return ((const struct word16 *)at)->value;
}

/*
 * Returns a destination for code that sums without copying. The code advances it along with src, so
 * it must be a valid pointer, but never writes to it.
 */
ALWAYS_INLINE uint8_t *unused(const void *src)
{
	return (uint8_t *)(uintptr_t)src;
}

/*
 * Adds two 64-bit sums with end-around carry (ones' complement). The result is 0 only if both are
 * 0.
 */
ALWAYS_INLINE uint64_t add_carry(uint64_t a, uint64_t b)
{
	a += b;
	return a + (a < b);
}

/*
 * Folds 64 bits to 32, modulo 2^32 - 1; 0 only if sum is 0. Adding the halves swapped puts the
 * folded value into the upper half: if the lower halves carry, the carry lands there as the
 * end-around carry.
 */
ALWAYS_INLINE uint32_t fold64(uint64_t sum)
{
	return (uint32_t)((sum + (sum >> 32 | sum << 32)) >> 32);
}

/* The symbols of a variant's row in the table and of its functions, and its name as text. */
#define VARIANT_ROW_(variant) lr_variant_##variant
#define VARIANT_ROW(variant) VARIANT_ROW_(variant)
#define FUNCTION_(name, variant) lr_##name##_##variant
#define FUNCTION(name, variant) FUNCTION_(name, variant)
#define NAME_(variant) #variant
#define NAME(variant) NAME_(variant)

/*
 * lr_variant_called returns the current targets of lr_csum_partial and its siblings, for code that
 * must use the same ones in several steps. lr_variant_select fills into with the best function of
 * each kind, with or without vectors, and returns it. Its members must be loaded atomically:
 * threads that select at the same time write the same values.
 */
const struct lr_variant *lr_variant_called(void);
const struct lr_variant *lr_variant_select(struct lr_variant *into, int with_vectors);

/* supported() of variants that are not compiled in this build. */
static inline int nowhere(void)
{
	return 0;
}

#endif
