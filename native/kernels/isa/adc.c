/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * x86-64 without vector registers: chains of additions with carry. One chain runs at a word per
 * cycle, which is what its carry takes; with four of them the loads limit. 1460 bytes take 72
 * cycles, of what compilers make of C 178 (gcc 12, Zen 5).
 */
#include "../no_vectors.h"

#include "../kernels.h"
#include "../scalar_row.h"

#define VARIANT adc
#define ISA "x86-64"

#ifdef __x86_64__
#include "../x86_64.h"

#include "../chains_body.h"
#else
SCALAR_ROW_WITHOUT;
#endif

#include "../no_vectors_end.h"
