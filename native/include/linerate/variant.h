/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The variants of the kernels: one table that says, for each variant, whether it was compiled,
 * whether this processor can run it, and what its functions are. Dispatch, checks, benchmarks and
 * listings all iterate over this table.
 *
 * No function uses a register that the processor or the operating system has not enabled. Only the
 * caller knows whether vector registers may be used in its context (a kernel, an interrupt, a
 * signal handler): if not, call the functions of a scalar variant by name.
 */
#ifndef LINERATE_VARIANT_H
#define LINERATE_VARIANT_H

#include <linerate/checksum.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kinds of functions; LR_CSUM covers csum_partial and csum_burst. */
enum { LR_CSUM = 1, LR_COPY_CSUM = 2, LR_COPY = 4, LR_FILL = 8, LR_ALL = 15 };

enum { LR_RUNS = 1, LR_RUNS_WELL = 2 };

struct lr_variant {
	/* One word, the same in symbols, tables and on command lines: "avx2". */
	const char *name;
	/* Required CPU features, as named in the manual: "AVX2". */
	const char *isa;
	/* Nonzero if the functions use vector registers. */
	int vector;
	/*
	 * Nonzero if this build contains the functions. Otherwise they are null and supported()
	 * returns 0: the variant is for another architecture, the compiler lacks its intrinsics, or
	 * it is a vector variant in a build that forbids vector registers (as -mno-sse does).
	 */
	int compiled;
	/*
	 * Returns 0 if this processor and its operating system cannot run the functions; LR_RUNS if
	 * they can, but the variant should only be used by name, because it slows the surrounding
	 * code more than it gains; LR_RUNS_WELL if the functions may be selected.
	 */
	int (*supported)(void);
	/*
	 * The functions for which this variant is selected, as a mask of LR_CSUM and so on, unless
	 * a later variant in the table is selected for them.
	 */
	unsigned preferred;
	/*
	 * The variant's lr_csum_partial, lr_csum_burst, lr_copy_csum_partial, lr_copy and lr_fill.
	 */
	uint32_t (*csum_partial)(const void *src, size_t bytes, uint32_t sum);
	void (*csum_burst)(const struct lr_csum_buffer *buffers, uint32_t *sums, size_t count);
	uint32_t (*copy_csum_partial)(void *dst, const void *src, size_t bytes, uint32_t sum);
	void *(*copy)(void *dst, const void *src, size_t bytes);
	void *(*fill)(void *dst, uint8_t value, size_t bytes);
};

/* Bits of the argument of lr_processor_tell. */
enum {
	LR_HAS_NEON = 1,    /* ARM: Advanced SIMD, its registers enabled */
	LR_HAS_SVE = 2,	    /* AArch64: the Scalable Vector Extension, whatever its length */
	LR_HAS_ALTIVEC = 4, /* PowerPC: AltiVec (VMX) */
	LR_HAS_VSX = 8,	    /* PowerPC: VSX as of Power ISA 2.07 (POWER8) */
};

/*
 * Declares the usable vector units, as LR_HAS_ bits: the processor has them, and their registers
 * are enabled and saved for the callers. Without a declaration, a Linux process with a C library,
 * statically linked or not, detects them by itself; other code uses no vectors, so call this on
 * bare metal and in a kernel. On x86-64 it has no effect, because CPUID is used there. Call it
 * before any other function of this library.
 */
void lr_processor_tell(unsigned features);

/* All variants, compiled or not, the most generic first; lr_variant_count of them. */
extern const struct lr_variant *const lr_variants[];
extern const size_t lr_variant_count;

/*
 * Returns the variant of that name, or null. It may be one that is not compiled or not supported.
 */
const struct lr_variant *lr_variant_find(const char *name);

/*
 * Returns the current targets of lr_csum_partial and its siblings: by default, the best function of
 * each kind that this processor can run, selected at the first call of any of them. The functions
 * may come from different variants; to find out which, compare them with the table. name is the
 * name of the forced variant, or "selected".
 */
struct lr_variant lr_variant_current(void);

/*
 * Makes lr_csum_partial, lr_csum_burst and their siblings use one variant from now on or, if name
 * is null, the best of each again. Returns 0 on success; otherwise changes nothing and returns
 * LR_UNKNOWN, LR_NOT_COMPILED or LR_NOT_SUPPORTED. Calls already running in other threads finish in
 * the variant they began with; calls that race with the change use either variant, with the same
 * result.
 */
int lr_variant_force(const char *name);

enum { LR_UNKNOWN = 1, LR_NOT_COMPILED = 2, LR_NOT_SUPPORTED = 3 };

#ifdef __cplusplus
}
#endif
#endif
