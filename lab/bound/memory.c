// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels that wait for memory: for the latency of loads that depend on each other or are far
// apart, or for its bandwidth.

#include "kernels.h"
#include <emmintrin.h>
#include <string.h>

enum { LINE = 64 };

// A ring through all lines of `bytes` in random order (Sattolo 1986).
static void **ring(size_t bytes)
{
    size_t lines = bytes / LINE;
    char *start = memory(bytes);
    uint32_t *order = memory(4 * lines);
    for (size_t at = 0; at < lines; at++) {
        order[at] = (uint32_t)at;
    }
    for (size_t at = lines - 1; at > 0; at--) {
        size_t other = draw() % at;
        uint32_t one = order[at];
        order[at] = order[other];
        order[other] = one;
    }
    for (size_t at = 0; at < lines; at++) {
        size_t next = order[(at + 1) % lines];
        *(void **)(start + (size_t)LINE * order[at]) = start + LINE * next;
    }
    return (void **)(start + (size_t)LINE * order[0]);
}

static KERNEL void **follow(void **at, uint64_t steps)
{
    for (uint64_t i = 0; i < steps; i++) {
        at = *at;
    }
    return at;
}

static bool chase(size_t bytes)
{
    void **first = ring(bytes), **at = first;
    uint64_t steps = 0, lines = bytes / LINE;
    while (goes_on()) {
        at = follow(at, 10000);
        steps += 10000;
    }
    at = follow(at, (lines - steps % lines) % lines);
    return at == first;
}

static bool chases_dram(void)
{
    return chase(between(96, 160) << 20);
}

static bool chases_l2(void)
{
    return chase(between(128, 320) << 10);
}

static KERNEL void triad(double *a, const double *b, const double *c, double factor, size_t n)
{
    for (size_t at = 0; at < n; at += 2) {
        __m128d product = _mm_mul_pd(_mm_load_pd(c + at), _mm_set1_pd(factor));
        _mm_store_pd(a + at, _mm_add_pd(_mm_load_pd(b + at), product));
    }
}

static bool triads(void)
{
    size_t n = between(40, 60) << 17;
    double *a = memory(8 * n), *b = memory(8 * n), *c = memory(8 * n);
    double factor = (double)between(2, 9);
    for (size_t at = 0; at < n; at++) {
        b[at] = (double)(at % 1000);
        c[at] = (double)(at % 77);
    }
    bool is_right = true;
    while (goes_on()) {
        triad(a, b, c, factor, n);
        size_t at = draw() % n;
        is_right &= a[at] == b[at] + factor * c[at];
    }
    return is_right;
}

static bool copies_much(void)
{
    size_t bytes = between(64, 96) << 20;
    uint8_t *from = memory(bytes), *to = memory(bytes);
    for (size_t at = 0; at < bytes; at += 64) {
        from[at] = (uint8_t)draw();
    }
    bool is_right = true;
    while (goes_on()) {
        memcpy(to, from, bytes);
        size_t at = draw() % bytes;
        is_right &= from[at] == to[at];
        to[at] ^= 1;
    }
    return is_right;
}

static KERNEL __m128i add_all(const uint8_t *from, size_t bytes)
{
    __m128i a = _mm_setzero_si128(), b = a, c = a, d = a;
    for (size_t at = 0; at < bytes; at += LINE) {
        a = _mm_add_epi64(a, _mm_load_si128((const void *)(from + at)));
        b = _mm_add_epi64(b, _mm_load_si128((const void *)(from + at + 16)));
        c = _mm_add_epi64(c, _mm_load_si128((const void *)(from + at + 32)));
        d = _mm_add_epi64(d, _mm_load_si128((const void *)(from + at + 48)));
    }
    return _mm_add_epi64(_mm_add_epi64(a, b), _mm_add_epi64(c, d));
}

static bool adds_much(void)
{
    size_t bytes = between(120, 200) << 20;
    uint64_t *from = memory(bytes);
    uint64_t expected = 0;
    for (size_t at = 0; at < bytes / 8; at += 64) {
        from[at] = draw();
        expected += from[at];
    }
    bool is_right = true;
    while (goes_on()) {
        __m128i sums = add_all((const void *)from, bytes);
        uint64_t halves[2];
        memcpy(halves, &sums, sizeof halves);
        is_right &= halves[0] + halves[1] == expected;
    }
    return is_right;
}

struct slot {
    uint64_t key, value;
};

static uint64_t mixed(uint64_t key)
{
    key *= 0x9e3779b97f4a7c15;
    return key ^ (key >> 29);
}

static KERNEL uint64_t look_up(const struct slot *slots, uint64_t mask, uint64_t key)
{
    uint64_t at = mixed(key) & mask;
    while (slots[at].key != key) {
        at = (at + 1) & mask;
    }
    return slots[at].value;
}

static bool looks_up(void)
{
    uint64_t places = 1ULL << between(22, 23), keys = places / 3;
    struct slot *slots = memory(places * sizeof *slots);
    for (uint64_t key = 1; key <= keys; key++) {
        uint64_t at = mixed(key) & (places - 1);
        while (slots[at].key != 0) {
            at = (at + 1) & (places - 1);
        }
        slots[at] = (struct slot){key, ~key};
    }
    bool is_right = true;
    uint64_t key = 1, rounds = 0;
    while (goes_on()) {
        rounds += 0x123456789;
        for (int i = 0; i < 10000; i++) {
            // The next key depends on the value, but does not repeat: without `i`, the keys would
            // soon go round in a small circle.
            uint64_t value = look_up(slots, places - 1, key);
            is_right &= value == ~key;
            key = 1 + (((mixed(value + (uint64_t)i * 0x10001 + rounds) & 0xffffffff) * keys) >> 32);
        }
    }
    return is_right;
}

const struct kernel memory_kernels[] = {
    {"chase-dram", chases_dram},
    {"chase-l2", chases_l2},
    {"triad", triads},
    {"copy-64m", copies_much},
    {"sum-large", adds_much},
    {"hash-table", looks_up},
    {NULL, NULL},
};
