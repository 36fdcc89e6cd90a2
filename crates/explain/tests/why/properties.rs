// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties that hold for every observation.

use crate::controls::CONTROLS;
use crate::seeds::SEEDS;
use linerate_explain::why::rules::{Verdict, rules, subjects};
use linerate_explain::why::{Diagnosis, Facts, explain};
use linerate_record::why::{Cause, Observation, WhyReport};
use linerate_record::{Body, Provenance, Record};
use proptest::prelude::*;

fn all() -> Vec<Observation> {
    SEEDS.iter().chain(CONTROLS).map(|(_, seed, _)| seed()).collect()
}

fn cause(observation: &Observation) -> Cause {
    explain(observation).findings[0].cause
}

/// Returns whether a rule for the cause has all of its evidence, whole intervals included.
fn has_evidence(observation: &Observation, cause: Cause) -> bool {
    let facts = Facts::new(observation);
    rules().filter(|rule| rule.cause == cause).any(|rule| {
        subjects(rule.scope, &facts).into_iter().any(|subject| {
            rule.conditions.iter().all(|one| one.verdict(&facts, subject) == Verdict::Holds)
        })
    })
}

/// Removes one kind of evidence.
fn without(mut seen: Observation, what: usize) -> Observation {
    match what {
        0 => seen.sockets.clear(),
        1 => seen.interfaces.clear(),
        2 => seen.cpus.clear(),
        3 => seen.quotas.clear(),
        4 => seen.program = None,
        5 => seen.packets = None,
        6 => seen.protocols.clear(),
        7 => seen.events.clear(),
        8 => seen.threads.iter_mut().for_each(|thread| thread.functions.clear()),
        9 => seen.threads.iter_mut().for_each(|thread| thread.time.clear()),
        10 => seen.threads.iter_mut().for_each(|thread| thread.samples = 0),
        _ => seen.threads.clear(),
    }
    seen
}

/// Returns the same observation, with the counts and times of a longer window.
fn longer(mut seen: Observation, times: u64) -> Observation {
    let scale = times as f64;
    seen.elapsed_s *= scale;
    for thread in &mut seen.threads {
        for one in &mut thread.ran_instead {
            one.seconds *= scale;
            one.times *= times;
        }
        thread.elapsed_s *= scale;
        thread.voluntary_switches *= times;
        thread.involuntary_switches *= times;
        thread.minor_faults *= times;
        thread.system_calls = thread.system_calls.map(|calls| calls * times);
        thread.io_calls = thread.io_calls.map(|calls| calls * times);
    }
    for cpu in &mut seen.cpus {
        cpu.backlog_processed *= times;
        cpu.backlog_dropped *= times;
        cpu.time_squeezed *= times;
        cpu.net_rx *= times;
    }
    for interface in &mut seen.interfaces {
        interface.rx_packets *= times;
        interface.rx_bytes *= times;
        interface.tx_packets *= times;
        interface.tx_bytes *= times;
        for qdisc in &mut interface.qdiscs {
            qdisc.bytes *= times;
            qdisc.packets *= times;
            qdisc.overlimits *= times;
            qdisc.drops *= times;
        }
    }
    for socket in &mut seen.sockets {
        socket.drops = socket.drops.map(|drops| drops * times);
        if let Some(tcp) = &mut socket.tcp {
            tcp.bytes_received *= times;
            tcp.bytes_acked *= times;
            tcp.segments_in *= times;
            tcp.segments_out *= times;
            tcp.busy_s *= scale;
            tcp.rwnd_limited_s *= scale;
            tcp.sndbuf_limited_s *= scale;
        }
    }
    if let Some(program) = &mut seen.program {
        for count in [&mut program.received, &mut program.sent, &mut program.bytes] {
            *count = count.map(|count| count * times);
        }
    }
    if let Some(count) = &mut seen.packets {
        count.packets *= times;
        count.bytes = count.bytes.map(|bytes| bytes * times);
    }
    seen.protocols.values_mut().for_each(|count| *count *= times);
    seen.events.iter_mut().for_each(|event| event.count *= times);
    for quota in &mut seen.quotas {
        quota.periods *= times;
        quota.throttled_periods *= times;
    }
    seen
}

proptest! {
    #[test]
    fn no_finding_without_its_evidence(
        which in 0..34_usize,
        taken in prop::collection::vec(0..12_usize, 0..4),
    ) {
        let all = all();
        let seen = taken.into_iter().fold(all[which % all.len()].clone(), without);
        let findings = explain(&seen).findings;
        prop_assert!(!findings.is_empty());
        for finding in findings.iter().filter(|finding| finding.cause.is_removable()) {
            prop_assert!(has_evidence(&seen, finding.cause), "{:?}", finding.cause);
            prop_assert!(!finding.evidence.is_empty() && !finding.wrong_if.is_empty());
        }
    }

    #[test]
    fn a_longer_window_does_not_change_the_cause(which in 0..34_usize, times in 1..20_u64) {
        let all = all();
        let seen = all[which % all.len()].clone();
        prop_assert_eq!(cause(&longer(seen.clone(), times)), cause(&seen));
    }

    #[test]
    fn the_order_of_what_was_read_does_not_matter(which in 0..34_usize, turned in 0..7_usize) {
        let all = all();
        let seen = all[which % all.len()].clone();
        let mut other = seen.clone();
        other.threads.reverse();
        other.cpus.reverse();
        other.interfaces.reverse();
        let at = turned % other.sockets.len().max(1);
        other.sockets.rotate_left(at);
        let words = |seen: &Observation| {
            let findings = explain(seen).findings;
            findings.iter().map(|f| (f.cause, f.sentence.clone())).collect::<Vec<_>>()
        };
        prop_assert_eq!(words(&other), words(&seen));
    }
}

#[test]
fn every_answer_is_a_record() {
    for observation in all() {
        let Diagnosis { findings, remarks } = explain(&observation);
        for finding in &findings {
            assert!(!finding.sentence.contains(['{', '}']), "{}", finding.sentence);
            let gain = &finding.gain.percent;
            let ends = gain.low.zip(gain.high);
            assert!(ends.is_none_or(|(low, high)| low <= high && low >= 0.0), "{gain:?}");
        }
        let body = Body::Why(Box::new(WhyReport { observation, findings, remarks }));
        let record = Record { provenance: Provenance::default(), body };
        let json = record.to_json_pretty().expect("all numbers are finite");
        assert_eq!(Record::from_json(&json).expect("it reads its own"), record);
    }
}
