/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The reference for instruction counts of the kernels: plain.c. */
#ifndef LINERATE_ICOUNT_PLAIN_H
#define LINERATE_ICOUNT_PLAIN_H

#include <stddef.h>
#include <stdint.h>

/* As lr_csum_partial and lr_copy_csum_partial, for at most 2^17 bytes and a seed of 0. */
uint32_t plain_csum(const void *src, size_t bytes, uint32_t sum);
uint32_t plain_copy_csum(void *dst, const void *src, size_t bytes, uint32_t sum);

/* Returns sum. */
uint32_t plain_nothing(void *dst, const void *src, size_t bytes, uint32_t sum);

#endif
