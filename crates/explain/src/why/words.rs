// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills in the placeholders in rule texts.

mod avoidable;
mod evidence;
mod faults;
mod losses;
mod moves;
mod others;
mod samples;
mod servers;
mod stops;

pub(super) use self::evidence::evidence;
use self::others::who;
use self::samples::{functions, idle_twins, line};
use self::servers::{
    collector_fix, combine, lock_fix, lock_holder, times_asked, watch_peer, watch_server,
};
use super::facts::{Facts, Subject};
use super::functions::Group;
use super::locks;
use super::measure::{Measure as M, fullest, stopped_by_peer};
use super::requests;
use super::waits::{self, Wait, longest_in};
use crate::rule::filled;
use linerate_record::stats::Estimate;
use linerate_record::units::{BitsPerSecond, grouped, three_digits};
use linerate_record::why::{InterfaceCounts, QdiscCounts, ThreadActivity};
pub(super) use losses::conntrack_fix;

/// Returns `text` with every `{name}` replaced by its value, or by `-` if it has none.
pub(super) fn fill<'a>(text: &str, facts: &Facts<'a>, subject: Subject<'a>) -> String {
    filled(text, |name| value(name, facts, subject))
}

/// Placeholders that a text may contain.
#[cfg(test)]
pub(super) const NAMES: &[&str] = &[
    "program",
    "as_root",
    "line_option",
    "thread",
    "tid",
    "pid",
    "cpu",
    "interface",
    "qdisc",
    "remove_qdisc",
    "limit",
    "socket",
    "drops",
    "accept_queue",
    "buffer",
    "quota",
    "quota_cpus",
    "no_quota",
    "who",
    "longest",
    "losses",
    "lost",
    "card_lost",
    "backlog_lost",
    "cost",
    "functions",
    "mean_wait",
    "line",
    "working_set",
    "storage",
    "storage_fix",
    "connection",
    "pacing_limit",
    "peer_window",
    "watch_peer",
    "loss_place",
    "meanwhile_waits",
    "or_move_others",
    "awaited_server",
    "watch_server",
    "times_asked",
    "combine",
    "lock_call",
    "lock_holder",
    "lock_fix",
    "collector_fix",
    "descriptors",
    "filter_drops",
    "idle_twins",
];

fn value<'a>(name: &str, facts: &Facts<'a>, subject: Subject<'a>) -> Option<String> {
    of_subject(name, facts, subject)
        .or_else(|| of_thread(name, facts, subject))
        .or_else(|| of_measure(name, facts, subject))
        .or_else(|| avoidable::value(name, facts, subject))
}

fn of_subject<'a>(name: &str, facts: &Facts<'a>, subject: Subject<'a>) -> Option<String> {
    match (name, subject) {
        ("program", _) => Some(facts.observation.watched.name.clone()),
        ("as_root", _) => Some(as_root(facts)),
        ("cpu", _) => facts
            .cpu(subject)
            .map(|cpu| cpu.cpu)
            .or_else(|| facts.thread(subject)?.ran_on.first().copied())
            .map(|cpu| cpu.to_string()),
        ("interface", Subject::Interface(of) | Subject::Qdisc(of, _)) => Some(of.name.clone()),
        ("card_lost", Subject::Interface(of)) => Some(grouped(of.rx_missed)),
        ("qdisc", Subject::Qdisc(_, qdisc)) => Some(qdisc.kind.clone()),
        ("remove_qdisc", Subject::Qdisc(of, qdisc)) => Some(remove(facts, of, qdisc)),
        ("limit", Subject::Qdisc(_, qdisc)) => {
            Some(BitsPerSecond(qdisc.rate_bits_per_s?).to_string())
        }
        ("line_option", Subject::Qdisc(..) | Subject::Socket(_)) => {
            let limit = of_subject("limit", facts, subject);
            let limit = limit.or_else(|| of_subject("pacing_limit", facts, subject))?;
            Some(format!("--line {}", limit.replace(' ', "")))
        }
        ("filter_drops", Subject::Qdisc(_, qdisc)) => Some(grouped(qdisc.drops)),
        ("overlimits", Subject::Qdisc(_, qdisc)) => Some(grouped(qdisc.overlimits)),
        ("socket", Subject::Socket(of)) => {
            Some(format!("Socket {} ({})", of.local, facts.observation.watched.name))
        }
        ("connection", Subject::Socket(of)) => Some(match &of.remote {
            Some(remote) => format!("{} to {remote}", of.local),
            None => of.local.clone(),
        }),
        ("pacing_limit", Subject::Socket(of)) => {
            let limit = of.tcp.as_ref()?.pacing_limit_bytes_per_s?;
            Some(BitsPerSecond(8.0 * limit).to_string())
        }
        ("peer_window", _) => {
            let (_, stopped) = stopped_by_peer(facts)?;
            Some(match stopped.peer_window_max? {
                0 => "zero in every reading".to_owned(),
                largest => {
                    format!("{} at most", linerate_record::units::memory_size(largest as f64))
                }
            })
        }
        ("loss_place", _) => Some(match facts.ledger.largest() {
            Some(place) => {
                format!(
                    " {} were lost at {}: {}.",
                    grouped(place.packets),
                    place.row.of,
                    place.reason
                )
            }
            None => String::new(),
        }),
        ("drops", Subject::Socket(of)) => Some(grouped(of.buffer_drops(facts.observation)?)),
        ("accept_queue", Subject::Socket(of)) => Some(format!("{:.0}", of.send_queue_mean)),
        ("buffer", Subject::Socket(of)) => Some(match of.receive_buffer {
            Some(bytes) => linerate_record::units::memory_size(bytes as f64),
            None => "of unknown size".to_owned(),
        }),
        ("quota", Subject::Quota(quota)) => Some(quota.group.clone()),
        ("quota_cpus", Subject::Quota(quota)) => Some(three_digits(quota.cpus)),
        ("no_quota", Subject::Quota(quota)) => {
            let files = || "cpu.max (cgroup v2) or cpu.cfs_quota_us (v1)".to_owned();
            Some(quota.removal.clone().unwrap_or_else(files))
        }
        ("backlog_lost", Subject::Cpu(cpu)) => Some(grouped(cpu.backlog_dropped)),
        ("lost", _) => Some(grouped(facts.ring_loss()?.0)),
        _ => of_program(name, facts),
    }
}

/// Returns the value of a placeholder that does not depend on the subject; `None` for others.
fn of_program(name: &str, facts: &Facts<'_>) -> Option<String> {
    match name {
        "descriptors" => Some(grouped(fullest(facts)?.limit)),
        "lock_call" => Some(locks::queue(facts)?.call),
        "lock_holder" => Some(lock_holder(facts)),
        "lock_fix" => Some(lock_fix(facts)),
        "watch_peer" => Some(watch_peer(facts)),
        "watch_server" => Some(watch_server(facts)),
        "times_asked" => Some(times_asked(facts)),
        "combine" => Some(combine(facts).to_owned()),
        "awaited_server" => requests::server(facts).map(str::to_owned),
        _ => losses::value(name, facts)
            .or_else(|| others::bulk(name, facts))
            .or_else(|| faults::value(name, facts)),
    }
}

fn of_thread<'a>(name: &str, facts: &Facts<'a>, subject: Subject<'a>) -> Option<String> {
    let thread = facts.thread(subject)?;
    match name {
        "thread" => Some(label(thread)),
        "pid" => Some(thread.pid.to_string()),
        "tid" => Some(thread.tid.to_string()),
        "who" => Some(who(facts, thread)),
        "longest" => Some(match thread.ran_instead.iter().map(|r| r.longest_s).reduce(f64::max) {
            Some(seconds) => milliseconds(seconds * 1e3),
            None => "the gaps".to_owned(),
        }),
        "losses" => Some(losses_meanwhile(facts)),
        "meanwhile_waits" => Some(meanwhile_waits(facts, subject, thread).unwrap_or_default()),
        "or_move_others" => Some(match meanwhile_waits(facts, subject, thread) {
            Some(_) => {
                format!(". Or keep other threads off its CPU: {}", moves::command(facts, thread)?)
            }
            None => String::new(),
        }),
        "mean_wait" => Some(milliseconds(M::MeanWait.of(facts, subject)?.value / 1e3)),
        "cost" => Some(match thread.cost_ns.as_number() {
            Some(ns) => format!("{} ns", three_digits(ns)),
            None => {
                let on_cpu = Facts::on_cpu(thread)?.value * facts.elapsed() * 1e9;
                let packets = facts.packets().filter(|packets| *packets > 0)?;
                format!("{} ns", three_digits(on_cpu / packets as f64))
            }
        }),
        "functions" => Some(functions(thread)),
        "collector_fix" => Some(collector_fix(facts)),
        "idle_twins" => Some(idle_twins(facts, thread)),
        "storage" => longest_in(thread, Wait::Storage),
        "storage_fix" => Some(waits::storage_fix(thread).to_owned()),
        "line" => Some(line(facts, thread)),
        "working_set" => {
            let bytes = thread.memory.as_ref()?.working_set_bytes.estimate()?;
            let size = linerate_record::units::memory_size;
            Some(format!("about {} (at least {})", size(bytes.value), size(bytes.low)))
        }
        _ => moves::value(name, facts, thread)
            .or_else(|| others::value(name, facts, thread))
            .or_else(|| stops::value(name, thread)),
    }
}

/// Returns the prefix for commands that change the program's network namespace.
fn as_root(facts: &Facts<'_>) -> String {
    let watched = &facts.observation.watched;
    match watched.pids.first() {
        Some(pid) if watched.is_in_other_namespace => format!("sudo nsenter -t {pid} -n"),
        _ => "sudo".to_owned(),
    }
}

/// Returns the command that removes a queueing discipline. If its place is not in the record and
/// the interface has several, any of them may be the root.
fn remove(facts: &Facts<'_>, interface: &InterfaceCounts, qdisc: &QdiscCounts) -> String {
    let (as_root, name, handle) = (as_root(facts), &interface.name, &qdisc.handle);
    match (interface.qdiscs.iter().filter(|one| !one.is_filter()).count(), &qdisc.parent) {
        (1, _) => format!("{as_root} tc qdisc del dev {name} root"),
        (_, Some(parent)) => {
            format!("{as_root} tc qdisc del dev {name} parent {parent} handle {handle}")
        }
        _ => format!(
            "{as_root} tc qdisc del dev {name} parent PARENT handle {handle}, or root instead of \
             parent PARENT (tc qdisc show dev {name} shows which)"
        ),
    }
}

/// Returns a sentence on the packets that were lost on their way to the program; empty if none
/// were.
fn losses_meanwhile(facts: &Facts<'_>) -> String {
    if let Some((lost, received)) = facts.ring_loss().filter(|(lost, _)| *lost > 0) {
        let share = percent(lost as f64 / (lost + received) as f64);
        return format!(
            " Meanwhile, {} packets ({share} %) were lost because the program's ring was full.",
            grouped(lost)
        );
    }
    let largest = facts.ledger.largest().filter(|_| facts.is_lossy());
    let Some((place, share)) = largest.zip(facts.receive_loss()) else { return String::new() };
    format!(
        " Meanwhile, {} packets ({} % of those received or lost) were lost at {}: {}.",
        grouped(place.packets),
        percent(share.value),
        place.row.of,
        place.reason
    )
}

/// Returns a sentence on how long a receiver waits for its CPU while its buffer fills; `None` if
/// the waits are short.
fn meanwhile_waits<'a>(
    facts: &Facts<'a>,
    subject: Subject<'a>,
    thread: &'a ThreadActivity,
) -> Option<String> {
    /// Minimum share of time spent waiting: twice the error of the kernel's accounting.
    const SHARE: f64 = 0.05;
    /// Minimum mean wait, in microseconds.
    const LONG_US: f64 = 300.0;
    let waits = M::Waiting.of(facts, subject).zip(M::MeanWait.of(facts, subject));
    match waits {
        Some((share, wait)) if share.low >= SHARE && wait.value >= LONG_US => Some(format!(
            " The buffer fills while the thread waits for CPU {} ({} % of the time, {} per wait on \
             average); {}.",
            thread.ran_on.first()?,
            percent(share.value),
            milliseconds(wait.value / 1e3),
            who(facts, thread)
        )),
        _ => None,
    }
}

/// Returns the name and ID of a thread, for use in sentences.
pub(super) fn label(thread: &ThreadActivity) -> String {
    format!("{} ({})", thread.name, thread.tid)
}

/// How to format a measure's value.
#[derive(Clone, Copy)]
enum Shown {
    Percent,
    Number,
    Bytes,
    /// As a number followed by the noun: `1 system call`, `12 system calls`.
    Calls,
}

fn of_measure<'a>(name: &str, facts: &Facts<'a>, subject: Subject<'a>) -> Option<String> {
    let (measure, shown) = measure_named(name)?;
    let Estimate { value, high, .. } = measure.of(facts, subject)?;
    Some(match shown {
        Shown::Percent => format!("{} %", percent(value)),
        Shown::Calls => {
            let number = three_digits(value);
            let noun = if number == "1" { "system call" } else { "system calls" };
            // Without privileges, only some of the calls are counted.
            let bound = if high.is_infinite() { "at least " } else { "" };
            format!("{bound}{number} {noun}")
        }
        Shown::Number if value >= 1000.0 => grouped(value.round() as u64),
        Shown::Number => three_digits(value),
        Shown::Bytes if value < 10.0 => three_digits(value),
        Shown::Bytes => grouped(value.round() as u64),
    })
}

fn measure_named(name: &str) -> Option<(M, Shown)> {
    use Shown::{Bytes, Calls, Number, Percent};
    Some(match name {
        "waiting" => (M::Waiting, Percent),
        "peers_here" => (M::PeersHere, Percent),
        "waits_per_s" => (M::WaitsPerSecond, Number),
        "throttled_periods" => (M::ThrottledPeriods, Percent),
        "stolen" => (M::Stolen, Percent),
        "interrupts" => (M::Interrupts, Percent),
        "foreign" => (M::ForeignPackets, Percent),
        "busy" => (M::Busy, Percent),
        "demand" => (M::Demand, Percent),
        "asleep" => (M::Asleep, Percent),
        "asleep_for_packets" => (M::AsleepForPackets, Percent),
        "idle_cpus" => (M::IdleCpus, Number),
        "idle_elsewhere" => (M::IdleElsewhere, Percent),
        "lost_share" => (M::RingLoss, Percent),
        "firewall_loss" => (M::FirewallLoss, Percent),
        "output_loss" => (M::OutputFirewallLoss, Percent),
        "reverse_path_loss" => (M::ReversePathLoss, Percent),
        "checksum_loss" => (M::ChecksumLoss, Percent),
        "descriptors_full" => (M::DescriptorsFull, Percent),
        "received_here" => (M::ReceivedHere, Percent),
        "cpu_interrupts" => (M::CpuInterrupts, Percent),
        "squeezed" => (M::SqueezedPerSecond, Number),
        "window_limited" => (M::WindowLimited, Percent),
        "send_limited" => (M::SendBufferLimited, Percent),
        "own_traffic" => (M::OwnTraffic, Percent),
        "filter_loss" => (M::FilterLoss, Percent),
        "of_limit" => (M::OfLimit, Percent),
        "resent" => (M::Resent, Percent),
        "held" => (M::Held, Percent),
        "corked" => (M::Corked, Percent),
        "queue_full" => (M::QueueFull, Percent),
        "queue_waits" => (M::QueueWaits, Percent),
        "of_pacing_limit" => (M::OfPacingLimit, Percent),
        "calls_per_s" => (M::CallsPerSecond, Number),
        "bytes_per_call" => (M::BytesPerCall, Bytes),
        "on_storage" => (M::AsleepIn(Wait::Storage), Percent),
        "on_timer" => (M::AsleepIn(Wait::Timer), Percent),
        "sleeps_per_packet" => (M::SleepsPerPacket, Number),
        "asleep_on_server" => (M::AsleepOnServer, Percent),
        "lock_queue" => (M::LockQueue, Number),
        "execs_per_s" => (M::ExecsPerSecond, Number),
        "in_pipe" => (M::AsleepInPipe, Percent),
        "in_send" => (M::AsleepInSend, Percent),
        "children_cpus" => (M::ChildrenCpus, Number),
        "children_share" => (M::ChildrenShare, Percent),
        "on_children" => (M::AsleepOnChildren, Percent),
        "gc" => (M::GarbageShare, Percent),
        "gc_cpus" => (M::GarbageCpus, Number),
        "late_replies" => (M::LateReplies, Percent),
        "shared" => (M::FalselyShared, Percent),
        "common" => (M::CommonBytes, Percent),
        "memory_share" => (M::MemoryShare, Percent),
        "over_cache" => (M::WorkingSet, Number),
        "bytes_per_segment" => (M::BytesPerSegment, Bytes),
        "connections" => (M::ConnectionsPerSecond, Number),
        "segments" => (M::SegmentsPerConnection, Number),
        "kernel" => (M::KernelShare, Percent),
        "calls" => (M::CallsPerPacket, Calls),
        "faults" => (M::FaultsPerSecond, Number),
        "major_faults" => (M::MajorFaultsPerSecond, Number),
        "in_faults" => (M::AsleepInFaults, Percent),
        "fault_time" => (M::FaultTime, Percent),
        "lock_wait" => (M::LockWait, Percent),
        "crypto" => (M::CryptoLibrary, Percent),
        "crypto_per_byte" => (M::CryptoPerByte, Number),
        _ => return servers_named(name).or_else(|| shares_named(name)),
    })
}

fn servers_named(name: &str) -> Option<(M, Shown)> {
    use Shown::{Number, Percent};
    Some(match name {
        "clients_per_server" => (M::ClientsPerServer, Number),
        "queued_for_servers" => (M::QueuedForServers, Number),
        "storage_per_client" => (M::StoragePerClient, Number),
        "awaiting_servers" => (M::AwaitingServers, Percent),
        "kernel_part" => (M::KernelPart, Percent),
        "own_function_share" => (M::OwnFunction, Percent),
        "file_calls" => (M::FileCalls, Number),
        "bytes_per_read" => (M::BytesPerRead, Number),
        "brief_cpus" => (M::BriefThreadsCpus, Number),
        "brief_share" => (M::BriefThreadsShare, Percent),
        "opening_to_servers" => (M::OpeningToServers, Percent),
        "herd" => (M::HerdThreads, Number),
        "herd_sleeps" => (M::HerdSleeps, Number),
        _ => return None,
    })
}

fn shares_named(name: &str) -> Option<(M, Shown)> {
    let measure = match name {
        "page_fault" => M::Functions(Group::PageFault),
        "checksum" => M::Functions(Group::Checksum),
        "kernel_copy" => M::Functions(Group::KernelCopy),
        "kernel_lock" => M::Functions(Group::KernelLock),
        "user_lock" => M::Functions(Group::UserLock),
        "user_lock_wait" => M::Functions(Group::UserLockWait),
        "connection_time" => M::ConnectionTime,
        "herd_time" => M::HerdTime,
        "in_crypto" => M::Crypto,
        "soft_crypto" => M::Functions(Group::SoftwareCrypto),
        "firewall" => M::Functions(Group::Firewall),
        "probe" => M::Functions(Group::Probe),
        "stopped" => M::AsleepIn(Wait::Stopped),
        "on_mutex" => M::AsleepOnMutex,
        "cpu_firewall" => M::CpuFunctions(Group::Firewall),
        _ => return None,
    };
    Some((measure, Shown::Percent))
}

/// Returns whether a placeholder with this name exists.
#[cfg(test)]
pub(super) fn is_known(name: &str) -> bool {
    let lists = [
        NAMES,
        avoidable::NAMES,
        faults::NAMES,
        losses::NAMES,
        moves::NAMES,
        others::NAMES,
        others::BULK,
        stops::NAMES,
    ];
    lists.iter().any(|names| names.contains(&name))
        || name == "overlimits"
        || measure_named(name).is_some()
}

/// Formats a share as a percentage, with the precision of kernel accounting.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share.clamp(-10.0, 10.0);
    if percent.abs() >= 1.0 { format!("{percent:.0}") } else { three_digits(percent) }
}

pub(super) fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{} us", three_digits(ms * 1e3)),
        ms if ms >= 1e3 => format!("{} s", three_digits(ms / 1e3)),
        ms => format!("{} ms", three_digits(ms)),
    }
}
