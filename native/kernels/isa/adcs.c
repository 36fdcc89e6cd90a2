/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* AArch64 without vector registers: chains of additions with carry. */
#include "../no_vectors.h"

#include "../kernels.h"
#include "../scalar_row.h"

#define VARIANT adcs
#define ISA "AArch64"

#ifdef __aarch64__
#include "../aarch64.h"

#include "../chains_body.h"
#else
SCALAR_ROW_WITHOUT;
#endif

#include "../no_vectors_end.h"
