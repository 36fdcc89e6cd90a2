/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The interrupted program counter in a Linux ucontext_t, given a pointer to it; an lvalue. Needs
 * _GNU_SOURCE before the first header. On 32-bit PowerPC, as glibc lays it out.
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
