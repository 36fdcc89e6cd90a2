// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels that wait for instructions: branches that cannot be predicted, and more code than caches
// hold.

#include "kernels.h"
#include <string.h>

static KERNEL uint64_t sort_out(const uint8_t *values, size_t n, uint8_t limit)
{
    uint64_t small = 0, large = 1;
    for (size_t at = 0; at < n; at++) {
        if (values[at] < limit) {
            small += values[at];
            __asm__ volatile("" : "+r"(small));
        } else {
            large ^= small;
            __asm__ volatile("" : "+r"(large));
        }
    }
    return small + 0 * large;
}

static bool branches(void)
{
    size_t n = between(8000, 16000);
    uint8_t limit = (uint8_t)between(110, 146), *values = memory(16384);
    bool is_right = true;
    while (goes_on()) {
        // New values: a predictor learns a sequence that repeats.
        uint64_t expected = 0;
        for (size_t at = 0; at < n; at += 8) {
            uint64_t word = draw();
            memcpy(values + at, &word, 8);
        }
        for (size_t at = 0; at < n; at++) {
            expected += values[at] * (uint64_t)(values[at] < limit);
        }
        for (int times = 0; times < 3; times++) {
            is_right &= sort_out(values, n, limit) == expected;
        }
    }
    return is_right;
}

static KERNEL uint64_t interpret(const uint8_t *program, size_t n, uint64_t value)
{
    for (size_t at = 0; at < n; at++) {
        switch (program[at] & 7) {
        case 0: value += 3; break;
        case 1: value ^= value << 3; break;
        case 2: value -= 11; break;
        case 3: value = ~value; break;
        case 4: value ^= 0x55; break;
        case 5: value += value >> 5; break;
        case 6: value ^= value >> 7; break;
        default: value += 77; break;
        }
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

static bool interprets(void)
{
    size_t n = between(40000, 60000);
    uint8_t *program = memory(65536);
    for (size_t at = 0; at < n; at++) {
        program[at] = (uint8_t)draw();
    }
    uint64_t first = interpret(program, n, 1);
    bool is_right = true;
    while (goes_on()) {
        is_right &= interpret(program, n, 1) == first;
    }
    return is_right;
}

static KERNEL uint32_t search(const uint32_t *sorted, uint32_t n, uint32_t key)
{
    uint32_t low = 0, high = n;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        // A branch, not a conditional move.
        if (sorted[middle] <= key) {
            low = middle;
            __asm__ volatile("" : "+r"(low));
        } else {
            high = middle;
            __asm__ volatile("" : "+r"(high));
        }
    }
    return low;
}

static bool searches(void)
{
    uint32_t n = (uint32_t)between(1500, 4000);
    uint32_t *sorted = memory(16384);
    for (uint32_t at = 0; at < n; at++) {
        sorted[at] = 1000 * at;
    }
    bool is_right = true;
    while (goes_on()) {
        for (int i = 0; i < 1000; i++) {
            uint32_t key = (uint32_t)(draw() % (1000 * (uint64_t)n));
            is_right &= search(sorted, n, key) == key / 1000;
        }
    }
    return is_right;
}

// Three megabytes of code without a branch: eight chains of short operations, six of which could
// begin in each cycle, if they arrived.
__asm__(".text\n"
        ".p2align 6\n"
        ".type large_code, @function\n"
        "large_code:\n"
        "mov %rdi, %rax\n"
        ".rept 57000\n"
        "add $0x1234567, %rax\n"
        "xor $0x2345678, %rcx\n"
        "add $0x3456789, %rdx\n"
        "xor $0x4567890, %rsi\n"
        "add $0x5678901, %rdi\n"
        "xor $0x6789012, %r8\n"
        "add $0x7890123, %r9\n"
        "xor $0x1357913, %r10\n"
        ".endr\n"
        "ret\n"
        ".size large_code, . - large_code\n");
uint64_t large_code(uint64_t value);

static bool runs_large_code(void)
{
    uint64_t start = draw(), first = large_code(start);
    bool is_right = true;
    while (goes_on()) {
        is_right &= large_code(start) == first;
    }
    return is_right;
}

const struct kernel code_kernels[] = {
    {"branches", branches},
    {"interpreter", interprets},
    {"binary-search", searches},
    {"large-code", runs_large_code},
    {NULL, NULL},
};
