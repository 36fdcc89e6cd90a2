/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checksums of DPDK packet buffers by the kernels, with the interface of rte_raw_cksum() and
 * rte_raw_cksum_mbuf(). All functions are inline: only DPDK's headers are needed, none of its
 * libraries. docs/ports.md says where to call it and what to measure.
 *
 * For the rest of a protocol's checksum (the pseudo-header, the complement, UDP's 0), use
 * linerate/checksum.h or DPDK's own functions: they take what these functions return.
 */
#ifndef LINERATE_PORTS_MBUF_H
#define LINERATE_PORTS_MBUF_H

#include <linerate/checksum.h>

#include <rte_mbuf_core.h>

/*
 * Returns the folded sum of bytes at any address, not complemented: the result of rte_raw_cksum(),
 * but also right for lengths at which its 32-bit sum would wrap.
 */
static inline uint16_t lr_raw_cksum(const void *src, size_t bytes)
{
	return lr_csum_fold(lr_csum_partial(src, bytes, 0));
}

/*
 * Computes the folded sum of a part of a packet, which begins at an offset and may extend over any
 * number of segments. Returns 0 and sets *cksum; if the packet is too short, returns -1 and leaves
 * *cksum unchanged. Segments may have any length, including odd ones and 0.
 *
 * The sum of a segment that begins at an odd offset is rotated by 8 bits before it is added
 * (lr_csum_combine), and no carry is lost.
 */
static inline int lr_raw_cksum_mbuf(const struct rte_mbuf *packet, uint32_t offset,
				    uint32_t bytes, uint16_t *cksum)
{
	uint32_t sum = 0, done = 0;

	if (offset > packet->pkt_len || bytes > packet->pkt_len - offset)
		return -1;
	for (const struct rte_mbuf *m = packet; done < bytes; m = m->next) {
		if (offset >= m->data_len) {
			offset -= m->data_len;
			continue;
		}
		uint32_t here = (uint32_t)m->data_len - offset;
		if (here > bytes - done)
			here = bytes - done;
		const char *const at = rte_pktmbuf_mtod_offset(m, const char *, offset);
		sum = lr_csum_combine(sum, lr_csum_partial(at, here, 0), done);
		done += here;
		offset = 0;
	}
	*cksum = lr_csum_fold(sum);
	return 0;
}

#endif
