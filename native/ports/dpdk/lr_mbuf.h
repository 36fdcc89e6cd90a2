/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sums of DPDK's packet buffers by the kernels, in the shape of rte_raw_cksum() and
 * rte_raw_cksum_mbuf(). A header of inline functions: it needs DPDK's headers, and of its libraries
 * none. docs/ports.md says where to call it and what to measure.
 *
 * A sum of sums in protocols (the pseudo-header, the complement, UDP's 0) is made with
 * linerate/checksum.h or DPDK's own functions: these here return what those take.
 */
#ifndef LINERATE_PORTS_MBUF_H
#define LINERATE_PORTS_MBUF_H

#include <linerate/checksum.h>

#include <rte_mbuf_core.h>

/*
 * The folded sum of bytes from any address, not complemented: what rte_raw_cksum() returns, also
 * for lengths at which that one's 32 bits would wrap.
 */
static inline uint16_t lr_raw_cksum(const void *src, size_t bytes)
{
	return lr_csum_fold(lr_csum_partial(src, bytes, 0));
}

/*
 * The folded sum of bytes of a packet in any number of segments, from an offset in the packet:
 * returns 0 and sets *cksum, or -1 without setting it if the packet is too short. Segments may have
 * any length, odd ones and 0 included.
 *
 * At an odd offset a segment's bytes are in the other halves of their words: its sum is rotated
 * before it is joined (lr_csum_combine), and no carry is lost.
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
