/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernels inside Linux, where vector registers belong to the interrupted code: they are used
 * only between the kernel's begin and end calls, only where the kernel allows it, and only for
 * lengths where it pays. kmod/csum_compare/Kbuild shows the flags that the files need;
 * docs/ports.md where to call this and what to measure. Not for user memory: these functions do not
 * survive faults.
 *
 * Do not export these functions under the names csum_partial or memcpy: Linux itself calls those
 * before caches and vectors are set up, and on device memory.
 */
#ifndef LINERATE_PORTS_LINUX_H
#define LINERATE_PORTS_LINUX_H

#include <linerate/variant.h>

/*
 * Fewer bytes than this are summed without vectors. Before vectors may be used, the 32 16-byte
 * registers of the owning task are saved, and they are restored before it resumes; at this length,
 * that costs about as much as vectors gain over general registers. Wider registers cost more:
 * measure.
 */
#ifndef LR_LINUX_VECTOR_BYTES
#define LR_LINUX_VECTOR_BYTES 512
#endif

/*
 * Maximum number of bytes summed between a begin and its end, where preemption is disabled. Other
 * tasks may run before the next begin.
 */
#ifndef LR_LINUX_STEP_BYTES
#define LR_LINUX_STEP_BYTES 4096
#endif

/*
 * Selects the variants that the functions below call: the last scalar one and the last vector one
 * in the table that the processor runs well. Call it once, from a task, before any of those
 * functions, and not while another task runs one.
 */
void lr_linux_select(void);

/*
 * Makes the functions below call these variants instead. scalar must not use vector registers;
 * vector may be null. Do not call it while another task runs one of those functions.
 */
void lr_linux_use(const struct lr_variant *scalar, const struct lr_variant *vector);

/*
 * Acquires the vector registers and returns 1, or returns 0 if they may not be used: on a
 * processor without them, in an interrupt (on x86-64 only if it interrupted a use of vectors in the
 * kernel or code with softirqs disabled), and wherever else the kernel does not allow it. Between
 * begin and end, do not sleep and do not call begin again.
 */
int lr_linux_begin(void);
void lr_linux_end(void);

/*
 * Like lr_csum_partial and lr_copy_csum_partial, but for kernel memory and in any context: with
 * vectors if they may be used and the length is worth it, otherwise without.
 */
uint32_t lr_linux_csum(const void *src, size_t bytes, uint32_t sum);
uint32_t lr_linux_copy_csum(void *dst, const void *src, size_t bytes, uint32_t sum);

#endif
