/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The end of what no_vectors.h began, where the compiler wants to be told. */
#ifdef LINERATE_NO_VECTORS_H
#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute pop
#endif
#endif
