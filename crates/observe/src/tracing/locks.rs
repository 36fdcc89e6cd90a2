// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how long observed threads wait for kernel locks, from lock:contention_begin to
//! lock:contention_end. Includes spinning and sleeping waits, both in the threads' own system calls
//! and in interrupts that arrive while they run.

use super::format::Format;
use crate::duty::Duty;
use crate::refusal::explain;
use linerate_linux::perf::{Event, Request, Selector, TRACEPOINT, Target};
use linerate_linux::sample::{self, Fields, Record, Ring, Sampling};
use linerate_record::why::Unread;
use std::collections::BTreeMap;

const BEGIN: &str = "lock:contention_begin";
const END: &str = "lock:contention_end";
/// Maximum number of traced threads.
const MAX_THREADS: usize = 16;
/// Number of waits per slice up to which every slice is traced. Each wait produces two records,
/// which cost 0.5 us each.
const LIMIT: u64 = 500;
/// Size of a ring, enough for 300 waits of about 100 bytes.
const RING_BYTES: usize = 32 << 10;

/// Kernel lock waits of the observed threads.
#[derive(Debug)]
pub(super) struct Locks {
    begin: u16,
    end: u16,
    threads: Vec<Traced>,
    duty: Duty,
}

#[derive(Debug)]
struct Traced {
    tid: u32,
    begin: Event,
    end: Event,
    ring: Ring,
    waits: Waits,
}

/// Tracks a thread's lock waits so far. Performs no I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waits {
    /// Start of the outermost current wait; `depth` is the number of waits nested in it.
    since_ns: Option<u64>,
    depth: u32,
    ns: u64,
    times: u64,
}

impl Waits {
    fn begin(&mut self, time_ns: u64) {
        match self.since_ns {
            None => self.since_ns = Some(time_ns),
            Some(_) => self.depth += 1,
        }
        self.times += 1;
    }

    fn end(&mut self, time_ns: u64) {
        match (self.since_ns, self.depth) {
            (Some(since_ns), 0) => {
                self.ns += time_ns.saturating_sub(since_ns);
                self.since_ns = None;
            }
            (Some(_), _) => self.depth -= 1,
            // The wait began before tracing.
            (None, _) => {}
        }
    }

    /// Resets the state after events were lost.
    fn gap(&mut self) {
        (self.since_ns, self.depth) = (None, 0);
    }
}

impl Locks {
    /// Creates the tracer from the formats of both tracepoints; `None` if this kernel lacks them.
    pub(super) fn new(format: impl Fn(&str) -> Option<Format>, now_ns: u64) -> Option<Self> {
        let number = |name: &str| u16::try_from(format(name)?.id).ok();
        Some(Self {
            begin: number(BEGIN)?,
            end: number(END)?,
            threads: Vec::new(),
            duty: Duty::new(LIMIT, now_ns),
        })
    }

    pub(super) fn watch(&mut self, tid: u32) -> Result<(), Unread> {
        if self.threads.len() >= MAX_THREADS {
            return Ok(());
        }
        let target = Target::Thread(tid);
        let open = |name: &str, number: u16| {
            let selector = Selector::new(TRACEPOINT, number.into());
            let disabled = !self.duty.is_on();
            let request = Request { disabled, ..Request::new(selector) };
            let sampling = Sampling { period: 1, fields: Fields::TRACEPOINT, skips_idle: false };
            sample::open(&request, &sampling, target).map_err(|error| {
                (error.errno, explain("tracepoints", name, request, target, error))
            })
        };
        let opened = open(BEGIN, self.begin).and_then(|begin| Ok((begin, open(END, self.end)?)));
        let (begin, end) = match opened {
            Ok(opened) => opened,
            // The thread has ended in the meantime.
            Err((linerate_linux::errno::ESRCH, _)) => return Ok(()),
            Err((_, refused)) => return Err(refused),
        };
        let shared = Ring::map_bytes(&begin, RING_BYTES, Fields::TRACEPOINT).and_then(|ring| {
            end.write_to(&begin)?;
            Ok(ring)
        });
        if let Ok(ring) = shared {
            self.threads.push(Traced { tid, begin, end, ring, waits: Waits::default() });
        }
        Ok(())
    }

    /// Begins the window. A wait that is in progress counts in full.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.end_slice(now_ns);
        self.threads.iter_mut().for_each(|thread| thread.waits.ns = 0);
        if self.duty.begin_window(now_ns) {
            self.switch(true);
        }
    }

    pub(super) fn end_slice(&mut self, now_ns: u64) {
        let mut waits = 0;
        for thread in &mut self.threads {
            let before = thread.waits.times;
            let (seen, end) = (&mut thread.waits, self.end);
            thread.ring.drain(|record| match record {
                Record::Sample(sample) => match number_of(sample.raw) {
                    Some(number) if number == end => seen.end(sample.time_ns),
                    Some(_) => seen.begin(sample.time_ns),
                    None => {}
                },
                Record::Lost(_) => seen.gap(),
                Record::Throttled | Record::Process(_) | Record::Other(_) => {}
            });
            waits += thread.waits.times - before;
        }
        let was_on = self.duty.is_on();
        self.duty.end_slice(waits, now_ns);
        if was_on != self.duty.is_on() {
            self.switch(!was_on);
        }
    }

    /// Switches the events on or off.
    fn switch(&mut self, is_on: bool) {
        for thread in &mut self.threads {
            thread.waits.gap();
            for event in [&thread.begin, &thread.end] {
                // Enabling or disabling the event fails if the thread has ended.
                let _ = if is_on { event.enable() } else { event.disable() };
            }
        }
    }

    /// Returns how long each thread waited in the window, in seconds.
    pub(super) fn waited_s(&self) -> BTreeMap<u32, f64> {
        let scale = self.duty.scale();
        let of = |thread: &Traced| (thread.tid, thread.waits.ns as f64 / 1e9 * scale);
        self.threads.iter().map(of).collect()
    }
}

/// Returns the tracepoint ID, which is the first field of every record.
fn number_of(raw: &[u8]) -> Option<u16> {
    raw.first_chunk().copied().map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_from_begin_to_end_is_summed() {
        let mut waits = Waits::default();
        waits.end(5);
        waits.begin(10);
        waits.end(30);
        // A wait for a lock, nested in a wait for another one.
        waits.begin(100);
        waits.begin(110);
        waits.end(120);
        waits.end(200);
        assert_eq!((waits.ns, waits.times), (120, 3));
        waits.begin(300);
        waits.gap();
        waits.end(900);
        assert_eq!(waits.ns, 120);
    }

    #[test]
    fn a_record_begins_with_its_number() {
        assert_eq!(number_of(&[0x34, 0x12, 9]), Some(u16::from_ne_bytes([0x34, 0x12])));
        assert_eq!(number_of(&[1]), None);
    }
}
