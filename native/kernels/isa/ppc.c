/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* PowerPC without vector registers: a chain of additions with carry, by words of 4 or 8 bytes. */
#include "../no_vectors.h"

#include "../kernels.h"
#include "../scalar_row.h"

#define VARIANT ppc
#define ISA "PowerPC"

#ifdef __powerpc__
#include "../ppc.h"

static int supported(void)
{
	return LR_RUNS_WELL;
}

/* Folds a sum to 32 bits: it has 64 on the 64-bit architecture, and 32 already on the other. */
ALWAYS_INLINE uint32_t folded(uintptr_t sum)
{
	return sizeof sum == sizeof(uint32_t) ? (uint32_t)sum : fold64(sum);
}

uint32_t lr_csum_partial_ppc(const void *src, size_t bytes, uint32_t seed)
{
	return folded(ppc_sum(seed, unused(src), src, bytes, 0));
}

uint32_t lr_copy_csum_partial_ppc(void *dst, const void *src, size_t bytes, uint32_t seed)
{
	return folded(ppc_sum(seed, dst, src, bytes, 1));
}

void *lr_copy_ppc(void *dst, const void *src, size_t bytes)
{
	ppc_copy(dst, src, bytes);
	return dst;
}

void *lr_fill_ppc(void *dst, uint8_t value, size_t bytes)
{
	ppc_fill(dst, value, bytes);
	return dst;
}

SCALAR_ROW(LR_ALL);
#else
SCALAR_ROW_WITHOUT;
#endif

#include "../no_vectors_end.h"
