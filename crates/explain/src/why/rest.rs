// SPDX-License-Identifier: MIT OR Apache-2.0
//! Findings when no rule holds: nothing is wrong, the generator or this tool is the bottleneck, or
//! no single cause stands out.

mod background;
mod datagrams;
mod generator;
mod held_up;
mod in_kernel;
mod link;
mod nothing;
mod own_work;
mod polls;
mod remarks;
mod varied;

use super::doubts::{self, Doubt};
use super::evidence::evidence;
use super::facts::{Facts, Subject, share, share_of};
use super::functions::{Group, is_nameless};
use super::measure::Measure as M;
use super::one_cpu::one_cpu;
use super::queues;
use super::words::{label, percent};
use super::{Held, Suspect};
use background::background;
use datagrams::{lost_at_socket, unknown_datagrams};
use generator::{generator, generator_limit};
use held_up::held_up;
use in_kernel::in_kernel;
use linerate_record::answers::Evidence;
use linerate_record::units::grouped;
use linerate_record::why::{Cause, Gain, ProgramCounts, ThreadActivity, ThreadState, WhyFinding};
use linerate_record::{Figure, Tier};
pub(super) use link::full_link;
use link::limit_reached;
use nothing::nothing_wrong;
pub(super) use own_work::own_work;
use varied::{inseparable, probable};

const MODEL: &str = "headroom until the busiest thread is 100 % busy";

/// Ratio of the observer's CPU time to the program's above which the observer itself may be the
/// bottleneck.
const OBSERVER: f64 = 0.05;

/// Returns a finding if the observer takes CPU time that the program needs.
pub(super) fn observer(facts: &Facts<'_>) -> Option<WhyFinding> {
    let observer = share_of(&facts.observation.observer)?;
    let is_full = facts.idle_cpus().is_some_and(|idle| idle < 0.05 * facts.cpus() as f64);
    let on_cpu = facts.observation.threads.iter().filter_map(Facts::on_cpu);
    let program = on_cpu.map(|time| time.value).sum::<f64>().max(1.0);
    (observer.low >= OBSERVER * program && is_full).then(|| WhyFinding {
        cause: Cause::ObserverLimit,
        sentence: format!(
            "linerate itself used {} % of a CPU while no CPU was idle, which lowered the measured \
             rates.",
            percent(observer.value)
        ),
        evidence: vec![evidence("CPU time of the observer", observer.value, "ratio")],
        gain: not_predicted("a measurement with less overhead will show the real rate"),
        fix: Some("Watch a single process or fewer threads, and watch for longer".to_owned()),
        workaround: None,
        wrong_if: "the program reports the same rate when `linerate why` is not running".to_owned(),
    })
}

/// Returns the finding when no rule with a worthwhile gain holds. `likely` is a rule with such a
/// gain that holds on average, but not with its entire intervals.
pub(super) fn rest(
    facts: &Facts<'_>,
    suspects: &[Suspect],
    doubtful: Option<(&Held<'_>, Cause, Option<&Held<'_>>)>,
    likely: Option<&Held<'_>>,
) -> WhyFinding {
    if limit_reached(facts).is_some() || full_link(facts).is_some() {
        return nothing_wrong(facts);
    }
    if let Some((held, cause, likely)) = doubtful {
        return inseparable(facts, held, cause, likely);
    }
    let first = doubts::neighbours(facts, true).or_else(|| doubts::takes_turns(facts));
    if let Some(doubt) = first.or_else(|| doubts::idle_cpu(facts)) {
        return doubted(facts, doubt);
    }
    let room = room(facts);
    let held = doubts::group_commit(facts).or_else(|| doubts::small_pool(facts));
    let queued = held.or_else(|| queues::queued(facts));
    if let (Room::Left | Room::Unknown, Some(doubt)) = (room, queued) {
        return doubted(facts, doubt);
    }
    if let (Room::Unknown, Some(doubt)) = (room, doubts::shared_cpu(facts)) {
        return doubted(facts, doubt);
    }
    if let (true, Some(doubt)) = (likely.is_none(), doubts::twin(facts)) {
        return doubted(facts, doubt);
    }
    let is_open = room != Room::Full || !suspects.is_empty();
    if let (true, Some(doubt)) = (is_open, doubts::other_namespaces(facts)) {
        return doubted(facts, doubt);
    }
    if !suspects.is_empty() {
        return suspected(facts, suspects);
    }
    match (room, likely) {
        (Room::Left, _) => match (generator(facts), receiving(facts)) {
            (Some(cpu), _) => generator_limit(facts, cpu),
            (None, Some((cpu, share))) => match doubts::half_open(facts) {
                Some(doubt) => doubted(facts, doubt),
                None => busy_receiving(facts, cpu, share),
            },
            (None, None) => idle(facts),
        },
        (Room::Full | Room::Unknown, Some(likely)) => probable(facts, likely),
        (Room::Full, None) => full(facts),
        (Room::Unknown, None) => match doubts::emulated_network(facts) {
            Some(doubt) => doubted(facts, doubt),
            None => unknown(facts),
        },
    }
}

/// Returns a finding if the program spends its time on connections that it closes unserved. No
/// other finding says why.
pub(super) fn unserved(facts: &Facts<'_>) -> Option<WhyFinding> {
    let doubt = doubts::mostly_turns_away(facts)?;
    Some(cannot_tell(facts, doubt.sentence, &doubt.next))
}

/// Returns the finding for a program with idle time: nothing is wrong, unless there is evidence to
/// the contrary.
fn idle(facts: &Facts<'_>) -> WhyFinding {
    if let Some(doubt) = doubts::unread_network(facts) {
        return doubted(facts, doubt);
    }
    if let Some(held) = held_up(facts) {
        return held;
    }
    match doubts::doubt(facts) {
        Some(doubt) => doubted(facts, doubt),
        None => nothing_wrong(facts),
    }
}

/// Whether the program's busiest thread has headroom and no packets are lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Left,
    Full,
    Unknown,
}

fn room(facts: &Facts<'_>) -> Room {
    /// Busy fraction below which a thread has headroom. At or above it, the thread may be
    /// saturated, given the measurement error.
    const FULL: f64 = 0.9;
    if facts.is_lossy() {
        return Room::Unknown;
    }
    let Some(thread) = facts.busiest() else {
        let is_read = !facts.ledger.rows.is_empty() || !facts.observation.cpus.is_empty();
        return if is_read { Room::Left } else { Room::Unknown };
    };
    let waiting = thread.share_of(|state| {
        matches!(state, ThreadState::Waiting | ThreadState::Throttled | ThreadState::Stolen)
    });
    match facts.busy(thread) {
        // A thread that waits for a CPU has work to do too.
        Some(busy) if busy.high + waiting < FULL => Room::Left,
        Some(busy) if busy.low >= FULL - 0.1 => Room::Full,
        Some(_) => Room::Unknown,
        None if polls::calls_per_packet(facts, thread).is_some() => Room::Left,
        // The thread runs all the time. If no packets are lost on the way to it, it keeps up.
        None => match facts.ring_loss() {
            // A difference that may result from reading the counters at different times is not a
            // loss.
            Some((_, received)) if received > 0 => Room::Left,
            _ => Room::Unknown,
        },
    }
}

/// Returns a finding for a command that ended before there was anything to observe.
pub(super) fn ended(facts: &Facts<'_>) -> Option<WhyFinding> {
    const TOO_SHORT_S: f64 = 0.2;
    let ended = facts.observation.watched.ended.as_ref()?;
    (facts.elapsed() < TOO_SHORT_S || facts.observation.threads.is_empty()).then(|| {
        let sentence = format!(
            "Cannot tell: {} ended after {:.2} s ({ended}), before it could be observed.",
            facts.observation.watched.name,
            facts.elapsed()
        );
        cannot_tell(facts, sentence, "Start it first, then watch it: linerate why PID")
    })
}

/// Returns a finding for a program whose own counters show no packets at all. The waits of its
/// threads then do not hold up any traffic.
pub(super) fn no_traffic(facts: &Facts<'_>) -> Option<WhyFinding> {
    let program = facts.observation.program.as_ref()?.of_packets()?;
    let counts = [program.received, program.sent, program.missed];
    let is_silent = program.received == Some(0) && counts.into_iter().flatten().all(|n| n == 0);
    (is_silent && !facts.is_lossy()).then(|| nothing_wrong(facts))
}

fn not_predicted(why: &str) -> Gain {
    let percent = Figure::absent("percent", Tier::Model, MODEL, why);
    Gain { percent, then_limited_by: None }
}

fn seen(facts: &Facts<'_>) -> Vec<Evidence> {
    let mut seen = Vec::new();
    if let Some(rate) = facts.packet_rate() {
        seen.push(evidence("packets", rate, "packets/s"));
    }
    if let Some(lost) = facts.ledger.lost() {
        seen.push(evidence("packets lost", lost as f64, "packets"));
    }
    if let Some(thread) = facts.busiest() {
        seen.push(evidence("CPU demand of the busiest thread", thread.demand(), "ratio"));
        if let Some(busy) = facts.busy(thread) {
            seen.push(evidence("time that the busiest thread spends working", busy.value, "ratio"));
        }
    }
    seen
}

/// Returns whether most delivered bytes were application-limited, or the program paused on the
/// connections that carry most of them.
fn sends_less(facts: &Facts<'_>) -> bool {
    let marked = facts.tcp_share(|tcp| tcp.app_limited_share);
    marked.is_some_and(|share| share.value >= 0.5) || doubts::pauses(facts)
}

/// Returns the finding for a doubt, with its evidence.
fn doubted(facts: &Facts<'_>, doubt: Doubt) -> WhyFinding {
    let mut finding = cannot_tell(facts, doubt.sentence, &doubt.next);
    finding.evidence.splice(0..0, doubt.evidence);
    finding
}

fn cannot_tell(facts: &Facts<'_>, sentence: String, next: &str) -> WhyFinding {
    WhyFinding {
        cause: Cause::CannotTell,
        sentence,
        evidence: seen(facts),
        gain: not_predicted("the cause is not known"),
        fix: Some(next.to_owned()),
        workaround: None,
        wrong_if: "that measurement does not identify a cause either".to_owned(),
    }
}

/// Returns the CPU that spends the largest fraction of time in interrupts and softirqs under
/// traffic, and that fraction. This CPU may limit the rate, although its work is not part of the
/// program's time budget.
fn receiving(facts: &Facts<'_>) -> Option<(u32, f64)> {
    /// Minimum fraction of time in interrupts and softirqs, for the lower end of the interval,
    /// which allows for the error of kernel accounting.
    const MOST: f64 = 0.5;
    /// Minimum packet rate. Fewer packets do not keep a CPU busy.
    const PACKETS_PER_S: f64 = 1000.0;
    let received = facts.observation.interfaces.iter().map(|one| one.rx_packets).max();
    let of_interface = received.map(|packets| packets as f64 / facts.elapsed());
    facts.packet_rate().or(of_interface).filter(|rate| *rate >= PACKETS_PER_S)?;
    let busy = facts.observation.cpus.iter().filter(|cpu| share(cpu.interrupts).low >= MOST);
    let busiest = busy.max_by(|a, b| a.interrupts.total_cmp(&b.interrupts))?;
    Some((busiest.cpu, busiest.interrupts))
}

fn busy_receiving(facts: &Facts<'_>, cpu: u32, share: f64) -> WhyFinding {
    let sentence = format!(
        "Cannot tell which of firewall_rules, napi_budget, one_receive_cpu and nothing_wrong \
         applies: CPU {cpu} spends {} % of its time in softirqs, before the packets reach {}.",
        percent(share),
        facts.observation.watched.name
    );
    let next = format!("Profile CPU {cpu}: sudo perf record -a -C {cpu}");
    cannot_tell(facts, sentence, &next)
}

fn suspected(facts: &Facts<'_>, suspects: &[Suspect]) -> WhyFinding {
    if let Some(finding) = lost_at_socket(facts) {
        return finding;
    }
    // Whether the interrupts are due to the program's packets depends on its packet count.
    let are_interrupts = suspects.iter().all(|one| one.rule.cause == Cause::InterruptLoad);
    if let Some(thread) = facts.busiest().filter(|_| are_interrupts)
        && let Some(finding) = unknown_datagrams(facts, thread, "")
    {
        return finding;
    }
    let mut names: Vec<&str> = suspects.iter().map(|one| one.rule.cause.name()).collect();
    names.dedup();
    let mut next: Vec<&str> = suspects.iter().map(|one| one.rule.measure).collect();
    next.dedup();
    let thread = facts.busiest().map_or_else(String::new, |thread| {
        format!(" Thread {} {}.{}", label(thread), doing(facts, thread), waiting(thread))
    });
    let sentence = match names.as_slice() {
        [one] => {
            format!(
                "Cannot tell whether {one} is the cause: the data that would show it could not be \
                 read.{thread}"
            )
        }
        _ => format!(
            "Cannot tell which of {} applies: the data that would distinguish them could not be \
             read.{thread}",
            names.join(", ")
        ),
    };
    let by_root = match facts.is_unread("system_calls_asleep") {
        true => format!("Run `{}`, or measure", doubts::read_by_root(facts)),
        false => "Measure".to_owned(),
    };
    cannot_tell(facts, sentence, &format!("{by_root} {}", next.join("; ")))
}

/// Describes in a few words what a thread is doing.
fn doing(facts: &Facts<'_>, thread: &ThreadActivity) -> String {
    let kernel = M::KernelShare.of(facts, Subject::Thread(thread));
    let kernel = kernel.map_or_else(String::new, |kernel| {
        format!(", {} % of that in the kernel", percent(kernel.value))
    });
    format!(
        "is on a CPU {} % of the time{kernel}",
        percent(thread.share_of(ThreadState::is_on_cpu))
    )
}

/// Returns a sentence about the time that a thread waits for a CPU; empty if the time is short.
fn waiting(thread: &ThreadActivity) -> String {
    /// Minimum share; well above the error of kernel accounting.
    const MATTERS: f64 = 0.1;
    match thread.share_of(|state| state == ThreadState::Waiting) {
        share if share >= MATTERS => {
            format!(" It waits for a CPU {} % of the time.", percent(share))
        }
        _ => String::new(),
    }
}

/// Returns the finding for a thread that is always busy with work that no rule covers.
fn full(facts: &Facts<'_>) -> WhyFinding {
    /// Minimum fraction of CPU time in copies at which they matter.
    const COPIES: f64 = 0.25;
    let Some(thread) = facts.busiest() else { return unknown(facts) };
    if let Some(finding) = background(facts, thread) {
        return finding;
    }
    if let Some(doubt) = polls::spins(facts, thread) {
        return cannot_tell(facts, doubt.sentence, &doubt.next);
    }
    let copies = facts.functions(thread, Group::UserCopy).map_or(0.0, |copies| copies.value);
    if let Some(finding) = in_kernel(facts, thread).filter(|_| copies < COPIES) {
        return finding;
    }
    let nameless: f64 = thread.functions.iter().filter(|f| is_nameless(f)).map(|f| f.share).sum();
    let doubt = match (copies >= COPIES, nameless >= 0.5) {
        (true, _) => {
            "Cannot tell which of copying and cache_misses applies: the copies may be stalled on \
             memory"
        }
        (_, true) => {
            "Cannot tell which of processing_cost and cache_misses applies: most samples are in \
             functions without symbols"
        }
        _ => "Cannot tell which of processing_cost, cache_misses and false_sharing applies",
    };
    let sentence = format!(
        "{doubt}. Thread {} {}, and is busy whenever it runs.{}",
        label(thread),
        doing(facts, thread),
        waiting(thread)
    );
    let threads =
        if facts.working().count() > 1 { "; also compare the rate with one thread" } else { "" };
    let next = format!(
        "linerate profile {0} shows the hot functions and what bounds them; with hardware \
         counters, run linerate stat --pid {0} -m cache; or check whether the rate rises when less \
         data is in use (fewer or smaller buffers){threads}",
        thread.pid
    );
    cannot_tell(facts, sentence, &next)
}

fn unknown(facts: &Facts<'_>) -> WhyFinding {
    /// A thread needs more CPU time than it gets if it runs or waits for a CPU at least `WANTS` of
    /// the time, and waits for a CPU at least `WAITS` of the time.
    const WANTS: f64 = 0.85;
    const WAITS: f64 = 0.1;
    /// Share of time spent waiting for a CPU at which the wait matters even if the thread hardly
    /// runs.
    const WAITS_LONG: f64 = 0.25;
    let lost = facts.ledger.largest().filter(|_| facts.is_lossy());
    let lost = lost.map(|place| {
        let packets = grouped(place.packets);
        format!(" {packets} packets were lost at {}: {}.", place.row.of, place.reason)
    });
    let lost = lost.unwrap_or_default();
    let Some(thread) = facts.busiest() else {
        let sentence = format!("Cannot tell: neither threads nor counters could be read.{lost}");
        return cannot_tell(
            facts,
            sentence,
            "Watch one of your own processes, or run linerate as root",
        );
    };
    if let Some(doubt) = polls::spins(facts, thread).filter(|_| lost.is_empty()) {
        return cannot_tell(facts, doubt.sentence, &doubt.next);
    }
    let runs = share(thread.share_of(ThreadState::is_on_cpu));
    let waits = thread.share_of(|state| state == ThreadState::Waiting);
    let wants_much = runs.value + waits >= WANTS && waits >= WAITS;
    if wants_much || waits >= WAITS_LONG {
        let sentence = format!(
            "Cannot tell how fast the program would be with a CPU to itself: thread {} needs a CPU \
             {} % of the time, but waits for one {} % of the time.{}{lost}",
            label(thread),
            percent(runs.value + waits),
            percent(waits),
            remarks::on_work(facts, thread)
        );
        let next = format!(
            "Give the thread a dedicated CPU: pin it (taskset -cp CPU {}) and move other threads \
             off that CPU; --details lists what ran there instead",
            thread.tid
        );
        return cannot_tell(facts, sentence, &next);
    }
    let always = runs.value >= 0.5 && facts.busy(thread).is_none();
    if let Some(doubt) = doubts::before_sockets(facts).filter(|_| !lost.is_empty()) {
        return doubted(facts, doubt);
    }
    if let Some(finding) = unknown_datagrams(facts, thread, &lost) {
        return finding;
    }
    if let (true, Some(doubt)) = (lost.is_empty() && !always, doubts::full_machine(facts)) {
        return doubted(facts, doubt);
    }
    let (why, next) = unknown_reason(facts, always, runs.value, !lost.is_empty());
    let one = if always { String::new() } else { one_cpu(facts) };
    let sentence =
        format!("Cannot tell {why}. Thread {} {}.{one}{lost}", label(thread), doing(facts, thread));
    cannot_tell(facts, sentence, next)
}

/// Returns what is not known about a program, and what to do next. `runs` is the fraction of time
/// that its busiest thread is on a CPU; `is_polling` is whether that thread may be busy-polling.
fn unknown_reason(
    facts: &Facts<'_>,
    is_polling: bool,
    runs: f64,
    is_lossy: bool,
) -> (&'static str, &'static str) {
    match (is_polling, facts.packets()) {
        (true, None) => (
            "whether the program is working or busy-polling: no counter reports its packets",
            "Compare the program's own packet counts at two offered loads",
        ),
        (true, Some(_)) => (
            "whether the program is working or busy-polling: the load did not vary, or there were \
             too few samples",
            "Watch for longer (-t 30s), while the load changes",
        ),
        (false, _) if is_lossy => (
            "why packets were lost",
            match (lost_in_ring(facts), facts.is_unread("tracepoints")) {
                (Some(next), _) => next,
                (None, true) => {
                    "Watch for longer, and as root to see drop reasons: sudo linerate why -t 30s"
                }
                (None, false) => "Watch for longer (-t 30s)",
            },
        ),
        (false, _) if runs >= 0.85 => (
            "whether the busiest thread's CPU is the bottleneck, within the error of CPU \
             accounting",
            "Watch for longer (-t 30s), or see whether a second thread or process raises the rate",
        ),
        (false, _) => (
            "what limits the program: it is neither busy all the time nor clearly idle",
            "Watch for longer (-t 30s), at a higher load or, if the load generator already waits \
             for each reply, with more connections",
        ),
    }
}

/// Returns what to do if most losses are in the receive ring of a program that reports its packets.
fn lost_in_ring(facts: &Facts<'_>) -> Option<&'static str> {
    facts.observation.program.as_ref().and_then(ProgramCounts::of_packets)?;
    let (lost, received) = facts.ring_loss()?;
    let is_lossy = lost as f64 > super::facts::LOST * (lost + received) as f64;
    let is_most = facts.ledger.lost().is_none_or(|all| 2 * lost >= all);
    (is_lossy && is_most).then_some(
        "Enlarge the receive ring and watch again: framecnt= for net_af_packet, --rxd for a DPDK \
         port, ethtool -G for a NIC; if just as many packets are lost, the program is too slow",
    )
}
