/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The intrinsics of x86-64 without the allocator that gcc's header brings, which needs a C library. */
#ifndef LINERATE_INTRINSICS_H
#define LINERATE_INTRINSICS_H

#define _MM_MALLOC_H_INCLUDED
#include <immintrin.h>

#endif
