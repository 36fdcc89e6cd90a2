// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts what one thread does during the measurement phase of a test.
//!
//! ```text
//! begin      open                             close     end
//!   | warm-up | slice | slice | ... | slice    | tail    |
//! ```
//!
//! The thread's loop counts bytes and system calls, and invokes [`Meter::tick`] once per iteration.
//! At the end of each slice, the meter reads the thread's CPU time. If the thread is blocked at
//! that moment, the slice ends late and is recorded with its actual length.

use crate::account::{Slice, TcpReadings, Thread};
use crate::protocol::Test;
use linerate_linux::network::TcpInfo;
use linerate_linux::{Usage, allowed_cpus, current_cpu, run_delay_ns, thread_cpu_time_ns};
use linerate_linux::{socket, thread_usage};
use linerate_machine::Root;
use linerate_machine::cpu_time::CpuTicks;
use linerate_observe::machine_time::machine_time;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Number of slices in the measurement: enough for a confidence interval, but few enough for each
/// slice to contain many messages.
const SLICES: u32 = 20;
/// Maximum number of round trips kept per slice for its median.
const ROUND_TRIPS: usize = 1 << 16;

/// Running totals of the loop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) bytes: u64,
    pub(crate) calls: u64,
    pub(crate) data_calls: u64,
    pub(crate) requests: u64,
    pub(crate) paused_ns: u64,
}

/// Readings at the start of the measurement.
struct Base {
    at: Instant,
    counts: Counts,
    usage: Usage,
    waiting_ns: Option<u64>,
    cpu_ns: u64,
    tcp: Option<TcpInfo>,
    machine: Option<(CpuTicks, u32)>,
}

/// Readings at the end of the last slice.
#[derive(Clone, Copy)]
struct Mark {
    at: Instant,
    bytes: u64,
    requests: u64,
    cpu_ns: u64,
}

pub(crate) struct Meter<'a> {
    begin: Instant,
    warm_up: Duration,
    measured: Duration,
    tail: Duration,
    /// Connection whose TCP_INFO is read; `None` for receivers and for UDP.
    tcp: Option<&'a TcpStream>,
    reads_machine: bool,
    base: Option<Base>,
    mark: Option<Mark>,
    is_closed: bool,
    round_trips: Vec<u64>,
    pub(crate) counts: Counts,
    pub(crate) thread: Thread,
    /// CPU time of the whole machine during the measurement, if this thread reads it.
    pub(crate) machine: Option<(CpuTicks, u32)>,
    /// Whether the loop should read TCP_INFO now; set only with `reads_itself`.
    pub(crate) is_reading_due: bool,
    /// Whether the loop, rather than the meter, reads TCP_INFO, at a time when data is outstanding.
    pub(crate) reads_itself: bool,
}

impl<'a> Meter<'a> {
    /// Starts the clock. After the measurement, the loop continues for `tail` so that the other
    /// side can complete its measurement.
    pub(crate) fn new(
        test: &Test,
        tail: Duration,
        tcp: Option<&'a TcpStream>,
        first: bool,
    ) -> Self {
        Self {
            begin: Instant::now(),
            warm_up: test.warm_up,
            measured: test.measured,
            tail,
            tcp,
            reads_machine: first,
            base: None,
            mark: None,
            is_closed: false,
            round_trips: Vec::new(),
            counts: Counts::default(),
            thread: Thread::default(),
            machine: None,
            is_reading_due: false,
            reads_itself: false,
        }
    }

    /// Takes the readings that are due. Returns false once the tail is over.
    pub(crate) fn tick(&mut self) -> bool {
        let now = Instant::now();
        let passed = now - self.begin;
        if passed < self.warm_up {
            return true;
        }
        let Some(base) = &self.base else {
            self.open(now);
            return true;
        };
        if self.is_closed {
            return passed < self.warm_up + self.measured + self.tail;
        }
        let inside = now - base.at;
        let since = self.mark.map_or(inside, |mark| now - mark.at);
        if since >= self.measured / SLICES {
            self.slice(now);
        }
        if inside >= self.measured {
            self.close(now);
        }
        true
    }

    /// Ends the measurement if it is still running, for example because the other end closed the
    /// connection.
    pub(crate) fn finish(&mut self) {
        if self.base.is_some() && !self.is_closed {
            let now = Instant::now();
            self.slice(now);
            self.close(now);
        }
    }

    /// Counts a system call that moved `bytes` of payload.
    pub(crate) fn moved(&mut self, bytes: u64) {
        self.counts.calls += 1;
        self.counts.data_calls += 1;
        self.counts.bytes += bytes;
    }

    /// Sleeps for the pause that the user requested.
    pub(crate) fn pause(&mut self, pause: Duration) {
        if !pause.is_zero() && !self.is_closed {
            let began = Instant::now();
            std::thread::sleep(pause);
            self.counts.paused_ns += began.elapsed().as_nanos() as u64;
        }
    }

    /// Counts a request and records its round-trip time.
    pub(crate) fn request(&mut self, time: Duration) {
        self.counts.requests += 1;
        if self.round_trips.len() < ROUND_TRIPS {
            self.round_trips.push(time.as_nanos() as u64);
        }
    }

    fn open(&mut self, now: Instant) {
        let cpu_ns = thread_cpu_time_ns();
        self.base = Some(Base {
            at: now,
            counts: self.counts,
            usage: thread_usage(),
            waiting_ns: run_delay_ns().ok(),
            cpu_ns,
            tcp: self.tcp.and_then(|tcp| socket::tcp_info(tcp).ok()),
            machine: self.reads_machine.then(|| machine_time(&Root::new(Path::new("/")))).flatten(),
        });
        let (bytes, requests) = (self.counts.bytes, self.counts.requests);
        self.mark = Some(Mark { at: now, bytes, requests, cpu_ns });
        self.round_trips.clear();
    }

    fn slice(&mut self, now: Instant) {
        let Some(mark) = self.mark else { return };
        let cpu_ns = thread_cpu_time_ns();
        let Counts { bytes, requests, .. } = self.counts;
        self.thread.slices.push(Slice {
            ns: (now - mark.at).as_nanos() as u64,
            bytes: bytes - mark.bytes,
            cpu_ns: cpu_ns - mark.cpu_ns,
            requests: requests - mark.requests,
        });
        self.mark = Some(Mark { at: now, bytes, requests, cpu_ns });
        if let Ok(cpu) = current_cpu()
            && !self.thread.cpus.contains(&cpu)
        {
            self.thread.cpus.push(cpu);
        }
        if !self.round_trips.is_empty() {
            let middle = self.round_trips.len() / 2;
            let (_, median, _) = self.round_trips.select_nth_unstable(middle);
            self.thread.round_trips_ns.push(*median);
            self.round_trips.clear();
        }
        match self.reads_itself {
            true => self.is_reading_due = true,
            false => self.read_tcp(),
        }
    }

    /// Adds a reading of TCP_INFO to the sums.
    pub(crate) fn read_tcp(&mut self) {
        self.is_reading_due = false;
        let Some(info) = self.tcp.and_then(|tcp| socket::tcp_info(tcp).ok()) else { return };
        let tcp = self.thread.tcp.get_or_insert_default();
        tcp.readings += 1;
        tcp.cwnd_sum += u64::from(info.cwnd);
        tcp.rtt_us_sum += u64::from(info.rtt_us);
        tcp.held_back += u64::from(info.not_sent > 0);
        tcp.peer_window = tcp.peer_window.max(info.peer_window.map(u64::from));
    }

    fn close(&mut self, now: Instant) {
        self.is_closed = true;
        let Some(base) = &self.base else { return };
        let (counts, usage) = (self.counts, thread_usage());
        let thread = &mut self.thread;
        thread.elapsed_ns = (now - base.at).as_nanos() as u64;
        thread.bytes = counts.bytes - base.counts.bytes;
        thread.cpu_ns = thread_cpu_time_ns() - base.cpu_ns;
        thread.user_ns = usage.user_ns - base.usage.user_ns;
        thread.system_ns = usage.system_ns - base.usage.system_ns;
        let waiting = run_delay_ns().ok().zip(base.waiting_ns);
        thread.waiting_ns = waiting.map(|(after, before)| after.saturating_sub(before));
        thread.paused_ns = counts.paused_ns - base.counts.paused_ns;
        thread.calls = counts.calls - base.counts.calls;
        thread.data_calls = counts.data_calls - base.counts.data_calls;
        thread.requests = counts.requests - base.counts.requests;
        let switches = |usage: Usage| usage.voluntary + usage.involuntary;
        thread.switches = switches(usage) - switches(base.usage);
        thread.allowed_cpus = allowed_cpus().map_or(0, |cpus| cpus.len() as u64);
        let after = self.tcp.and_then(|tcp| socket::tcp_info(tcp).ok());
        if let Some((before, after)) = base.tcp.zip(after) {
            differences(thread.tcp.get_or_insert_default(), &before, &after);
        }
        if let Some((before, cpus)) = base.machine {
            let after = machine_time(&Root::new(Path::new("/")));
            self.machine = after.map(|(after, _)| (after.since(&before), cpus));
        }
    }
}

fn differences(tcp: &mut TcpReadings, before: &TcpInfo, after: &TcpInfo) {
    let more = |of: fn(&TcpInfo) -> u32| u64::from(of(after).wrapping_sub(of(before)));
    tcp.busy_us = after.busy_us.saturating_sub(before.busy_us);
    tcp.rwnd_limited_us = after.rwnd_limited_us.saturating_sub(before.rwnd_limited_us);
    tcp.sndbuf_limited_us = after.sndbuf_limited_us.saturating_sub(before.sndbuf_limited_us);
    tcp.segments = more(|info| info.data_segments_out);
    tcp.bytes = after.bytes_sent.zip(before.bytes_sent).map_or(0, |(after, before)| after - before);
    tcp.retransmitted = more(|info| info.retransmitted);
    let needless = after.needless.zip(before.needless);
    tcp.needless = needless.map(|(after, before)| u64::from(after.wrapping_sub(before)));
    tcp.mss = u64::from(after.mss);
    tcp.min_rtt_us = u64::from(after.min_rtt_us);
    tcp.is_window_scaled = after.is_window_scaled;
    tcp.pacing_bytes_per_s = after.max_pacing_rate;
}
