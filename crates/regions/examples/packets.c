/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two threads sum the bytes of synthetic packets, with regions around each step of the work. In the
 * second thread, a sampler counts as well.
 *
 *     cc -I crates/regions/include crates/regions/examples/packets.c -L target/release \
 *        -llinerate_regions -lpthread -o packets
 *     LINERATE_REGIONS=packets.json LD_LIBRARY_PATH=target/release ./packets
 */
#include <linerate/regions.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { BURSTS = 200, BURST = 32, BYTES = 1460 };

static uint32_t burst_region, fill_region, sum_region;

static uint64_t sum(const unsigned char *bytes)
{
    uint64_t total = 0;
    for (int i = 0; i < BYTES; i++)
        total += bytes[i];
    return total;
}

/* Processes all bursts. `name` is the name of the thread's sampler; if NULL, there is none. */
static void *work(void *name)
{
    static _Thread_local unsigned char packets[BURST][BYTES];
    lr_sampler *sampler = NULL;
    volatile uint64_t total = 0;
    uint64_t done = 0;

    if (name != NULL)
        sampler = lr_sampler_new(name, "task_clock_ns,page_faults;context_switches", 640, 4);
    for (int burst = 0; burst < BURSTS; burst++) {
        lr_region_enter(burst_region);
        lr_region_enter(fill_region);
        memset(packets, burst, sizeof packets);
        lr_region_leave(fill_region);
        lr_region_enter(sum_region);
        for (int i = 0; i < BURST; i++)
            total += sum(packets[i]);
        lr_region_add_units(BURST);
        lr_region_leave(sum_region);
        lr_region_leave(burst_region);
        done += BURST;
        if (lr_sampler_update(sampler, done))
            lr_sampler_dump(sampler);
    }
    lr_sampler_free(sampler);
    return NULL;
}

int main(void)
{
    static char sampled[] = "sampled";
    pthread_t thread;

    burst_region = lr_region("burst");
    fill_region = lr_region("fill");
    sum_region = lr_region("sum");
    if (pthread_create(&thread, NULL, work, sampled) != 0) {
        fputs("packets: cannot start a thread\n", stderr);
        return 1;
    }
    work(NULL);
    pthread_join(thread, NULL);
    return 0;
}
