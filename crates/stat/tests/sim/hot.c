/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two functions with known counts: `walk` misses each line of 1 MiB, 20 times; `compute` executes a
   million steps without misses. With arguments, a child process does the same. */
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, LINE = 64, PASSES = 20, STEPS = 1000000 };

static volatile char memory[BYTES] __attribute__((aligned(4096)));

__attribute__((noinline)) void walk(void)
{
    for (int pass = 0; pass < PASSES; pass++)
        for (int at = 0; at < BYTES; at += LINE)
            (void)memory[at];
}

__attribute__((noinline)) unsigned compute(unsigned x)
{
    for (int step = 0; step < STEPS; step++) {
        x = x * 1664525u + 1013904223u;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

int main(int count, char **arguments)
{
    int is_child = count > 1 && fork() == 0;

    (void)arguments;
    walk();
    compute((unsigned)count);
    if (count > 1 && !is_child)
        wait(NULL);
    return 0;
}
