// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives estimates with intervals from an observation, for use by the rules. An estimate is
//! `None` if its data could not be read, because a rule without evidence does not hold.

mod bursts;
mod cpus;
mod datagrams;
mod polling;
mod readers;

use super::functions::{Group, is_known, is_of_crypto_library, may_be_handshake};
use super::waits;
use linerate_record::Figure;
use linerate_record::stats::{Estimate, NORMAL_QUANTILE};
use linerate_record::why::ledger::{Layer, PacketLedger, ledger};
use linerate_record::why::{
    CpuCounts, FunctionTime, InterfaceCounts, Observation, QdiscCounts, Quota, SocketCounts,
    SocketKind, ThreadActivity, ThreadState, Unread,
};

/// Fraction of packets lost above which a program counts as losing packets. RFC 2544 tolerates no
/// loss at all, but a smaller fraction may only show that the counters were read at slightly
/// different times.
pub(super) const LOST: f64 = 0.001;

/// Name under which scheduler events are listed as unread in a container, where they have the
/// host's thread IDs.
pub(super) const SCHEDULER_OF_HOST: &str = "scheduler_of_host";

/// An observation and derived values, computed once.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The readings that everything else is derived from.
    pub observation: &'a Observation,
    /// Packet ledger of the observation.
    pub ledger: PacketLedger,
    /// TCP ports on which the program listens. Collected once, because thousands of connections may
    /// be looked up in the list.
    listening: Vec<&'a str>,
}

/// Returns the port of an address.
fn port(address: &str) -> &str {
    address.rsplit(':').next().unwrap_or_default()
}

/// What a rule is applied to.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// The program as a whole.
    Program,
    /// A thread of the program.
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

/// Error assumed for a share that has no interval: kernel accounting is sampled at timer
/// interrupts, or read at slightly different times.
const SHARE_ERROR: f64 = 0.02;

/// Returns a share with its interval. If one end of the interval is missing, it is taken from
/// [`share`].
pub(super) fn share_of(figure: &Figure) -> Option<Estimate> {
    let estimate = figure.estimate()?;
    let around = share(estimate.value);
    let low = if estimate.low.is_finite() { estimate.low } else { around.low };
    let high = if estimate.high.is_finite() { estimate.high } else { around.high };
    Some(Estimate { low, high, ..estimate })
}

/// Returns a share from kernel accounting, with an interval of ±([`SHARE_ERROR`] + 10 % of the
/// share).
pub(super) fn share(value: f64) -> Estimate {
    let error = SHARE_ERROR + 0.1 * value.abs();
    Estimate { low: value - error, high: value + error, ..Estimate::exactly(value) }
}

/// Returns a count divided by an exact value, with an interval for independent events (Poisson).
pub(super) fn counted(count: u64, over: f64) -> Option<Estimate> {
    let count = count as f64;
    let spread = NORMAL_QUANTILE * count.sqrt();
    let exact = Estimate::exactly(count);
    let counted = Estimate { low: (count - spread).max(0.0), high: count + spread, ..exact };
    (over > 0.0).then(|| counted.scale(1.0 / over))
}

/// Returns a share of samples, with an interval for independent samples (binomial).
pub(super) fn sampled(share: f64, samples: u64) -> Estimate {
    let n = samples.max(1) as f64;
    let spread = NORMAL_QUANTILE * (share * (1.0 - share).max(0.0) / n).sqrt() + 0.5 / n;
    Estimate { low: share - spread, high: share + spread, n: samples, ..Estimate::exactly(share) }
}

/// Minimum number of samples for function shares.
const SAMPLES_MIN: u64 = 100;

impl<'a> Facts<'a> {
    /// Creates the facts of an observation, computing its packet ledger.
    pub fn new(observation: &'a Observation) -> Self {
        let sockets = observation.sockets.iter();
        let listening = sockets.filter(|socket| socket.kind == SocketKind::TcpListen);
        let mut listening: Vec<&str> = listening.map(|socket| port(&socket.local)).collect();
        listening.sort_unstable();
        listening.dedup();
        Self { observation, ledger: ledger(observation), listening }
    }

    /// Returns whether the program listens for TCP connections on the port of this address.
    pub(super) fn listens_on(&self, address: &str) -> bool {
        self.listening.contains(&port(address))
    }

    /// Returns the window length in seconds.
    pub fn elapsed(&self) -> f64 {
        self.observation.elapsed_s
    }

    /// Returns the thread with the highest CPU demand; ties go to the lowest ID. Threads that were
    /// observed only briefly come last. `None` if no thread was observed.
    pub fn busiest(&self) -> Option<&'a ThreadActivity> {
        let order = |a: &&ThreadActivity, b: &&ThreadActivity| {
            let is_whole = self.is_brief(b).cmp(&self.is_brief(a));
            is_whole.then(a.demand().total_cmp(&b.demand())).then(b.tid.cmp(&a.tid))
        };
        self.observation.threads.iter().max_by(order)
    }

    /// Returns whether a thread was observed for too small a part of the window for its shares of
    /// time to say anything about the window.
    pub fn is_brief(&self, thread: &ThreadActivity) -> bool {
        /// Minimum fraction of the window.
        const PART: f64 = 0.1;
        thread.elapsed_s < PART * self.elapsed()
    }

    /// Returns the thread to examine for a subject: its own, the busiest thread that reads the
    /// socket, or the busiest thread overall. `None` if no thread was observed.
    pub fn thread(&self, subject: Subject<'a>) -> Option<&'a ThreadActivity> {
        match subject {
            Subject::Thread(thread) => Some(thread),
            Subject::Socket(socket) => {
                let order = |a: &&ThreadActivity, b: &&ThreadActivity| {
                    a.demand().total_cmp(&b.demand()).then(b.tid.cmp(&a.tid))
                };
                let of_process = self.observation.threads.iter().filter(|t| t.pid == socket.pid);
                self.reader(socket).or_else(|| of_process.max_by(order)).or_else(|| self.busiest())
            }
            _ => self.busiest(),
        }
    }

    /// Returns a subject's CPU: its own, or the one on which its thread ran most; `None` if it was
    /// not read.
    pub fn cpu(&self, subject: Subject<'a>) -> Option<&'a CpuCounts> {
        match subject {
            Subject::Cpu(cpu) => Some(cpu),
            _ => {
                let number = self.thread(subject)?.ran_on.first()?;
                self.observation.cpus.iter().find(|cpu| cpu.cpu == *number)
            }
        }
    }

    /// Returns the total time a thread spent in the states selected by `of`; `None` if none of the
    /// times was read. In a complete budget, the times of all states add up to 1, so the intervals
    /// of the other states narrow the interval of the total.
    pub fn time(thread: &ThreadActivity, of: impl Fn(ThreadState) -> bool) -> Option<Estimate> {
        /// Maximum deviation of a complete budget's sum from 1.
        const WHOLE: f64 = 0.02;
        let sum = |is_in: bool| {
            let states = thread.time.iter().filter(|time| of(time.state) == is_in);
            states.filter_map(|time| share_of(&time.share)).reduce(Estimate::plus)
        };
        let own = sum(true)?;
        let rest = sum(false).filter(|rest| (own.value + rest.value - 1.0).abs() <= WHOLE);
        Some(rest.map_or(own, |rest| Estimate {
            low: own.low.max(1.0 - rest.high).min(own.value),
            high: own.high.min(1.0 - rest.low).max(own.value),
            ..own
        }))
    }

    /// Returns the fraction of time that a thread is on a CPU.
    pub fn on_cpu(thread: &ThreadActivity) -> Option<Estimate> {
        Self::time(thread, ThreadState::is_on_cpu)
    }

    /// Returns the fraction of time that a thread does useful work and does not merely poll. A
    /// thread that always has input, that sleeps when idle, or that is in send calls does useful
    /// work whenever it is on a CPU. For a polling thread, the fraction is estimated from samples.
    /// For other threads that never sleep, gaps between packets give an upper bound. `None` if all
    /// of these are unknown.
    pub fn busy(&self, thread: &ThreadActivity) -> Option<Estimate> {
        /// Fraction of time asleep above which a thread is known to sleep when idle.
        const SLEEPS: f64 = 0.02;
        /// Kernel fraction of CPU time above which system calls dominate a thread with sockets.
        const CALLS: f64 = 0.3;
        let on_cpu = Self::on_cpu(thread)?;
        if self.always_has_input(thread) {
            return Some(on_cpu);
        }
        let is_in_kernel = Self::is_in_kernel(thread);
        if let Some(busy) = share_of(&thread.busy) {
            let busy = busy.scale(on_cpu.value.clamp(0.0, 1.0));
            return Some(if is_in_kernel {
                self.busy_in_calls(thread, busy, on_cpu)
            } else {
                busy
            });
        }
        let state = |wanted| thread.share(wanted).and_then(share_of);
        if let Some(polling) = state(ThreadState::Polling) {
            return Some(on_cpu.minus(polling));
        }
        // A thread that was ever seen asleep in a call for input sleeps whenever it has none.
        let waits = waits::time_for_work(thread).is_some_and(|share| share > 0.0);
        let asleep = state(ThreadState::Asleep).is_some_and(|asleep| asleep.value >= SLEEPS);
        let sleeps = asleep || waits;
        let kernel = state(ThreadState::Kernel).map_or(0.0, |kernel| kernel.value);
        let by_calls = kernel >= CALLS * on_cpu.value
            && (self.uses_stack() || self.sends(thread))
            && !self.asks_often(thread);
        if sleeps || by_calls || self.seldom_asks(thread, kernel / on_cpu.value.max(0.01)) {
            return Some(on_cpu);
        }
        // Only a thread in user mode can be polling a ring.
        if is_in_kernel { None } else { self.busy_at_most(thread) }
    }

    /// Returns whether a socket read by the thread's process had data waiting at nearly every
    /// reading. The thread then has no empty polls.
    fn always_has_input(&self, thread: &ThreadActivity) -> bool {
        const MOST: f64 = 0.9;
        // The queue of a socket that is not being read does not change.
        let moves = |socket: &SocketCounts| match &socket.tcp {
            Some(tcp) => tcp.bytes_received > 0,
            None if socket.kind == SocketKind::Packet => self.is_read_but_full(socket),
            None => socket.receive_queue_mean < MOST * socket.receive_queue_max as f64,
        };
        let own = self.observation.sockets.iter().filter(|socket| socket.pid == thread.pid);
        self.working().count() == 1
            && own
                .filter(|socket| Self::readings(socket).is_some() && moves(socket))
                .any(|socket| socket.receive_queue_share.is_some_and(|share| share >= MOST))
    }

    /// Returns whether the program listens, and connections were accepted in its network namespace.
    fn accepts(&self) -> bool {
        let mut sockets = self.observation.sockets.iter();
        sockets.any(|socket| socket.kind == SocketKind::TcpListen)
            && self.protocol("Tcp.PassiveOpens") > Some(0)
    }

    /// Returns whether a thread that never sleeps is busy sending: packets leave, hardly any
    /// arrive, and the time per packet is plausible for sending.
    fn sends(&self, thread: &ThreadActivity) -> bool {
        /// Maximum packets received per packet sent.
        const RECEIVED: f64 = 0.1;
        /// Maximum CPU time to send a packet through the stack, including a receiver on this
        /// machine; 1 to 5 us were measured.
        const MOST_S: f64 = 10e-6;
        let interfaces = &self.observation.interfaces;
        let sum = |of: fn(&InterfaceCounts) -> u64| interfaces.iter().map(of).sum::<u64>() as f64;
        let sent = sum(|interface| interface.tx_packets);
        let threads = self.working().count().max(1) as f64;
        let seconds = thread.share_of(ThreadState::is_on_cpu) * self.elapsed() * threads;
        sent > 0.0
            && sum(|interface| interface.rx_packets) <= RECEIVED * sent
            && seconds / sent <= MOST_S
    }

    /// Iterates over the threads with a high CPU demand.
    pub fn working(&self) -> impl Iterator<Item = &'a ThreadActivity> {
        const WORKS: f64 = 0.3;
        let threads = self.observation.threads.iter();
        threads.filter(|thread| thread.demand() >= WORKS && !self.is_brief(thread))
    }

    /// Returns whether the program receives packets only through kernel sockets.
    pub fn uses_stack(&self) -> bool {
        let sockets = &self.observation.sockets;
        let of_stack = |kind| matches!(kind, SocketKind::Tcp | SocketKind::Udp | SocketKind::Raw);
        let past_it = |kind| matches!(kind, SocketKind::Packet | SocketKind::Xdp);
        let is_dpdk = self.observation.program.as_ref().is_some_and(|p| p.adapter == "dpdk");
        sockets.iter().any(|socket| of_stack(socket.kind))
            && !sockets.iter().any(|socket| past_it(socket.kind))
            && !is_dpdk
    }

    /// Returns whether the program receives packets only before the kernel's protocols: packet
    /// sockets get copies of packets that are dropped later, and AF_XDP sockets the packets that
    /// never get there.
    pub(super) fn receives_before_ip(&self) -> bool {
        let sockets = &self.observation.sockets;
        let is_before = |kind| matches!(kind, SocketKind::Packet | SocketKind::Xdp);
        !sockets.is_empty() && sockets.iter().all(|socket| is_before(socket.kind))
    }

    /// Returns whether a thread has enough samples for the shares of its functions.
    pub(super) fn has_enough_samples(&self, thread: &ThreadActivity) -> bool {
        thread.samples >= SAMPLES_MIN
    }

    /// Returns the fraction of a thread's samples that are in a group of functions; `None` with too
    /// few samples.
    pub fn functions(&self, thread: &ThreadActivity, group: Group) -> Option<Estimate> {
        if thread.samples < SAMPLES_MIN || (group.is_kernel() && !self.has_kernel_samples()) {
            return None;
        }
        let of_group = thread.functions.iter().filter(|function| group.holds(function));
        Some(sampled(of_group.map(|function| function.share).sum(), thread.samples))
    }

    /// Returns the fraction of a CPU's time that is spent in a group of kernel functions; `None`
    /// with too few samples.
    pub fn cpu_functions(&self, cpu: &CpuCounts, group: Group) -> Option<Estimate> {
        if cpu.samples < SAMPLES_MIN {
            return None;
        }
        let of_group = cpu.functions.iter().filter(|function| group.holds(function));
        let share: f64 = of_group.map(|function| function.share).sum();
        let all: f64 = cpu.functions.iter().map(|function| function.share).sum();
        // Samples were taken only while the kernel ran; scale them to the whole time.
        let samples = cpu.samples as f64 / all.clamp(0.01, 1.0);
        Some(sampled(share.min(1.0), samples as u64))
    }

    /// Returns the fraction of a thread's samples that access cache lines shared with another
    /// thread, where at least one of the threads writes. `has_common_bytes` selects lines in which
    /// the threads access the same bytes (true sharing) or only different ones (false sharing).
    pub fn shared_lines(
        &self,
        thread: &ThreadActivity,
        has_common_bytes: bool,
    ) -> Option<Estimate> {
        if thread.samples < SAMPLES_MIN || thread.memory.is_none() {
            return None;
        }
        let lines = self.observation.shared_lines.iter();
        let lines = lines.filter(|line| line.has_common_bytes == has_common_bytes);
        let uses = lines.flat_map(|line| &line.threads).filter(|used| used.tid == thread.tid);
        Some(sampled(uses.map(|used| used.share).sum::<f64>().min(1.0), thread.samples))
    }

    /// Returns whether kernel sampling was permitted.
    pub fn has_kernel_samples(&self) -> bool {
        !self.is_unread("kernel_samples")
    }

    /// Returns why scheduler events were not read; `None` if they were.
    pub fn untraced(&self) -> Option<&'a Unread> {
        let all = ["tracepoints", "scheduler", SCHEDULER_OF_HOST];
        self.observation.unread.iter().find(|unread| all.contains(&unread.what.as_str()))
    }

    /// Returns whether `what` is listed as unread.
    pub fn is_unread(&self, what: &str) -> bool {
        self.observation.unread.iter().any(|unread| unread.what == what)
    }

    /// Returns the fraction of a thread's samples in named functions, and in libraries with a
    /// single purpose, such as crypto libraries.
    pub fn named(&self, thread: &ThreadActivity) -> Option<Estimate> {
        Self::samples_in(thread, is_known)
    }

    /// Returns the fraction of a thread's samples in crypto libraries.
    pub fn crypto_libraries(&self, thread: &ThreadActivity) -> Option<Estimate> {
        Self::samples_in(thread, is_of_crypto_library)
    }

    /// Returns the fraction of a thread's samples in crypto libraries and in public-key functions
    /// of other files, such as those of Go's runtime library or of an OpenSSL that is linked in.
    pub fn crypto(&self, thread: &ThreadActivity) -> Option<Estimate> {
        Self::samples_in(thread, may_be_handshake)
    }

    fn samples_in(
        thread: &ThreadActivity,
        is_meant: fn(&FunctionTime) -> bool,
    ) -> Option<Estimate> {
        let meant = thread.functions.iter().filter(|function| is_meant(function));
        (thread.samples >= SAMPLES_MIN)
            .then(|| sampled(meant.map(|function| function.share).sum(), thread.samples))
    }

    /// Returns the program's packet rate, in packets per second.
    pub fn packet_rate(&self) -> Option<f64> {
        let packets = self.observation.packets.as_ref()?.packets;
        (self.elapsed() > 0.0).then(|| packets as f64 / self.elapsed())
    }

    /// Returns a protocol counter: 0 if unchanged, `None` if it was not read.
    pub fn protocol(&self, name: &str) -> Option<u64> {
        let protocols = &self.observation.protocols;
        let is_unread = name.starts_with("Conntrack.") && self.is_unread("conntrack");
        (!protocols.is_empty() && !is_unread).then(|| protocols.get(name).copied().unwrap_or(0))
    }

    /// Returns how many times a socket's counters were read; `None` if there are too few readings
    /// to compute shares and means, as for short-lived connections.
    pub fn readings(socket: &SocketCounts) -> Option<u64> {
        const LEAST: u64 = 10;
        socket.reads.filter(|reads| *reads >= LEAST)
    }

    /// Returns whether the program may use TCP; see [`Observation::may_use_tcp`]. Otherwise, the
    /// TCP counters of its network namespace are those of other programs.
    pub(super) fn may_use_tcp(&self) -> bool {
        self.observation.may_use_tcp()
    }

    /// Returns TCP connections with traffic.
    pub fn connections(&self) -> impl Iterator<Item = &'a SocketCounts> {
        self.observation.sockets.iter().filter(|socket| {
            socket.kind == SocketKind::Tcp
                && socket.tcp.as_ref().is_some_and(|tcp| tcp.bytes_received + tcp.bytes_acked > 0)
        })
    }

    /// Returns the TCP time selected by `of` as a fraction of the measurement: the byte-weighted
    /// mean over sending connections; `None` if there are none.
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

    /// Returns two packet counts. The first covers packets lost before they reached the program,
    /// including those dropped at a ring whose drop counter only its owner can read. The second
    /// covers packets that the program received. `None` if it is unknown whether packets were lost.
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

    /// Returns the fraction of the program's packets lost before reaching it, at any layer; `None`
    /// if its packets were not counted.
    pub fn receive_loss(&self) -> Option<Estimate> {
        let before = |layer| layer <= Layer::Program;
        let places = self.ledger.places();
        let lost: u64 = places
            .iter()
            .filter(|place| before(place.row.layer) && place.whose.is_lost())
            .map(|place| place.packets)
            .sum();
        let received = self.packets()?;
        counted(lost, (lost + received).max(1) as f64)
    }

    /// Returns whether packets of the program are lost, beyond the difference expected between
    /// counters that are read at slightly different times. If it is unknown how many of the
    /// namespace's datagrams are the program's, any drop at its own sockets counts.
    pub fn is_lossy(&self) -> bool {
        let Some(lost) = self.ledger.lost() else { return false };
        let sockets = &self.observation.sockets;
        let is_tcp =
            |one: &SocketCounts| matches!(one.kind, SocketKind::Tcp | SocketKind::TcpListen);
        let has_tcp = self.observation.may_use_tcp();
        let segments = self.protocol("Tcp.InSegs").filter(|_| has_tcp).unwrap_or(0);
        let drops_own =
            sockets.iter().any(|one| !is_tcp(one) && one.buffer_drops(self.observation) > Some(0));
        let shared = self.shared_datagrams().filter(|_| !drops_own);
        match self.packets().or(shared) {
            Some(packets) => lost as f64 > LOST * (lost + packets.max(segments)) as f64,
            None => lost > 0,
        }
    }
}
