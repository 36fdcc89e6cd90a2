// SPDX-License-Identifier: MIT OR Apache-2.0
// What the kernels share.

#ifndef KERNELS_H
#define KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernel {
    const char *name;
    // Works until goes_on() is false; returns whether the result is right.
    bool (*run)(void);
};

// Each list ends with a NULL name.
extern const struct kernel compute_kernels[], memory_kernels[], code_kernels[], waiting_kernels[];

// A random number from the seed, and one from `least` to `most`.
uint64_t draw(void);
uint64_t between(uint64_t least, uint64_t most);

// Whether time is left. The first call, which must be made before other threads and processes are
// created, ends the preparation. Costs a system call or less: ask every millisecond of work or so.
bool goes_on(void);

// Zeroed pages that are mapped already; never NULL.
void *memory(size_t bytes);

// Kernels are functions of their own, so that samples are in them and not in their callers.
#define KERNEL __attribute__((noinline, noclone))

#endif
