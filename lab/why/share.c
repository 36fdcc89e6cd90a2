// SPDX-License-Identifier: MIT OR Apache-2.0
// Two threads that each count in memory of their own, on one cache line or on two.
//
//   share APART WORK SECONDS FILE
//
// APART: bytes from one counter to the other. WORK: multiplications between two counts. FILE gets
// the sum of both every 50 ms.

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Alignas(4096) volatile unsigned char memory[8192];
static unsigned long apart, work;

static void *count(void *argument)
{
    uintptr_t number = (uintptr_t)argument;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(number, &cpus);
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
    volatile uint64_t *own = (volatile uint64_t *)(memory + number * apart);
    uint64_t value = number + 3;
    for (;;) {
        for (unsigned long i = 0; i < work; i++) {
            value *= value | 1;
        }
        *own += 1 + (value == 0);
    }
    return NULL;
}

int main(int words, char **word)
{
    if (words != 5) {
        fprintf(stderr, "share APART WORK SECONDS FILE\n");
        return 2;
    }
    apart = strtoul(word[1], NULL, 10);
    work = strtoul(word[2], NULL, 10);
    if (apart % 8 != 0 || apart == 0 || apart > 4096) {
        fprintf(stderr, "share: invalid distance\n");
        return 2;
    }
    for (uintptr_t number = 0; number < 2; number++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, count, (void *)number) != 0) {
            perror("share");
            return 1;
        }
    }
    int file = open(word[4], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0) {
        perror(word[4]);
        return 1;
    }
    for (unsigned long ticks = 20 * strtoul(word[3], NULL, 10); ticks > 0; ticks--) {
        uint64_t one = *(volatile uint64_t *)memory;
        uint64_t other = *(volatile uint64_t *)(memory + apart);
        // Always the same length, in one call: a reader sees an old or a new sum, and never a part.
        char text[32];
        int length = snprintf(text, sizeof text, "%020llu\n", (unsigned long long)(one + other));
        if (pwrite(file, text, (size_t)length, 0) != length) {
            perror(word[4]);
            return 1;
        }
        usleep(50000);
    }
    return 0;
}
