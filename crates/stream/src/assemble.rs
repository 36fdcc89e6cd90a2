// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the figures of a point from the accounts of both sides.

use crate::account::{Account, Slice, TcpReadings, Thread};
use crate::request::Point;
use linerate_record::stats::{CONFIDENCE, Estimate, block_bootstrap_median, block_bootstrap_ratio};
use linerate_record::stream::{
    StreamMachine, StreamMode, StreamPoint, StreamSide, StreamTcp, StreamUdp,
};
use linerate_record::{Figure, Tier};

/// Random seed of the bootstrap.
const SEED: u64 = 1;
const KB: f64 = 1024.0;
const MB: f64 = 1024.0 * 1024.0;

/// Both sides' accounts of one test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visit {
    pub(crate) sender: Account,
    pub(crate) receiver: Account,
}

/// Settings that all points of a measurement share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) mode: StreamMode,
    pub(crate) is_client_sender: bool,
    /// Whether both sides run on the same machine.
    pub(crate) has_same_machine: bool,
    pub(crate) paced_bits_per_s: Option<u64>,
}

/// Computes the figures of a point from all of its tests.
pub(crate) fn point(point: &Point, visits: &[Visit], context: &Context) -> StreamPoint {
    let is_request = context.mode == StreamMode::Request;
    let sender = side(visits, true);
    let receiver = side(visits, false);
    let only = |figure: Figure| match is_request {
        true => figure,
        false => Figure::absent(&figure.unit, Tier::Sw, &figure.method, "no requests were sent"),
    };
    StreamPoint {
        send_buffer_bytes: point.send_buffer.map(u64::from),
        receive_buffer_bytes: point.receive_buffer.map(u64::from),
        message_bytes: point.message.into(),
        connections: point.connections.into(),
        gbps: gbps(visits),
        cpu_us_per_kb: demand(visits),
        requests_per_s: only(requests_per_s(visits)),
        round_trip_us: only(round_trip_us(visits)),
        machine: machine(visits, context, &sender, &receiver),
        sender,
        receiver,
        tcp: if context.mode == StreamMode::Udp { None } else { tcp(visits) },
        udp: (context.mode == StreamMode::Udp).then(|| udp(visits, context)),
        limited_by: String::new(),
        finding: String::new(),
    }
}

/// Returns one side's threads from all tests.
fn threads(visits: &[Visit], is_sender: bool) -> impl Iterator<Item = &Thread> + Clone {
    visits.iter().flat_map(move |visit| &visit.side(is_sender).threads)
}

impl Visit {
    fn side(&self, is_sender: bool) -> &Account {
        if is_sender { &self.sender } else { &self.receiver }
    }
}

/// Returns the sum over `threads` of a rate per nanosecond, in each of `windows` equal parts of the
/// measurement. Slices of different threads end at different times, so each slice is spread evenly
/// over the parts that it covers.
fn rates(threads: &[Thread], windows: usize, of: impl Fn(&Slice) -> f64) -> Vec<f64> {
    let ns = |slice: &Slice| slice.ns.max(1) as f64;
    let mut rates = vec![0.0; windows];
    for thread in threads {
        let window_ns = thread.slices.iter().map(ns).sum::<f64>() / windows as f64;
        let mut begin = 0.0;
        for slice in &thread.slices {
            let end = begin + ns(slice) / window_ns;
            for (window, rate) in rates.iter_mut().enumerate() {
                let window = window as f64;
                let covered = (end.min(window + 1.0) - begin.max(window)).max(0.0);
                *rate += of(slice) / ns(slice) * covered;
            }
            begin = end;
        }
    }
    rates
}

/// Returns the smallest number of slices of any thread.
fn windows<'a>(threads: impl Iterator<Item = &'a Thread>) -> usize {
    threads.map(|thread| thread.slices.len()).min().unwrap_or(0)
}

/// Returns the sum of the connections' rates per nanosecond. The connections share the path, so the
/// interval comes from the spread of their sum over time.
fn rate(visits: &[Visit], is_sender: bool, of: impl Fn(&Slice) -> f64) -> Estimate {
    let sums: Vec<f64> = visits
        .iter()
        .map(|visit| &visit.side(is_sender).threads)
        .flat_map(|threads| rates(threads, windows(threads.iter()), &of))
        .collect();
    // A rate cannot be negative, however wide the spread of the windows.
    block_bootstrap_ratio(&sums, &vec![1.0; sums.len()], CONFIDENCE, SEED).at_least_zero()
}

fn gbps(visits: &[Visit]) -> Figure {
    let rate = rate(visits, false, |slice| 8.0 * slice.bytes as f64);
    Figure::number("Gb/s", rate, Tier::Sw, "payload read by the receiver, per time slice")
}

fn requests_per_s(visits: &[Visit]) -> Figure {
    let rate = rate(visits, true, |slice| slice.requests as f64).scale(1e9);
    Figure::number("1/s", rate, Tier::Sw, "replies read by the client, per time slice")
}

fn round_trip_us(visits: &[Visit]) -> Figure {
    let medians: Vec<f64> = threads(visits, true)
        .flat_map(|thread| thread.round_trips_ns.iter().map(|ns| *ns as f64 / 1e3))
        .collect();
    let median = block_bootstrap_median(&medians, CONFIDENCE, SEED);
    Figure::number("us", median, Tier::Sw, "median of the time slices' medians")
}

impl Visit {
    /// Returns the rates whose quotient is the service demand in microseconds per KB received, by
    /// window: CPU time of both sides, and payload that the receiver read.
    fn demand_rates(&self) -> (Vec<f64>, Vec<f64>) {
        let (sender, receiver) = (&self.sender.threads, &self.receiver.threads);
        let windows = windows(sender.iter().chain(receiver));
        let cpu = |threads: &[Thread]| rates(threads, windows, |slice| slice.cpu_ns as f64 / 1e3);
        let both = cpu(sender).into_iter().zip(cpu(receiver)).map(|(one, other)| one + other);
        (both.collect(), rates(receiver, windows, |slice| slice.bytes as f64 / KB))
    }

    /// Returns the service demand of this test, in microseconds per KB received.
    pub(crate) fn demand(&self) -> f64 {
        let (cpu_us, kb) = self.demand_rates();
        cpu_us.iter().sum::<f64>() / kb.iter().sum::<f64>()
    }
}

/// Service demand of both sides.
fn demand(visits: &[Visit]) -> Figure {
    const METHOD: &str = "CPU time of both sides' threads per KB received, by time slice";
    let all = visits.iter().map(Visit::demand_rates);
    let (cpu_us, kb): (Vec<Vec<f64>>, Vec<Vec<f64>>) = all.unzip();
    let (cpu_us, kb) = (cpu_us.concat(), kb.concat());
    if kb.iter().sum::<f64>() == 0.0 {
        return Figure::absent("us/KB", Tier::Sw, METHOD, "no payload was received");
    }
    let ratio = block_bootstrap_ratio(&cpu_us, &kb, CONFIDENCE, SEED).at_least_zero();
    Figure::number("us/KB", ratio, Tier::Sw, METHOD)
}

fn side(visits: &[Visit], is_sender: bool) -> StreamSide {
    let all = || threads(visits, is_sender);
    let sum = |of: fn(&Thread) -> u64| all().map(of).sum::<u64>() as f64;
    let elapsed = sum(|thread| thread.elapsed_ns);
    let connections = visits.first().map_or(1, |visit| visit.side(is_sender).threads.len());
    // Elapsed time of one connection: the shares are in CPUs, not per thread.
    let elapsed = (elapsed / connections.max(1) as f64).max(1.0);
    let bytes = sum(|thread| thread.bytes);
    let per_mb = |count: f64| if bytes > 0.0 { count / (bytes / MB) } else { 0.0 };
    let cpu = rate(visits, is_sender, |slice| slice.cpu_ns as f64);
    let waiting: Option<u64> = all().map(|thread| thread.waiting_ns).sum();
    let mut cpus: Vec<u32> = all().flat_map(|thread| thread.cpus.iter().copied()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let system = sum(|thread| thread.system_ns);
    let ticks = (system + sum(|thread| thread.user_ns)).max(1.0);
    let exact = sum(|thread| thread.cpu_ns);
    let data_calls = sum(|thread| thread.data_calls);
    StreamSide {
        cpu: Figure::number("CPUs", cpu, Tier::Sw, "CPU time of the threads, per time slice"),
        user: exact * (1.0 - system / ticks) / elapsed,
        system: exact * (system / ticks) / elapsed,
        cpu_us_per_kb: per_kb(visits, is_sender),
        waiting: waiting.map(|ns| ns as f64 / elapsed),
        paused: sum(|thread| thread.paused_ns) / (elapsed * connections.max(1) as f64),
        calls_per_mb: per_mb(sum(|thread| thread.calls)),
        switches_per_mb: per_mb(sum(|thread| thread.switches)),
        bytes_per_call: if data_calls > 0.0 { bytes / data_calls } else { 0.0 },
        cpus,
        allowed_cpus: all().map(|thread| thread.allowed_cpus).max().unwrap_or(0),
        buffer_bytes: all().filter_map(|thread| thread.buffer_bytes).max(),
    }
}

/// Returns one side's CPU time per KB of payload, over all connections.
fn per_kb(visits: &[Visit], is_sender: bool) -> Figure {
    const METHOD: &str = "CPU time of the threads per KB of payload, by time slice";
    let slices = threads(visits, is_sender).flat_map(|thread| &thread.slices);
    let (cpu_us, kb): (Vec<f64>, Vec<f64>) =
        slices.map(|slice| (slice.cpu_ns as f64 / 1e3, slice.bytes as f64 / KB)).unzip();
    if kb.iter().sum::<f64>() == 0.0 {
        return Figure::absent("us/KB", Tier::Sw, METHOD, "this side moved no payload");
    }
    let ratio = block_bootstrap_ratio(&cpu_us, &kb, CONFIDENCE, SEED).at_least_zero();
    Figure::number("us/KB", ratio, Tier::Sw, METHOD)
}

fn machine(
    visits: &[Visit],
    context: &Context,
    sender: &StreamSide,
    receiver: &StreamSide,
) -> StreamMachine {
    let mut parts = [0_u64; 5];
    let mut cpus = 0;
    for visit in visits {
        let client = if context.is_client_sender { &visit.sender } else { &visit.receiver };
        let Some(ticks) = client.machine else { continue };
        parts.iter_mut().zip(ticks).for_each(|(sum, ticks)| *sum += ticks);
        cpus = client.machine_cpus;
    }
    let all = parts[4] as f64;
    let share = |part: u64| (all > 0.0).then(|| part as f64 / all);
    let used = |side: &StreamSide| side.cpu.as_number().unwrap_or(0.0);
    let ours = match (context.has_same_machine, context.is_client_sender) {
        (true, _) => used(sender) + used(receiver),
        (false, true) => used(sender),
        (false, false) => used(receiver),
    };
    let busy = share(parts[0] + parts[1] + parts[2]);
    StreamMachine {
        cpus: cpus.into(),
        user: share(parts[0]),
        system: share(parts[1]),
        softirq: share(parts[2]),
        idle: share(parts[3]),
        others: busy.map(|busy| (busy - ours / f64::from(cpus.max(1))).max(0.0)),
    }
}

fn tcp(visits: &[Visit]) -> Option<StreamTcp> {
    let all: Vec<(&TcpReadings, u64)> = threads(visits, true)
        .filter_map(|thread| Some((thread.tcp.as_ref()?, thread.elapsed_ns)))
        .collect();
    let last = all.last()?.0;
    let sum = |of: fn(&TcpReadings) -> u64| all.iter().map(|(tcp, _)| of(tcp)).sum::<u64>();
    let elapsed_us = all.iter().map(|(_, ns)| *ns).sum::<u64>() as f64 / 1e3;
    let share = |us: u64| (us as f64 / elapsed_us.max(1.0)).min(1.0);
    let readings = sum(|tcp| tcp.readings).max(1) as f64;
    let segments = sum(|tcp| tcp.segments);
    let min_rtt = all.iter().map(|(tcp, _)| tcp.min_rtt_us).filter(|us| *us > 0).min();
    Some(StreamTcp {
        busy: share(sum(|tcp| tcp.busy_us)),
        rwnd_limited: share(sum(|tcp| tcp.rwnd_limited_us)),
        sndbuf_limited: share(sum(|tcp| tcp.sndbuf_limited_us)),
        segments,
        segment_bytes: sum(|tcp| tcp.bytes) as f64 / segments.max(1) as f64,
        retransmitted: sum(|tcp| tcp.retransmitted),
        needless: all.iter().map(|(tcp, _)| tcp.needless).sum(),
        receiver_drops: threads(visits, false).map(|thread| thread.buffer_drops).sum(),
        cwnd: sum(|tcp| tcp.cwnd_sum) as f64 / readings,
        mss_bytes: last.mss,
        rtt_us: sum(|tcp| tcp.rtt_us_sum) as f64 / readings,
        min_rtt_us: min_rtt.unwrap_or(0) as f64,
        peer_window_bytes: all.iter().filter_map(|(tcp, _)| tcp.peer_window).max(),
        window_scaling: all.iter().all(|(tcp, _)| tcp.is_window_scaled),
        held_back: sum(|tcp| tcp.held_back) as f64 / readings,
        pacing_bits_per_s: last.pacing_bytes_per_s.map(|bytes| 8.0 * bytes as f64),
    })
}

fn udp(visits: &[Visit], context: &Context) -> StreamUdp {
    let sum = |is_sender, of: fn(&Thread) -> u64| threads(visits, is_sender).map(of).sum::<u64>();
    let sent = sum(true, |thread| thread.datagrams);
    let received = sum(false, |thread| thread.datagrams);
    let buffer_drops: Option<u64> = threads(visits, false).map(|thread| thread.buffer_drops).sum();
    StreamUdp {
        sent,
        refused: sum(true, |thread| thread.refused),
        received,
        buffer_drops,
        lost: buffer_drops.map(|drops| sent.saturating_sub(received + drops)),
        paced_bits_per_s: context.paced_bits_per_s,
    }
}

#[cfg(test)]
mod tests;
