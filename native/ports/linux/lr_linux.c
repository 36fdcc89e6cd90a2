// SPDX-License-Identifier: MIT OR Apache-2.0
/* The kernels inside Linux; see lr_linux.h. */
#include "lr_linux.h"

#include <linux/build_bug.h>
#include <linux/preempt.h>

#if defined(CONFIG_X86_64)
#include <asm/fpu/api.h>

int lr_linux_begin(void)
{
	if (!irq_fpu_usable())
		return 0;
	kernel_fpu_begin();
	return 1;
}

void lr_linux_end(void)
{
	kernel_fpu_end();
}

static void tell(void)
{
}

#elif defined(CONFIG_ARM64) && defined(CONFIG_KERNEL_MODE_NEON)
#include <asm/neon.h>
#include <asm/simd.h>

int lr_linux_begin(void)
{
	if (!may_use_simd())
		return 0;
	kernel_neon_begin();
	return 1;
}

void lr_linux_end(void)
{
	kernel_neon_end();
}

/* SVE is left out: for its own use, the kernel provides only the first 16 bytes of each vector. */
static void tell(void)
{
	lr_processor_tell(system_supports_fpsimd() ? LR_HAS_NEON : 0);
}

#elif defined(CONFIG_ALTIVEC)
#include <asm/cputable.h>
#include <asm/simd.h>
#include <asm/switch_to.h>

int lr_linux_begin(void)
{
	if (!cpu_has_feature(CPU_FTR_ALTIVEC) || !may_use_simd())
		return 0;
	preempt_disable();
	enable_kernel_altivec();
	return 1;
}

void lr_linux_end(void)
{
	disable_kernel_altivec();
	preempt_enable();
}

static void tell(void)
{
	lr_processor_tell(cpu_has_feature(CPU_FTR_ALTIVEC) ? LR_HAS_ALTIVEC : 0);
}

#else
int lr_linux_begin(void)
{
	return 0;
}

void lr_linux_end(void)
{
}

static void tell(void)
{
}
#endif

/* The targets: element 0 without vectors, element 1 with vectors. */
static uint32_t (*csum[2])(const void *src, size_t bytes, uint32_t sum);
static uint32_t (*copy_csum[2])(void *dst, const void *src, size_t bytes, uint32_t sum);

void lr_linux_use(const struct lr_variant *scalar, const struct lr_variant *vector)
{
	csum[0] = scalar->csum_partial;
	copy_csum[0] = scalar->copy_csum_partial;
	csum[1] = vector ? vector->csum_partial : NULL;
	copy_csum[1] = vector ? vector->copy_csum_partial : NULL;
}

void lr_linux_select(void)
{
	size_t i;

	tell();
	csum[1] = NULL;
	copy_csum[1] = NULL;
	for (i = 0; i < lr_variant_count; i++) {
		const struct lr_variant *const v = lr_variants[i];
		const int kind = !!v->vector;

		if (!v->compiled || v->supported() < LR_RUNS_WELL)
			continue;
		if (v->preferred & LR_CSUM)
			csum[kind] = v->csum_partial;
		if (v->preferred & LR_COPY_CSUM)
			copy_csum[kind] = v->copy_csum_partial;
	}
}

/*
 * Returns the length of the next step. All steps but the last have an even length, so that every
 * byte stays in its half of a 16-bit word.
 */
static size_t step(size_t bytes)
{
	BUILD_BUG_ON(LR_LINUX_STEP_BYTES % 2);
	return bytes < LR_LINUX_STEP_BYTES ? bytes : LR_LINUX_STEP_BYTES;
}

uint32_t lr_linux_csum(const void *src, size_t bytes, uint32_t sum)
{
	while (csum[1] && bytes >= LR_LINUX_VECTOR_BYTES && lr_linux_begin()) {
		const size_t now = step(bytes);

		sum = csum[1](src, now, sum);
		lr_linux_end();
		src += now;
		bytes -= now;
	}
	return csum[0](src, bytes, sum);
}

uint32_t lr_linux_copy_csum(void *dst, const void *src, size_t bytes, uint32_t sum)
{
	while (copy_csum[1] && bytes >= LR_LINUX_VECTOR_BYTES && lr_linux_begin()) {
		const size_t now = step(bytes);

		sum = copy_csum[1](dst, src, now, sum);
		lr_linux_end();
		dst += now;
		src += now;
		bytes -= now;
	}
	return copy_csum[0](dst, src, bytes, sum);
}
