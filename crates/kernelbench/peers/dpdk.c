/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The checksum from DPDK's rte_ip.h, compiled as in a DPDK application: -O3 and the flags of DPDK's
 * package, which select a target processor. The processor this runs on may lack features of
 * that target, so check peer_dpdk_needs before calling anything here.
 */
#include "peers.h"

#include <rte_ip.h>

uint32_t peer_dpdk(const void *src, size_t bytes, uint32_t sum)
{
	return peer_add(sum, rte_raw_cksum(src, bytes));
}

/* The bits are in the order of NEEDS in peers.rs. */
const uint32_t peer_dpdk_needs = 0
#ifdef __SSE3__
	| 1u << 0
#endif
#ifdef __SSSE3__
	| 1u << 1
#endif
#ifdef __SSE4_1__
	| 1u << 2
#endif
#ifdef __SSE4_2__
	| 1u << 3
#endif
#ifdef __POPCNT__
	| 1u << 4
#endif
#ifdef __AVX__
	| 1u << 5
#endif
#ifdef __AVX2__
	| 1u << 6
#endif
#ifdef __FMA__
	| 1u << 7
#endif
#ifdef __BMI__
	| 1u << 8
#endif
#ifdef __BMI2__
	| 1u << 9
#endif
#ifdef __AVX512F__
	| 1u << 10
#endif
#ifdef __AVX512BW__
	| 1u << 11
#endif
#ifdef __AVX512DQ__
	| 1u << 12
#endif
#ifdef __AVX512VL__
	| 1u << 13
#endif
	;
