/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Lower bounds for the time of the kernels on the same machine: loops that execute only the loads
 * or stores that a kernel cannot do without, and the C library's copy and fill. Also the inline
 * header sum as a function.
 *
 * For measuring only. Unlike the kernels, this needs a C library.
 */
#ifndef LINERATE_BOUNDS_H
#define LINERATE_BOUNDS_H

#include <linerate/variant.h>

/*
 * All bounds, lr_bound_count of them, in the form of variants. Each has the functions that it is a
 * bound for, and null for the others; preferred is 0.
 *
 *   csum_partial        loads exactly the given bytes, some of them twice; returns sum
 *   fill                stores value to exactly the given bytes, some of them twice; or a memset
 *   copy                a memcpy
 *   copy_csum_partial   a memcpy; the returned value is meaningless
 *
 * A name gives the width of the loads or stores in bits (load256, store512) or the C library
 * function (memcpy, memset). A loop of n-bit accesses uses accesses of 64 bits or fewer if the
 * whole buffer is shorter than n bits.
 */
extern const struct lr_variant *const lr_bounds[];
extern const size_t lr_bound_count;

/*
 * csum_partial and copy in plain C, for comparison; and the same with a checksum that counts a
 * carry twice, to test that the checks detect it.
 */
extern const struct lr_variant lr_document;
extern const struct lr_variant lr_wrong_by_a_carry;

/*
 * lr_csum_header as a called function, so that it can be timed like the other routines: adds the
 * complete 32-bit words of the given bytes to sum.
 */
uint32_t lr_bench_header(const void *src, size_t bytes, uint32_t sum);

#endif
