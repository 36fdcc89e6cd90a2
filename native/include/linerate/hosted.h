/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Makes the copies of fault.h survive in a Linux process: signal handlers for SIGSEGV and SIGBUS,
 * and the address ranges in which faults are expected: files that may be truncated, memory shared
 * with a process that may end, inaccessible pages.
 *
 * A fault is handled if an instruction of one of those copies caused it and its address is in a
 * registered range. Every other one, and every sent SIGSEGV or SIGBUS, goes to the previously
 * installed action, which sees the same as without our handlers: the same siginfo and context, on
 * the same stack, with the same signals blocked; SA_RESETHAND resets; without a handler the process
 * ends as it would have, or ignores a signal that can be ignored. Differences:
 *   - where a copy faults outside of all ranges, the faulting instruction that the action sees
 *     accesses a single byte;
 *   - a signal that was sent and is ignored may interrupt a call that waits (EINTR);
 *   - a fault that should end the process does so by recurring: if another thread has resolved it
 *     in between, the process continues, without our handlers.
 *
 * Handlers that others install after us work as long as they pass on to us what is not theirs. One
 * that does not takes our faults too.
 */
#ifndef LINERATE_HOSTED_H
#define LINERATE_HOSTED_H

#include <linerate/fault.h>

#if LR_FAULT

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Installs the handlers on the first call, and counts the calls: parts of a program can use it
 * independently. Returns 0, or an errno value of sigaction or malloc (ENOMEM) without any change.
 *
 * Thread-safe; but no other part of the program may change the actions of SIGSEGV or SIGBUS at the
 * same time. Not for signal handlers.
 */
int lr_fault_install(void);

/*
 * Takes back one lr_fault_install; the last puts back what was there before the first. 0, or
 *   EINVAL  nothing is installed
 *   EBUSY   another handler was installed after ours, and may still call it: nothing has changed.
 *           Remove that one first, or leave ours in place.
 * Threads as for lr_fault_install.
 */
int lr_fault_uninstall(void);

/*
 * From now on copies survive faults at the bytes from first on, whether or not handlers are
 * installed yet. Ranges may overlap, and the same one may be registered many times. 0, or
 *   EINVAL  no bytes, or more than there are addresses from first on
 *   ENOMEM  no memory to remember the range in
 *
 * Thread-safe, also while other threads copy and fault. Not for signal handlers. Every fault of a
 * copy scans all ranges: keep their number to hundreds, by registering enclosing ranges.
 *
 * On AArch64 give addresses without a tag, as the system reports them.
 */
int lr_fault_register(const void *first, size_t bytes);

/*
 * Takes back one registration of exactly this range. 0, or ENOENT if there is none. A copy that
 * faulted before the return may still survive after it. Threads as for lr_fault_register.
 */
int lr_fault_unregister(const void *first, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
#endif
