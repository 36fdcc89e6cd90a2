/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The row of a scalar variant, whether this build holds it or not. */
#ifndef LINERATE_SCALAR_ROW_H
#define LINERATE_SCALAR_ROW_H

/* With functions of these names, and a function supported. */
#define SCALAR_ROW(preferences)                                                                    \
	const struct lr_variant VARIANT_ROW(VARIANT) = {                                           \
		.name = NAME(VARIANT),                                                             \
		.isa = ISA,                                                                        \
		.compiled = 1,                                                                     \
		.supported = supported,                                                            \
		.preferred = preferences,                                                          \
		.csum_partial = FUNCTION(csum_partial, VARIANT),                                   \
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
