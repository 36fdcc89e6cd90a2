/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counts events in regions of a C program. A region is the code between two counter reads.
 *
 *     static uint32_t parse;
 *     parse = lr_region("parse");            // once
 *     lr_region_enter(parse);                // per visit
 *     ...
 *     lr_region_add_units(packets);          // work done in this visit
 *     lr_region_leave(parse);
 *
 * Link with -llinerate_regions, the shared library, or with
 *
 *     liblinerate_regions.a -lpthread -ldl -lm -Wl,--gc-sections -s
 *
 * The last two flags drop unused parts of the Rust runtime and its debug information.
 *
 * The library is configured through environment variables:
 *
 *     LINERATE_REGIONS=FILE            file to write the record to; %p is replaced by the PID
 *     LINERATE_REGIONS_UPDATES=0       write the record only at exit, without a background thread
 *     LINERATE_REGIONS_EVENTS=LIST     event names, separated by commas; if empty, only ticks are
 *                                      measured (default: instructions,cycles)
 *
 * With LINERATE_REGIONS set, a background thread (`linerate-record`) writes the record 50 ms after
 * the first region was entered, then at intervals that grow to a second. It replaces the file by
 * rename, so that the record is complete at all times, however the process ends. exit() writes the
 * record once more. A process that ends by a signal, abort(), _exit() or kill -9 leaves a record
 * that is at most a second old; lr_regions_write() writes a newer one. No signal handler is
 * installed for this. The background thread blocks all signals, avoids isolated CPUs and those to
 * which measured threads are pinned, and runs at idle priority (SCHED_IDLE). A program that must be
 * single-threaded, for unshare(2) or setns(2), sets LINERATE_REGIONS_UPDATES=0.
 *
 * Every thread has its own counters, opened when it first enters a region, which takes up to 2 ms.
 * Regions may be nested up to 64 deep. The measurement overhead is calibrated in each thread and
 * subtracted; a region that takes less than ten times the overhead, including that of nested
 * regions, gets no verdict. A region also gets no verdict if its thread may have been off its CPU
 * for more than 5 % of the region's ticks, unless task_clock_ns is counted: then CPU time is used.
 * Without counters, the record has ticks of the timestamp counter, and the reason why there are no
 * counts.
 *
 * If the kernel module kmod/pmu_user has enabled user access to ARM's PMU, hardware events are read
 * from the PMU's registers in threads that stay on one CPU. The library then installs a SIGILL
 * handler, which passes signals with another cause to the previous handler. A program with its own
 * SIGILL handler must install that handler before it first enters a region.
 *
 * Every function may be called from every thread at any time, but not from a signal handler. The
 * functions do nothing in a child that was forked after its parent called one of them. With
 * LINERATE_REGIONS_OFF defined, they are empty and need no library.
 */
#ifndef LINERATE_REGIONS_H
#define LINERATE_REGIONS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A sampler, which reads the counters every N packets and alternates between sets of events. Only
 * the thread that created it may use it, except for calls of lr_sampler_request_dump(). */
typedef struct lr_sampler lr_sampler;

#ifndef LINERATE_REGIONS_OFF

/* Returns the region with this name, creating it if necessary. Takes a lock, so call it once per
 * region, not per visit. For a null name, returns a region that is never recorded. */
uint32_t lr_region(const char *name);

/* Enters a region. Has no effect for a number that lr_region() did not return. */
void lr_region_enter(uint32_t region);

/* Leaves the innermost visit of the region, and all regions still open inside it. Returns 0, or -1
 * if the region is not open, as is always the case for a number that lr_region() did not return. */
int lr_region_leave(uint32_t region);

/* Adds units of work, such as packets, to the innermost open region. */
void lr_region_add_units(uint64_t units);

/* Writes the record of the results so far to `file`; other threads may still be running. Returns 0,
 * or an error number from errno.h. */
int lr_regions_write(const char *file);

/* Creates a sampler, whose results are called `name` in the record. `sets` lists the event sets,
 * with events separated by commas and sets by semicolons, as in
 * "instructions,cycles;instructions,l1d_misses". Each set is counted in slices of at least `every`
 * packets; after `rounds` slices of each set, the sampler is full. Returns NULL if `every` or
 * `rounds` is 0. */
lr_sampler *lr_sampler_new(const char *name, const char *sets, uint64_t every, uint32_t rounds);

/* Starts the first slice now; `packets` packets were processed before it. Without this call, the
 * first update starts the slice. */
void lr_sampler_start(lr_sampler *sampler, uint64_t packets);

/* Reports that `packets` packets have been processed since the program began. Returns 1 once the
 * sampler is full, otherwise 0. */
int lr_sampler_update(lr_sampler *sampler, uint64_t packets);

/* Adds the sampler's results to the record; sampling restarts with the next update. */
void lr_sampler_dump(lr_sampler *sampler);

/* Requests that the sampler dump its results in its own thread, at the end of the current slice.
 * May be called from any thread. The sampler must not be freed before this function returns. */
void lr_sampler_request_dump(lr_sampler *sampler);

/* Frees a sampler. Results that were not dumped are lost. */
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
