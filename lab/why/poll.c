// SPDX-License-Identifier: MIT OR Apache-2.0
// Polls an AF_PACKET socket without ever sleeping, works on each packet, and measures the cost: the
// ground truth for measurements from outside.
//
//   poll INTERFACE recv|ring WORK SECONDS
//
// recv: non-blocking recv(2), one packet per call. ring: the receive ring shared with the kernel
// (TPACKET_V2), polled in user mode. WORK: iterations of work per packet. Prints a line every 50
// ms: monotonic clock, ns; packets; CPU time of the thread, ns; time spent on the measured packets
// (one call in 128), ns; their number; time of the measured calls that found nothing, ns; their
// number; measured calls that found packets. Interrupted calls are excluded from the last five.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

enum { MEASURED = 128, FRAME = 2048, FRAMES = 2048, BURST = 32 };
// Interval between lines; maximum time to take a packet without interruption.
enum { STEP_NS = 50000000, PACKET_NS = 5000 };
#define APART __attribute__((noinline))

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static volatile uint64_t sink;

APART static void work(long iterations)
{
    uint64_t x = sink;
    for (long i = 0; i < iterations; i++) {
        x = x * 2654435761u + 1;
        __asm__ volatile("" : "+r"(x));
    }
    sink = x;
}

static int opened(const char *interface)
{
    int packets = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
                             .sll_ifindex = (int)if_nametoindex(interface)};
    if (packets < 0 || bind(packets, (struct sockaddr *)&at, sizeof at) != 0) {
        perror(interface);
        exit(1);
    }
    return packets;
}

static char *ring_of(int packets)
{
    int version = TPACKET_V2;
    struct tpacket_req room = {.tp_block_size = FRAME * 2, .tp_block_nr = FRAMES / 2,
                               .tp_frame_size = FRAME, .tp_frame_nr = FRAMES};
    if (setsockopt(packets, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0 ||
        setsockopt(packets, SOL_PACKET, PACKET_RX_RING, &room, sizeof room) != 0) {
        perror("PACKET_RX_RING");
        exit(1);
    }
    char *ring = mmap(NULL, FRAME * FRAMES, PROT_READ | PROT_WRITE, MAP_SHARED, packets, 0);
    if (ring == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return ring;
}

static int is_in_ring(char *ring, unsigned next)
{
    struct tpacket2_hdr *frame = (struct tpacket2_hdr *)(ring + (size_t)next * FRAME);
    return (__atomic_load_n(&frame->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) != 0;
}

// Takes the available packets, up to a burst.
APART static int take_from_ring(char *ring, unsigned *next)
{
    int taken = 0;
    while (taken < BURST && is_in_ring(ring, *next)) {
        struct tpacket2_hdr *frame = (struct tpacket2_hdr *)(ring + (size_t)*next * FRAME);
        sink += ((unsigned char *)frame)[frame->tp_mac];
        __atomic_store_n(&frame->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        *next = (*next + 1) % FRAMES;
        taken++;
    }
    return taken;
}

APART static int take_by_call(int packets)
{
    char frame[FRAME];
    return recv(packets, frame, sizeof frame, MSG_DONTWAIT) > 0;
}

// Time between two consecutive clock readings.
static uint64_t reading_ns(void)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t before = clock_ns(CLOCK_MONOTONIC);
        uint64_t took = clock_ns(CLOCK_MONOTONIC) - before;
        least = took < least ? took : least;
    }
    return least;
}

// Time of the work on a packet in isolation.
static uint64_t work_alone_ns(long iterations)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t before = clock_ns(CLOCK_MONOTONIC);
        work(iterations);
        uint64_t took = clock_ns(CLOCK_MONOTONIC) - before;
        least = took < least ? took : least;
    }
    return least;
}

int main(int words, char **word)
{
    if (words != 5) {
        fprintf(stderr, "poll INTERFACE recv|ring WORK SECONDS\n");
        return 2;
    }
    int packets = opened(word[1]);
    char *ring = strcmp(word[2], "ring") == 0 ? ring_of(packets) : NULL;
    long iterations = atol(word[3]);
    uint64_t end = clock_ns(CLOCK_MONOTONIC) + (uint64_t)atol(word[4]) * 1000000000u;
    uint64_t all = 0, measured = 0, work_ns = 0, empty = 0, empty_ns = 0;
    uint64_t found = 0, said = 0;
    uint64_t reading = reading_ns(), most_ns = 2 * work_alone_ns(iterations) + PACKET_NS;
    unsigned next = 0;
    for (uint64_t now = 0, turns = 0; now < end; turns++) {
        // The clock is read before one call in 128, whatever it finds: what is found first misses
        // the cache.
        int is_measured = turns % MEASURED == 0;
        uint64_t before = is_measured ? clock_ns(CLOCK_MONOTONIC) : 0;
        int taken = ring ? take_from_ring(ring, &next) : take_by_call(packets);
        for (int i = 0; i < taken; i++) {
            work(iterations);
        }
        uint64_t passed = is_measured ? clock_ns(CLOCK_MONOTONIC) - before : 0;
        uint64_t took = passed > reading ? passed - reading : 0;
        if (taken == 0 && is_measured && took < PACKET_NS) {
            empty_ns += took;
            empty++;
        }
        if (taken > 0) {
            if (is_measured && took < most_ns * (uint64_t)taken) {
                work_ns += took;
                measured += (uint64_t)taken;
                found++;
            }
            all += (uint64_t)taken;
        }
        if (turns % 64 == 0 && (now = clock_ns(CLOCK_MONOTONIC)) > said + STEP_NS) {
            said = now;
            printf("%llu %llu %llu %llu %llu %llu %llu %llu\n", (unsigned long long)now,
                   (unsigned long long)all,
                   (unsigned long long)clock_ns(CLOCK_THREAD_CPUTIME_ID),
                   (unsigned long long)work_ns, (unsigned long long)measured,
                   (unsigned long long)empty_ns, (unsigned long long)empty,
                   (unsigned long long)found);
            fflush(stdout);
        }
    }
    return 0;
}
