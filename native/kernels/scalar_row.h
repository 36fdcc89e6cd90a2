/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The table row of a scalar variant: SCALAR_ROW if it is compiled in this build, SCALAR_ROW_WITHOUT
 * if not.
 */
#ifndef LINERATE_SCALAR_ROW_H
#define LINERATE_SCALAR_ROW_H

#include "burst.h"

/*
 * Defines csum_burst, and a table row with the variant's other functions, which must have the usual
 * names, and a function called supported.
 */
#define SCALAR_ROW(preferences)                                                                    \
	BURST_ONE_BY_ONE                                                                           \
	const struct lr_variant VARIANT_ROW(VARIANT) = {                                           \
		.name = NAME(VARIANT),                                                             \
		.isa = ISA,                                                                        \
		.compiled = 1,                                                                     \
		.supported = supported,                                                            \
		.preferred = preferences,                                                          \
		.csum_partial = FUNCTION(csum_partial, VARIANT),                                   \
		.csum_burst = FUNCTION(csum_burst, VARIANT),                                       \
		.copy_csum_partial = FUNCTION(copy_csum_partial, VARIANT),                         \
		.copy = FUNCTION(copy, VARIANT),                                                   \
		.fill = FUNCTION(fill, VARIANT),                                                   \
	}

#define SCALAR_ROW_WITHOUT                                                                         \
	const struct lr_variant VARIANT_ROW(VARIANT) = {                                           \
		.name = NAME(VARIANT),                                                             \
		.isa = ISA,                                                                        \
		.supported = nowhere,                                                              \
	}

#endif
