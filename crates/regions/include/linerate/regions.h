/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counters around regions of a C program: code between two reads.
 *
 *     static uint32_t parse;
 *     parse = lr_region("parse");            // once
 *     lr_region_enter(parse);                // per visit
 *     ...
 *     lr_region_add_units(packets);          // what the visit did
 *     lr_region_leave(parse);
 *
 * Link with -llinerate_regions, the shared library, or with
 *
 *     liblinerate_regions.a -lpthread -ldl -lm -Wl,--gc-sections -s
 *
 * the last two drop unused parts of the Rust runtime, and its debug information. The record is
 * complete at all times, however the process ends:
 *
 *     LINERATE_REGIONS=FILE            where it goes; %p stands for the number of the process
 *     LINERATE_REGIONS_UPDATES=0       write it at exit only, without a thread
 *     LINERATE_REGIONS_EVENTS=LIST     names of events, separated by commas; empty: ticks alone
 *                                      (default: instructions,cycles)
 *
 * With LINERATE_REGIONS set, a thread (`linerate-record`) writes the record 50 ms after the first
 * region was entered, then at intervals that grow to a second, and replaces the file by rename;
 * exit() writes it once more. A process that ends by a signal, abort(), _exit() or kill -9 leaves
 * a record at most a second old; lr_regions_write() leaves a newer one. No signal handler is
 * installed for this. The thread blocks all signals, avoids isolated CPUs and those that measured
 * threads are pinned to, and runs at idle priority (SCHED_IDLE). A program that must be
 * single-threaded, for unshare(2) or setns(2), sets LINERATE_REGIONS_UPDATES=0.
 *
 * Every thread has its own counters, opened when it first enters a region, which takes up to 2 ms.
 * Regions nest, up to 64 deep. The measuring overhead is calibrated in each thread and subtracted;
 * a region that takes less than ten times the overhead, nested regions included, gets no verdict.
 * Nor does one whose thread may have been off its CPU for more than 5 % of its ticks, unless
 * task_clock_ns is counted: then CPU time is used. Without counters, the record has ticks of the
 * timestamp counter, and the reason.
 *
 * If the module kmod/pmu_user has enabled user access to ARM's PMU, hardware events are read from
 * its registers, in threads that stay on one CPU; the library then installs a SIGILL handler, which
 * passes on signals that are not its own. A program with its own handler must install it before it
 * first enters a region.
 *
 * Every function may be called from every thread at any time, but not from a signal handler, and
 * does nothing in a child that was forked after its parent used one. With LINERATE_REGIONS_OFF
 * defined, nothing is compiled in.
 */
#ifndef LINERATE_REGIONS_H
#define LINERATE_REGIONS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts every N packets, event sets taking turns. Belongs to the thread that made it. */
typedef struct lr_sampler lr_sampler;

#ifndef LINERATE_REGIONS_OFF

/* The region of that name, new or not. Takes a lock: call it once per region. Null is a region that
 * is never kept. */
uint32_t lr_region(const char *name);

/* Enters a region. Nothing if lr_region() did not return it. */
void lr_region_enter(uint32_t region);

/* Leaves the innermost visit of the region, including all regions still open inside it.
 * 0; -1 if the region is not open, as one that lr_region() did not return. */
int lr_region_leave(uint32_t region);

/* Reports work done in the innermost region that is open, e.g. packets. */
void lr_region_add_units(uint64_t units);

/* Writes the record of the results so far; other threads may be running. 0, or a number of
 * errno.h. */
int lr_regions_write(const char *file);

/* A sampler called `name` in the record. `sets`: events separated by commas, sets by semicolons, as
 * "instructions,cycles;instructions,l1d_misses". A slice of a set lasts at least `every` packets;
 * after `rounds` slices of each set the sampler is full. NULL if `every` or `rounds` is 0. */
lr_sampler *lr_sampler_new(const char *name, const char *sets, uint64_t every, uint32_t rounds);

/* Begins the first turn now, with `packets` packets done before it; without this the first update
 * begins it. */
void lr_sampler_start(lr_sampler *sampler, uint64_t packets);

/* Says that `packets` packets are done since the program began. 1 once the sampler is full. */
int lr_sampler_update(lr_sampler *sampler, uint64_t packets);

/* Adds the results to the record, and starts again with the next update. */
void lr_sampler_dump(lr_sampler *sampler);

/* From any thread: has the sampler dump in its own thread, at the end of its turn. It must not be
 * freed meanwhile. */
void lr_sampler_request_dump(lr_sampler *sampler);

/* Ends a sampler. What was not dumped is lost. */
void lr_sampler_free(lr_sampler *sampler);

#else

static inline uint32_t lr_region(const char *name) { (void)name; return 0; }
static inline void lr_region_enter(uint32_t region) { (void)region; }
static inline int lr_region_leave(uint32_t region) { (void)region; return 0; }
static inline void lr_region_add_units(uint64_t units) { (void)units; }
static inline int lr_regions_write(const char *file) { (void)file; return 0; }
static inline lr_sampler *lr_sampler_new(const char *name, const char *sets, uint64_t every,
                                         uint32_t rounds) {
    (void)name; (void)sets; (void)every; (void)rounds;
    return NULL;
}
static inline int lr_sampler_update(lr_sampler *sampler, uint64_t packets) {
    (void)sampler; (void)packets;
    return 0;
}
static inline void lr_sampler_start(lr_sampler *sampler, uint64_t packets) {
    (void)sampler; (void)packets;
}
static inline void lr_sampler_dump(lr_sampler *sampler) { (void)sampler; }
static inline void lr_sampler_request_dump(lr_sampler *sampler) { (void)sampler; }
static inline void lr_sampler_free(lr_sampler *sampler) { (void)sampler; }

#endif

#ifdef __cplusplus
}
#endif

#endif
