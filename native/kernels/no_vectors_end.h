/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* End of the section started by no_vectors.h, for compilers that need it. */
#ifdef LINERATE_NO_VECTORS_H
#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute pop
#endif
#endif
