/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Loads and stores in 64-bit words, eight per step, on any machine. */
#include "bounds.h"
#include "words.h"

static int supported(void)
{
	return 1;
}

static uint32_t load64(const void *src, size_t bytes, uint32_t sum)
{
	const uint8_t *at = src;
	for (; bytes >= 64; bytes -= 64, at += 64) {
		LOAD(uint64_t, at);
		LOAD(uint64_t, at + 8);
		LOAD(uint64_t, at + 16);
		LOAD(uint64_t, at + 24);
		LOAD(uint64_t, at + 32);
		LOAD(uint64_t, at + 40);
		LOAD(uint64_t, at + 48);
		LOAD(uint64_t, at + 56);
	}
	load_words(at, bytes);
	return sum;
}

static void *store64(void *dst, uint8_t value, size_t bytes)
{
	uint8_t *at = dst;
	const uint64_t word = eightfold(value);
	for (; bytes >= 64; bytes -= 64, at += 64) {
		STORE(uint64_t, at, word);
		STORE(uint64_t, at + 8, word);
		STORE(uint64_t, at + 16, word);
		STORE(uint64_t, at + 24, word);
		STORE(uint64_t, at + 32, word);
		STORE(uint64_t, at + 40, word);
		STORE(uint64_t, at + 48, word);
		STORE(uint64_t, at + 56, word);
	}
	store_words(at, word, bytes);
	return dst;
}

const struct lr_variant lr_bound_load64 = {
	.name = "load64",
	.isa = "C",
	.compiled = 1,
	.supported = supported,
	.csum_partial = load64,
};

const struct lr_variant lr_bound_store64 = {
	.name = "store64",
	.isa = "C",
	.compiled = 1,
	.supported = supported,
	.fill = store64,
};
