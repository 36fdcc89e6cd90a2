// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels that execution units limit: everything they read is in the first-level cache.

#include "kernels.h"
#include <math.h>
#include <string.h>
#include <wmmintrin.h>

static KERNEL uint64_t multiply_chain(uint64_t value, uint64_t factor, uint64_t times)
{
    for (uint64_t i = 0; i < times; i++) {
        value = value * factor;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

static bool multiplies(void)
{
    uint64_t factor = draw() | 1, times = between(500000, 900000), sum = 1, expected = 1;
    uint64_t power = 1, base = factor;
    for (uint64_t bits = times; bits != 0; bits >>= 1, base *= base) {
        power *= (bits & 1) != 0 ? base : 1;
    }
    while (goes_on()) {
        sum = multiply_chain(sum, factor, times);
        expected *= power;
    }
    return sum == expected;
}

static KERNEL double divide_chain(double value, double by, uint64_t times)
{
    for (uint64_t i = 0; i < times; i++) {
        value = (value + 1.0) / by;
        __asm__ volatile("" : "+x"(value));
    }
    return value;
}

static bool divides_floats(void)
{
    // The fixed point of (x + 1) / b is 1 / (b - 1).
    double by = 1.5 + (double)(draw() % 1000) / 500.0, value = 1.0;
    while (goes_on()) {
        value = divide_chain(value, by, 100000);
    }
    return fabs(value - 1.0 / (by - 1.0)) < 1e-9;
}

static KERNEL uint64_t digits(uint64_t value, uint64_t base, uint64_t times)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < times; i++) {
        uint64_t left = value + (sum & 1);
        for (int j = 0; j < 8; j++) {
            sum += left % base;
            left /= base;
            __asm__ volatile("" : "+r"(left));
        }
    }
    return sum;
}

static bool divides_integers(void)
{
    uint64_t base = between(3, 99), value = draw() | (1ULL << 60), first = 0, sum = 0;
    first = digits(value, base, 20000);
    bool is_right = true;
    while (goes_on()) {
        sum = digits(value, base, 20000);
        is_right &= sum == first;
    }
    return is_right;
}

static KERNEL uint32_t internet_checksum(const uint8_t *bytes, size_t length)
{
    uint64_t sum = 0;
    for (size_t at = 0; at + 8 <= length; at += 8) {
        uint64_t word;
        memcpy(&word, bytes + at, 8);
        sum += word;
        sum += sum < word;
        __asm__ volatile("" : "+r"(sum));
    }
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint32_t)sum;
}

static bool checksums(void)
{
    size_t length = between(128, 1000) * 8;
    uint8_t *packet = memory(8192);
    uint64_t expected = 0;
    for (size_t at = 0; at < length; at++) {
        packet[at] = (uint8_t)draw();
    }
    for (size_t at = 0; at < length; at += 2) {
        expected += (uint64_t)packet[at] + ((uint64_t)packet[at + 1] << 8);
    }
    while (expected >> 16 != 0) {
        expected = (expected & 0xffff) + (expected >> 16);
    }
    bool is_right = true;
    while (goes_on()) {
        for (int i = 0; i < 5000; i++) {
            is_right &= internet_checksum(packet, length) == expected;
        }
    }
    return is_right;
}

static KERNEL void copy_packet(uint8_t *to, const uint8_t *from)
{
    for (int at = 0; at < 64; at += 16) {
        _mm_storeu_si128((void *)(to + at), _mm_loadu_si128((const void *)(from + at)));
    }
}

static bool copies_packets(void)
{
    size_t packets = between(16, 64);
    uint8_t *from = memory(4096), *to = memory(4096);
    for (size_t at = 0; at < 64 * packets; at++) {
        from[at] = (uint8_t)draw();
    }
    while (goes_on()) {
        for (int i = 0; i < 20000; i++) {
            copy_packet(to + 64 * (i % packets), from + 64 * (i % packets));
        }
    }
    return memcmp(from, to, 64 * packets) == 0;
}

__attribute__((target("aes"))) static KERNEL __m128i encrypt(__m128i block, __m128i key,
                                                             uint64_t blocks)
{
    for (uint64_t i = 0; i < blocks; i++) {
        for (int round = 0; round < 10; round++) {
            block = _mm_aesenc_si128(block, key);
        }
    }
    return block;
}

__attribute__((target("aes"))) static bool ciphers(void)
{
    __m128i key = _mm_set_epi64x((long long)draw(), (long long)draw());
    __m128i block = key, again = key;
    uint64_t calls = 0;
    while (goes_on()) {
        block = encrypt(block, key, 20000);
        calls++;
    }
    for (uint64_t i = 0; i < 10 * 20000 * calls; i++) {
        again = _mm_aesenc_si128(again, key);
    }
    return memcmp(&block, &again, sizeof block) == 0;
}

static KERNEL void multiply_matrices(float (*c)[32], float (*a)[32], float (*b)[32])
{
    for (int i = 0; i < 32; i++) {
        for (int k = 0; k < 32; k++) {
            for (int j = 0; j < 32; j++) {
                c[i][j] += a[i][k] * b[k][j];
            }
        }
    }
}

static bool matrices(void)
{
    static float a[32][32], b[32][32], c[32][32];
    for (int i = 0; i < 32; i++) {
        for (int j = 0; j < 32; j++) {
            a[i][j] = (float)(draw() % 8);
            b[i][j] = (float)(draw() % 8);
        }
    }
    float expected = 0;
    for (int k = 0; k < 32; k++) {
        expected += a[3][k] * b[k][5];
    }
    bool is_right = true;
    while (goes_on()) {
        for (int times = 0; times < 100; times++) {
            memset(c, 0, sizeof c);
            multiply_matrices(c, a, b);
        }
        is_right &= c[3][5] == expected;
    }
    return is_right;
}

static KERNEL uint64_t hash_key(uint64_t value, const uint32_t *table, uint64_t times)
{
    for (uint64_t i = 0; i < times; i++) {
        for (int byte = 0; byte < 64; byte += 8) {
            value = (value >> 8) ^ table[(value ^ i) & 0xff];
        }
    }
    return value;
}

// A table in the first-level cache, read at addresses that depend on the value before: a chain of
// loads, which wait for the cache.
static bool crc_tables(void)
{
    static uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = (uint32_t)draw();
    }
    uint64_t start = draw(), first = hash_key(start, table, 5000);
    bool is_right = true;
    while (goes_on()) {
        is_right &= hash_key(start, table, 5000) == first;
    }
    return is_right;
}

const struct kernel compute_kernels[] = {
    {"multiply-chain", multiplies},
    {"divide-float", divides_floats},
    {"divide-integer", divides_integers},
    {"checksum", checksums},
    {"copy-64", copies_packets},
    {"aes", ciphers},
    {"matrix", matrices},
    {"crc-table", crc_tables},
    {NULL, NULL},
};
