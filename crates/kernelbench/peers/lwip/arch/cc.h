/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Platform definitions for lwIP. With a hosted GCC or Clang, only one default needs replacing. */
#ifndef LINERATE_LWIP_CC_H
#define LINERATE_LWIP_CC_H

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define lwip_htons(x) __builtin_bswap16(x)
#endif

#endif
