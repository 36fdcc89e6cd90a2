/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Copies that survive a fault: copy, and copy with checksum, that say how many bytes they could
 * not copy and on which side it failed, where an ordinary copy would end the program.
 *
 * They need the help of a fault handler: the trap handler of a kernel or the signal handler of a
 * process calls lr_fault_lookup to find out whether the instruction is one of theirs, and resumes
 * at the returned address; without it, a fault in them is an ordinary fault. For Linux processes,
 * hosted.h provides such a handler.
 *
 * Bytes are copied from the first to the last. If byte k is the first that cannot be copied, then
 *   - the residue is bytes - k;
 *   - dst holds bytes 0 to k-1 of src, and from byte k on what it held before;
 *   - the sum is that of the seed and of exactly the k bytes that dst now holds, even if src is
 *     changed concurrently;
 *   - the side is the source if byte k could not be read, whether or not it could have been
 *     written, and else the destination.
 * Bytes of src beyond k may have been read. A byte of dst before k may have been written twice.
 * Memory must be ordinary memory, where a wide access does what narrow ones would.
 *
 * A wide access that faults is repeated byte by byte. If the bytes are accessible by then, the copy
 * continues as if there had been no fault.
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

/* Access of an instruction of a copy. Macros, because assembly uses them too. */
#define LR_FAULT_SOURCE 1
#define LR_FAULT_DESTINATION 2
/* Added to either: an access of several bytes, repeated byte by byte if it faults. */
#define LR_FAULT_WIDE 4

#if LR_FAULT

#ifdef __cplusplus
extern "C" {
#endif

/* Result of a copy that may fault. */
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
 * For fault handlers: the address at which to resume after the instruction at pc has faulted, with
 * all other registers as they were at the fault, or 0 if it does not belong to the above copies.
 * Stores the access of the instruction at access, unless that is null: LR_FAULT_SOURCE or
 * LR_FAULT_DESTINATION, with LR_FAULT_WIDE added or not.
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
