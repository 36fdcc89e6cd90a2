/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The interrupted program counter, as an lvalue, given a pointer to a Linux ucontext_t. Needs
 * _GNU_SOURCE before the first header. For 32-bit PowerPC, this assumes the layout of glibc.
 */
#ifndef LINERATE_HOSTED_CONTEXT_H
#define LINERATE_HOSTED_CONTEXT_H

#include <ucontext.h>

#ifdef __x86_64__
#define PROGRAM_COUNTER(context) ((context)->uc_mcontext.gregs[REG_RIP])
#elif defined(__aarch64__)
#define PROGRAM_COUNTER(context) ((context)->uc_mcontext.pc)
#elif defined(__powerpc__)
/* PT_NIP of asm/ptrace.h, which cannot be included together with the headers of the C library. */
#define NEXT_INSTRUCTION 32
#ifdef __powerpc64__
#define PROGRAM_COUNTER(context) ((context)->uc_mcontext.gp_regs[NEXT_INSTRUCTION])
#else
#define PROGRAM_COUNTER(context) ((context)->uc_mcontext.uc_regs->gregs[NEXT_INSTRUCTION])
#endif
#endif

#endif
