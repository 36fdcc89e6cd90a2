// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evidence against "nothing is wrong" that no rule explains. A program with time left may still be
//! held up by something that its time does not show: packets lost where nothing counts them, a peer
//! that does not read, answers that it waits for.

use super::facts::Facts;
use super::losses;
use super::waits::{self, Wait};
use super::words::{label, percent};
use linerate_record::units::BitsPerSecond;
use linerate_record::why::{SocketKind, ThreadActivity, ThreadState};

/// A condition that cannot be distinguished from nothing being wrong, and what to do next.
pub(super) struct Doubt {
    pub(super) sentence: String,
    pub(super) next: String,
}

impl Doubt {
    pub(super) fn new(sentence: String, next: impl Into<String>) -> Option<Self> {
        Some(Self { sentence, next: next.into() })
    }
}

/// The first doubt that applies.
pub(super) fn doubt(facts: &Facts<'_>) -> Option<Doubt> {
    vanished(facts)
        .or_else(|| too_large(facts))
        .or_else(|| dropped_elsewhere(facts))
        .or_else(|| resent(facts))
        .or_else(|| gaps(facts))
        .or_else(|| delayed_acknowledgements(facts))
        .or_else(|| closed_window(facts))
        .or_else(|| path(facts))
        .or_else(|| asks_others(facts))
        .or_else(|| sleeps_without_packets(facts))
        .or_else(|| shared_cpu(facts))
        .or_else(|| full_machine(facts))
}

/// Packets that reached IP and then disappeared.
fn vanished(facts: &Facts<'_>) -> Option<Doubt> {
    /// The difference between counters that are read one after another is smaller.
    const SHARE: f64 = 0.01;
    const LEAST: u64 = 100;
    let vanished = losses::vanished(facts)?;
    let (lost, received, left) = (vanished.lost(), vanished.received, vanished.left);
    if lost < LEAST || (lost as f64) < SHARE * received as f64 {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell where {lost} packets ({} % of all) went: {received} reached IP, {left} \
             left it, and no drop counter shows the rest.",
            percent(lost as f64 / received as f64)
        ),
        "Look for a rule that drops them (nft list ruleset, iptables -vnL); `sudo linerate why` \
         counts drops by reason",
    )
}

/// Packets that queueing disciplines dropped in other network namespaces: whose packets they were
/// is unknown.
fn dropped_elsewhere(facts: &Facts<'_>) -> Option<Doubt> {
    /// As for vanished packets.
    const SHARE: f64 = 0.01;
    const LEAST: u64 = 100;
    let dropped = losses::dropped_for(facts, "QDISC_DROP")?;
    let qdiscs = facts.observation.interfaces.iter().flat_map(|interface| &interface.qdiscs);
    let here: u64 = qdiscs.map(|qdisc| qdisc.drops).sum();
    let elsewhere = dropped.saturating_sub(here);
    let packets = facts.packets().unwrap_or(0);
    if elsewhere < LEAST || (elsewhere as f64) < SHARE * packets as f64 {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell whether the program lacks {elsewhere} packets that queueing disciplines \
             of other network namespaces dropped, perhaps at its sender."
        ),
        "Look for drops and a rate limit at the sender: tc -s qdisc, in its network namespace",
    )
}

/// Packets that exceed the path MTU and must not be fragmented.
fn too_large(facts: &Facts<'_>) -> Option<Doubt> {
    const LEAST: u64 = 10;
    let failed = facts.protocol("Ip.FragFails").filter(|failed| *failed >= LEAST)?;
    Doubt::new(
        format!(
            "Cannot tell the effect of {failed} packets that exceed the MTU and must not be \
             fragmented: they were dropped here, and their senders learn of it only by ICMP, if at \
             all."
        ),
        "Use one MTU along the path (ip link), or clamp the MSS (nft: tcp option maxseg size set \
         rt mtu); let ICMP 'fragmentation needed' through",
    )
}

/// TCP receives segments after gaps: the path loses or reorders some.
fn gaps(facts: &Facts<'_>) -> Option<Doubt> {
    /// As for retransmitted segments.
    const SHARE: f64 = 0.005;
    const LEAST: u64 = 20;
    let behind = facts.protocol("TcpExt.TCPOFOQueue").filter(|behind| *behind >= LEAST)?;
    let received = facts.protocol("Tcp.InSegs").filter(|received| *received > 0)?;
    let share = behind as f64 / received as f64;
    if share < SHARE {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell why segments to the program are lost or reordered on the way: {behind} \
             ({} % of all) arrived out of order; their senders slow down at each loss.",
            percent(share.min(1.0))
        ),
        "Look for drops in between: ss -ti (retrans) at the sender, ip -s link and ethtool -S, and \
         a rate limiter or firewall on the path",
    )
}

/// A server that delays its acknowledgements to clients much of the time.
fn delayed_acknowledgements(facts: &Facts<'_>) -> Option<Doubt> {
    /// The shortest delay that Linux uses, in seconds, and the share of the time from which it
    /// matters.
    const DELAY_S: f64 = 0.04;
    const MOST: f64 = 0.3;
    let delayed = facts.protocol("TcpExt.DelayedACKs")?;
    let host = |address: &str| address.rsplit_once(':').map(|(host, _)| host.to_owned());
    // If both ends are on the same machine, their acknowledgements are counted together.
    let is_remote = |remote: &str, local: &str| host(remote) != host(local);
    let both = facts.connections().filter(|socket| {
        let tcp = socket.tcp.as_ref();
        tcp.is_some_and(|tcp| tcp.bytes_received > 0 && tcp.bytes_acked > 0)
            && socket.remote.as_deref().is_some_and(|remote| is_remote(remote, &socket.local))
    });
    let connections = both.count();
    let waited = delayed as f64 * DELAY_S / facts.elapsed();
    if connections == 0 || waited < MOST * connections as f64 {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell whether its peers wait for acknowledgements: {delayed} were delayed by 40 \
             ms or more, and a peer using Nagle's algorithm holds back small segments until they \
             arrive."
        ),
        "Set TCP_NODELAY in the peers, or have them write each request with one call, and compare \
         the rates",
    )
}

/// TCP retransmits much: the path loses segments.
fn resent(facts: &Facts<'_>) -> Option<Doubt> {
    /// At a round trip of 1 ms, this loss keeps TCP below 250 Mb/s (Mathis et al., 1997).
    const SHARE: f64 = 0.005;
    const LEAST: u64 = 20;
    let (resent, sent) = (facts.protocol("Tcp.RetransSegs")?, facts.protocol("Tcp.OutSegs")?);
    // Segments that the peer already had were late, not lost.
    let resent = resent.saturating_sub(facts.protocol("TcpExt.TCPDSACKRecvSegs")?);
    let share = resent as f64 / (resent + sent).max(1) as f64;
    if resent < LEAST || share < SHARE {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell why segments were lost in transit: TCP retransmitted {resent} segments \
             ({} % of all), and each loss slowed it down.",
            percent(share)
        ),
        "Look for drops at the other end and in between: ss -ti (retrans) at the sender, ip -s \
         link and ethtool -S at the receiver, and a rate limiter or firewall on the path",
    )
}

/// A connection whose peer does not read.
fn closed_window(facts: &Facts<'_>) -> Option<Doubt> {
    /// More than half of the observation window.
    const MOST: f64 = 0.5;
    let closed = |seconds: f64| seconds / facts.elapsed();
    let sockets = facts.observation.sockets.iter();
    let (socket, share) = sockets
        .filter_map(|socket| Some((socket, closed(socket.tcp.as_ref()?.rwnd_limited_s))))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, share)| *share >= MOST)?;
    let peer = socket.remote.as_deref().unwrap_or("its peer");
    Doubt::new(
        format!(
            "Cannot tell why {peer} does not read: its receive window blocked connection {} for {} \
             % of the time.",
            socket.local,
            percent(share.min(1.0))
        ),
        "Watch the receiver: linerate why PID, on its machine",
    )
}

/// A connection that always has data to send, and that neither end stops.
fn path(facts: &Facts<'_>) -> Option<Doubt> {
    const MOST: f64 = 0.5;
    let sends = facts.connections().filter_map(|socket| Some((socket, socket.tcp.as_ref()?)));
    let busy = sends.filter(|(_, tcp)| {
        tcp.bytes_acked > tcp.bytes_received
            && tcp.app_limited_share < MOST
            && tcp.busy_s >= MOST * facts.elapsed()
    });
    let (socket, tcp) = busy.max_by_key(|(_, tcp)| tcp.bytes_acked)?;
    Doubt::new(
        format!(
            "Cannot tell what limits the path of connection {} to {}: it always has data to send, \
             its throughput is {}, and its buffers do not limit it (congestion window {} segments, \
             round trip {:.1} ms, {} retransmitted).",
            socket.local,
            socket.remote.as_deref().unwrap_or("its peer"),
            BitsPerSecond(8.0 * tcp.bytes_acked as f64 / facts.elapsed()),
            tcp.cwnd,
            1e3 * tcp.rtt_s,
            tcp.retransmitted
        ),
        "Look for a rate limiter on the path (tc -s qdisc on each hop), and watch the receiver: \
         linerate why PID, on its machine",
    )
}

/// A server that sleeps and meanwhile exchanges datagrams of its own: requests may be waiting for
/// them.
fn asks_others(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum share of its time, and minimum number of datagrams per received segment.
    const MOST: f64 = 0.5;
    const DATAGRAMS: f64 = 0.2;
    let thread = facts.busiest()?;
    let has = |kind| facts.observation.sockets.iter().any(|socket| socket.kind == kind);
    let segments = facts.protocol("Tcp.InSegs").or(facts.packets())?;
    let datagrams = facts.protocol("Udp.InDatagrams")?;
    // Packets from other hosts arrive without a request.
    let asks = has(SocketKind::TcpListen) && has(SocketKind::Udp) && facts.asks_by_udp();
    let asleep = waits::time_in(thread, Wait::Input)?;
    let is_much = datagrams > 0 && datagrams as f64 >= DATAGRAMS * segments as f64;
    if !asks || !is_much || asleep < MOST {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell whether thread {} waits for requests or for replies to its own requests: \
             it sleeps {} % of the time, and {datagrams} datagrams arrived during the observation.",
            label(thread),
            percent(asleep)
        ),
        follow(thread),
    )
}

/// A program that sleeps on something other than packets while no packets pass.
fn sleeps_without_packets(facts: &Facts<'_>) -> Option<Doubt> {
    const MOST: f64 = 0.3;
    let thread = facts.busiest()?;
    let held = [Wait::Timer, Wait::Storage, Wait::Other].map(|wait| waits::time_in(thread, wait));
    let longest = held.into_iter().flatten().fold(0.0, f64::max);
    if facts.packets().is_some_and(|packets| packets > 0) || longest < MOST {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell why no packet passed: thread {} sleeps {} % of the time, but not waiting \
             for input.",
            label(thread),
            percent(longest)
        ),
        follow(thread),
    )
}

/// A CPU that the program shares with others and that is never idle, while other CPUs have idle
/// time.
pub(super) fn shared_cpu(facts: &Facts<'_>) -> Option<Doubt> {
    const IDLE: f64 = 0.05;
    const OTHERS: f64 = 0.2;
    /// Idle time elsewhere.
    const ROOM: f64 = 0.3;
    let thread = facts.busiest()?;
    let cpu = facts.cpu(super::facts::Subject::Thread(thread))?;
    let here = facts.observation.threads.iter().filter(|t| t.ran_on.first() == Some(&cpu.cpu));
    let own: f64 = here.map(|t| t.share_of(ThreadState::is_on_cpu)).sum();
    let others = cpu.user + cpu.system - own;
    let room = facts.idle_cpus()? - cpu.idle;
    if cpu.idle >= IDLE || others < OTHERS || own < OTHERS || room < ROOM {
        return None;
    }
    let peer = facts.observation.sockets.iter().find_map(|socket| socket.peer_pid);
    let peer = peer.map_or_else(String::new, |pid| format!(", perhaps its peer {pid},"));
    Doubt::new(
        format!(
            "Cannot tell what the program could do on a CPU of its own: others use {} % of CPU {}, \
             where thread {} runs and which is hardly ever idle; other CPUs have headroom.",
            percent(others),
            cpu.cpu,
            label(thread)
        ),
        format!(
            "Move the others{peer} to another CPU (taskset -acp CPU PID), or the thread: taskset \
             -cp CPU {}",
            thread.tid
        ),
    )
}

/// A machine without an idle CPU: processes that send or answer may be short of CPU time.
fn full_machine(facts: &Facts<'_>) -> Option<Doubt> {
    /// Idle share of all CPUs, and the share of one CPU that the program uses.
    const IDLE: f64 = 0.05;
    const USES: f64 = 0.3;
    let thread = facts.busiest().filter(|thread| thread.demand() >= USES)?;
    let cpus = facts.cpus() as f64;
    let idle = facts.idle_cpus().filter(|idle| *idle < IDLE * cpus)?;
    Doubt::new(
        format!(
            "Cannot tell what the program could do with more CPU time: the {cpus:.0} CPUs are {} % \
             idle, and its peers may run on them; thread {} takes {} % of a CPU.",
            percent(idle / cpus.max(1.0)),
            label(thread),
            percent(thread.demand())
        ),
        "Run the peers on another machine, or watch them too",
    )
}

/// How to see what a thread is waiting for.
pub(super) fn follow(thread: &ThreadActivity) -> String {
    format!("See each call and how long it takes: strace -f -T -p {}", thread.tid)
}
