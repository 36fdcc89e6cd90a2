/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The hooks of lwIP; see lr_lwip.h. */
#include "lr_lwip.h"

#include <linerate/checksum.h>

/* IPv4 and TCP headers with all their options: 15 words (RFC 791, 3.1; RFC 9293, 3.1). */
#define HEADER_BYTES 60

/*
 * lwIP sums headers right after writing their fields, when a wider load would stall until the
 * stores are complete: lr_csum_header uses loads that are no wider than those stores.
 */
uint16_t lr_lwip_chksum(const void *src, int bytes)
{
	if (bytes <= HEADER_BYTES && !(bytes & 3))
		return lr_csum_fold(lr_csum_header(src, (size_t)bytes / 4, 0));
	return lr_csum_fold(lr_csum_partial(src, (size_t)bytes, 0));
}

uint16_t lr_lwip_chksum_copy(void *dst, const void *src, uint16_t bytes)
{
	return lr_csum_fold(lr_copy_csum_partial(dst, src, bytes, 0));
}
