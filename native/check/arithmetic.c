/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks the specification against independent arithmetic and the examples of the RFCs, and checks
 * the inline functions. Numbers from the RFCs are stored as bytes, so that they hold in either byte
 * order.
 */
#include "check.h"

#include <string.h>

/* Returns what a 16-bit load of these two bytes yields. */
static uint16_t word(uint8_t first, uint8_t second)
{
	const uint8_t bytes[] = { first, second };
	uint16_t word;
	memcpy(&word, bytes, sizeof word);
	return word;
}

/* Returns what a 16-bit load of this number in network byte order yields. */
static uint16_t network(unsigned number)
{
	return word((uint8_t)(number >> 8), (uint8_t)number);
}

/*
 * Returns the folded sum by definition: the bytes at even offsets times 256 plus those at odd
 * offsets, summed in 64 bits, modulo 65535. The result is 65535 instead of 0, unless all bytes and
 * the seed are 0.
 */
static uint16_t definition(const uint8_t *at, size_t bytes, uint32_t seed)
{
	const uint16_t folded = (uint16_t)(seed % 65535);
	uint8_t first_and_second[2];
	memcpy(first_and_second, &folded, 2);

	uint64_t total = 256u * first_and_second[0] + first_and_second[1];
	int nothing = seed == 0;
	for (size_t i = 0; i < bytes; i++) {
		total += i & 1 ? at[i] : 256u * at[i];
		nothing &= !at[i];
	}
	total %= 65535;
	return network(total || nothing ? (unsigned)total : 65535);
}

static void specification(struct tally *tally)
{
	static const uint32_t seeds[] = { 0,	      1,	  0xffff,    0x10000,
					  0xfffe0001, 0xffffffff, 0x89abcdef };
	static const uint8_t one[] = { 0xab };

	for (size_t fill = 0; fill < fill_count; fill++)
		for (size_t length = 0; length <= 2100; length++)
			for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
				const uint8_t *at = pattern(fill, length);
				expect(tally,
				       reference(at, length, seeds[i]) ==
					       definition(at, length, seeds[i]),
				       "lr_checksum16: %zu bytes of %s, seed 0x%08x", length,
				       fill_name(fill), (unsigned)seeds[i]);
			}
	expect(tally, lr_checksum16(one, 1, 0, 0) == 0xff54, "lr_checksum16: odd byte low");
	expect(tally, lr_checksum16(one, 1, 0, 1) == 0x54ff, "lr_checksum16: odd byte high");
	expect(tally, lr_checksum16(0, 0, 0, 0) == 0xffff, "lr_checksum16: nothing");
}

static void folding(struct tally *tally)
{
	static const uint32_t high[] = { 0, 1, 2, 0x7fff, 0x8000, 0xfffe, 0xffff };

	for (size_t i = 0; i < sizeof high / sizeof *high; i++)
		for (uint32_t low = 0; low < 0x10000; low++) {
			const uint32_t sum = high[i] << 16 | low;
			const uint32_t rest = sum % 65535;
			expect(tally, lr_csum_fold(sum) == (sum && !rest ? 65535 : rest),
			       "lr_csum_fold(0x%08x)", (unsigned)sum);
		}
	expect(tally, lr_csum_add(0, 0) == 0, "lr_csum_add: nothing");
	expect(tally, lr_csum_add(0xffffffff, 1) == 1, "lr_csum_add: end-around carry");
	expect(tally, lr_csum_add(0xffffffff, 0xffffffff) == 0xffffffff, "lr_csum_add: all ones");
}

/* RFC 1071, section 3: the sum of eight bytes, whole and from two groups of odd length. */
static void rfc1071(struct tally *tally)
{
	static const uint8_t bytes[] = { 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7 };
	const uint32_t first = lr_csum_partial(bytes, 3, 0);
	const uint32_t second = lr_csum_partial(bytes + 3, 5, 0);

	expect(tally, lr_csum_fold(lr_csum_partial(bytes, 8, 0)) == word(0xdd, 0xf2),
	       "RFC 1071, 3");
	expect(tally, lr_csum_finish(lr_csum_partial(bytes, 8, 0)) == word(0x22, 0x0d),
	       "RFC 1071, 3: complement");
	expect(tally, lr_csum_fold(first) == word(0xf2, 0x01), "RFC 1071, 3: first odd group");
	expect(tally, lr_csum_fold(second) == word(0xf0, 0xeb), "RFC 1071, 3: second odd group");
	expect(tally, lr_csum_fold(lr_csum_combine(first, second, 3)) == word(0xdd, 0xf2),
	       "RFC 1071, 3: odd groups joined");
}

/*
 * RFC 1624, section 4: equation 2 would update the checksum to 0xffff, but computed from scratch it
 * is 0.
 */
static void rfc1624(struct tally *tally)
{
	const uint16_t rest = network(0xcd7a), before = network(0x5555), after = network(0x3285);
	const uint16_t checksum = lr_csum_finish((uint32_t)rest + before);

	expect(tally, checksum == network(0xdd2f), "RFC 1624, 4: checksum before");
	expect(tally, lr_csum_finish((uint32_t)rest + after) == 0, "RFC 1624, 4: from scratch");
	expect(tally, lr_csum_update(checksum, before, after) == 0, "RFC 1624, 4: equation 3");
	expect(tally, lr_csum_update(0, after, before) == checksum, "RFC 1624, 4: reverse update from 0");
	expect(tally, lr_csum_update32(checksum, before, after) == 0, "RFC 1624, 4: 32 bits");
}

/*
 * Changes one word of a header, as a forwarder or NAT does. The rest of the header is not all zero.
 */
static void updates(struct tally *tally)
{
	for (unsigned round = 0; round < 20000; round++) {
		uint8_t header[60];
		const size_t fill = random_below(fill_count), at = 4 * random_below(15);
		uint32_t before, after = (uint32_t)random_number();
		uint16_t before16, after16;

		fill_bytes(fill, header, sizeof header);
		header[(at + 4) % sizeof header] = 1;
		if (round & 1)
			after = round & 2 ? 0 : 0xffffffff;
		memcpy(&before, header + at, 4);
		memcpy(&before16, header + at, 2);
		memcpy(&after16, &after, 2);
		const uint16_t checksum = (uint16_t)~reference(header, sizeof header, 0);

		memcpy(header + at, &after16, 2);
		const uint16_t expected16 = (uint16_t)~reference(header, sizeof header, 0);
		memcpy(header + at, &after, 4);
		const uint16_t expected = (uint16_t)~reference(header, sizeof header, 0);
		expect(tally, lr_csum_update(checksum, before16, after16) == expected16,
		       "lr_csum_update(0x%04x, 0x%04x, 0x%04x)", checksum, before16, after16);
		expect(tally, lr_csum_update32(checksum, before, after) == expected,
		       "lr_csum_update32(0x%04x, 0x%08x, 0x%08x)", checksum, (unsigned)before,
		       (unsigned)after);
	}
}

/* Checks updates of UDP checksums with the numbers of RFC 1624, section 4. */
static void udp_updates(struct tally *tally)
{
	const uint16_t rest = network(0xcd7a), last = network(0x5555), other = network(0x3285);
	const uint16_t checksum = lr_csum_finish_udp((uint32_t)rest + last);
	expect(tally, lr_csum_update_udp(checksum, last, other) == 0xffff,
	       "UDP: 0 after an update becomes all ones");
	expect(tally, lr_csum_update_udp(0xffff, other, last) == checksum, "UDP: reverse update");
	expect(tally, lr_csum_update_udp(0, last, other) == 0, "UDP: no checksum stays 0");
}

/*
 * Checks that UDP sends a checksum of 0 as 0xffff, and that a datagram with this checksum is
 * intact.
 */
static void udp_zero(struct tally *tally)
{
	expect(tally, lr_csum_finish_udp(0xffff) == 0xffff,
	       "lr_csum_finish_udp: 0 is sent as all ones");
	expect(tally, lr_csum_finish(0xffff) == 0, "lr_csum_finish: 0 stays 0");
	expect(tally, lr_csum_finish_udp(0xffffffff) == 0xffff,
	       "lr_csum_finish_udp: unfolded ones");
	expect(tally, lr_csum_finish_udp(0) == 0xffff, "lr_csum_finish_udp: sum of nothing");
	for (uint32_t sum = 1; sum < 0xffff; sum++)
		expect(tally, lr_csum_finish_udp(sum) == (uint16_t)~sum,
		       "lr_csum_finish_udp(0x%04x)", (unsigned)sum);

	uint8_t bytes[] = { 0xc0, 0xa9, 0x00, 0x35, 0x00, 0x0a, 0, 0, 0, 0 };
	const uint16_t filler = lr_csum_finish(lr_csum_partial(bytes, sizeof bytes, 0));
	memcpy(bytes + 8, &filler, 2);
	const uint16_t checksum = lr_csum_finish_udp(lr_csum_partial(bytes, sizeof bytes, 0));
	memcpy(bytes + 6, &checksum, 2);
	expect(tally, checksum == 0xffff, "UDP: bytes that sum to zero");
	expect(tally, lr_csum_fold(lr_csum_partial(bytes, sizeof bytes, 0)) == 0xffff,
	       "UDP: intact with all ones in the field");
}

/*
 * Checks lr_csum_header for the lengths of headers and beyond, at any offset, with seeds that
 * carry.
 */
static void headers(struct tally *tally)
{
	for (size_t fill = 0; fill < fill_count; fill++)
		for (size_t words = 0; words <= 64; words++)
			for (unsigned round = 0; round < 16; round++) {
				const uint8_t *at = pattern(fill, 4 * words);
				const uint32_t seed = round & 1 ? (uint32_t)random_number() :
						      round & 2 ? 0xffffffff :
								  0;
				expect(tally,
				       lr_csum_fold(lr_csum_header(at, words, seed)) ==
					       reference(at, 4 * words, seed),
				       "lr_csum_header: %zu words of %s, seed 0x%08x", words,
				       fill_name(fill), (unsigned)seed);
			}
}

static void pseudo_headers(struct tally *tally)
{
	static const uint32_t lengths[] = { 0,	  1,	 8,	255,   256,
					    1480, 65280, 65535, 65536, 0xffffffff };

	for (unsigned round = 0; round < 2000; round++) {
		uint8_t v4[12], v6[40];
		const uint32_t length = lengths[random_below(sizeof lengths / sizeof *lengths)];
		const uint8_t protocol = (uint8_t)(round & 1 ? 255 : random_number());
		const size_t fill = random_below(fill_count);

		fill_bytes(fill, v4, 8);
		v4[8] = 0;
		v4[9] = protocol;
		v4[10] = (uint8_t)(length >> 8);
		v4[11] = (uint8_t)length;
		expect(tally,
		       lr_csum_fold(lr_csum_pseudo_ipv4(v4, protocol, (uint16_t)length)) ==
			       reference(v4, sizeof v4, 0),
		       "lr_csum_pseudo_ipv4: protocol %u, %u bytes", protocol, (unsigned)length);

		fill_bytes(fill, v6, 32);
		for (unsigned i = 0; i < 4; i++)
			v6[32 + i] = (uint8_t)(length >> (24 - 8 * i));
		v6[36] = v6[37] = v6[38] = 0;
		v6[39] = protocol;
		expect(tally,
		       lr_csum_fold(lr_csum_pseudo_ipv6(v6, protocol, length)) ==
			       reference(v6, sizeof v6, 0),
		       "lr_csum_pseudo_ipv6: next header %u, %u bytes", protocol,
		       (unsigned)length);
	}
}

void check_arithmetic(struct tally *tally)
{
	specification(tally);
	folding(tally);
	rfc1071(tally);
	rfc1624(tally);
	updates(tally);
	udp_zero(tally);
	udp_updates(tally);
	headers(tally);
	pseudo_headers(tally);
}

/*
 * Sums messages of random length from random fragments, some of them empty, joined from left to
 * right.
 */
void check_fragments(struct subject *subjects, size_t count)
{
	for (unsigned round = 0; round < 500; round++) {
		const size_t length = random_below(3000), fill = random_below(fill_count);
		const uint8_t *at = pattern(fill, length);
		const uint16_t expected = reference(at, length, 0);
		size_t cuts[64], cut_count = 0;
		for (size_t cut = 0; cut < length && cut_count < 63; cuts[cut_count++] = cut)
			cut += random_below(round & 1 ? 8 : 200);
		for (struct subject *s = subjects; s < subjects + count; s++) {
			uint32_t sum = 0;
			for (size_t i = 0, begin = 0; i <= cut_count; i++) {
				const size_t cut = i < cut_count ? cuts[i] : length;
				const size_t end = cut < length ? cut : length;
				const uint32_t part =
					s->kernels.csum_partial(at + begin, end - begin, 0);
				sum = lr_csum_combine(sum, part, begin);
				begin = end;
			}
			expect(&s->tally, lr_csum_fold(sum) == expected,
			       "%s csum_partial: %zu bytes of %s joined from %zu fragments",
			       s->tally.name, length, fill_name(fill), cut_count + 1);
		}
	}
}
