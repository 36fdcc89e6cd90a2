/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Copies that survive a fault: a copy and a copy with checksum that return how many bytes they
 * could not copy, and whether the source or the destination faulted, where an ordinary copy would
 * crash the program.
 *
 * They depend on a fault handler: the trap handler of a kernel or the signal handler of a process
 * calls lr_fault_lookup to find out whether the faulting instruction belongs to one of these
 * copies, and resumes at the returned address. Without such a handler, a fault in them is an
 * ordinary fault. For Linux processes, hosted.h provides the handler.
 *
 * Bytes are copied from the first to the last. If byte k is the first that cannot be copied, then
 *   - the residue is bytes - k;
 *   - dst holds bytes 0 to k-1 of src, and from byte k on what it held before;
 *   - the sum is that of the seed and of exactly the k bytes that dst now holds, even if src is
 *     changed concurrently;
 *   - the side is the source if byte k could not be read, whether or not it could have been
 *     written, and else the destination.
 * Bytes of src beyond k may have been read. A byte of dst before k may have been written twice. The
 * memory must be ordinary memory, where one wide access has the same effect as several narrow ones.
 *
 * A wide access that faults is repeated byte by byte. If the bytes are accessible by then, the copy
 * continues as if there had been no fault.
 *
 * The functions touch no vector register, keep no state, and may be called from any number of
 * threads at once and at any level of interrupts at which a fault may be taken. Lengths are in
 * bytes and may be anything a size_t holds; no alignment is required; source and destination must
 * not overlap; pointers may be null if bytes is 0.
 *
 * LR_FAULT is 1 on the supported platforms: x86-64, AArch64, and 32-bit and 64-bit PowerPC, with
 * ELF. Elsewhere it is 0 and nothing is declared: a version in C could not keep these promises,
 * because the compiler chooses its loads and stores.
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

/* What an instruction of a copy accesses. Macros, because assembly uses them too. */
#define LR_FAULT_SOURCE 1
#define LR_FAULT_DESTINATION 2
/*
 * Flag added to either of these: the access is to several bytes, and is repeated byte by byte if it
 * faults.
 */
#define LR_FAULT_WIDE 4

#if LR_FAULT

#ifdef __cplusplus
extern "C" {
#endif

/* Result of a copy that may fault. */
struct lr_tried {
	/* Number of bytes not copied: 0 if all were. */
	size_t residue;
	/* Sum of the seed and the copied bytes, as from lr_csum_partial; 0 from lr_try_copy. */
	uint32_t sum;
	/* LR_FAULT_SOURCE or LR_FAULT_DESTINATION; 0 if the residue is 0. */
	uint32_t side;
};

/* Copies bytes from src to dst, up to the first byte that cannot be accessed. */
struct lr_tried lr_try_copy(void *dst, const void *src, size_t bytes);

/* Like lr_try_copy, but also adds the copied bytes to sum, as lr_copy_csum_partial does. */
struct lr_tried lr_try_copy_csum(void *dst, const void *src, size_t bytes, uint32_t sum);

/*
 * For fault handlers: returns the address at which to resume, with all other registers unchanged,
 * after the instruction at pc has faulted; 0 if that instruction is not part of the copies above.
 * Unless access is null, stores there what the instruction accesses: LR_FAULT_SOURCE or
 * LR_FAULT_DESTINATION, plus LR_FAULT_WIDE if it accesses several bytes.
 *
 * Do not judge a fault of a wide access by its address, which may be that of any of its bytes:
 * resume, and the copy repeats the access byte by byte and faults again at the exact byte.
 *
 * Reads only the table in the section lr_fault_table, so it may be called in any context.
 */
uintptr_t lr_fault_lookup(uintptr_t pc, unsigned *access);

#ifdef __cplusplus
}
#endif
#endif
#endif
