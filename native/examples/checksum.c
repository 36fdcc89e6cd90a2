/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Computes the checksum of an IPv4 header, and that of a packet with each variant that runs here;
 * all variants agree.
 */
#include <linerate/checksum.h>
#include <linerate/variant.h>

#include <stdio.h>
#include <string.h>

/* A header from 192.168.0.1 to 192.168.0.199, whose checksum, b8 61, is still to be filled in. */
static uint8_t header[20] = {
	0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7,
};

static uint8_t packet[1460];

static const char *reason(int refused)
{
	return refused == LR_NOT_COMPILED ? "not compiled" : "not supported";
}

int main(void)
{
	const uint16_t sum = lr_csum_finish(lr_csum_header(header, 5, 0));
	memcpy(header + 10, &sum, sizeof sum); /* as it is: no byte swap on any machine */
	printf("header       %02x %02x\n", header[10], header[11]);

	for (size_t i = 0; i < sizeof packet; i++)
		packet[i] = (uint8_t)(i * 7);
	const uint16_t expected = lr_csum_finish(lr_csum_partial(packet, sizeof packet, 0));
	int differ = header[10] != 0xb8 || header[11] != 0x61;
	for (size_t i = 0; i < lr_variant_count; i++) {
		const char *name = lr_variants[i]->name;
		const int refused = lr_variant_force(name);
		if (refused) {
			printf("%-12s %s\n", name, reason(refused));
			continue;
		}
		const uint16_t found = lr_csum_finish(lr_csum_partial(packet, sizeof packet, 0));
		printf("%-12s 0x%04x\n", name, found);
		differ |= found != expected;
	}
	return differ;
}
