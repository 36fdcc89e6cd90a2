/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The table row of a vector variant that is not compiled in this build. */
#ifndef LINERATE_NOT_COMPILED_H
#define LINERATE_NOT_COMPILED_H

const struct lr_variant VARIANT_ROW(VARIANT) = {
	.name = NAME(VARIANT),
	.isa = ISA,
	.vector = 1,
	.supported = nowhere,
};

#endif
