// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels that wait for other threads, for the kernel, or for time to pass.

#define _GNU_SOURCE
#include "kernels.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 2 };

static uint64_t counter, inside, by_thread[THREADS][8];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int spin;

static void work(uint64_t times)
{
    for (uint64_t i = 0; i < times; i++) {
        __asm__ volatile("" ::: "memory");
    }
}

// Runs `body` in two threads and checks that their work adds up.
static bool in_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    inside = between(50, 200);
    if (!goes_on()) {
        return true;
    }
    for (uintptr_t number = 0; number < THREADS; number++) {
        if (pthread_create(&threads[number], NULL, body, (void *)number) != 0) {
            return false;
        }
    }
    uint64_t all = 0;
    for (size_t number = 0; number < THREADS; number++) {
        pthread_join(threads[number], NULL);
        all += by_thread[number][0];
    }
    return all == counter;
}

static void *lock_mutex(void *argument)
{
    uint64_t done = 0;
    do {
        for (int i = 0; i < 200; i++, done++) {
            pthread_mutex_lock(&mutex);
            counter++;
            work(20 * inside);
            pthread_mutex_unlock(&mutex);
        }
    } while (goes_on());
    by_thread[(uintptr_t)argument][0] = done;
    return NULL;
}

static KERNEL void spin_lock(int *lock)
{
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0) {
        while (__atomic_load_n(lock, __ATOMIC_RELAXED) != 0) {
            __builtin_ia32_pause();
        }
    }
}

static void *lock_spinning(void *argument)
{
    uint64_t done = 0;
    do {
        for (int i = 0; i < 500; i++, done++) {
            spin_lock(&spin);
            counter++;
            work(inside);
            __atomic_store_n(&spin, 0, __ATOMIC_RELEASE);
        }
    } while (goes_on());
    by_thread[(uintptr_t)argument][0] = done;
    return NULL;
}

static KERNEL void add_atomically(uint64_t *to, uint64_t times)
{
    for (uint64_t i = 0; i < times; i++) {
        __atomic_fetch_add(to, 1, __ATOMIC_SEQ_CST);
    }
}

static void *count_atomically(void *argument)
{
    uint64_t done = 0;
    do {
        add_atomically(&counter, 10000);
        done += 10000;
    } while (goes_on());
    by_thread[(uintptr_t)argument][0] = done;
    return NULL;
}

static bool mutex_contention(void)
{
    return in_threads(lock_mutex);
}

static bool spinlock_contention(void)
{
    return in_threads(lock_spinning);
}

static bool counter_contention(void)
{
    return in_threads(count_atomically);
}

static bool reads_little(void)
{
    int file = open("/dev/zero", O_RDONLY);
    size_t bytes = between(1, 16);
    bool is_right = file >= 0;
    char buffer[16];
    while (goes_on()) {
        for (int i = 0; i < 1000; i++) {
            is_right &= read(file, buffer, bytes) == (ssize_t)bytes;
        }
    }
    close(file);
    return is_right;
}

static bool sends_little(void)
{
    int ends[2];
    size_t bytes = between(16, 64);
    char buffer[64] = {1};
    bool is_right = socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0;
    while (is_right && goes_on()) {
        for (int i = 0; i < 500; i++) {
            is_right &= write(ends[0], buffer, bytes) == (ssize_t)bytes;
            is_right &= read(ends[1], buffer, sizeof buffer) == (ssize_t)bytes;
        }
    }
    return is_right;
}

static bool sleeps(void)
{
    struct timespec pause = {0, (long)between(4000000, 9000000)};
    while (goes_on()) {
        nanosleep(&pause, NULL);
        work(3000000);
    }
    return true;
}

static bool waits_for_pipe(void)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return false;
    }
    useconds_t pause = (useconds_t)between(4000, 9000);
    if (!goes_on()) {
        return true;
    }
    pid_t child = fork();
    if (child == 0) {
        for (char byte = 0; goes_on(); byte++) {
            usleep(pause);
            if (write(ends[1], &byte, 1) != 1) {
                break;
            }
        }
        _exit(0);
    }
    close(ends[1]);
    bool is_right = child > 0;
    char byte, expected = 0;
    while (read(ends[0], &byte, 1) == 1) {
        is_right &= byte == expected++;
        work(3000000);
    }
    waitpid(child, NULL, 0);
    return is_right;
}

static bool polls_with_timeout(void)
{
    int ends[2];
    int timeout = (int)between(4, 9);
    bool is_right = pipe(ends) == 0;
    while (goes_on()) {
        struct pollfd one = {ends[0], POLLIN, 0};
        is_right &= poll(&one, 1, timeout) == 0;
        work(3000000);
    }
    return is_right;
}

static bool faults(void)
{
    size_t bytes = between(2, 6) << 20;
    bool is_right = true;
    while (goes_on()) {
        char *start =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (start == MAP_FAILED) {
            return false;
        }
        madvise(start, bytes, MADV_NOHUGEPAGE);
        for (size_t at = 0; at < bytes; at += 4096) {
            start[at]++;
        }
        is_right &= start[bytes / 2 / 4096 * 4096] == 1;
        munmap(start, bytes);
    }
    return is_right;
}

static uint64_t ring_head;

// Waits for a ring whose producer has nothing to send, as a poll-mode driver does.
static KERNEL uint64_t poll_ring(const uint64_t *head, uint64_t tail, uint64_t times)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < times; i++) {
        if (__atomic_load_n(head, __ATOMIC_ACQUIRE) != tail) {
            found++;
        }
        __builtin_ia32_pause();
    }
    return found;
}

static bool polls_ring(void)
{
    uint64_t times = between(10000, 20000), found = 0;
    while (goes_on()) {
        found += poll_ring(&ring_head, 0, times);
    }
    return found == 0;
}

const struct kernel waiting_kernels[] = {
    {"mutex", mutex_contention},
    {"spinlock", spinlock_contention},
    {"shared-counter", counter_contention},
    {"small-reads", reads_little},
    {"small-datagrams", sends_little},
    {"nanosleep", sleeps},
    {"pipe", waits_for_pipe},
    {"poll-timeout", polls_with_timeout},
    {"page-faults", faults},
    {"poll-loop", polls_ring},
    {NULL, NULL},
};
