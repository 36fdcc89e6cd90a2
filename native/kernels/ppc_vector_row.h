/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions and the table row of a PowerPC vector variant, built on sum_some and its siblings
 * in isa/. Those take FEW bytes or more; the ones that sum take at most PIECE + FEW.
 *
 * The functions themselves only check the length and branch, which needs no stack frame.
 */
#ifndef LINERATE_PPC_VECTOR_ROW_H
#define LINERATE_PPC_VECTOR_ROW_H

#include "burst.h"

SOME uint32_t sum_long(const uint8_t *src, size_t bytes, uint32_t seed)
{
	for (; bytes > PIECE + FEW; bytes -= PIECE, src += PIECE)
		seed = sum_some(src, PIECE, seed);
	return sum_some(src, bytes, seed);
}

SOME uint32_t copy_sum_long(uint8_t *dst, const uint8_t *src, size_t bytes, uint32_t seed)
{
	for (; bytes > PIECE + FEW; bytes -= PIECE, src += PIECE, dst += PIECE)
		seed = copy_sum_some(dst, src, PIECE, seed);
	return copy_sum_some(dst, src, bytes, seed);
}

uint32_t FUNCTION(csum_partial, VARIANT)(const void *src, size_t bytes, uint32_t seed)
{
	if (bytes < FEW)
		return lr_csum_partial_ppc(src, bytes, seed);
	return bytes > PIECE + FEW ? sum_long(src, bytes, seed) : sum_some(src, bytes, seed);
}

uint32_t FUNCTION(copy_csum_partial, VARIANT)(void *dst, const void *src, size_t bytes,
					      uint32_t seed)
{
	if (bytes < FEW)
		return lr_copy_csum_partial_ppc(dst, src, bytes, seed);
	return bytes > PIECE + FEW ? copy_sum_long(dst, src, bytes, seed) :
				      copy_sum_some(dst, src, bytes, seed);
}

void *FUNCTION(copy, VARIANT)(void *dst, const void *src, size_t bytes)
{
	return bytes < FEW_MOVED ? lr_copy_ppc(dst, src, bytes) : copy_some(dst, src, bytes);
}

void *FUNCTION(fill, VARIANT)(void *dst, uint8_t value, size_t bytes)
{
	return bytes < FEW_MOVED ? lr_fill_ppc(dst, value, bytes) : fill_some(dst, value, bytes);
}

BURST_ONE_BY_ONE

static int supported(void)
{
	return lr_processor_runs(NEEDED);
}

const struct lr_variant VARIANT_ROW(VARIANT) = {
	.name = NAME(VARIANT),
	.isa = ISA,
	.vector = 1,
	.compiled = 1,
	.supported = supported,
	.preferred = LR_ALL,
	.csum_partial = FUNCTION(csum_partial, VARIANT),
	.csum_burst = FUNCTION(csum_burst, VARIANT),
	.copy_csum_partial = FUNCTION(copy_csum_partial, VARIANT),
	.copy = FUNCTION(copy, VARIANT),
	.fill = FUNCTION(fill, VARIANT),
};

#endif
