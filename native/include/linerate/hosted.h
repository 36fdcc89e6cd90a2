/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Fault handling for the copies of fault.h in a Linux process: signal handlers for SIGSEGV and
 * SIGBUS, and a registry of the address ranges in which faults are expected, such as mapped files
 * that may be truncated, memory shared with a process that may end, and inaccessible pages.
 *
 * A fault is handled if an instruction of one of those copies caused it and its address is in a
 * registered range. Every other fault, and every SIGSEGV or SIGBUS that was sent, goes to the
 * previously installed action, which sees the same as it would without our handlers: the same
 * siginfo and context, on the same stack, with the same signals blocked. SA_RESETHAND resets that
 * action; without a handler the process ends as it would have, or ignores a signal that can be
 * ignored. Differences:
 *   - where a copy faults outside all ranges, the action sees a faulting instruction that accesses
 *     a single byte;
 *   - a signal that was sent and is ignored may interrupt a blocking call (EINTR);
 *   - a fault that should end the process does so by recurring: if another thread has resolved it
 *     in between, the process continues, without our handlers.
 *
 * Threads that copy must not block SIGSEGV or SIGBUS: the kernel ends the process on a blocked
 * fault. For the same reason, a handler of either signal must not copy, unless its action has
 * SA_NODEFER.
 *
 * Handlers that other code installs after ours are compatible if they pass on the faults that they
 * do not handle themselves. Otherwise they also intercept the faults of our copies.
 */
#ifndef LINERATE_HOSTED_H
#define LINERATE_HOSTED_H

#include <linerate/fault.h>

#if LR_FAULT

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Installs the handlers on the first call and counts the calls, so that several parts of a program
 * can use it independently. Returns 0, or an errno value from sigaction or malloc (ENOMEM), in
 * which case nothing has changed.
 *
 * Thread-safe, but no other part of the program may change the actions of SIGSEGV or SIGBUS at the
 * same time. Must not be called from signal handlers.
 */
int lr_fault_install(void);

/*
 * Undoes one call of lr_fault_install; the last one restores the actions that were in place before
 * the first. Returns 0, or
 *   EINVAL  nothing is installed
 *   EBUSY   another handler was installed after ours, and may still call it: nothing has changed.
 *           Remove that one first, or leave ours in place.
 * Thread safety is as for lr_fault_install.
 */
int lr_fault_uninstall(void);

/*
 * Registers a range: from now on copies survive faults in the given number of bytes from first on,
 * once handlers are installed. Ranges may overlap, and the same range may be registered several
 * times. Returns 0, or
 *   EINVAL  bytes is 0, or the range extends beyond the address space
 *   ENOMEM  no memory to record the range
 *
 * Thread-safe, also while other threads copy and fault. Must not be called from signal handlers.
 * Every fault of a copy scans all ranges: keep their number within the hundreds, by registering
 * larger enclosing ranges.
 *
 * On AArch64, pass addresses without a tag, as the system reports them.
 */
int lr_fault_register(const void *first, size_t bytes);

/*
 * Undoes one registration of exactly this range. Returns 0, or ENOENT if there is none. A copy that
 * faulted before this function returns may still survive afterwards. Thread safety is as for
 * lr_fault_register.
 */
int lr_fault_unregister(const void *first, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
#endif
