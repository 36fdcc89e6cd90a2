/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * x86-64 without vector registers: chains of additions with carry. One chain adds one word per
 * cycle, the latency of its carry; with four chains, loads are the limit. 1460 bytes take 72
 * cycles; compiled C takes 178 (gcc 12, Zen 5).
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
