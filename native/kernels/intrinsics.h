/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The x86-64 intrinsics, without the aligned allocator in gcc's header, which needs a C library.
 */
#ifndef LINERATE_INTRINSICS_H
#define LINERATE_INTRINSICS_H

#define _MM_MALLOC_H_INCLUDED
#include <immintrin.h>

#endif
