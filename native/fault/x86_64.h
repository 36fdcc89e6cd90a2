/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The loops that may fault, for x86-64, using only general registers. Included by copy.c. */
#ifndef LINERATE_FAULT_X86_64_H
#define LINERATE_FAULT_X86_64_H

#define ALIGN 8
#define BLOCK ((size_t)128)
#define GROUP ((size_t)32)

/*
 * Copies four words. All of them are read before the first is written, and are added after the last
 * is written.
 */
#define COPY_GROUP(fixup, at0, at1, at2, at3)                                                      \
	READS_WIDE("movq " #at0 "(%[src]), %[a]", fixup)                                           \
	READS_WIDE("movq " #at1 "(%[src]), %[b]", fixup)                                           \
	READS_WIDE("movq " #at2 "(%[src]), %[c]", fixup)                                           \
	READS_WIDE("movq " #at3 "(%[src]), %[d]", fixup)                                           \
	WRITES_WIDE("movq %[a], " #at0 "(%[dst])", fixup)                                          \
	WRITES_WIDE("movq %[b], " #at1 "(%[dst])", fixup)                                          \
	WRITES_WIDE("movq %[c], " #at2 "(%[dst])", fixup)                                          \
	WRITES_WIDE("movq %[d], " #at3 "(%[dst])", fixup)

#define ADD_GROUP(sum)                                                                             \
	"addq %[a], " sum "\n\t"                                                                   \
	"adcq %[b], " sum "\n\t"                                                                   \
	"adcq %[c], " sum "\n\t"                                                                   \
	"adcq %[d], " sum "\n\t"                                                                   \
	"adcq $0, " sum "\n\t"

/*
 * The fix-up of a group advances the pointers past the preceding groups of the same step, which
 * were copied.
 */
#define COPY_BLOCKS(add0, add1, add2, add3)                                                        \
	"1:\n\t"                                                                                   \
	COPY_GROUP("10f", 0, 8, 16, 24) add0                                                       \
	COPY_GROUP("11f", 32, 40, 48, 56) add1                                                     \
	COPY_GROUP("12f", 64, 72, 80, 88) add2                                                     \
	COPY_GROUP("13f", 96, 104, 112, 120) add3                                                  \
	"subq $-128, %[src]\n\t"                                                                   \
	"subq $-128, %[dst]\n\t"                                                                   \
	"decq %[steps]\n\t"                                                                        \
	"jnz 1b\n\t"                                                                               \
	"jmp 10f\n"                                                                                \
	"13:\n\taddq $32, %[src]\n\taddq $32, %[dst]\n"                                            \
	"12:\n\taddq $32, %[src]\n\taddq $32, %[dst]\n"                                            \
	"11:\n\taddq $32, %[src]\n\taddq $32, %[dst]\n"                                            \
	"10:"

/*
 * Four sums, one for each group of a block: a single chain of additions with carry would be the
 * bottleneck.
 */
ALWAYS_INLINE void copy_blocks(struct copy *at, const int csum)
{
	const uint8_t *const from = at->src;
	size_t steps = at->left / BLOCK;
	uint64_t a, b, c, d;
	if (csum) {
		uint64_t sum1 = 0, sum2 = 0, sum3 = 0;
		__asm__ volatile(COPY_BLOCKS(ADD_GROUP("%[sum0]"), ADD_GROUP("%[sum1]"),
					     ADD_GROUP("%[sum2]"), ADD_GROUP("%[sum3]"))
				 : [src] "+r"(at->src), [dst] "+r"(at->dst), [steps] "+r"(steps),
				   [sum0] "+r"(at->sum), [sum1] "+r"(sum1), [sum2] "+r"(sum2),
				   [sum3] "+r"(sum3), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c),
				   [d] "=&r"(d)
				 :
				 : "cc", "memory");
		at->sum = add_word(add_word(at->sum, sum1), add_word(sum2, sum3));
	} else {
		__asm__ volatile(COPY_BLOCKS("", "", "", "")
				 : [src] "+r"(at->src), [dst] "+r"(at->dst), [steps] "+r"(steps),
				   [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d)
				 :
				 : "cc", "memory");
	}
	at->left -= (size_t)(at->src - from);
}

#define COPY_GROUPS(add)                                                                           \
	"1:\n\t"                                                                                   \
	COPY_GROUP("10f", 0, 8, 16, 24) add                                                        \
	"addq $32, %[src]\n\t"                                                                     \
	"addq $32, %[dst]\n\t"                                                                     \
	"decq %[steps]\n\t"                                                                        \
	"jnz 1b\n"                                                                                 \
	"10:"

ALWAYS_INLINE void copy_groups(struct copy *at, const int csum)
{
	const uint8_t *const from = at->src;
	size_t steps = at->left / GROUP;
	uint64_t a, b, c, d;
	if (csum)
		__asm__ volatile(COPY_GROUPS(ADD_GROUP("%[sum]"))
				 : [src] "+r"(at->src), [dst] "+r"(at->dst), [steps] "+r"(steps),
				   [sum] "+r"(at->sum), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c),
				   [d] "=&r"(d)
				 :
				 : "cc", "memory");
	else
		__asm__ volatile(COPY_GROUPS("")
				 : [src] "+r"(at->src), [dst] "+r"(at->dst), [steps] "+r"(steps),
				   [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d)
				 :
				 : "cc", "memory");
	at->left -= (size_t)(at->src - from);
}

ALWAYS_INLINE void copy_words(struct copy *at, const int csum)
{
	const uint8_t *const from = at->src;
	size_t steps = at->left / WORD;
	uint64_t value, sum = 0;
	/* Adds even if csum is 0: the additions cost less here than a second loop would. */
	__asm__ volatile("1:\n\t"
			 READS_WIDE("movq (%[src]), %[value]", "10f")
			 WRITES_WIDE("movq %[value], (%[dst])", "10f")
			 "addq %[value], %[sum]\n\t"
			 "adcq $0, %[sum]\n\t"
			 "addq $8, %[src]\n\t"
			 "addq $8, %[dst]\n\t"
			 "decq %[steps]\n\t"
			 "jnz 1b\n"
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
	__asm__ volatile(READS_WIDE(load, "10f")                                                   \
			 WRITES_WIDE(store, "10f")                                                 \
			 "xorl %[faults], %[faults]\n"                                             \
			 "10:"                                                                     \
			 : [value] "=&q"(*value), [faults] "+r"(faults)                            \
			 : [src] "r"(at->src), [dst] "r"(at->dst)                                  \
			 : "cc", "memory")

ALWAYS_INLINE int copy_at_once(const struct copy *at, const size_t bytes, uint64_t *value)
{
	int faults = 1;
	if (bytes == 4)
		COPY_AT_ONCE("movl (%[src]), %k[value]", "movl %k[value], (%[dst])");
	else if (bytes == 2)
		COPY_AT_ONCE("movzwl (%[src]), %k[value]", "movw %w[value], (%[dst])");
	else
		COPY_AT_ONCE("movzbl (%[src]), %k[value]", "movb %b[value], (%[dst])");
	return faults;
}

ALWAYS_INLINE uint64_t copy_bytes(struct copy *at, size_t bytes)
{
	const uint8_t *const from = at->src;
	uint64_t byte, shifted = 0;
	__asm__ volatile("1:\n\t"
			 READS("movzbl (%[src]), %k[byte]", "10f")
			 WRITES("movb %b[byte], (%[dst])", "11f")
			 "shlq $8, %[shifted]\n\t"
			 "orq %[byte], %[shifted]\n\t"
			 "incq %[src]\n\t"
			 "incq %[dst]\n\t"
			 "decq %[bytes]\n\t"
			 "jnz 1b\n\t"
			 "jmp 12f\n"
			 "10:\n\tmovl $" AS_TEXT(LR_FAULT_SOURCE) ", %[side]\n\tjmp 12f\n"
			 "11:\n\tmovl $" AS_TEXT(LR_FAULT_DESTINATION) ", %[side]\n"
			 "12:"
			 : [src] "+r"(at->src), [dst] "+r"(at->dst), [bytes] "+r"(bytes),
			   [side] "+r"(at->side), [shifted] "+r"(shifted), [byte] "=&q"(byte)
			 :
			 : "cc", "memory");
	at->left -= (size_t)(at->src - from);
	return shifted;
}

#endif
