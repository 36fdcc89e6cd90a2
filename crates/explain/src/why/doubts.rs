// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons to doubt that nothing is wrong, in cases that no rule covers. A program with idle time
//! may still be held up by something that its time budget does not show: uncounted packet losses, a
//! peer that does not read, or outstanding replies from other servers.

mod brief;
mod busy_server;
mod connects;
mod elsewhere;
mod filtered;
mod handlers;
mod idle_cpu;
mod limits;
mod rejected;
mod replies;
mod segments;
mod shadowed;
mod split;
mod unseen;

pub(super) use self::elsewhere::{neighbours, other_namespaces, twin, unread_network};
pub(super) use self::filtered::before_sockets;
pub(super) use self::handlers::{group_commit, small_pool};
pub(super) use self::idle_cpu::idle_cpu;
pub(super) use self::limits::{emulated_network, half_open, pauses, sent_on, streams};
pub(super) use self::segments::{are_workload, is_stalled, stalled_elsewhere};
pub(super) use self::unseen::mostly_turns_away;
use super::evidence::evidence;
use super::facts::{Facts, Subject};
use super::losses;
use super::measure::Measure;
use super::requests;
use super::rules::{TURNS, VISIBLE};
use super::waits::{self, Wait};
use super::words::{label, percent};
use linerate_record::answers::Evidence;
use linerate_record::units::grouped;
use linerate_record::why::{SocketCounts, SocketKind, ThreadActivity, ThreadState};

/// Advice on finding the locks and channels that goroutines wait for.
const GO_LOCKS: &str = "Profile what the goroutines wait for: go tool pprof \
     http://HOST/debug/pprof/mutex and .../block (import net/http/pprof; \
     runtime.SetMutexProfileFraction and SetBlockProfileRate enable these profiles). strace does \
     not show these waits, because a waiting goroutine does not occupy a thread";

/// A reason to doubt that nothing is wrong, and what to do next.
pub(super) struct Doubt {
    pub(super) sentence: String,
    pub(super) next: String,
    /// What the doubt is based on.
    pub(super) evidence: Vec<Evidence>,
}

impl Doubt {
    pub(super) fn new(sentence: String, next: impl Into<String>) -> Option<Self> {
        Some(Self { sentence, next: next.into(), evidence: Vec::new() })
    }

    /// Adds a number that the doubt is based on.
    fn with(mut self, name: &str, value: f64, unit: &str) -> Self {
        self.evidence.push(evidence(name, value, unit));
        self
    }
}

/// Returns the first doubt that applies. Requests that were seen to wait inside the program come
/// before counters of the whole machine, which may concern other programs.
pub(super) fn doubt(facts: &Facts<'_>) -> Option<Doubt> {
    unseen::unread_ring(facts)
        .or_else(|| unseen::unread_xdp(facts))
        .or_else(|| unseen::unlisted_sockets(facts))
        .or_else(|| half_open(facts))
        .or_else(|| limits::few_ports(facts))
        .or_else(|| limits::no_ports(facts))
        .or_else(|| emulated_network(facts))
        .or_else(|| brief::threads(facts))
        .or_else(|| brief::children(facts))
        .or_else(|| held_inside(facts))
        .or_else(|| rejected::by_sockets(facts))
        .or_else(|| before_ip(facts))
        .or_else(|| neighbours(facts, false))
        .or_else(|| filtered::by_rules(facts))
        .or_else(|| vanished(facts))
        .or_else(|| rejected::at_ports(facts))
        .or_else(|| shadowed::by_port(facts))
        .or_else(|| rejected::failed_sends(facts))
        .or_else(|| too_large(facts))
        .or_else(|| dropped_elsewhere(facts))
        .or_else(|| segments::resent(facts))
        .or_else(|| segments::gaps(facts))
        .or_else(|| segments::delayed_acknowledgements(facts))
        .or_else(|| segments::closed_window(facts))
        .or_else(|| rejected::small_window(facts))
        .or_else(|| segments::path(facts))
        .or_else(|| connects::unanswered(facts))
        .or_else(|| busy_server::busy_server(facts))
        .or_else(|| unseen::unanswered(facts))
        .or_else(|| unseen::taking_turns(facts))
        .or_else(|| handlers::held_by_others(facts))
        .or_else(|| unseen::silent(facts))
        .or_else(|| unseen::turns_away(facts))
        .or_else(|| unseen::slow_stage(facts))
        .or_else(|| unseen::woken_together(facts))
        .or_else(|| unseen::on_unix_sockets(facts))
        .or_else(|| replies::on_unix_servers(facts))
        .or_else(|| replies::on_slow_servers(facts))
        .or_else(|| replies::on_udp_peers(facts))
        .or_else(|| asks_others(facts))
        .or_else(|| split::replies(facts))
        .or_else(|| limits::limits_itself(facts))
        .or_else(|| sleeps_without_packets(facts))
        .or_else(|| shared_cpu(facts))
        .or_else(|| full_machine(facts))
}

/// Detects clients that wait for replies to requests that have arrived, while all threads sleep.
fn held_inside(facts: &Facts<'_>) -> Option<Doubt> {
    requests::delayed(facts).filter(|delayed| delayed.low >= requests::DELAYED)?;
    // A request of several segments counts as pending while the rest of it is still on its way.
    if segments::gaps(facts).is_some() && requests::are_long(facts) {
        return None;
    }
    busy_server::busy_server(facts).or_else(|| unseen::unanswered(facts))
}

/// Returns the command that reads what only root can read.
pub(super) fn read_by_root(facts: &Facts<'_>) -> String {
    let pid = facts.observation.watched.pids.first();
    pid.map_or_else(
        || "Run linerate why as root".to_owned(),
        |pid| format!("sudo linerate why {pid}"),
    )
}

/// Detects packets that an interface received, but that did not reach IP.
fn before_ip(facts: &Facts<'_>) -> Option<Doubt> {
    let before = losses::before_ip(facts)?;
    let interface = before.interface;
    let reason = match before.reason {
        Some(reason) => {
            format!(" The kernel dropped about as many packets with drop reason {reason}.")
        }
        None => String::new(),
    };
    Doubt::new(
        format!(
            "Cannot tell what happened to {} packets ({} % of all) that {interface} received but \
             that did not reach IP: no counter accounts for them.{reason}",
            grouped(before.lost),
            percent(before.lost as f64 / before.received as f64)
        ),
        format!(
            "Look for an XDP program (ip link show dev {interface}), a tc filter (tc -s filter \
             show dev {interface} ingress) or an nft netdev chain (nft list ruleset). Frames for \
             other hosts (promiscuous mode, macvlan) are counted too, but not lost."
        ),
    )
}

/// Detects packets that reached IP and then disappeared.
fn vanished(facts: &Facts<'_>) -> Option<Doubt> {
    let vanished = losses::vanished(facts)?;
    let (lost, received, left) = (vanished.lost(), vanished.received, vanished.left);
    let is_known = vanished.by_firewall.is_some();
    if is_known || !losses::is_much(lost, received) {
        return None;
    }
    let share = percent(lost as f64 / received as f64);
    let [lost, received, left] = [lost, received, left].map(grouped);
    Doubt::new(
        format!(
            "Cannot tell where {lost} packets ({share} % of all) went: {received} reached the IP \
             layer, {left} left it, and no drop counter accounts for the rest."
        ),
        "Look for a rule that drops them (nft list ruleset, iptables -vnL); `sudo linerate why` \
         counts drops by reason",
    )
}

/// Detects packets dropped by queueing disciplines in other network namespaces. It is unknown
/// whether these packets belonged to the program.
fn dropped_elsewhere(facts: &Facts<'_>) -> Option<Doubt> {
    let dropped = losses::dropped_for(facts, "QDISC_DROP")?;
    let elsewhere = dropped.saturating_sub(facts.observation.qdisc_drops());
    let packets = facts.packets().unwrap_or(0);
    if !losses::is_much(elsewhere, packets) {
        return None;
    }
    let elsewhere = grouped(elsewhere);
    Doubt::new(
        format!(
            "Cannot tell whether {elsewhere} packets that queueing disciplines dropped in other \
             network namespaces, perhaps at the sender, were meant for the program."
        ),
        "Look for drops and a rate limit at the sender: run tc -s qdisc in its network namespace",
    )
}

/// Detects packets that exceed the path MTU but must not be fragmented.
fn too_large(facts: &Facts<'_>) -> Option<Doubt> {
    const LEAST: u64 = 10;
    /// Minimum fraction of all packets sent or forwarded. Path MTU discovery costs each connection
    /// one such packet.
    const SHARE: f64 = 0.001;
    let failed = facts.protocol("Ip.FragFails").filter(|failed| *failed >= LEAST)?;
    let sent = ["Ip.OutRequests", "Ip.ForwDatagrams"].map(|name| facts.protocol(name));
    let sent: u64 = sent.into_iter().flatten().sum();
    if (failed as f64) < SHARE * sent as f64 {
        return None;
    }
    let failed = grouped(failed);
    Doubt::new(
        format!(
            "Cannot tell the effect of {failed} packets that exceeded the MTU and had the DF bit \
             set: they were dropped here, and their senders learn of it only through ICMP, if at \
             all."
        ),
        "Use one MTU along the path (ip link), or clamp the MSS (nft: tcp option maxseg size set \
         rt mtu); let ICMP 'fragmentation needed' through",
    )
}

/// Detects a server that sleeps while exchanging datagrams with other servers: its clients'
/// requests may be waiting for the other servers' replies.
fn asks_others(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum fraction of time asleep.
    const MOST: f64 = 0.5;
    /// Minimum number of datagrams per received segment.
    const DATAGRAMS: f64 = 0.2;
    let thread = facts.busiest()?;
    let has = |kind| facts.observation.sockets.iter().any(|socket| socket.kind == kind);
    let segments = facts.protocol("Tcp.InSegs").or(facts.packets())?;
    let datagrams = facts.datagrams("InDatagrams")?;
    // Datagrams also arrive unasked, so there must be about as many replies as requests.
    let asks = has(SocketKind::TcpListen) && asks_from_other_ports(facts) && facts.asks_by_udp();
    let asleep = waits::time_in(thread, Wait::Input)?;
    let is_much = datagrams > 0 && datagrams as f64 >= DATAGRAMS * segments as f64;
    if !asks || !is_much || asleep < MOST {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell whether thread {} is waiting for requests or for replies to its own \
             requests: it sleeps {} % of the time, and {datagrams} datagrams arrived in its \
             network namespace.",
            label(thread),
            percent(asleep)
        ),
        "Compare the timestamps of its requests and of the replies (tcpdump -i any -ttt udp), or \
         watch the server that it queries",
    )
}

/// Returns whether the program has a UDP socket on a port where it has no TCP listener: a server
/// that serves both protocols on the same port sends its own requests from other ports.
fn asks_from_other_ports(facts: &Facts<'_>) -> bool {
    let sockets = &facts.observation.sockets;
    let port = |socket: &SocketCounts| socket.local.rsplit(':').next().map(str::to_owned);
    let of = |kind| sockets.iter().filter(move |socket| socket.kind == kind);
    of(SocketKind::Udp).any(|udp| !of(SocketKind::TcpListen).any(|tcp| port(tcp) == port(udp)))
}

/// Detects a program that sleeps on something other than input while no packets pass.
fn sleeps_without_packets(facts: &Facts<'_>) -> Option<Doubt> {
    const MOST: f64 = 0.3;
    let thread = facts.busiest()?;
    if is_idle_with_a_timer(facts, thread) {
        return None;
    }
    let held = [Wait::Timer, Wait::Storage, Wait::Lock, Wait::Other]
        .map(|wait| waits::time_in(thread, wait));
    let longest = held.into_iter().flatten().fold(0.0, f64::max);
    let packets = facts.packets();
    if packets.is_some_and(|packets| packets > 0) || longest < MOST {
        return None;
    }
    let claim = match packets {
        Some(_) => "Cannot tell why no packets passed",
        None => "Cannot tell what the program is waiting for, or how many packets it handled",
    };
    Doubt::new(
        format!(
            "{claim}: thread {} sleeps {} % of the time, waiting for something other than input.",
            label(thread),
            percent(longest)
        ),
        follow(thread),
    )
}

/// Returns whether the program is idle with a background thread: `thread` wakes up on a timer now
/// and then, and another thread waits for input.
fn is_idle_with_a_timer(facts: &Facts<'_>, thread: &ThreadActivity) -> bool {
    /// Maximum number of sleeps per second of a background thread without work.
    const SELDOM_PER_S: f64 = 20.0;
    /// Minimum fraction of time that each thread waits.
    const MOST: f64 = 0.9;
    let is_timer = waits::time_in(thread, Wait::Timer).is_some_and(|timer| timer >= MOST);
    let awaits = |other: &ThreadActivity| {
        waits::time_in(other, Wait::Input).is_some_and(|input| input >= MOST)
    };
    let is_held = |other: &ThreadActivity| {
        let waits =
            [Wait::Storage, Wait::Lock, Wait::Other].map(|wait| waits::time_in(other, wait));
        waits.into_iter().flatten().any(|share| share >= MOST)
    };
    is_timer
        && !facts.observation.threads.iter().any(is_held)
        && thread.voluntary_switches as f64 <= SELDOM_PER_S * facts.elapsed()
        && facts.observation.threads.iter().any(awaits)
}

/// Detects threads of the program that take turns on one CPU and sleep on the same futex. If the
/// futex is a lock, the threads would run one at a time even on several CPUs.
pub(super) fn takes_turns(facts: &Facts<'_>) -> Option<Doubt> {
    let thread = facts.busiest()?;
    let subject = Subject::Thread(thread);
    let waiting = thread.share_of(|state| state == ThreadState::Waiting);
    let turns = Measure::TakesTurns.of(facts, subject)?.value;
    if waiting < VISIBLE || turns < TURNS {
        return None;
    }
    let cpu = thread.ran_on.first()?;
    Doubt::new(
        format!(
            "Cannot tell whether the cause is cpu_contention or user_lock: thread {} waits {} % of \
             the time for CPU {cpu}, where other threads of the program run {} % of the time, and \
             all of these threads sleep on the same futex. If the futex is a lock, they would run \
             one at a time on any number of CPUs.",
            label(thread),
            percent(waiting),
            percent(turns)
        ),
        format!(
            "Pin the thread to another CPU (taskset -cp CPU {}): if the rate stays the same, the \
             threads take turns behind a lock",
            thread.tid
        ),
    )
}

/// Detects a CPU that is never idle and that the program shares with others, while other CPUs have
/// idle time.
pub(super) fn shared_cpu(facts: &Facts<'_>) -> Option<Doubt> {
    const IDLE: f64 = 0.05;
    const OTHERS: f64 = 0.2;
    /// Minimum idle time on other CPUs, in CPUs.
    const ROOM: f64 = 0.3;
    let thread = facts.busiest()?;
    let cpu = facts.cpu(Subject::Thread(thread))?;
    let here = facts.observation.threads.iter().filter(|t| t.ran_on.first() == Some(&cpu.cpu));
    let own: f64 = here.map(|t| t.share_of(ThreadState::is_on_cpu)).sum();
    let others = cpu.user + cpu.system - own;
    let room = facts.idle_cpus()? - cpu.idle;
    if cpu.idle >= IDLE || others < OTHERS || own < OTHERS || room < ROOM {
        return None;
    }
    let peer = facts.observation.sockets.iter().find_map(|socket| socket.peer_pid);
    let peer =
        peer.map_or_else(String::new, |pid| format!(" (one may be the program's peer, PID {pid})"));
    Doubt::new(
        format!(
            "Cannot tell how fast the program would be with a CPU to itself: thread {} runs on CPU \
             {}, which is almost never idle; other programs use {} % of that CPU, although other \
             CPUs have headroom.",
            label(thread),
            cpu.cpu,
            percent(others)
        ),
        format!(
            "Move the other programs{peer} to another CPU (taskset -acp CPU PID), or move the \
             thread (taskset -cp CPU {})",
            thread.tid
        ),
    )
}

/// Detects a machine without idle CPU time, on which senders or responders may be starved.
pub(super) fn full_machine(facts: &Facts<'_>) -> Option<Doubt> {
    /// Maximum idle fraction over all CPUs.
    const IDLE: f64 = 0.05;
    /// Minimum CPU time of the program, in CPUs.
    const USES: f64 = 0.3;
    /// Minimum fraction of time for which a thread lacks a CPU; less is within the error of kernel
    /// accounting.
    const LACKS: f64 = 0.03;
    let thread = facts.busiest().filter(|thread| thread.demand() >= USES)?;
    let cpus = facts.cpus() as f64;
    let idle = facts.idle_cpus().filter(|idle| *idle < IDLE * cpus)?;
    let (wants, has) = (thread.demand(), thread.share_of(ThreadState::is_on_cpu));
    let thread = match wants - has >= LACKS {
        true => format!(
            "thread {} needs a CPU {} % of the time, but gets one only {} % of the time",
            label(thread),
            percent(wants),
            percent(has)
        ),
        false => format!(
            "thread {} gets all the CPU time that it needs ({} % of the time), but its peers may \
             not",
            label(thread),
            percent(wants)
        ),
    };
    // Less than a tick per second is within the error of kernel accounting.
    let idle = match idle / cpus.max(1.0) {
        share if share < 0.005 => "never idle".to_owned(),
        share if share < 0.01 => "less than 1 % idle".to_owned(),
        share => format!("only {} % idle", percent(share)),
    };
    Doubt::new(
        format!(
            "Cannot tell how fast the program would be with more CPU time: the {cpus:.0} CPUs are \
             {idle}, and the program's peers may run on them too; {thread}."
        ),
        "Run the peers on another machine, or watch them too",
    )
}

/// Returns a command that shows what a thread waits for.
pub(super) fn follow(thread: &ThreadActivity) -> String {
    format!("Trace each call with its duration: strace -f -T -p {}", thread.tid)
}
