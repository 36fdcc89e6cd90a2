/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The Internet checksum (RFC 1071): sums of whole buffers, sums taken while copying, and the
 * arithmetic on sums that a protocol stack needs around them.
 *
 * A sum is a uint32_t, congruent modulo 65535 to the sum of the 16-bit words added so far, taken in
 * the byte order of the machine; an odd last byte counts as if a zero byte followed it. Ones'
 * complement addition commutes with swapping the bytes of every word (RFC 1071, 2B), so no byte
 * is ever swapped in between: store the folded, complemented sum with a 16-bit store of the
 * machine's own order and the packet is right on every machine.
 *
 * Two routines may return different sums of the same bytes. They agree after lr_csum_fold: sums
 * are only ever compared folded. A sum is 0 only if all bytes and the initial sum were 0; hence the
 * folded sum of anything else that is a multiple of 65535 is 0xffff, never 0.
 *
 * Lengths are in bytes and may be anything a size_t holds, 0 included; no alignment is required.
 * Exactly the given bytes are read; none outside of them, not even within the same word or cache
 * line. The exception is AltiVec, which can only load aligned vectors: its variant may load, and
 * discards, the other bytes of an aligned 16-byte block, which is in the same page. The memory must
 * be ordinary cacheable memory; an address that cannot be accessed faults as in any code (fault.h
 * has copies that survive that). The functions keep no state except the selected variant
 * (variant.h), may be called from any number of threads at once, and use vector registers only if
 * the selected variant does.
 */
#ifndef LINERATE_CHECKSUM_H
#define LINERATE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Adds the bytes of src to sum and returns the sum. src may be null if bytes is 0.
 */
uint32_t lr_csum_partial(const void *src, size_t bytes, uint32_t sum);

/* A buffer of lr_csum_burst: bytes bytes at src, which may be null if bytes is 0. */
struct lr_csum_buffer {
	const void *src;
	size_t bytes;
};

/*
 * Adds the bytes of each of count buffers to the sum with its index, as lr_csum_partial does: for
 * all i below count, sums[i] = lr_csum_partial(buffers[i].src, buffers[i].bytes, sums[i]). Either
 * pointer may be null if count is 0. The buffers may overlap each other, but not sums.
 *
 * For a burst of packets whose checksums are verified together: where the variant can (AVX-512), it
 * sums buffers of up to 255 bytes several at a time, so that they share the costs of a sum other
 * than loading its bytes. Lengths may be mixed, but a group of four or eight that contains a longer
 * buffer is summed one by one. A load that spans several recent narrower stores waits until these
 * have reached the cache. In a burst, these waits overlap; for a single header that was just
 * written, lr_csum_header is faster.
 */
void lr_csum_burst(const struct lr_csum_buffer *buffers, uint32_t *sums, size_t count);

/*
 * Copies bytes from src to dst and returns their sum as lr_csum_partial(src, bytes, sum) does. The
 * two ranges must not overlap. Exactly the given bytes of dst are written, some of them possibly
 * twice. Either pointer may be null if bytes is 0.
 */
uint32_t lr_copy_csum_partial(void *dst, const void *src, size_t bytes, uint32_t sum);

/*
 * The specification, with the interface of figure 1 in the white paper "Enhanced TCP/IP Performance
 * with AltiVec", for lengths of any size: adds the bytes to sum and returns the complement of the
 * folded result. byte_swap says where an odd last byte goes: 0 puts it into the low half of its
 * word, which is right on little-endian machines; any other value puts it into the high half, which
 * is right on big-endian ones. It adds two bytes per step and is only meant for verification.
 */
uint16_t lr_checksum16(const void *src, size_t bytes, uint32_t sum, int byte_swap);

/* The byte_swap argument with which lr_checksum16 computes the RFC 1071 sum on this machine. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define LR_BYTE_SWAP 1
#else
#define LR_BYTE_SWAP 0
#endif

/*
 * Folds a sum to 16 bits without complementing it. The result is 0 only if the sum is 0.
 *
 * The first step leaves at most 0xffff + 0xffff = 0x1fffe, the second at most 0xffff.
 */
static inline uint16_t lr_csum_fold(uint32_t sum)
{
	sum = (sum >> 16) + (sum & 0xffff);
	return (uint16_t)((sum >> 16) + (sum & 0xffff));
}

/* Adds two sums whose bytes both began at even offsets of the same message. */
static inline uint32_t lr_csum_add(uint32_t a, uint32_t b)
{
	a += b;
	return a + (a < b);
}

/*
 * Adds the sum of a fragment to the sum of everything before it. offset is the byte position of the
 * fragment in the message: at an odd offset, every byte falls into the other half of its 16-bit
 * word. Only the parity of offset matters.
 *
 * Rotating by 8 bits multiplies the sum by 256 modulo 2^32 - 1, a multiple of 65535; this is the
 * same as swapping the bytes of every word.
 */
static inline uint32_t lr_csum_combine(uint32_t sum, uint32_t fragment, size_t offset)
{
	return lr_csum_add(sum, offset & 1 ? fragment << 8 | fragment >> 24 : fragment);
}

/* Returns the checksum to write into a header whose checksum field was 0 while it was summed. */
static inline uint16_t lr_csum_finish(uint32_t sum)
{
	return (uint16_t)~lr_csum_fold(sum);
}

/*
 * lr_csum_finish for UDP, where a field of 0 means that there is no checksum (RFC 768; forbidden
 * over IPv6, RFC 8200, 8.1): a checksum of 0 is sent as 0xffff, which is also zero in ones'
 * complement.
 */
static inline uint16_t lr_csum_finish_udp(uint32_t sum)
{
	const uint16_t checksum = lr_csum_finish(sum);
	return checksum ? checksum : 0xffff;
}

/*
 * Returns the new checksum field after a 16-bit word that it covers has changed from before to
 * after (RFC 1624, equation 3). All values are in network byte order, loaded without swapping. The
 * result may be 0, which UDP must not send.
 */
static inline uint16_t lr_csum_update(uint16_t checksum, uint16_t before, uint16_t after)
{
	return lr_csum_finish((uint32_t)(uint16_t)~checksum + (uint16_t)~before + after);
}

/*
 * lr_csum_update for UDP: a field of 0 (no checksum) stays 0, and a new checksum of 0 becomes
 * 0xffff (see lr_csum_finish_udp). lr_csum_update and lr_csum_update32 leave both cases to the
 * caller.
 */
static inline uint16_t lr_csum_update_udp(uint16_t checksum, uint16_t before, uint16_t after)
{
	const uint16_t updated = lr_csum_update(checksum, before, after);
	if (!checksum)
		return 0;
	return updated ? updated : 0xffff;
}

/* lr_csum_update for a 32-bit word at an even offset, such as an IPv4 address. */
static inline uint16_t lr_csum_update32(uint16_t checksum, uint32_t before, uint32_t after)
{
	return lr_csum_finish(lr_csum_add(lr_csum_add((uint16_t)~checksum, ~before), after));
}

/*
 * Unaligned load of 32 bits in the byte order of the machine. Uses a packed structure instead of
 * memcpy, for which compilers emit a function call on machines without unaligned loads.
 */
struct lr_word32 {
	uint32_t value;
} __attribute__((packed, may_alias));
static inline uint32_t lr_load32(const void *src)
{
	return ((const struct lr_word32 *)src)->value;
}

/* lr_load32 as a separate load: otherwise compilers merge several of them into one vector load. */
static inline uint32_t lr_load32_alone(const void *src)
{
	uint32_t word = lr_load32(src);
	__asm__("" : "+r"(word));
	return word;
}

/*
 * Returns the value that a 32-bit load of this number in network byte order yields. Compilers
 * recognize the shifts and emit a single byte-swap instruction if there is one. For
 * __builtin_bswap32 they would otherwise emit a function call, as on RISC-V.
 */
static inline uint32_t lr_from_network(uint32_t number)
{
#if LR_BYTE_SWAP
	return number;
#else
	return number << 24 | (number & 0xff00) << 8 | (number >> 8 & 0xff00) | number >> 24;
#endif
}

/*
 * Adds a header of the given number of 32-bit words to sum, inline and without vector registers:
 * for headers of 20 to 60 bytes, in particular those just written. A wide load that spans several
 * recent narrower stores cannot be forwarded from the store buffer and stalls; these 32-bit loads
 * can.
 */
static inline uint32_t lr_csum_header(const void *src, size_t words, uint32_t sum)
{
	const unsigned char *at = (const unsigned char *)src;
	/* Two accumulators, because each addition waits for the previous one. */
	uint64_t total = sum, odd = 0;
	for (; words >= 2; words -= 2, at += 8) {
		total += lr_load32_alone(at);
		odd += lr_load32_alone(at + 4);
	}
	if (words)
		total += lr_load32_alone(at);
	total += odd;
	total = (total >> 32) + (total & 0xffffffff);
	return (uint32_t)((total >> 32) + (total & 0xffffffff));
}

/*
 * Returns the sum of the pseudo-header of TCP and UDP over IPv4 (RFC 9293, 3.1; RFC 768). addresses
 * points to the eight bytes of source and destination address in network byte order; bytes is the
 * length of the segment including its header.
 */
static inline uint32_t lr_csum_pseudo_ipv4(const void *addresses, uint8_t protocol, uint16_t bytes)
{
	return lr_csum_header(addresses, 2, lr_from_network((uint32_t)protocol + bytes));
}

/*
 * Returns the sum of the pseudo-header over IPv6 (RFC 8200, 8.1). addresses points to the 32 bytes
 * of source and final destination address; bytes is the upper-layer packet length, next_header the
 * protocol number of the upper layer.
 */
static inline uint32_t lr_csum_pseudo_ipv6(const void *addresses, uint8_t next_header,
					   uint32_t bytes)
{
	const uint32_t length = lr_csum_header(addresses, 8, lr_from_network(bytes));
	return lr_csum_add(length, lr_from_network(next_header));
}

#ifdef __cplusplus
}
#endif
#endif
