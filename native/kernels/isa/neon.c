/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ARM with NEON, 32-bit from ARMv7 on and 64-bit: vectors of 16 bytes. Little-endian only: on
 * big-endian machines a vector of bytes is not a vector of words.
 */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#elif defined(__aarch64__) && defined(__ARM_NEON)
#define COMPILED
#elif defined(__GCC_IEC_559) && !__GCC_IEC_559
/* With -mgeneral-regs-only, gcc would only report an error about floating-point types. */
#elif defined(__arm__) && __ARM_ARCH >= 7 && __ARM_ARCH_PROFILE == 'A' && defined(__ARM_FP)
#define COMPILED
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("neon"))), apply_to = function)
#else
#pragma GCC target("fpu=neon")
#endif
#endif

#include "../kernels.h"

#define VARIANT neon
#define ISA "NEON"

#ifdef COMPILED
#include "../processor.h"
#ifdef __aarch64__
#include "../aarch64.h"
#else
#include "../words.h"
#endif

#include <arm_neon.h>

#define SUPPORTED supported
#define PREFERRED LR_ALL
#define VEC 16
#define ENDS "ends_overlap.h"

/* Words are added as unsigned, so nothing is missing. */
#define MISSING 0u

/*
 * Vectors have the type of lanes: compilers copy a vector of bytes when it is reinterpreted as
 * lanes.
 */
typedef uint32x4_t vec;

static int supported(void)
{
	return lr_processor_runs(LR_HAS_NEON);
}

ALWAYS_INLINE vec vec_load(const uint8_t *at)
{
	return vreinterpretq_u32_u8(vld1q_u8(at));
}

ALWAYS_INLINE void vec_store(uint8_t *at, vec v)
{
	vst1q_u8(at, vreinterpretq_u8_u32(v));
}

#ifdef __aarch64__
#define BLOCK_AT_ONCE 1

ALWAYS_INLINE void load_4(vec v[4], const uint8_t *at)
{
	const uint8x16x4_t four = vld1q_u8_x4(at);
	for (int i = 0; i < 4; i++)
		v[i] = vreinterpretq_u32_u8(four.val[i]);
}

ALWAYS_INLINE void store_4(uint8_t *at, const vec v[4])
{
	const uint8x16x4_t four = { { vreinterpretq_u8_u32(v[0]), vreinterpretq_u8_u32(v[1]),
				      vreinterpretq_u8_u32(v[2]), vreinterpretq_u8_u32(v[3]) } };
	vst1q_u8_x4(at, four);
}
#endif

ALWAYS_INLINE vec vec_opaque(vec v)
{
	__asm__("" : "+w"(v));
	return v;
}

ALWAYS_INLINE vec vec_zero(void)
{
	return vdupq_n_u32(0);
}

ALWAYS_INLINE vec vec_set(uint8_t value)
{
	return vreinterpretq_u32_u8(vdupq_n_u8(value));
}

ALWAYS_INLINE vec vec_and(vec a, vec b)
{
	return vandq_u32(a, b);
}

ALWAYS_INLINE vec vec_join(vec a, vec b)
{
	return vaddq_u32(a, b);
}

struct constants {
	int none;
};

ALWAYS_INLINE struct constants constants(void)
{
	return (struct constants){ 0 };
}

ALWAYS_INLINE vec vec_pairs(vec v, struct constants k)
{
	(void)k;
	return vpaddlq_u16(vreinterpretq_u16_u32(v));
}

ALWAYS_INLINE vec vec_accumulate(vec lanes, vec v, struct constants k)
{
	(void)k;
	return vpadalq_u16(lanes, vreinterpretq_u16_u32(v));
}

/*	lanes		d c b a
 *	two of 64	d+c b+a
 */
ALWAYS_INLINE uint32_t vec_total(vec lanes)
{
#ifdef __aarch64__
	return vaddvq_u32(lanes);
#else
	const uint64x2_t two = vpaddlq_u32(lanes);
	return (uint32_t)(vgetq_lane_u64(two, 0) + vgetq_lane_u64(two, 1));
#endif
}

#include "../body.h"
#else
#include "../not_compiled.h"
#endif

#if defined(__clang__) && defined(COMPILED) && defined(__arm__)
#pragma clang attribute pop
#endif
