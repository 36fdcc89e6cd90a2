/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The x86-64 intrinsics without the allocator that gcc's header includes, which needs a C library.
 */
#ifndef LINERATE_INTRINSICS_H
#define LINERATE_INTRINSICS_H

#define _MM_MALLOC_H_INCLUDED
#include <immintrin.h>

#endif
