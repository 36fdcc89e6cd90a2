// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the rules ask an observation, as estimates with intervals. `None` where it could not be
//! read: a rule whose evidence is absent does not hold.

use super::functions::{Group, is_nameless, is_of_crypto_library};
use linerate_record::Figure;
use linerate_record::stats::{Estimate, NORMAL_QUANTILE};
use linerate_record::why::ledger::{Layer, PacketLedger, Whose, ledger};
use linerate_record::why::{
    CpuCounts, InterfaceCounts, Observation, ProgramCounts, QdiscCounts, Quota, SocketCounts,
    SocketKind, ThreadActivity, ThreadState,
};

/// An observation with what is computed from it once.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// What was read.
    pub observation: &'a Observation,
    /// Its packets from layer to layer.
    pub ledger: PacketLedger,
}

/// What a rule is asked about.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// The program as a whole.
    Program,
    /// A thread of it.
    Thread(&'a ThreadActivity),
    /// A CPU.
    Cpu(&'a CpuCounts),
    /// An interface.
    Interface(&'a InterfaceCounts),
    /// A queueing discipline, and its interface.
    Qdisc(&'a InterfaceCounts, &'a QdiscCounts),
    /// A socket.
    Socket(&'a SocketCounts),
    /// A CPU quota.
    Quota(&'a Quota),
}

/// The error of a share that is given without an interval: of the kernel's accounts, which are
/// sampled at its timer interrupt or read a moment apart.
const SHARE_ERROR: f64 = 0.02;

/// A share with its interval; one without an interval is off by [`SHARE_ERROR`] and a tenth at
/// most.
pub(super) fn share_of(figure: &Figure) -> Option<Estimate> {
    let estimate = figure.estimate()?;
    let around = share(estimate.value);
    let low = if estimate.low.is_finite() { estimate.low } else { around.low };
    let high = if estimate.high.is_finite() { estimate.high } else { around.high };
    Some(Estimate { low, high, ..estimate })
}

/// A share from an account of the kernel.
pub(super) fn share(value: f64) -> Estimate {
    let error = SHARE_ERROR + 0.1 * value.abs();
    Estimate { low: value - error, high: value + error, ..Estimate::exactly(value) }
}

/// A count over something known exactly: its spread is that of independent events (Poisson).
pub(super) fn counted(count: u64, over: f64) -> Option<Estimate> {
    let count = count as f64;
    let spread = NORMAL_QUANTILE * count.sqrt();
    let exact = Estimate::exactly(count);
    let counted = Estimate { low: (count - spread).max(0.0), high: count + spread, ..exact };
    (over > 0.0).then(|| counted.scale(1.0 / over))
}

/// A share of samples: its spread is that of a share of independent draws.
fn sampled(share: f64, samples: u64) -> Estimate {
    let n = samples.max(1) as f64;
    let spread = NORMAL_QUANTILE * (share * (1.0 - share).max(0.0) / n).sqrt() + 0.5 / n;
    Estimate { low: share - spread, high: share + spread, n: samples, ..Estimate::exactly(share) }
}

/// Samples below which shares of functions are not asked.
const SAMPLES_MIN: u64 = 100;

impl<'a> Facts<'a> {
    /// Computes what is computed once.
    pub fn new(observation: &'a Observation) -> Self {
        Self { observation, ledger: ledger(observation) }
    }

    /// Seconds of the window.
    pub fn elapsed(&self) -> f64 {
        self.observation.elapsed_s
    }

    /// The thread that ran or wanted to run most; of equals the one with the smaller number.
    pub fn busiest(&self) -> Option<&'a ThreadActivity> {
        let order = |a: &&ThreadActivity, b: &&ThreadActivity| {
            a.demand().total_cmp(&b.demand()).then(b.tid.cmp(&a.tid))
        };
        self.observation.threads.iter().max_by(order)
    }

    /// The thread that a rule about the program or a part of the system asks.
    pub fn thread(&self, subject: Subject<'a>) -> Option<&'a ThreadActivity> {
        match subject {
            Subject::Thread(thread) => Some(thread),
            Subject::Socket(socket) => {
                let order = |a: &&ThreadActivity, b: &&ThreadActivity| {
                    a.demand().total_cmp(&b.demand()).then(b.tid.cmp(&a.tid))
                };
                let of_process = self.observation.threads.iter().filter(|t| t.pid == socket.pid);
                of_process.max_by(order).or_else(|| self.busiest())
            }
            _ => self.busiest(),
        }
    }

    /// The CPU that a subject is on: its own, or the one its thread was on most.
    pub fn cpu(&self, subject: Subject<'a>) -> Option<&'a CpuCounts> {
        match subject {
            Subject::Cpu(cpu) => Some(cpu),
            _ => {
                let number = self.thread(subject)?.ran_on.first()?;
                self.observation.cpus.iter().find(|cpu| cpu.cpu == *number)
            }
        }
    }

    /// The sum of a thread's states for which `of` holds; absent if none of them was read.
    pub fn time(thread: &ThreadActivity, of: impl Fn(ThreadState) -> bool) -> Option<Estimate> {
        let states = thread.time.iter().filter(|time| of(time.state));
        states.filter_map(|time| share_of(&time.share)).reduce(Estimate::plus)
    }

    /// Time on a CPU.
    pub fn on_cpu(thread: &ThreadActivity) -> Option<Estimate> {
        Self::time(thread, ThreadState::is_on_cpu)
    }

    /// The share of its time that a thread works. Where it polls, what the samples say; where it
    /// sleeps when there is nothing to do, its time on a CPU; unknown for one that always runs.
    pub fn busy(&self, thread: &ThreadActivity) -> Option<Estimate> {
        /// The share asleep from which on a thread is known to sleep when there is nothing to do.
        const SLEEPS: f64 = 0.02;
        /// Share of its time on a CPU from which on a thread with sockets is one of system calls.
        const CALLS: f64 = 0.3;
        let on_cpu = Self::on_cpu(thread)?;
        if let Some(busy) = share_of(&thread.busy) {
            let ran = on_cpu.value.clamp(0.0, 1.0);
            return Some(busy.scale(ran));
        }
        let state = |wanted| thread.share(wanted).and_then(share_of);
        if let Some(polling) = state(ThreadState::Polling) {
            return Some(on_cpu.minus(polling));
        }
        let sleeps = state(ThreadState::Asleep).is_some_and(|asleep| asleep.value >= SLEEPS);
        let kernel = state(ThreadState::Kernel).map_or(0.0, |kernel| kernel.value);
        let by_calls = kernel >= CALLS * on_cpu.value && self.uses_stack();
        (sleeps || by_calls).then_some(on_cpu)
    }

    /// Whether it takes its packets by sockets of the stack alone.
    pub fn uses_stack(&self) -> bool {
        let sockets = &self.observation.sockets;
        let of_stack = |kind| matches!(kind, SocketKind::Tcp | SocketKind::Udp | SocketKind::Raw);
        let past_it = |kind| matches!(kind, SocketKind::Packet | SocketKind::Xdp);
        let is_dpdk = self.observation.program.as_ref().is_some_and(|p| p.adapter == "dpdk");
        sockets.iter().any(|socket| of_stack(socket.kind))
            && !sockets.iter().any(|socket| past_it(socket.kind))
            && !is_dpdk
    }

    /// The share of a thread's samples in a group of functions.
    pub fn functions(&self, thread: &ThreadActivity, group: Group) -> Option<Estimate> {
        if thread.samples < SAMPLES_MIN || (group.is_kernel() && !self.has_kernel_samples()) {
            return None;
        }
        let of_group = thread.functions.iter().filter(|function| group.holds(function));
        Some(sampled(of_group.map(|function| function.share).sum(), thread.samples))
    }

    /// Whether samples of the kernel were permitted.
    pub fn has_kernel_samples(&self) -> bool {
        !self.is_unread("kernel_samples")
    }

    /// Whether this could not be read.
    pub fn is_unread(&self, what: &str) -> bool {
        self.observation.unread.iter().any(|unread| unread.what == what)
    }

    /// The share of a thread's samples in functions that have a name.
    pub fn named(&self, thread: &ThreadActivity) -> Option<Estimate> {
        let named = thread.functions.iter().filter(|function| !is_nameless(function));
        (thread.samples >= SAMPLES_MIN)
            .then(|| sampled(named.map(|f| f.share).sum(), thread.samples))
    }

    /// The share of a thread's samples in libraries of ciphers.
    pub fn crypto(&self, thread: &ThreadActivity) -> Option<Estimate> {
        let of_library = thread.functions.iter().filter(|f| is_of_crypto_library(f));
        (thread.samples >= SAMPLES_MIN)
            .then(|| sampled(of_library.map(|f| f.share).sum(), thread.samples))
    }

    /// Packets of the program per second.
    pub fn packet_rate(&self) -> Option<f64> {
        let packets = self.observation.packets.as_ref()?.packets;
        (self.elapsed() > 0.0).then(|| packets as f64 / self.elapsed())
    }

    /// Packets that the program received; of one that says nothing itself and takes UDP alone, the
    /// datagrams of its network namespace; else those it handled.
    pub fn packets(&self) -> Option<u64> {
        let program = self.observation.program.as_ref();
        let takes = |kind| self.observation.sockets.iter().any(|socket| socket.kind == kind);
        let is_udp = takes(SocketKind::Udp) && self.connections().next().is_none();
        let datagrams = self.protocol("Udp.InDatagrams").filter(|count| is_udp && *count > 0);
        let program = program.and_then(ProgramCounts::of_packets);
        let received = program.and_then(|program| program.received).or(datagrams);
        received.or_else(|| self.observation.packets.as_ref().map(|count| count.packets))
    }

    /// A counter of the protocols; 0 where it did not change, absent where none was read.
    pub fn protocol(&self, name: &str) -> Option<u64> {
        let protocols = &self.observation.protocols;
        (!protocols.is_empty()).then(|| protocols.get(name).copied().unwrap_or(0))
    }

    /// TCP connections that carried something.
    pub fn connections(&self) -> impl Iterator<Item = &'a SocketCounts> {
        self.observation.sockets.iter().filter(|socket| {
            socket.kind == SocketKind::Tcp
                && socket.tcp.as_ref().is_some_and(|tcp| tcp.bytes_received + tcp.bytes_acked > 0)
        })
    }

    /// A time of TCP as a share of the window, over all connections that send, by their bytes.
    pub fn tcp_share(&self, of: fn(&linerate_record::why::TcpCounts) -> f64) -> Option<Estimate> {
        let senders = self.connections().filter_map(|socket| socket.tcp.as_ref());
        let senders = senders.filter(|tcp| tcp.bytes_acked > tcp.bytes_received);
        let (mut weighted, mut bytes) = (0.0, 0.0);
        for tcp in senders {
            weighted += of(tcp) * tcp.bytes_acked as f64;
            bytes += tcp.bytes_acked as f64;
        }
        (bytes > 0.0).then(|| share(weighted / bytes))
    }

    /// Packets lost in a ring that only its owner can read: the unaccounted rest before the
    /// program.
    pub fn ring_loss(&self) -> Option<(u64, u64)> {
        let row = self.ledger.rows.iter().find(|row| row.layer == Layer::Program)?;
        let missed: u64 = row.losses.iter().map(|loss| loss.packets).sum();
        let of_rings = self.ledger.rows.iter().filter(|row| row.layer == Layer::Socket);
        let rings =
            of_rings.filter(|row| row.of.starts_with("packet") || row.of.starts_with("xdp"));
        let dropped: u64 = rings.flat_map(|row| &row.losses).map(|loss| loss.packets).sum();
        let known = row.unaccounted.is_some() || missed + dropped > 0;
        known.then(|| (row.unaccounted.unwrap_or(0) + missed + dropped, row.packets.unwrap_or(0)))
    }

    /// The share of the packets for the program that were lost before it, wherever.
    pub fn receive_loss(&self) -> Option<Estimate> {
        let before = |layer| layer <= Layer::Program;
        let places = self.ledger.places();
        let lost: u64 = places
            .iter()
            .filter(|place| before(place.row.layer) && place.whose != Whose::Nobody)
            .map(|place| place.packets)
            .sum();
        let received = self.packets()?;
        counted(lost, (lost + received).max(1) as f64)
    }

    /// CPUs that a thread may use.
    pub fn allowed(thread: &ThreadActivity) -> usize {
        thread.allowed.len().max(1)
    }

    /// CPUs that were read.
    pub fn cpus(&self) -> usize {
        self.observation.cpus.len()
    }

    /// Idle time of all CPUs, in CPUs.
    pub fn idle_cpus(&self) -> Option<f64> {
        let cpus = &self.observation.cpus;
        (!cpus.is_empty()).then(|| cpus.iter().map(|cpu| cpu.idle).sum())
    }

    /// Time of all threads on CPUs, in CPUs.
    pub fn used_cpus(&self) -> f64 {
        let threads = self.observation.threads.iter();
        threads.map(|thread| thread.share_of(ThreadState::is_on_cpu)).sum()
    }
}
