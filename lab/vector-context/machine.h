/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The processor's own registers, a console and an end: what the image knows of the board. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdint.h>

/* Ticks of the time base and of the decrementer in a second, on QEMU's Power Macintoshes. */
#define TIMEBASE_HZ 16600000u

/* Bits of the machine state: vectors can be used; interrupts are let in. */
#define MSR_VEC (1u << 25)
#define MSR_EE (1u << 15)

/* Finds the console and the device that ends the machine. */
void machine_start(void);

void print(const char *text);
void print_number(uint32_t number);
void print_hex(uint32_t number);

/* Ends the emulator; its exit status says nothing. */
void machine_end(void) __attribute__((noreturn));

static inline uint32_t timebase(void)
{
	uint32_t ticks;
	__asm__ volatile("mftb %0" : "=r"(ticks) : : "memory");
	return ticks;
}

/* Requests an interrupt after this many ticks; not in the past. */
static inline void set_decrementer(uint32_t ticks)
{
	__asm__ volatile("mtdec %0" : : "r"(ticks) : "memory");
}

static inline uint32_t machine_state(void)
{
	uint32_t state;
	__asm__ volatile("mfmsr %0" : "=r"(state));
	return state;
}

#endif
