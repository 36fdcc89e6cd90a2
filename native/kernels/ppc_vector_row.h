/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions and the row of a vector variant of PowerPC, from sum_some and its siblings, which
 * take FEW octets and more, and sums PIECE + FEW at most. Leaves out how they do it: isa/.
 *
 * The functions themselves only look at the length and jump on, which needs no frame on the stack.
 */
#ifndef LINERATE_PPC_VECTOR_ROW_H
#define LINERATE_PPC_VECTOR_ROW_H

SOME uint32_t sum_long(const uint8_t *src, size_t octets, uint32_t seed)
{
	for (; octets > PIECE + FEW; octets -= PIECE, src += PIECE)
		seed = sum_some(src, PIECE, seed);
	return sum_some(src, octets, seed);
}

SOME uint32_t copy_sum_long(uint8_t *dst, const uint8_t *src, size_t octets, uint32_t seed)
{
	for (; octets > PIECE + FEW; octets -= PIECE, src += PIECE, dst += PIECE)
		seed = copy_sum_some(dst, src, PIECE, seed);
	return copy_sum_some(dst, src, octets, seed);
}

uint32_t FUNCTION(csum_partial, VARIANT)(const void *src, size_t octets, uint32_t seed)
{
	if (octets < FEW)
		return lr_csum_partial_ppc(src, octets, seed);
	return octets > PIECE + FEW ? sum_long(src, octets, seed) : sum_some(src, octets, seed);
}

uint32_t FUNCTION(copy_csum_partial, VARIANT)(void *dst, const void *src, size_t octets,
					      uint32_t seed)
{
	if (octets < FEW)
		return lr_copy_csum_partial_ppc(dst, src, octets, seed);
	return octets > PIECE + FEW ? copy_sum_long(dst, src, octets, seed) :
				      copy_sum_some(dst, src, octets, seed);
}

void *FUNCTION(copy, VARIANT)(void *dst, const void *src, size_t octets)
{
	return octets < FEW_MOVED ? lr_copy_ppc(dst, src, octets) : copy_some(dst, src, octets);
}

void *FUNCTION(fill, VARIANT)(void *dst, uint8_t value, size_t octets)
{
	return octets < FEW_MOVED ? lr_fill_ppc(dst, value, octets) : fill_some(dst, value, octets);
}

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
	.copy_csum_partial = FUNCTION(copy_csum_partial, VARIANT),
	.copy = FUNCTION(copy, VARIANT),
	.fill = FUNCTION(fill, VARIANT),
};

#endif
