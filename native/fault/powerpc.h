/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The loops that may fault, for PowerPC of 32 and 64 bits and either byte order, using only general
 * registers. Included by copy.c.
 *
 * No load or store updates its base register, so that its value is known after a fault.
 */
#ifndef LINERATE_FAULT_POWERPC_H
#define LINERATE_FAULT_POWERPC_H

#ifdef __powerpc64__
#define LOAD "ld"
#define STORE "std"
#define AT(words) "(8*" #words ")"
#else
#define LOAD "lwz"
#define STORE "stw"
#define AT(words) "(4*" #words ")"
#endif

#define ALIGN WORD
#define BLOCK (8 * WORD)
#define GROUP (8 * WORD)
#define GROUP_TEXT AT(8)

/*
 * Copies eight words. All of them are read before the first is written, and are added after the
 * last is written.
 */
#define COPY_GROUPS(add)                                                                           \
	"mtctr %[steps]\n"                                                                         \
	"1:\n\t"                                                                                   \
	READS_WIDE(LOAD " %[a]," AT(0) "(%[src])", "10f")                                          \
	READS_WIDE(LOAD " %[b]," AT(1) "(%[src])", "10f")                                          \
	READS_WIDE(LOAD " %[c]," AT(2) "(%[src])", "10f")                                          \
	READS_WIDE(LOAD " %[d]," AT(3) "(%[src])", "10f")                                          \
	READS_WIDE(LOAD " %[e]," AT(4) "(%[src])", "10f")                                          \
	READS_WIDE(LOAD " %[f]," AT(5) "(%[src])", "10f")                                          \
	READS_WIDE(LOAD " %[g]," AT(6) "(%[src])", "10f")                                          \
	READS_WIDE(LOAD " %[h]," AT(7) "(%[src])", "10f")                                          \
	WRITES_WIDE(STORE " %[a]," AT(0) "(%[dst])", "10f")                                        \
	WRITES_WIDE(STORE " %[b]," AT(1) "(%[dst])", "10f")                                        \
	WRITES_WIDE(STORE " %[c]," AT(2) "(%[dst])", "10f")                                        \
	WRITES_WIDE(STORE " %[d]," AT(3) "(%[dst])", "10f")                                        \
	WRITES_WIDE(STORE " %[e]," AT(4) "(%[dst])", "10f")                                        \
	WRITES_WIDE(STORE " %[f]," AT(5) "(%[dst])", "10f")                                        \
	WRITES_WIDE(STORE " %[g]," AT(6) "(%[dst])", "10f")                                        \
	WRITES_WIDE(STORE " %[h]," AT(7) "(%[dst])", "10f")                                        \
	add                                                                                        \
	"addi %[src],%[src]," GROUP_TEXT "\n\t"                                                    \
	"addi %[dst],%[dst]," GROUP_TEXT "\n\t"                                                    \
	"bdnz 1b\n"                                                                                \
	"10:"

#define ADD_GROUP                                                                                  \
	"addc %[sum],%[sum],%[a]\n\t"                                                              \
	"adde %[sum],%[sum],%[b]\n\t"                                                              \
	"adde %[sum],%[sum],%[c]\n\t"                                                              \
	"adde %[sum],%[sum],%[d]\n\t"                                                              \
	"adde %[sum],%[sum],%[e]\n\t"                                                              \
	"adde %[sum],%[sum],%[f]\n\t"                                                              \
	"adde %[sum],%[sum],%[g]\n\t"                                                              \
	"adde %[sum],%[sum],%[h]\n\t"                                                              \
	"addze %[sum],%[sum]\n\t"

ALWAYS_INLINE void copy_groups(struct copy *at, const int csum)
{
	const uint8_t *const from = at->src;
	const size_t steps = at->left / GROUP;
	word a, b, c, d, e, f, g, h;
	if (csum)
		__asm__ volatile(COPY_GROUPS(ADD_GROUP)
				 : [src] "+b"(at->src), [dst] "+b"(at->dst), [sum] "+r"(at->sum),
				   [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d),
				   [e] "=&r"(e), [f] "=&r"(f), [g] "=&r"(g), [h] "=&r"(h)
				 : [steps] "r"(steps)
				 : "ctr", "xer", "memory");
	else
		__asm__ volatile(COPY_GROUPS("")
				 : [src] "+b"(at->src), [dst] "+b"(at->dst), [a] "=&r"(a),
				   [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d), [e] "=&r"(e),
				   [f] "=&r"(f), [g] "=&r"(g), [h] "=&r"(h)
				 : [steps] "r"(steps)
				 : "ctr", "memory");
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
	const size_t steps = at->left / WORD;
	word value, sum = 0;
	/* Adds even if csum is 0: the additions cost less here than a second loop would. */
	__asm__ volatile("mtctr %[steps]\n"
			 "1:\n\t"
			 READS_WIDE(LOAD " %[value],0(%[src])", "10f")
			 WRITES_WIDE(STORE " %[value],0(%[dst])", "10f")
			 "addc %[sum],%[sum],%[value]\n\t"
			 "addze %[sum],%[sum]\n\t"
			 "addi %[src],%[src]," AT(1) "\n\t"
			 "addi %[dst],%[dst]," AT(1) "\n\t"
			 "bdnz 1b\n"
			 "10:"
			 : [src] "+b"(at->src), [dst] "+b"(at->dst), [sum] "+r"(sum),
			   [value] "=&r"(value)
			 : [steps] "r"(steps)
			 : "ctr", "xer", "memory");
	if (csum)
		at->sum = add_word(at->sum, sum);
	at->left -= (size_t)(at->src - from);
}

#define COPY_AT_ONCE(load, store)                                                                  \
	__asm__ volatile(READS_WIDE(load " %[value],0(%[src])", "10f")                             \
			 WRITES_WIDE(store " %[value],0(%[dst])", "10f")                           \
			 "li %[faults],0\n"                                                        \
			 "10:"                                                                     \
			 : [value] "=&r"(*value), [faults] "+r"(faults)                            \
			 : [src] "b"(at->src), [dst] "b"(at->dst)                                  \
			 : "memory")

ALWAYS_INLINE int copy_at_once(const struct copy *at, const size_t bytes, word *value)
{
	int faults = 1;
	if (bytes == 4)
		COPY_AT_ONCE("lwz", "stw");
	else if (bytes == 2)
		COPY_AT_ONCE("lhz", "sth");
	else
		COPY_AT_ONCE("lbz", "stb");
	return faults;
}

#ifdef __powerpc64__
#define SHIFT_8 "sldi %[shifted],%[shifted],8\n\t"
#else
#define SHIFT_8 "slwi %[shifted],%[shifted],8\n\t"
#endif

ALWAYS_INLINE word copy_bytes(struct copy *at, size_t bytes)
{
	const uint8_t *const from = at->src;
	word byte, shifted = 0;
	__asm__ volatile("mtctr %[bytes]\n"
			 "1:\n\t"
			 READS("lbz %[byte],0(%[src])", "10f")
			 WRITES("stb %[byte],0(%[dst])", "11f")
			 SHIFT_8
			 "or %[shifted],%[shifted],%[byte]\n\t"
			 "addi %[src],%[src],1\n\t"
			 "addi %[dst],%[dst],1\n\t"
			 "bdnz 1b\n\t"
			 "b 12f\n"
			 "10:\n\tli %[side]," AS_TEXT(LR_FAULT_SOURCE) "\n\tb 12f\n"
			 "11:\n\tli %[side]," AS_TEXT(LR_FAULT_DESTINATION) "\n"
			 "12:"
			 : [src] "+b"(at->src), [dst] "+b"(at->dst), [side] "+r"(at->side),
			   [shifted] "+r"(shifted), [byte] "=&r"(byte)
			 : [bytes] "r"(bytes)
			 : "ctr", "memory");
	at->left -= (size_t)(at->src - from);
	return shifted;
}

#endif
