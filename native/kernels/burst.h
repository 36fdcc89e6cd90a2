/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lr_csum_burst for variants that gain nothing by summing several buffers at once: the processor
 * overlaps the sums of short buffers by itself, because none depends on another.
 */
#ifndef LINERATE_BURST_H
#define LINERATE_BURST_H

#include "kernels.h"

/* Defines csum_burst of the variant, which has defined csum_partial. */
#define BURST_ONE_BY_ONE                                                                           \
	void FUNCTION(csum_burst, VARIANT)(const struct lr_csum_buffer *buffers, uint32_t *sums,   \
					   size_t count)                                           \
	{                                                                                          \
		for (size_t i = 0; i < count; i++)                                                 \
			sums[i] = FUNCTION(csum_partial, VARIANT)(buffers[i].src,                  \
								  buffers[i].bytes, sums[i]);      \
	}

#endif
