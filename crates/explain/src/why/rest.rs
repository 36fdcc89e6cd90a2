// SPDX-License-Identifier: MIT OR Apache-2.0
//! Findings where no rule holds: that nothing is wrong, that the generator or this tool is the
//! limit, or that the observation does not single out a cause.

use super::Suspect;
use super::doubts;
use super::facts::{Facts, Subject, share, share_of};
use super::functions::{Group, is_nameless};
use super::gain;
use super::measure::Measure as M;
use super::queues;
use super::waits::{self, Wait};
use super::words::{label, percent};
use linerate_record::answers::Evidence;
use linerate_record::stats::Estimate;
use linerate_record::units::{BitsPerSecond, Kpps};
use linerate_record::why::{Cause, Gain, ThreadActivity, ThreadState, WhyFinding};
use linerate_record::{Figure, Tier};

const MODEL: &str = "until the busiest thread is 100 % busy";

/// CPU time above which the observer itself may be the limit.
const OBSERVER: f64 = 0.05;

/// The observer takes CPU time that a program needs.
pub(super) fn observer(facts: &Facts<'_>) -> Option<WhyFinding> {
    let observer = share_of(&facts.observation.observer)?;
    let is_full = facts.idle_cpus().is_some_and(|idle| idle < 0.05 * facts.cpus() as f64);
    (observer.low >= OBSERVER && is_full).then(|| WhyFinding {
        cause: Cause::ObserverLimit,
        sentence: format!(
            "Observation took {} % of a CPU while no CPU was idle: the rates are lower than they \
             would be without it.",
            percent(observer.value)
        ),
        evidence: vec![evidence("CPU time of the observer", observer.value, "ratio")],
        gain: not_predicted("a measurement with less overhead will show the real rate"),
        fix: Some("Watch one process, or fewer threads, for longer".to_owned()),
        workaround: None,
        wrong_if: "the program's own rate stays the same without `linerate why`".to_owned(),
    })
}

/// The finding if no rule with a worthwhile gain holds.
pub(super) fn rest(facts: &Facts<'_>, suspects: &[Suspect]) -> WhyFinding {
    if let Some(ended) = ended(facts) {
        return ended;
    }
    if limit_reached(facts).is_some() {
        return nothing_wrong(facts);
    }
    let room = room(facts);
    if let (Room::Left | Room::Unknown, Some(doubt)) = (room, queues::queued(facts)) {
        return cannot_tell(facts, doubt.sentence, &doubt.next);
    }
    if let (Room::Unknown, Some(doubt)) = (room, doubts::shared_cpu(facts)) {
        return cannot_tell(facts, doubt.sentence, &doubt.next);
    }
    match room {
        Room::Left if suspects.is_empty() => match (generator(facts), receiving(facts)) {
            (Some(cpu), _) => generator_limit(facts, cpu),
            (None, Some((cpu, share))) => busy_receiving(facts, cpu, share),
            (None, None) => idle(facts),
        },
        Room::Left | Room::Full | Room::Unknown if !suspects.is_empty() => {
            suspected(facts, suspects)
        }
        Room::Left => idle(facts),
        Room::Full => full(facts),
        Room::Unknown => unknown(facts),
    }
}

/// The program has time left: nothing is wrong, unless there is evidence to the contrary.
fn idle(facts: &Facts<'_>) -> WhyFinding {
    if let Some(held) = held_up(facts) {
        return held;
    }
    match doubts::doubt(facts) {
        Some(doubt) => cannot_tell(facts, doubt.sentence, &doubt.next),
        None => nothing_wrong(facts),
    }
}

/// Whether the busiest thread has time left, and none of the program's packets is lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Left,
    Full,
    Unknown,
}

fn room(facts: &Facts<'_>) -> Room {
    /// A thread that works less has time left; one that works more may, within the error, have
    /// none.
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
        // A thread that waits for a CPU has work to do, too.
        Some(busy) if busy.high + waiting < FULL => Room::Left,
        Some(busy) if busy.low >= FULL - 0.1 => Room::Full,
        Some(_) => Room::Unknown,
        // The thread always runs. That nothing was lost on the way to it shows that it keeps up.
        None => match facts.ring_loss() {
            // A difference no larger than that between counters read at slightly different times is
            // not a loss.
            Some((_, received)) if received > 0 => Room::Left,
            _ => Room::Unknown,
        },
    }
}

/// A command that ended before there was anything to observe.
fn ended(facts: &Facts<'_>) -> Option<WhyFinding> {
    const TOO_SHORT_S: f64 = 0.2;
    let ended = facts.observation.watched.ended.as_ref()?;
    (facts.elapsed() < TOO_SHORT_S || facts.observation.threads.is_empty()).then(|| {
        let sentence = format!(
            "Cannot tell: {} ended after {:.2} s ({ended}), before there was anything to watch.",
            facts.observation.watched.name,
            facts.elapsed()
        );
        cannot_tell(facts, sentence, "Start it first, then watch it: linerate why PID")
    })
}

fn evidence(name: &str, value: f64, unit: &str) -> Evidence {
    Evidence {
        name: name.to_owned(),
        value: if value.is_finite() { value } else { 0.0 },
        unit: unit.to_owned(),
        source: "tier sw".to_owned(),
    }
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
            seen.push(evidence("time the busiest thread works", busy.value, "ratio"));
        }
    }
    seen
}

/// The limit is the offered load, the peer, or a requested limit.
fn nothing_wrong(facts: &Facts<'_>) -> WhyFinding {
    let observation = facts.observation;
    let rate = facts.packet_rate();
    let room = gain::room(facts, Subject::Program);
    let left = match (&room, facts.busiest()) {
        (Some(room), Some(thread)) => {
            let busy = facts.busy(thread).map_or(0.0, |busy| busy.value);
            format!(
                " Its busiest thread, {}, works {} of the time: headroom for {}.",
                label(thread),
                if busy < 0.01 { "under 1 %".to_owned() } else { format!("{} %", percent(busy)) },
                load(room)
            )
        }
        (None, Some(thread)) => format!(
            " Thread {} is always running; its share of polling is unknown, and so is its \
             headroom.",
            label(thread)
        ),
        _ => String::new(),
    };
    let sentence = match (limit_reached(facts), rate) {
        (Some(line), _) => {
            format!("Nothing is wrong: it is at the requested line rate, {line}.")
        }
        (None, Some(rate)) if rate >= 1.0 => {
            let limit = if sends_less(facts) {
                "its connections have nothing more to send"
            } else {
                "the offered load sets the rate"
            };
            let rate = Kpps(rate / 1e3);
            format!("Nothing is wrong: {limit}, {rate}, and {}.", losses(facts))
        }
        _ if observation.threads.is_empty() => {
            "Nothing is wrong: no packet was lost where losses are counted.".to_owned()
        }
        _ => "Nothing is wrong: it has headroom and nothing more to do.".to_owned(),
    };
    let percent = Figure::exact("percent", 0.0, Tier::Model, "there is nothing to remove");
    let next = "with a higher offered load, the rate stays the same or packets are lost";
    WhyFinding {
        cause: Cause::NothingWrong,
        sentence: sentence + &left,
        evidence: seen(facts),
        gain: Gain { percent, then_limited_by: Some("the offered load".to_owned()) },
        fix: None,
        workaround: None,
        wrong_if: next.to_owned(),
    }
}

/// The losses, which are too small to matter.
fn losses(facts: &Facts<'_>) -> String {
    match facts.ledger.lost() {
        Some(0) | None => "no packet was lost".to_owned(),
        Some(1) => "1 packet was lost".to_owned(),
        Some(lost) => format!("{lost} packets were lost"),
    }
}

/// A thread that sleeps for reasons other than a lack of input: it may be the limit although it has
/// time left.
fn held_up(facts: &Facts<'_>) -> Option<WhyFinding> {
    /// Share of its time above which such sleep may set the rate.
    const MUCH: f64 = 0.3;
    /// A program that uses a timer to check for packets now and then sleeps more often per packet.
    const SLEEPS_PER_PACKET: f64 = 3.0;
    let thread = facts.busiest()?;
    let packets = facts.packets().filter(|packets| *packets > 0)?;
    let time_in = |wait| waits::time_in(thread, wait).unwrap_or(0.0);
    let sleeps = thread.voluntary_switches as f64 / packets as f64;
    let (on, between) = if time_in(Wait::Timer) >= MUCH {
        let paces = sleeps <= SLEEPS_PER_PACKET && !sends_less(facts);
        (paces.then_some("on a timer")?.to_owned(), "timer_sleep")
    } else if time_in(Wait::Storage) >= MUCH {
        (format!("in {}", waits::longest_in(thread, Wait::Storage)?), "waiting_for_storage")
    } else if time_in(Wait::Other) >= MUCH {
        let on = waits::longest_in(thread, Wait::Other)?;
        // Connections have their own rules: windows, buffers, limiters.
        (!on.contains("(tcp ")).then_some((format!("in {on}"), "a wait for something else"))?
    } else {
        return None;
    };
    let sentence = format!(
        "Cannot tell {between} and nothing_wrong apart: thread {} sleeps {on} for {} % of its \
         time, {sleeps:.2} sleeps per packet, and is not waiting for input.",
        label(thread),
        percent(
            MUCH.max(time_in(Wait::Timer)).max(time_in(Wait::Storage)).max(time_in(Wait::Other))
        )
    );
    let next = format!(
        "Shorten that wait and compare the rates; strace -f -T -p {} shows each call",
        thread.tid
    );
    Some(cannot_tell(facts, sentence, &next))
}

/// Multiple of the current load for which there is room.
fn load(room: &Estimate) -> String {
    /// Larger gains are not predicted.
    const MOST_PERCENT: f64 = 9900.0;
    match (times(room.low), times(room.high)) {
        (low, high) if low == high || room.high >= MOST_PERCENT => {
            format!("{low} times the load or more")
        }
        (low, high) => format!("{low} to {high} times the load"),
    }
}

/// Converts a gain in percent to a factor.
fn times(percent: f64) -> String {
    match 1.0 + percent / 100.0 {
        times if times >= 100.0 => "100".to_owned(),
        times if times >= 10.0 => format!("{times:.0}"),
        times => format!("{times:.1}"),
    }
}

/// The requested line rate, if the rate has reached it.
fn limit_reached(facts: &Facts<'_>) -> Option<String> {
    /// Allowance for gaps and headers, which byte counters do not include.
    const OF_LINE: f64 = 0.85;
    let line = facts.observation.watched.line_bits_per_s?;
    let of_interface = |rate: u64| 8.0 * rate as f64 / facts.elapsed();
    let rates = facts.observation.interfaces.iter();
    let most = rates.map(|i| of_interface(i.rx_bytes.max(i.tx_bytes))).fold(0.0, f64::max);
    (most >= OF_LINE * line).then(|| BitsPerSecond(line).to_string())
}

/// Whether most of the delivered bytes were limited by the application.
fn sends_less(facts: &Facts<'_>) -> bool {
    facts.tcp_share(|tcp| tcp.app_limited_share).is_some_and(|share| share.value >= 0.5)
}

/// A CPU filled by another program while the traffic is generated on this machine.
fn generator(facts: &Facts<'_>) -> Option<u32> {
    /// All of its time, allowing for accounting that is off by a tenth.
    const FULL: f64 = 0.05;
    /// The peers' share of what a full CPU runs, with the same error and a small allowance for
    /// other threads.
    const PEERS: f64 = 0.7;
    let rate = facts.packet_rate().unwrap_or(0.0);
    let is_local = facts.observation.sockets.iter().any(|socket| socket.peer_pid.is_some());
    let sends_itself = facts.connections().filter_map(|socket| socket.tcp.as_ref());
    let sends =
        sends_itself.map(|tcp| tcp.bytes_acked as i64 - tcp.bytes_received as i64).sum::<i64>();
    let is_source = sends > 0;
    if rate < 1000.0 || !is_local || is_source {
        return None;
    }
    let own = |cpu: u32| -> f64 {
        let here = facts.observation.threads.iter().filter(|t| t.ran_on.first() == Some(&cpu));
        here.map(|thread| thread.share_of(ThreadState::is_on_cpu)).sum()
    };
    // A CPU may be fully used by work that has nothing to do with the traffic.
    let peers: f64 = facts.observation.peers.iter().map(|peer| peer.cpus).sum();
    let full = facts.observation.cpus.iter().filter(|cpu| cpu.idle < FULL && own(cpu.cpu) < 0.3);
    let of_peers = full.filter(|cpu| peers >= PEERS * (cpu.user + cpu.system));
    of_peers.map(|cpu| cpu.cpu).min()
}

fn generator_limit(facts: &Facts<'_>, cpu: u32) -> WhyFinding {
    let peers = &facts.observation.peers;
    let used: f64 = peers.iter().map(|peer| peer.cpus).sum();
    let sender = peers.first().map_or_else(String::new, |p| format!(", {} ({}),", p.name, p.pid));
    let mut seen = seen(facts);
    seen.push(evidence("CPU time of its peers on this machine", used, "CPUs"));
    WhyFinding {
        cause: Cause::GeneratorLimit,
        sentence: format!(
            "The traffic sender{sender} is at its limit: CPU {cpu} of this machine is fully busy \
             even excluding {}, which has headroom and drops nothing.",
            facts.observation.watched.name
        ),
        evidence: seen,
        gain: not_predicted("it depends on the generator"),
        fix: Some(
            "Increase the offered load: a second generator, or one on another machine".to_owned(),
        ),
        workaround: None,
        wrong_if: "with a second generator, the rate stays the same".to_owned(),
    }
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

/// The CPU that spends most time in interrupts and softirqs while packets pass, with its share: the
/// rate may be limited there, before the program, by work that the program's time does not show.
fn receiving(facts: &Facts<'_>) -> Option<(u32, f64)> {
    /// More than half, to within the error of the kernel's accounting.
    const MOST: f64 = 0.5;
    /// Fewer packets do not keep a CPU busy.
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
        "Cannot tell firewall_rules, napi_budget, one_receive_cpu and nothing_wrong apart: CPU \
         {cpu} spends {} % of its time in softirqs, before the packets reach {}.",
        percent(share),
        facts.observation.watched.name
    );
    let next = format!("Measure what CPU {cpu} does there: sudo perf record -a -C {cpu}");
    cannot_tell(facts, sentence, &next)
}

/// Causes whose symptoms are present.
fn suspected(facts: &Facts<'_>, suspects: &[Suspect]) -> WhyFinding {
    let mut names: Vec<&str> = suspects.iter().map(|one| one.rule.cause.name()).collect();
    names.dedup();
    let mut next: Vec<&str> = suspects.iter().map(|one| one.rule.measure).collect();
    next.dedup();
    let thread = facts.busiest().map_or_else(String::new, |thread| {
        format!(" Thread {} {}.", label(thread), doing(facts, thread))
    });
    let sentence = match names.as_slice() {
        [one] => {
            format!(
                "Cannot tell whether {one} is the cause: the data that would show it could not be \
                 read.{thread}"
            )
        }
        _ => format!(
            "Cannot tell {} apart: the data that would distinguish them could not be read.{thread}",
            names.join(", ")
        ),
    };
    cannot_tell(facts, sentence, &format!("Measure {}", next.join("; ")))
}

/// What a thread is doing, in a few words.
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

/// A thread that works all the time, without a rule that says on what.
fn full(facts: &Facts<'_>) -> WhyFinding {
    let Some(thread) = facts.busiest() else { return unknown(facts) };
    let copies = facts.functions(thread, Group::UserCopy).map_or(0.0, |copies| copies.value);
    let nameless: f64 = thread.functions.iter().filter(|f| is_nameless(f)).map(|f| f.share).sum();
    let between = match (copies >= 0.25, nameless >= 0.5) {
        (true, _) => "copying and cache_misses apart: its copies may be stalled on memory",
        (_, true) => "processing_cost and cache_misses apart: its functions have no names",
        _ => "processing_cost, cache_misses and false_sharing apart",
    };
    let sentence = format!(
        "Cannot tell {between}. Thread {} {}, and is busy all of that time.",
        label(thread),
        doing(facts, thread)
    );
    let next = "Run linerate stat --pid PID -m cache (hardware counters), or perf c2c for cache \
                lines that threads share, or compare the rate with fewer buffers and with one \
                thread";
    cannot_tell(facts, sentence, next)
}

fn unknown(facts: &Facts<'_>) -> WhyFinding {
    let lost = facts.ledger.largest().filter(|_| facts.is_lossy());
    let lost = lost.map(|place| {
        format!(" {} packets were lost at {}: {}.", place.packets, place.row.of, place.reason)
    });
    let lost = lost.unwrap_or_default();
    let Some(thread) = facts.busiest() else {
        let sentence = format!("Cannot tell: neither threads nor counters could be read.{lost}");
        return cannot_tell(
            facts,
            sentence,
            "Watch a process of your own, or run linerate as root",
        );
    };
    let runs = share(thread.share_of(ThreadState::is_on_cpu));
    let always = runs.value >= 0.5 && facts.busy(thread).is_none();
    let (why, next) = match (always, facts.packets()) {
        (true, None) => (
            "whether it works or polls: no counter reports its packets",
            "Measure its packet rate at two offered loads, from its own statistics",
        ),
        (true, Some(_)) => (
            "whether it works or polls: the load did not vary, or there were too few samples",
            "Watch for longer (-t 30s), while the load changes",
        ),
        (false, _) if !lost.is_empty() => (
            "why packets were lost",
            match facts.is_unread("tracepoints") {
                true => {
                    "Watch for longer (-t 30s) as root, which adds drop reasons: sudo linerate why"
                }
                false => "Watch for longer (-t 30s)",
            },
        ),
        (false, _) => (
            "what limits it: it is neither busy all the time nor clearly idle",
            "Watch for longer (-t 30s), at a higher load",
        ),
    };
    let sentence =
        format!("Cannot tell {why}. Thread {} {}.{lost}", label(thread), doing(facts, thread));
    cannot_tell(facts, sentence, next)
}
