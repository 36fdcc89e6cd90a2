/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sums of packets in random segments, compared with DPDK's rte_raw_cksum() over the same bytes in
 * one piece, for each variant that this processor has. The mbufs are built by hand: DPDK's headers
 * are enough, and neither the EAL nor huge pages are needed. Nothing is timed.
 *
 * DPDK's own rte_raw_cksum_mbuf() is called as well and its errors are counted, but do not fail the
 * test: before swapping the sum of a segment that begins at an odd offset, release 22.11 truncates
 * it to 16 bits without folding, and loses carries.
 */
#include "lr_mbuf.h"

#include <linerate/variant.h>

#include <rte_ip.h>
#include <rte_version.h>

#include <stdio.h>
#include <string.h>

#define PACKETS 10000
/* The longest IPv4 packet (RFC 791, 3.1). */
#define MAX_BYTES 65535
#define MAX_SEGMENTS 64
/* Space in front of a segment's bytes, so that they can begin at any alignment. */
#define HEADROOM 64

static unsigned char linear[MAX_BYTES];
static unsigned char room[MAX_BYTES + MAX_SEGMENTS * HEADROOM];
static struct rte_mbuf segments[MAX_SEGMENTS];

struct counts {
	unsigned packets, odd, wrong, theirs_wrong;
};

/* xorshift32 (Marsaglia 2003): the same numbers in every run; the state is never 0. */
static uint32_t state = 2463534242u;

static uint32_t random_below(uint32_t bound)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state % bound;
}

/* Mostly lengths of network packets, sometimes anything up to the longest. */
static uint32_t random_bytes(void)
{
	return random_below(10) ? random_below(1600) : random_below(MAX_BYTES + 1);
}

/*
 * Fills the buffer with bytes whose sums carry often (all ones), hardly ever (0 and 1), or at
 * random.
 */
static void fill(uint32_t bytes)
{
	const uint32_t kind = random_below(4);

	for (uint32_t i = 0; i < bytes; i++)
		linear[i] = kind == 0 ? 0xff : (unsigned char)random_below(kind == 1 ? 2 : 256);
}

/*
 * Cuts the bytes at random into up to MAX_SEGMENTS segments. Returns nonzero if one of them begins
 * at an odd offset.
 */
static int segment(uint32_t bytes)
{
	const uint32_t count = 1 + random_below(MAX_SEGMENTS);
	uint32_t done = 0;
	unsigned char *at = room;
	int is_odd = 0;

	for (uint32_t i = 0; i < count; i++) {
		const uint32_t left = bytes - done;
		uint32_t here = left;
		if (i + 1 < count)
			here = random_below(4) ? random_below(left / (count - i) * 2 + 1) : 0;
		struct rte_mbuf *const m = &segments[i];
		memset(m, 0, sizeof *m);
		m->buf_addr = at;
		m->data_off = (uint16_t)random_below(HEADROOM);
		m->data_len = (uint16_t)here;
		m->next = i + 1 < count ? m + 1 : NULL;
		is_odd |= done % 2 != 0;
		memcpy(rte_pktmbuf_mtod(m, char *), linear + done, here);
		done += here;
		at += m->data_off + here;
	}
	segments[0].pkt_len = bytes;
	segments[0].nb_segs = (uint16_t)count;
	return is_odd;
}

static void compare(struct counts *counts)
{
	const uint32_t bytes = random_bytes();
	uint16_t ours = 0, theirs = 0;

	fill(bytes);
	counts->odd += (unsigned)segment(bytes);
	const uint32_t offset = random_below(bytes + 1);
	const uint32_t length = random_below(bytes - offset + 1);
	const uint16_t expected = rte_raw_cksum(linear + offset, length);

	counts->packets++;
	counts->wrong += lr_raw_cksum(linear + offset, length) != expected;
	counts->wrong += lr_raw_cksum_mbuf(segments, offset, length, &ours) != 0 ||
			 ours != expected;
	/* A range beyond the end of the packet is refused, and *cksum is not written. */
	counts->wrong += lr_raw_cksum_mbuf(segments, offset, bytes - offset + 1, &ours) != -1 ||
			 ours != expected;
	counts->wrong += lr_raw_cksum_mbuf(segments, UINT32_MAX, 2, &ours) != -1;
	counts->theirs_wrong += rte_raw_cksum_mbuf(segments, offset, length, &theirs) != 0 ||
				theirs != expected;
}

static int run(const char *variant)
{
	struct counts counts = { .packets = 0 };

	while (counts.packets < PACKETS)
		compare(&counts);
	const int holds = !counts.wrong && counts.odd;
	printf("%-12s %u packets, %u with a segment at an odd offset, %u wrong "
	       "(rte_raw_cksum_mbuf: %u): %s\n",
	       variant, counts.packets, counts.odd, counts.wrong, counts.theirs_wrong,
	       holds ? "agrees" : "FAILED");
	return holds;
}

int main(void)
{
	unsigned ran = 0, held = 0;

	printf("%s %d.%02d, against rte_raw_cksum\n", RTE_VER_PREFIX, RTE_VER_YEAR, RTE_VER_MONTH);
	for (size_t i = 0; i < lr_variant_count; i++) {
		if (lr_variant_force(lr_variants[i]->name) != 0)
			continue;
		held += (unsigned)run(lr_variants[i]->name);
		ran++;
	}
	lr_variant_force(NULL);
	held += (unsigned)run("selected");
	ran++;
	printf("RESULT %s dpdk: %u of %u agree\n", held == ran ? "PASS" : "FAIL", held, ran);
	return held == ran ? 0 : 1;
}
