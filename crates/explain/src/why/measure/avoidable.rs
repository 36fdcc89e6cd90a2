// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures of work that packets do not need: system calls for other purposes, optional parts of
//! the kernel, threads that end at once, and segments or windows that are smaller than need be.

use super::super::called::{most_others, reads, share_of_thread};
use super::super::facts::{Facts, Subject, counted, sampled, share};
use super::super::functions::{is_own_work, is_public_key};
use super::super::kernel_parts;
use super::Measure;
use super::connections::always_sending;
use super::costs;
use super::counts::{ENDED, brief_processes, children_cpus};
use linerate_record::stats::Estimate;
use linerate_record::why::{
    FunctionTime, InterfaceCounts, SleepTime, SocketCounts, SocketKind, TcpCounts, ThreadActivity,
};

impl Measure {
    pub(super) fn of_avoidable<'a>(
        self,
        facts: &Facts<'a>,
        subject: Subject<'a>,
    ) -> Option<Estimate> {
        match self {
            Self::KernelPart => {
                let thread = facts.thread(subject)?;
                kernel_parts::largest(facts, thread).map(|(_, share)| share)
            }
            Self::KernelPartTime => {
                let thread = facts.thread(subject)?;
                let (part, share) = kernel_parts::largest(facts, thread)?;
                Some(match part.causes > 1.0 {
                    true => with_caused(share, part.causes, costs::kernel(thread)?),
                    false => with_callers(share),
                })
            }
            Self::OwnFunction => {
                let thread = facts.thread(subject)?;
                Some(sampled(own_function(facts, thread)?.share.min(1.0), thread.samples))
            }
            Self::OtherCalls => most_others(facts).map(|called| share(called.share)),
            Self::OtherCallTime => {
                let kernel = costs::kernel(facts.thread(subject)?)?;
                let called = most_others(facts)?;
                Some(of_kernel(kernel, called.share, called.purpose.weight))
            }
            Self::BytesPerRead => bytes_per_read(facts),
            Self::ReadTime => {
                /// CPU time of a read of a few bytes relative to the other calls.
                const WEIGHT: [f64; 3] = [0.2, 1.0, 1.5];
                let kernel = costs::kernel(facts.thread(subject)?)?;
                Some(of_kernel(kernel, share_of_reads(facts)?, WEIGHT))
            }
            Self::BriefThreadsCpus => Some(share(brief_cpus(facts)?)),
            Self::BriefThreadsShare => {
                let brief = brief_cpus(facts)?;
                Some(share(brief / costs::all_cpus(facts).max(brief)))
            }
            Self::BriefThreadsTime => {
                // The work of the request remains; starting and ending threads is kernel work.
                let kernel = costs::kernel(facts.thread(subject)?)?;
                let all = with_callers(Self::BriefThreadsShare.of_avoidable(facts, subject)?);
                Some(Estimate { value: all.value * kernel.value.clamp(0.0, 1.0), low: 0.0, ..all })
            }
            Self::FileCalls => file_calls(facts, facts.thread(subject)?),
            Self::FileCallTime => {
                /// CPU time of a read or write and the calls around it, such as open and close,
                /// relative to one that passes a packet.
                const WEIGHT: [f64; 3] = [0.05, 0.5, 8.0];
                let thread = facts.thread(subject)?;
                let per_packet = file_calls(facts, thread)?.value;
                let calls = per_packet / (per_packet + CALLS_PER_PACKET);
                Some(of_kernel(costs::kernel(thread)?, calls, WEIGHT))
            }
            _ => self.of_starts(facts, subject).or_else(|| self.of_sender(facts)),
        }
    }

    /// Returns a measure of what the program starts per packet or connection, or of which thread
    /// makes the system calls; `None` for other measures.
    fn of_starts<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        let thread = facts.thread(subject)?;
        match self {
            Self::HandshakeMs => {
                let crypto = facts.crypto(thread)?;
                let busy_ms = 1e3 * Facts::on_cpu(thread)?.value;
                let per_s = Self::ConnectionsPerSecond.of(facts, subject)?.value;
                (per_s > 0.0).then(|| crypto.scale(busy_ms / per_s))
            }
            Self::Hashes => {
                let [hashes, public_key] = [false, true].map(|kind| crypto_of(thread, kind));
                let share = hashes / (hashes + public_key).max(f64::MIN_POSITIVE);
                Some(Estimate::exactly(share))
            }
            Self::OfCalls => Some(Estimate::exactly(share_of_thread(facts, thread)?)),
            Self::ProcessesPerDatagram => {
                /// CPU time of a process that does next to nothing, in seconds.
                const PROCESS_S: f64 = 1e-3;
                let received = facts.datagrams("InDatagrams").filter(|number| *number > 0)?;
                let by_time = children_cpus(facts)? * facts.elapsed() / PROCESS_S;
                counted((by_time as u64).max(brief_processes(facts)), received as f64)
            }
            _ => None,
        }
    }

    /// Returns a measure of the connection that always has data to send, or of congestion marks;
    /// `None` for other measures.
    fn of_sender(self, facts: &Facts<'_>) -> Option<Estimate> {
        match self {
            Self::SmallSegments => {
                let (tcp, full) = small_segments(facts)?;
                Some(Estimate::exactly(1.0 - f64::from(tcp.mss) / full))
            }
            Self::WindowOfRate => {
                let tcp = clamped(facts)?;
                let window = f64::from(tcp.cwnd) * f64::from(tcp.mss);
                (window > 0.0 && tcp.rtt_s > 0.0)
                    .then(|| Estimate::exactly(tcp.delivery_bytes_per_s * tcp.rtt_s / window))
            }
            Self::WindowOfRoundTrips => {
                // It may be one of many connections in turn, each of which starts small.
                let tcp = clamped(facts).filter(|tcp| tcp.busy_s > 0.0)?;
                Some(Estimate::exactly(f64::from(tcp.cwnd) * tcp.rtt_s / tcp.busy_s))
            }
            Self::RoundTripMs => Some(Estimate::exactly(1e3 * clamped(facts)?.min_rtt_s)),
            Self::SteadyRoundTrip => {
                let tcp = clamped(facts).filter(|tcp| tcp.min_rtt_s > 0.0)?;
                Some(Estimate::exactly(tcp.rtt_s / tcp.min_rtt_s))
            }
            Self::RetransmittedByBusiest => {
                Some(Estimate::exactly(clamped(facts)?.retransmitted as f64))
            }
            Self::CongestionMarks => {
                let marks = facts.protocol("TcpExt.TCPDeliveredCE")?;
                Some(Estimate::exactly(marks as f64))
            }
            _ => None,
        }
    }
}

/// Calls that pass a datagram and its reply: one to receive, one to send.
const CALLS_PER_PACKET: f64 = 2.0;

/// Widens a share of samples or of CPU time to the share of the work as a whole. The high end
/// allows for callers of the sampled functions, and for the cache lines that these functions evict:
/// with select over 990 descriptors, 45 % of the samples were in its functions, and without it, the
/// rate rose to 3.8 times.
fn with_callers(share: Estimate) -> Estimate {
    const LOW: f64 = 0.7;
    const RATIO: f64 = 2.4;
    let high = 1.0 - (1.0 - share.value.clamp(0.0, 0.99)).powf(RATIO);
    let value = share.value.min(0.98);
    Estimate { value, low: (LOW * share.low).min(value), high: high.max(value), ..share }
}

/// Widens a share of samples in functions to include the work that they cause in other parts of the
/// kernel, so that the total is `causes` times their own time, up to most of the kernel's time. The
/// low end is the functions' own time.
fn with_caused(share: Estimate, causes: f64, kernel: Estimate) -> Estimate {
    /// Maximum fraction of the kernel's time: the kernel always does some other work too.
    const OF_KERNEL: f64 = 0.9;
    /// Maximum fraction of the CPU time.
    const MOST: f64 = 0.95;
    let most = (OF_KERNEL * kernel.value).clamp(0.0, OF_KERNEL);
    let value = (causes * share.value).min(most).max(share.value.min(MOST));
    let high = with_callers(Estimate { value, ..share }).high.min(MOST).max(value);
    Estimate { value, low: share.low.clamp(0.0, value), high, ..share }
}

/// Returns the fraction of a thread's samples in public-key operations, or in hashes and ciphers.
fn crypto_of(thread: &ThreadActivity, is_of_public_key: bool) -> f64 {
    let meant = |one: &&FunctionTime| is_public_key(one) == Some(is_of_public_key);
    thread.functions.iter().filter(meant).map(|one| one.share).sum()
}

/// Returns whether a thread was sampled in public-key operations.
pub(in super::super) fn has_public_key(thread: &ThreadActivity) -> bool {
    crypto_of(thread, true) > 0.0
}

/// Returns how often a thread that receives datagrams with recvfrom or the like makes other calls
/// that read or write, per datagram; `None` if these calls may pass packets too: on a connected
/// socket, another kind of socket, or a TUN device.
fn file_calls(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Estimate> {
    let receives = |sleep: &SleepTime| {
        let object = sleep.object.as_deref().unwrap_or_default();
        sleep.on.starts_with("recv") && object.starts_with("udp") && !object.contains(" to ")
    };
    let is_other = |one: &SocketCounts| one.kind != SocketKind::Udp || one.remote.is_some();
    let observation = facts.observation;
    let is_tunnel = |one: &InterfaceCounts| one.driver.as_deref() == Some("tun");
    if !thread.asleep_on.iter().any(receives)
        || observation.sockets.iter().any(is_other)
        || observation.interfaces.iter().any(is_tunnel)
    {
        return None;
    }
    let received = facts.datagrams("InDatagrams").filter(|datagrams| *datagrams > 0)?;
    counted(thread.io_calls?, received as f64)
}

/// Returns the fraction of a thread's CPU time taken by certain calls if they are the fraction
/// `calls` of all calls and each takes `weight` times as long as one of the others. `kernel` is the
/// fraction of the CPU time spent in the kernel.
fn of_kernel(kernel: Estimate, calls: f64, weight: [f64; 3]) -> Estimate {
    /// Maximum fraction of the CPU time: a thread always does some other work too.
    const MOST: f64 = 0.98;
    let part = |weight: f64| calls * weight / (calls * weight + 1.0 - calls).max(1e-6);
    let [low, likely, high] = weight.map(part);
    let value = (likely * kernel.value).min(MOST);
    Estimate {
        value,
        low: (low * kernel.low).clamp(0.0, value),
        high: (high * kernel.high).clamp(value, MOST),
        ..kernel
    }
}

/// Returns the function with most of a thread's samples, among those that are the program's own
/// work; `None` if there are too few samples.
pub(in super::super) fn own_function<'a>(
    facts: &Facts<'_>,
    thread: &'a ThreadActivity,
) -> Option<&'a FunctionTime> {
    let own =
        thread.functions.iter().filter(|one| is_own_work(one) && one.is_polling != Some(true));
    own.max_by(|a, b| a.share.total_cmp(&b.share)).filter(|_| facts.has_enough_samples(thread))
}

/// Returns the bytes that the program's connections received per call that reads.
fn bytes_per_read(facts: &Facts<'_>) -> Option<Estimate> {
    let received: u64 =
        facts.connections().filter_map(|socket| Some(socket.tcp.as_ref()?.bytes_received)).sum();
    counted(received, reads(facts).filter(|reads| *reads > 0)? as f64)
}

/// Returns the fraction of all system calls that read.
fn share_of_reads(facts: &Facts<'_>) -> Option<f64> {
    let (calls, _) = super::counts::system_calls(facts)?;
    Some((reads(facts)? as f64 / calls.max(1) as f64).min(1.0))
}

/// Returns the CPU time of threads that started and ended within the window, in CPUs; `None` if
/// there is none beyond the resolution of the kernel's accounting.
fn brief_cpus(facts: &Facts<'_>) -> Option<f64> {
    let cpus = facts.observation.ended_threads_cpus?;
    (ENDED..=facts.cpus() as f64).contains(&cpus).then_some(cpus)
}

/// Returns the connection that transferred the most bytes of those that always have data to send,
/// if it and the connections like it carry at least half of the bytes that the program sends.
fn typical<'a>(
    facts: &Facts<'a>,
    is_like: impl Fn(&TcpCounts, &TcpCounts) -> bool,
) -> Option<&'a TcpCounts> {
    let (_, most) = always_sending(facts)?;
    let tcps = || facts.connections().filter_map(|socket| socket.tcp.as_ref());
    let all: u64 = tcps().map(|tcp| tcp.bytes_acked).sum();
    let alike: u64 = tcps().filter(|tcp| is_like(tcp, most)).map(|tcp| tcp.bytes_acked).sum();
    (2 * alike >= all).then_some(most)
}

/// Returns a connection that may be limited by its congestion window. A clamp holds the windows of
/// all connections at the same size.
pub(in super::super) fn clamped<'a>(facts: &Facts<'a>) -> Option<&'a TcpCounts> {
    typical(facts, |one, other| one.cwnd == other.cwnd)
}

/// Returns a connection with the program's usual segment size, and the segment size that the MTU of
/// its interface has room for, in bytes; `None` if the MTU is unknown.
pub(in super::super) fn small_segments<'a>(facts: &Facts<'a>) -> Option<(&'a TcpCounts, f64)> {
    /// IPv6 and TCP headers with timestamps, in bytes.
    const HEADERS: u32 = 40 + 32;
    /// MTU that every path over Ethernet has, whatever that of the first interface.
    const OF_PATH: u32 = 1500;
    /// Largest MTU of Ethernet in use. Loopback's is larger, and the kernel also bounds segments to
    /// half of the receiver's window.
    const ETHERNET: u32 = 9216;
    let tcp = typical(facts, |one, other| one.mss > 0 && one.mss <= other.mss)?;
    // The connection leaves through one of the interfaces that sent about as many bytes.
    let carries = |one: &&InterfaceCounts| one.tx_bytes >= tcp.bytes_acked;
    let mtus = facts.observation.interfaces.iter().filter(carries).filter_map(|one| one.mtu);
    let mtu = mtus.min().filter(|mtu| *mtu <= ETHERNET)?;
    let full = mtu.min(OF_PATH).checked_sub(HEADERS).filter(|full| *full > 0)?;
    (tcp.mss > 0).then_some((tcp, f64::from(full)))
}
