/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Console and end of QEMU's g3beige: the serial controller in its I/O chip, and the device pvpanic
 * on the PCI bus, which ends the emulator on a panic. No firmware has run before, so both get their
 * addresses here. No input and no other devices.
 */
#include <stddef.h>

#include "machine.h"

/* The host bridge's (MPC106) configuration address and data, as it decodes them. */
#define CONFIG_ADDRESS 0xfec00000u
#define CONFIG_DATA 0xfee00000u

/* Registers of a PCI device, and what turns its memory on. */
#define PCI_ID 0u
#define PCI_COMMAND 4u
#define PCI_FIRST_BAR 0x10u
#define MEMORY_AND_MASTER 6u

#define APPLE 0x106bu
#define PVPANIC 0x00111b36u
#define IO_CHIP_AT 0x80000000u
#define PVPANIC_AT 0x81000000u

/* Channel A of the serial controller within the I/O chip: control and data (Zilog 8530). */
#define SERIAL_CONTROL (IO_CHIP_AT + 0x13020u)
#define SERIAL_DATA (IO_CHIP_AT + 0x13030u)
#define WRITE_REGISTER_5 5u
#define TRANSMIT_8_BITS 0x68u

/* Compilers may call these two wherever something is cleared or copied, in whatever build. */
void *memset(void *to, int value, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);

void *memset(void *to, int value, size_t bytes)
{
	uint8_t *at = to;

	while (bytes--)
		*at++ = (uint8_t)value;
	return to;
}

void *memcpy(void *to, const void *from, size_t bytes)
{
	uint8_t *at = to;

	for (const uint8_t *next = from; bytes--; next++)
		*at++ = *next;
	return to;
}

static void put8(uint32_t at, uint32_t value)
{
	*(volatile uint8_t *)at = (uint8_t)value;
}

/* The bridge is little-endian. */
static volatile uint32_t *config(uint32_t device, uint32_t at)
{
	*(volatile uint32_t *)CONFIG_ADDRESS = __builtin_bswap32(1u << 31 | device << 11 | at);
	return (volatile uint32_t *)CONFIG_DATA;
}

static void place(uint32_t device, uint32_t at)
{
	*config(device, PCI_FIRST_BAR) = __builtin_bswap32(at);
	*config(device, PCI_COMMAND) = __builtin_bswap32(MEMORY_AND_MASTER);
}

void machine_start(void)
{
	for (uint32_t device = 0; device < 32; device++) {
		const uint32_t id = __builtin_bswap32(*config(device, PCI_ID));
		if (id == PVPANIC)
			place(device, PVPANIC_AT);
		else if ((id & 0xffff) == APPLE && id >> 16 != 0)
			place(device, IO_CHIP_AT);
	}
	put8(SERIAL_CONTROL, WRITE_REGISTER_5);
	put8(SERIAL_CONTROL, TRANSMIT_8_BITS);
}

void print(const char *text)
{
	for (; *text; text++)
		put8(SERIAL_DATA, (uint8_t)*text);
}

void print_number(uint32_t number)
{
	char digits[11];
	char *at = digits + sizeof digits - 1;

	*at = 0;
	do {
		*--at = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	print(at);
}

void print_hex(uint32_t number)
{
	for (unsigned shift = 32; shift; shift -= 4)
		put8(SERIAL_DATA, (uint8_t) "0123456789abcdef"[number >> (shift - 4) & 15]);
}

void machine_end(void)
{
	for (;;)
		put8(PVPANIC_AT, 1);
}
