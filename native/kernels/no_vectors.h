/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Code up to no_vectors_end.h is compiled without vector and floating-point registers, for callers
 * that must not use them, even if the build flags allow them. Otherwise compilers move pairs of
 * words through vectors. On AArch64 it also makes atomics inline, where compilers by default call
 * functions of their library.
 *
 * clang has such an attribute on x86-64 only: on other machines, use build flags.
 */
#ifndef LINERATE_NO_VECTORS_H
#define LINERATE_NO_VECTORS_H

#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("general-regs-only"))), apply_to = function)
#elif defined(__clang__)
#elif defined(__x86_64__) || defined(__arm__)
#pragma GCC target("general-regs-only")
#elif defined(__aarch64__)
#pragma GCC target("general-regs-only,no-outline-atomics")
#elif defined(__s390x__)
#pragma GCC target("soft-float")
#elif defined(__powerpc__)
#pragma GCC target("no-vsx,no-altivec")
#endif

#endif
