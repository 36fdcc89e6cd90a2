// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes that only addresses of sampled accesses distinguish: cache lines shared by threads,
//! memory beyond the cache, and similar cases.

use crate::example::explain;
use crate::example::{functions, observation, poller, share, testpmd, thread};
use crate::seeds::{cache_misses, page_faults};
use linerate_record::stats::Estimate;
use linerate_record::why::Cause::{self, *};
use linerate_record::why::ThreadState::{Asleep, User, Waiting};
use linerate_record::why::{Arrivals, LineUse, MemoryUse, Observation, ProgramMemory, SharedLine};
use linerate_record::{Figure, Tier};

fn memory_use(megabytes: f64, once_share: f64) -> MemoryUse {
    let bytes = megabytes * 1048576.0;
    let (low, high) = (0.7 * bytes, 1.5 * bytes);
    let estimate = Estimate { value: bytes, low, high, confidence: 0.95, n: 1000 };
    MemoryUse {
        samples: 1000,
        share: 0.5,
        lines: 900,
        once_share,
        working_set_bytes: Figure::number("bytes", estimate, Tier::Sw, "by hand"),
    }
}

#[test]
fn page_faults_have_the_reason_that_was_seen() {
    let with = |pages: i64, recent_forks: Option<u64>| {
        let memory = ProgramMemory { resident_growth_pages: pages, recent_forks };
        let seen = Observation { memory: Some(memory), ..page_faults() };
        let finding = explain(&seen).remove(0);
        assert_eq!(finding.cause, PageFaults, "{}", finding.sentence);
        (finding.sentence, finding.fix.unwrap())
    };
    let (sentence, fix) = with(20, Some(0));
    assert!(
        sentence.ends_with(": memory is constantly allocated from and returned to the kernel.")
    );
    assert!(fix.starts_with("Reuse memory"), "{fix}");
    let (sentence, fix) = with(200_000, Some(0));
    assert!(sentence.contains("grew by 200,000 pages"), "{sentence}");
    assert!(fix.starts_with("Touch the memory") && !fix.contains("MALLOC"), "{fix}");
    let (sentence, fix) = with(-5, Some(1));
    assert!(sentence.contains("after a fork (1 process was forked"), "{sentence}");
    assert!(fix.contains("snapshots"), "{fix}");
    for memory in [None, Some(ProgramMemory { resident_growth_pages: 0, recent_forks: None })] {
        let sentence = explain(&Observation { memory, ..page_faults() }).remove(0).sentence;
        assert!(sentence.contains(" or copied after a fork"), "{sentence}");
    }
}

/// Returns an observation of two threads that update counters on one cache line, in separate bytes
/// or in the same bytes.
pub(crate) fn sharing(shares: [f64; 2], has_common_bytes: bool) -> Observation {
    let threads = (0..2).map(|n| {
        let mut one = thread("worker", 100 + n, &[(User, 0.98), (Waiting, 0.02)]);
        one.ran_on = vec![n];
        one.samples = 2000;
        one.functions = functions(&[("program", "count", 0.99)]);
        one.memory = Some(memory_use(0.001, 0.01));
        one
    });
    let used = |tid: u32, share: f64| LineUse {
        tid,
        share,
        is_written: true,
        first_byte: 8 * (tid % 2) as u8,
        last_byte: 8 * (tid % 2) as u8 + 7,
        function: "count".to_owned(),
    };
    let line = SharedLine {
        address: "0x4040".to_owned(),
        has_common_bytes,
        threads: vec![used(100, shares[0]), used(101, shares[1])],
    };
    Observation { shared_lines: vec![line], ..observation(threads.collect()) }
}

/// Returns an observation of a stripped program that copies buffers, which fit in the cache or
/// exceed it.
pub(crate) fn buffers(megabytes: f64, once_share: f64) -> Observation {
    let mut poller = poller(0.01, Some(0.99));
    poller.functions = functions(&[("dpdk-testpmd", "dpdk-testpmd+0x7cd00", 0.8)]);
    poller.memory = Some(memory_use(megabytes, once_share));
    let seen = testpmd(poller, 0, 27_000_000);
    Observation { last_level_cache_bytes: Some(32 << 20), ..seen }
}

#[test]
fn in_python_the_collector_may_walk_the_memory() {
    let mut seen = buffers(352.0, 0.6);
    let fix = |seen: &Observation| {
        let finding = explain(seen).remove(0);
        assert_eq!(finding.cause, CacheMisses, "{}", finding.sentence);
        finding.fix.unwrap()
    };
    assert!(fix(&seen).ends_with("otherwise, prefetch"), "{}", fix(&seen));
    seen.watched.name = "python3".to_owned();
    assert!(fix(&seen).contains("gc.freeze()"), "{}", fix(&seen));
}

#[test]
fn a_library_with_one_purpose_says_what_the_work_is() {
    let mut seen = cache_misses();
    let library = "/usr/lib/x86_64-linux-gnu/libz.so.1.3.1";
    seen.threads[0].functions = functions(&[
        (library, "libz.so.1.3.1+0x8000", 0.5),
        (library, "libz.so.1.3.1+0x9100", 0.3),
    ]);
    let (cause, sentence) = found(&seen);
    assert_eq!(cause, ProcessingCost, "{sentence}");
    assert!(
        sentence.contains("Most samples are in libz.so.1.3.1 (compression) 80 %"),
        "{sentence}"
    );
}

fn found(seen: &Observation) -> (Cause, String) {
    let finding = explain(seen).remove(0);
    (finding.cause, finding.sentence)
}

#[test]
fn threads_that_write_next_to_each_other_share_falsely() {
    let (cause, sentence) = found(&sharing([0.6, 0.5], false));
    assert_eq!(cause, FalseSharing, "{sentence}");
    assert!(sentence.contains("0x4040, thread 100 writes bytes 0 to 7 in count"), "{sentence}");
}

#[test]
fn threads_that_write_the_same_bytes_have_a_lock_or_a_counter_in_common() {
    assert_eq!(found(&sharing([0.6, 0.5], true)).0, UserLock);
}

#[test]
fn a_line_that_is_met_now_and_then_limits_nothing() {
    for has_common_bytes in [false, true] {
        assert_eq!(found(&sharing([0.05, 0.04], has_common_bytes)).0, CannotTell);
    }
}

#[test]
fn distinguishes_memory_beyond_the_cache_from_memory_in_it() {
    let (cause, sentence) = found(&buffers(400.0, 0.9));
    assert_eq!(cause, CacheMisses, "{sentence}");
    assert!(sentence.contains("is about 400 MiB (at least 280 MiB), 12.5 times"), "{sentence}");
    // The buffers fit in the cache, do not certainly exceed it, or are rarely reused.
    for seen in [buffers(6.0, 0.9), buffers(40.0, 0.9), buffers(400.0, 0.2)] {
        assert_eq!(found(&seen).0, CannotTell);
    }
    let mut unknown = buffers(400.0, 0.9);
    unknown.last_level_cache_bytes = None;
    assert_eq!(found(&unknown).0, CannotTell);
}

/// Returns an observation of a polling thread for which samples do not distinguish work from
/// polling, with a ring of 32 frames.
fn bursts(silent: u64) -> Observation {
    let mut seen = testpmd(poller(0.01, None), 200_000, 160_000);
    seen.sockets[0].receive_buffer = Some(65_536);
    let arrivals = Arrivals { windows: 120, window_s: 1.1e-3, silent, packets_max: 900 };
    Observation { arrivals: Some(arrivals), ..seen }
}

#[test]
fn distinguishes_bursts_that_overflow_a_small_ring_from_a_busy_thread() {
    assert_eq!(found(&bursts(108)).0, RingOverflow);
    // Packets arrive all the time, so the thread may be busy all the time.
    assert_eq!(found(&bursts(0)).0, CannotTell);
    // A ring that holds milliseconds of work is not empty as soon as packets stop arriving.
    let mut large = bursts(108);
    large.sockets[0].receive_buffer = Some(8 << 20);
    assert_eq!(found(&large).0, CannotTell);
    // The ring is soon empty if the thread was observed to handle that many packets in less time.
    large.packets_per_s = vec![40_000.0; 8];
    large.packets_per_s.extend([4e6, 4e6]);
    assert_eq!(found(&large).0, RingOverflow);
    // The time that the thread waits for its CPU explains the loss.
    let mut waits = bursts(108);
    waits.threads[0].time.iter_mut().for_each(|time| {
        let value = if time.state == Waiting { 0.3 } else { 0.35 };
        time.share = share(value);
    });
    waits.threads[0].involuntary_switches = 500;
    assert_eq!(found(&waits).0, CpuContention);
}

#[test]
fn a_thread_that_sleeps_does_not_count_as_bound_by_memory() {
    let mut seen = buffers(400.0, 0.9);
    seen.threads[0].time = thread("x", 1, &[(User, 0.3), (Asleep, 0.7)]).time;
    assert_ne!(found(&seen).0, CacheMisses);
}
