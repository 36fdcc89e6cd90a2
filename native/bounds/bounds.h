/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Bounds for the kernels on the same machine: loops with only the necessary loads or stores of a
 * kernel, the C library's copy and fill; and the inline sum of a header as a function.
 *
 * For measuring only. Unlike the kernels, this needs a C library.
 */
#ifndef LINERATE_BOUNDS_H
#define LINERATE_BOUNDS_H

#include <linerate/variant.h>

/*
 * Every bound there is; lr_bound_count of them, in the form of variants. Each has the functions it
 * bounds and null for the others; preferred is 0.
 *
 *   csum_partial        loads exactly the named bytes, some of them twice; returns sum
 *   fill                stores value to exactly the named bytes, to some of them twice; a memset
 *   copy                a memcpy
 *   copy_csum_partial   a memcpy; what it returns means nothing
 *
 * Names give the width of a load or store in bits: load256, store512; or the function of the C
 * library: memcpy, memset. A loop of n-bit accesses uses 64 bits or fewer if fewer than n are left
 * and none before them can be repeated.
 */
extern const struct lr_variant *const lr_bounds[];
extern const size_t lr_bound_count;

/*
 * csum_partial and copy in plain C, for comparison; and the same with a checksum that counts a
 * carry twice, for testing the checks.
 */
extern const struct lr_variant lr_document;
extern const struct lr_variant lr_wrong_by_a_carry;

/*
 * lr_csum_header behind a call, so that it can be timed like called routines: adds the whole 32-bit
 * words of the bytes to sum.
 */
uint32_t lr_bench_header(const void *src, size_t bytes, uint32_t sum);

#endif
