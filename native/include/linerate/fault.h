/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Copies that survive a fault: copy, and copy with checksum, that say how many bytes they could
 * not copy and on which side it failed, where an ordinary copy would end the program.
 *
 * They do not survive by themselves. Whoever is told of a fault, the trap handler of a kernel or
 * the signal handler of a process, asks lr_fault_lookup whether the instruction is one of theirs
 * and resumes where it says; without that a fault in them is a fault like any other. For a process
 * of Linux, hosted.h brings such a handler.
 *
 * Bytes are copied from the first to the last. If byte k is the first that cannot be copied, then
 *   - the residue is bytes - k;
 *   - dst holds bytes 0 to k-1 of src, and from byte k on what it held before;
 *   - the sum is that of the seed and of exactly the k bytes that dst now holds, also if somebody
 *     else changes src meanwhile;
 *   - the side is the source if byte k could not be read, whether or not it could have been
 *     written, and else the destination.
 * Bytes of src beyond k may have been read. A byte of dst before k may have been written twice.
 * Memory must be ordinary memory, where a wide access does what narrow ones would.
 *
 * A wide access that faults is repeated byte by byte. Should the bytes be there by then, the
 * copy goes on as if there had been no fault.
 *
 * The functions touch no vector register, keep no state, and may be called from any number of
 * threads at once and at any level of interrupts at which a fault may be taken. Lengths are in
 * bytes and may be anything a size_t holds; no alignment is required; source and destination must
 * not overlap; pointers may be null if bytes is 0.
 *
 * LR_FAULT is 1 where all this is: x86-64, AArch64 and PowerPC of 32 and 64 bits, in ELF. Elsewhere
 * it is 0 and nothing is declared: a copy in C would only pretend, because the compiler chooses its
 * loads and stores.
 */
#ifndef LINERATE_FAULT_H
#define LINERATE_FAULT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__ELF__) && ((defined(__x86_64__) && defined(__LP64__)) || \
			 (defined(__aarch64__) && defined(__LP64__)) || defined(__powerpc__))
#define LR_FAULT 1
#else
#define LR_FAULT 0
#endif

/* What an instruction of a copy accesses. Macros, because assembly names them too. */
#define LR_FAULT_SOURCE 1
#define LR_FAULT_DESTINATION 2
/* Added to either: an access of several bytes, repeated byte by byte if it faults. */
#define LR_FAULT_WIDE 4

#if LR_FAULT

#ifdef __cplusplus
extern "C" {
#endif

/* What came of a copy that may fault. */
struct lr_tried {
	/* The bytes that were not copied: 0 if all were. */
	size_t residue;
	/* The sum of the bytes that were copied, as lr_csum_partial's; of lr_try_copy 0. */
	uint32_t sum;
	/* LR_FAULT_SOURCE or LR_FAULT_DESTINATION; 0 if the residue is 0. */
	uint32_t side;
};

/* Copies bytes from src to dst, as far as both can be accessed. */
struct lr_tried lr_try_copy(void *dst, const void *src, size_t bytes);

/* The same, and adds the bytes that it copies to sum, as lr_copy_csum_partial does. */
struct lr_tried lr_try_copy_csum(void *dst, const void *src, size_t bytes, uint32_t sum);

/*
 * For whoever handles faults: where to resume after the instruction at pc has faulted, all
 * registers but the program counter as they were at the fault, or 0 if it is none of the above
 * copies'. Stores at access, unless that is null, what the instruction accesses: LR_FAULT_SOURCE
 * or LR_FAULT_DESTINATION, with LR_FAULT_WIDE added or not.
 *
 * The fault of a wide access says less than it seems to, for the first address that could not be
 * accessed may be any of several bytes: resume, and let the repetition fault at its byte.
 *
 * Reads the table in the section lr_fault_table and nothing else; may be called anywhere.
 */
uintptr_t lr_fault_lookup(uintptr_t pc, unsigned *access);

#ifdef __cplusplus
}
#endif
#endif
#endif
