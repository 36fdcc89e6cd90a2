// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels whose bottleneck is known: the truth for `cargo xtask bound`.
//
//   kernels NAME SEED SECONDS
//
// Each kernel draws its parameters from SEED and prepares its data; then it prints `ready`, works
// for SECONDS of wall time, checks what it computed, and exits with 0 if it is right, 1 if it is wrong,
// 2 for invalid arguments.

#define _GNU_SOURCE
#include "kernels.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static uint64_t state;
static double seconds, ends_at;

uint64_t draw(void)
{
    // SplitMix64 (Steele, Lea, Flood 2014).
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

uint64_t between(uint64_t least, uint64_t most)
{
    return least + draw() % (most - least + 1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

bool goes_on(void)
{
    if (ends_at == 0) {
        ends_at = now() + seconds;
        puts("ready");
        fflush(stdout);
    }
    return now() < ends_at;
}

void *memory(size_t bytes)
{
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    memset(start, 0, bytes);
    return start;
}

static const struct kernel *const lists[] = {compute_kernels, memory_kernels, code_kernels,
                                             waiting_kernels};

int main(int words, char **word)
{
    if (words != 4) {
        fprintf(stderr, "kernels NAME SEED SECONDS\n");
        return 2;
    }
    state = strtoull(word[2], NULL, 10);
    seconds = strtod(word[3], NULL);
    for (size_t list = 0; list < sizeof lists / sizeof *lists; list++) {
        for (const struct kernel *one = lists[list]; one->name != NULL; one++) {
            if (strcmp(one->name, word[1]) == 0) {
                bool is_right = one->run();
                if (!is_right) {
                    fprintf(stderr, "kernels: %s computed a wrong result\n", one->name);
                }
                return is_right ? 0 : 1;
            }
        }
    }
    fprintf(stderr, "kernels: no kernel `%s`\n", word[1]);
    return 2;
}
