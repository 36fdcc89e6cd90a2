/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The loops that may fault, for AArch64, using only general registers. Included by copy.c. */
#ifndef LINERATE_FAULT_AARCH64_H
#define LINERATE_FAULT_AARCH64_H

/*
 * A load or store of a pair is two accesses in unspecified order. If the pair is aligned to its
 * size, both are within one page.
 */
#define ALIGN 16
#define BLOCK ((size_t)64)
#define GROUP ((size_t)64)

/*
 * Copies eight words. All of them are read before the first is written, and are added after the
 * last is written.
 */
#define COPY_GROUPS(add)                                                                           \
	"1:\n\t"                                                                                   \
	READS_WIDE("ldp %[a], %[b], [%[src]]", "10f")                                              \
	READS_WIDE("ldp %[c], %[d], [%[src], #16]", "10f")                                         \
	READS_WIDE("ldp %[e], %[f], [%[src], #32]", "10f")                                         \
	READS_WIDE("ldp %[g], %[h], [%[src], #48]", "10f")                                         \
	WRITES_WIDE("stp %[a], %[b], [%[dst]]", "10f")                                             \
	WRITES_WIDE("stp %[c], %[d], [%[dst], #16]", "10f")                                        \
	WRITES_WIDE("stp %[e], %[f], [%[dst], #32]", "10f")                                        \
	WRITES_WIDE("stp %[g], %[h], [%[dst], #48]", "10f")                                        \
	add                                                                                        \
	"add %[src], %[src], #64\n\t"                                                              \
	"add %[dst], %[dst], #64\n\t"                                                              \
	"sub %[steps], %[steps], #1\n\t"                                                           \
	"cbnz %[steps], 1b\n"                                                                      \
	"10:"

#define ADD_GROUP                                                                                  \
	"adds %[sum], %[sum], %[a]\n\t"                                                            \
	"adcs %[sum], %[sum], %[b]\n\t"                                                            \
	"adcs %[sum], %[sum], %[c]\n\t"                                                            \
	"adcs %[sum], %[sum], %[d]\n\t"                                                            \
	"adcs %[sum], %[sum], %[e]\n\t"                                                            \
	"adcs %[sum], %[sum], %[f]\n\t"                                                            \
	"adcs %[sum], %[sum], %[g]\n\t"                                                            \
	"adcs %[sum], %[sum], %[h]\n\t"                                                            \
	"adc %[sum], %[sum], xzr\n\t"

ALWAYS_INLINE void copy_groups(struct copy *at, const int csum)
{
	const uint8_t *const from = at->src;
	size_t steps = at->left / GROUP;
	uint64_t a, b, c, d, e, f, g, h;
	if (csum)
		__asm__ volatile(COPY_GROUPS(ADD_GROUP)
				 : [src] "+r"(at->src), [dst] "+r"(at->dst), [steps] "+r"(steps),
				   [sum] "+r"(at->sum), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c),
				   [d] "=&r"(d), [e] "=&r"(e), [f] "=&r"(f), [g] "=&r"(g),
				   [h] "=&r"(h)
				 :
				 : "cc", "memory");
	else
		__asm__ volatile(COPY_GROUPS("")
				 : [src] "+r"(at->src), [dst] "+r"(at->dst), [steps] "+r"(steps),
				   [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d),
				   [e] "=&r"(e), [f] "=&r"(f), [g] "=&r"(g), [h] "=&r"(h)
				 :
				 : "cc", "memory");
	at->left -= (size_t)(at->src - from);
}

/* No loop wider than the one over groups is needed. */
ALWAYS_INLINE void copy_blocks(struct copy *at, const int csum)
{
	copy_groups(at, csum);
}

ALWAYS_INLINE void copy_words(struct copy *at, const int csum)
{
	const uint8_t *const from = at->src;
	size_t steps = at->left / WORD;
	uint64_t value, sum = 0;
	/* Adds even if csum is 0: the additions cost less here than a second loop would. */
	__asm__ volatile("1:\n\t"
			 READS_WIDE("ldr %[value], [%[src]]", "10f")
			 WRITES_WIDE("str %[value], [%[dst]]", "10f")
			 "adds %[sum], %[sum], %[value]\n\t"
			 "adc %[sum], %[sum], xzr\n\t"
			 "add %[src], %[src], #8\n\t"
			 "add %[dst], %[dst], #8\n\t"
			 "sub %[steps], %[steps], #1\n\t"
			 "cbnz %[steps], 1b\n"
			 "10:"
			 : [src] "+r"(at->src), [dst] "+r"(at->dst), [steps] "+r"(steps),
			   [sum] "+r"(sum), [value] "=&r"(value)
			 :
			 : "cc", "memory");
	if (csum)
		at->sum = add_word(at->sum, sum);
	at->left -= (size_t)(at->src - from);
}

#define COPY_AT_ONCE(load, store)                                                                  \
	__asm__ volatile(READS_WIDE(load ", [%[src]]", "10f")                                      \
			 WRITES_WIDE(store ", [%[dst]]", "10f")                                    \
			 "mov %w[faults], wzr\n"                                                   \
			 "10:"                                                                     \
			 : [value] "=&r"(*value), [faults] "+r"(faults)                            \
			 : [src] "r"(at->src), [dst] "r"(at->dst)                                  \
			 : "memory")

ALWAYS_INLINE int copy_at_once(const struct copy *at, const size_t bytes, uint64_t *value)
{
	int faults = 1;
	if (bytes == 8)
		COPY_AT_ONCE("ldr %[value]", "str %[value]");
	else if (bytes == 4)
		COPY_AT_ONCE("ldr %w[value]", "str %w[value]");
	else if (bytes == 2)
		COPY_AT_ONCE("ldrh %w[value]", "strh %w[value]");
	else
		COPY_AT_ONCE("ldrb %w[value]", "strb %w[value]");
	return faults;
}

ALWAYS_INLINE uint64_t copy_bytes(struct copy *at, size_t bytes)
{
	const uint8_t *const from = at->src;
	uint64_t byte, shifted = 0;
	__asm__ volatile("1:\n\t"
			 READS("ldrb %w[byte], [%[src]]", "10f")
			 WRITES("strb %w[byte], [%[dst]]", "11f")
			 "orr %[shifted], %[byte], %[shifted], lsl #8\n\t"
			 "add %[src], %[src], #1\n\t"
			 "add %[dst], %[dst], #1\n\t"
			 "sub %[bytes], %[bytes], #1\n\t"
			 "cbnz %[bytes], 1b\n\t"
			 "b 12f\n"
			 "10:\n\tmov %w[side], #" AS_TEXT(LR_FAULT_SOURCE) "\n\tb 12f\n"
			 "11:\n\tmov %w[side], #" AS_TEXT(LR_FAULT_DESTINATION) "\n"
			 "12:"
			 : [src] "+r"(at->src), [dst] "+r"(at->dst), [bytes] "+r"(bytes),
			   [side] "+r"(at->side), [shifted] "+r"(shifted), [byte] "=&r"(byte)
			 :
			 : "cc", "memory");
	at->left -= (size_t)(at->src - from);
	return shifted;
}

#endif
