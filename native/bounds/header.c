/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The inline header sum, wrapped in a function. */
#include "bounds.h"

#include <linerate/checksum.h>

uint32_t lr_bench_header(const void *src, size_t bytes, uint32_t sum)
{
	return lr_csum_header(src, bytes / 4, sum);
}
