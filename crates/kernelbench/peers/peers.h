/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checksums of others, and in the shape of others, in the call shape of lr_csum_partial: adds bytes
 * to a sum of 32 bits in the byte order of the machine.
 */
#ifndef LINERATE_PEERS_H
#define LINERATE_PEERS_H

#include <stddef.h>
#include <stdint.h>

/* The sum of a sum and a number, modulo 2^32 - 1; 0 only if both are 0. */
static inline uint32_t peer_add(uint32_t sum, uint64_t number)
{
	uint64_t total = (number >> 32) + (number & 0xffffffff) + sum;
	total = (total >> 32) + (total & 0xffffffff);
	return (uint32_t)((total >> 32) + (total & 0xffffffff));
}

/* Needs AVX512F, AVX512BW and BMI2. */
uint32_t peer_masked_loop_avx512(const void *src, size_t bytes, uint32_t sum);

/* rte_raw_cksum of DPDK's rte_ip.h. At most 128 KiB. */
uint32_t peer_dpdk(const void *src, size_t bytes, uint32_t sum);
/* CPU features its object file needs: bits as in dpdk.c. */
extern const uint32_t peer_dpdk_needs;

/* lwip_standard_chksum of lwIP, its three algorithms. At most 64 KiB. */
uint32_t peer_lwip1(const void *src, size_t bytes, uint32_t sum);
uint32_t peer_lwip2(const void *src, size_t bytes, uint32_t sum);
uint32_t peer_lwip3(const void *src, size_t bytes, uint32_t sum);

#endif
