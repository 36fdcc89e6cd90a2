/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checksums of other projects, and loops modelled on them, with the interface of lr_csum_partial:
 * each adds bytes to a 32-bit sum in the byte order of the machine.
 */
#ifndef LINERATE_PEERS_H
#define LINERATE_PEERS_H

#include <stddef.h>
#include <stdint.h>

/* Adds a number to a sum, modulo 2^32 - 1; the result is 0 only if both are 0. */
static inline uint32_t peer_add(uint32_t sum, uint64_t number)
{
	uint64_t total = (number >> 32) + (number & 0xffffffff) + sum;
	total = (total >> 32) + (total & 0xffffffff);
	return (uint32_t)((total >> 32) + (total & 0xffffffff));
}

/* Needs AVX512F, AVX512BW and BMI2. */
uint32_t peer_masked_loop_avx512(const void *src, size_t bytes, uint32_t sum);

/* The loops of steps_avx512.c, which need AVX512F, AVX512BW and AVX512_VNNI. */
uint32_t peer_steps_load(const void *src, size_t bytes, uint32_t sum);
uint32_t peer_steps_xor(const void *src, size_t bytes, uint32_t sum);
uint32_t peer_steps_dot(const void *src, size_t bytes, uint32_t sum);
uint32_t peer_steps_sum(const void *src, size_t bytes, uint32_t sum);
uint32_t peer_steps_sum_scalar(const void *src, size_t bytes, uint32_t sum);
uint32_t peer_steps_sum_vector(const void *src, size_t bytes, uint32_t sum);

/* rte_raw_cksum from DPDK's rte_ip.h, for at most 128 KiB. */
uint32_t peer_dpdk(const void *src, size_t bytes, uint32_t sum);
/* The CPU features that the object file of peer_dpdk needs; dpdk.c defines the bits. */
extern const uint32_t peer_dpdk_needs;

/* The three algorithms of lwIP's lwip_standard_chksum, for at most 64 KiB. */
uint32_t peer_lwip1(const void *src, size_t bytes, uint32_t sum);
uint32_t peer_lwip2(const void *src, size_t bytes, uint32_t sum);
uint32_t peer_lwip3(const void *src, size_t bytes, uint32_t sum);

#endif
