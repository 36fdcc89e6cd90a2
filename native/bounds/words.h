/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Loads and stores of up to 64 bits that the compiler can neither merge nor omit. */
#ifndef LINERATE_BOUNDS_WORDS_H
#define LINERATE_BOUNDS_WORDS_H

#include <stddef.h>
#include <stdint.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/*
 * Loads a value of up to eight bytes. The empty assembly statement counts as a use, so that the
 * compiler keeps the load.
 */
#define LOAD(type, at)                                                                             \
	do {                                                                                       \
		type loaded_;                                                                      \
		__builtin_memcpy(&loaded_, at, sizeof loaded_);                                    \
		__asm__ volatile("" : : "r"(loaded_));                                             \
	} while (0)

/* Stores a value that is opaque to the compiler, so that it neither merges nor omits the store. */
#define STORE(type, at, value)                                                                     \
	do {                                                                                       \
		type stored_ = (type)(value);                                                      \
		__asm__ volatile("" : "+r"(stored_));                                              \
		__builtin_memcpy(at, &stored_, sizeof stored_);                                    \
	} while (0)

/*
 * Loads all bytes in 64-bit words from the first byte on; the last word may overlap the one before.
 */
ALWAYS_INLINE void load_words(const uint8_t *at, size_t bytes)
{
	const uint8_t *const end = at + bytes;
	if (bytes >= 8) {
		for (; end - at >= 8; at += 8)
			LOAD(uint64_t, at);
		if (at < end)
			LOAD(uint64_t, end - 8);
	} else if (bytes >= 4) {
		LOAD(uint32_t, at);
		LOAD(uint32_t, end - 4);
	} else {
		for (; at < end; at++)
			LOAD(uint8_t, at);
	}
}

ALWAYS_INLINE void store_words(uint8_t *at, uint64_t value, size_t bytes)
{
	uint8_t *const end = at + bytes;
	if (bytes >= 8) {
		for (; end - at >= 8; at += 8)
			STORE(uint64_t, at, value);
		if (at < end)
			STORE(uint64_t, end - 8, value);
	} else if (bytes >= 4) {
		STORE(uint32_t, at, value);
		STORE(uint32_t, end - 4, value);
	} else {
		for (; at < end; at++)
			STORE(uint8_t, at, value);
	}
}

/* Returns a word of eight copies of a byte. */
ALWAYS_INLINE uint64_t eightfold(uint8_t value)
{
	return value * UINT64_C(0x0101010101010101);
}

#endif
