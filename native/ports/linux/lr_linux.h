/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernels inside Linux, where vector registers belong to the interrupted code: they are used
 * only between the kernel's begin and end calls, only where the kernel allows it, and only for
 * lengths where it pays. kmod/csum_compare/Kbuild shows the flags that the files need;
 * docs/ports.md where to call this and what to measure. Not for user memory: these functions do not
 * survive faults.
 *
 * Do not export these names as csum_partial or memcpy: what Linux itself calls by those runs before
 * caches and vectors are set up, and on memory of devices.
 */
#ifndef LINERATE_PORTS_LINUX_H
#define LINERATE_PORTS_LINUX_H

#include <linerate/variant.h>

/*
 * Fewer bytes are summed without vectors. Before vectors may be used, the 32 16-byte registers of
 * the owning task are saved, and restored before it resumes: about as many bytes as the gain over
 * general registers. Wider registers cost more; measure.
 */
#ifndef LR_LINUX_VECTOR_BYTES
#define LR_LINUX_VECTOR_BYTES 512
#endif

/* Bytes between two chances for others to run: preemption is off while vectors are in use. */
#ifndef LR_LINUX_STEP_BYTES
#define LR_LINUX_STEP_BYTES 4096
#endif

/*
 * Chooses from the table what the functions below call: of each kind the last variant that the
 * processor runs well. Before the first of them, once, in a task; not while others call them.
 */
void lr_linux_select(void);

/*
 * Makes the functions below call these instead. scalar touches no vector registers; vector may be
 * null. Not while others call them.
 */
void lr_linux_use(const struct lr_variant *scalar, const struct lr_variant *vector);

/*
 * Takes the vector registers and returns 1, or returns 0 where that may not be: in an interrupt, on
 * a processor without, and wherever else the kernel says no. Between begin and end do not sleep and
 * do not begin again.
 */
int lr_linux_begin(void);
void lr_linux_end(void);

/*
 * As lr_csum_partial and lr_copy_csum_partial, of kernel memory, in any context: with vectors where
 * they may be used and there is enough to do, and without where not.
 */
uint32_t lr_linux_csum(const void *src, size_t bytes, uint32_t sum);
uint32_t lr_linux_copy_csum(void *dst, const void *src, size_t bytes, uint32_t sum);

#endif
