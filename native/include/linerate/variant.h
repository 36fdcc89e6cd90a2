/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The variants of the kernels: one table of what was compiled, what this processor can run, and the
 * functions. Dispatch, checks, benches and listings all walk it.
 *
 * No function uses a register that the processor or the operating system has not enabled. Only the
 * caller knows whether vector registers may be used in its context (a kernel, an interrupt, a
 * signal handler): if not, call the functions of a scalar variant by name.
 */
#ifndef LINERATE_VARIANT_H
#define LINERATE_VARIANT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LR_CSUM = 1, LR_COPY_CSUM = 2, LR_COPY = 4, LR_FILL = 8, LR_ALL = 15 };

enum { LR_RUNS = 1, LR_RUNS_WELL = 2 };

struct lr_variant {
	/* One word, the same in symbols, tables and on command lines: "avx2". */
	const char *name;
	/* Required CPU features, as named in the manual: "AVX2". */
	const char *isa;
	/* Whether the functions touch vector registers. */
	int vector;
	/*
	 * Whether this build holds the functions. Without, they are null and supported() is 0: a
	 * variant for another architecture, one whose intrinsics the compiler does not have, or a
	 * vector variant in a build that forbids vector registers (as -mno-sse does).
	 */
	int compiled;
	/*
	 * Whether this processor and its operating system can run them: 0 if not; LR_RUNS if only
	 * by name, because it slows the surrounding code more than it gains; LR_RUNS_WELL if the functions
	 * may be selected.
	 */
	int (*supported)(void);
	/* Which functions are selected, by LR_CSUM and so on, if no later variant takes their place. */
	unsigned preferred;
	/* As lr_csum_partial, lr_copy_csum_partial, lr_copy and lr_fill. */
	uint32_t (*csum_partial)(const void *src, size_t bytes, uint32_t sum);
	uint32_t (*copy_csum_partial)(void *dst, const void *src, size_t bytes, uint32_t sum);
	void *(*copy)(void *dst, const void *src, size_t bytes);
	void *(*fill)(void *dst, uint8_t value, size_t bytes);
};

/* Arguments of lr_processor_tell. */
enum {
	LR_HAS_NEON = 1,    /* ARM: Advanced SIMD, its registers enabled */
	LR_HAS_SVE = 2,	    /* AArch64: the Scalable Vector Extension, whatever its length */
	LR_HAS_ALTIVEC = 4, /* PowerPC: AltiVec (VMX) */
	LR_HAS_VSX = 8,	    /* PowerPC: VSX as of Power ISA 2.07 (POWER8) */
};

/*
 * Declares the usable vector units, as LR_HAS_ bits: the processor has them, and the registers are
 * enabled and saved for the callers. Without a declaration, a Linux process with a C library,
 * static or not, detects them by itself; other code uses no vectors: on bare metal and in a kernel,
 * call this. On x86-64 it has no effect, because CPUID is used there. Call it before the first call
 * of any other function of this library.
 */
void lr_processor_tell(unsigned features);

/* Every variant there is, from the plainest up; lr_variant_count of them. */
extern const struct lr_variant *const lr_variants[];
extern const size_t lr_variant_count;

/* The variant of that name, or null. It may not be compiled or not be supported. */
const struct lr_variant *lr_variant_find(const char *name);

/*
 * The current targets of lr_csum_partial and its siblings: by default, for each function the best
 * that this processor can run, selected at the first call of any of them. The functions may come
 * from different variants; compare them with the table to find out which. name is that of the
 * forced variant, or "selected".
 */
struct lr_variant lr_variant_current(void);

/*
 * Makes lr_csum_partial, lr_copy_csum_partial, lr_copy and lr_fill use one variant from now on, or
 * the best of each again if name is null. Returns 0 on success; LR_UNKNOWN, LR_NOT_COMPILED or
 * LR_NOT_SUPPORTED without any change. Running calls in other threads finish in the variant they
 * began with; calls that race with the change use either: both give the same result.
 */
int lr_variant_force(const char *name);

enum { LR_UNKNOWN = 1, LR_NOT_COMPILED = 2, LR_NOT_SUPPORTED = 3 };

#ifdef __cplusplus
}
#endif
#endif
