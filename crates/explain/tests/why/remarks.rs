// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remarks are made at their thresholds and not below, and not if the finding says the same.

use crate::example::{functions, observation, packets, socket, thread};
use crate::seeds::{SEEDS, protocols};
use linerate_explain::why::remarks::remark_rules;
use linerate_explain::why::rules::Bound;
use linerate_explain::why::{Diagnosis, explain};
use linerate_record::answers::Evidence;
use linerate_record::why::Cause::{
    self, AcceptQueue, CannotTell, FirewallRules, NothingWrong, SingleThread,
};
use linerate_record::why::Circumstance::{
    LibcHot, NotAccepted, Simulated, SlowPackets, TimerInterrupts,
};
use linerate_record::why::ThreadState::{Asleep, Kernel};
use linerate_record::why::{
    Circumstance, FileWrites, Observation, PacketCount, SocketCounts, SocketKind, WhyRemark,
    WrittenFile,
};

/// Returns a UDP server on an idle machine of two CPUs, which is remarkable in no way.
fn server(asleep: f64) -> Observation {
    let mut seen =
        observation(vec![thread("server", 100, &[(Kernel, 1.0 - asleep), (Asleep, asleep)])]);
    seen.threads[0].voluntary_switches = 40_000;
    seen.packets = packets(54_800, 0);
    seen.packets.as_mut().unwrap().counter = PacketCount::DATAGRAMS.to_owned();
    seen.protocols = protocols(&[("Udp.InDatagrams", 27_400), ("Udp.OutDatagrams", 27_400)]);
    seen.sockets = vec![socket(SocketKind::Udp, "0.0.0.0:9301", None)];
    seen
}

fn seed(wanted: Cause) -> Observation {
    let mut seeds =
        SEEDS.iter().filter(|(_, _, cause)| *cause == wanted).map(|(_, seed, _)| seed());
    seeds.find(|seen| explain(seen).findings[0].cause == wanted).unwrap()
}

fn remarks(seen: &Observation) -> Vec<WhyRemark> {
    explain(seen).remarks
}

fn ids(seen: &Observation) -> Vec<Circumstance> {
    remarks(seen).iter().map(|remark| remark.id).collect()
}

fn value(evidence: &[Evidence], name: &str) -> f64 {
    evidence.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("{evidence:?}")).value
}

#[test]
fn the_table_is_complete() {
    let ids: Vec<Circumstance> = remark_rules().iter().map(|rule| rule.id).collect();
    assert_eq!(ids, Circumstance::ALL, "each circumstance has one rule, in the published order");
    for rule in remark_rules() {
        let texts = [rule.sentence, rule.next, rule.wrong_if];
        assert!(texts.iter().all(|text| !text.is_empty()), "{:?}", rule.id);
        assert!(!rule.conditions.is_empty(), "{:?}", rule.id);
        for one in rule.conditions {
            let (Bound::AtLeast(at) | Bound::AtMost(at)) = one.bound;
            assert!(at.is_finite() && !one.source.is_empty(), "{:?}", rule.id);
        }
    }
}

#[test]
fn a_program_that_does_nothing_remarkable_has_no_remarks() {
    assert_eq!(ids(&server(0.94)), []);
}

#[test]
fn a_profiler_interrupts_all_cpus_alike_and_the_timers_of_programs_do_not() {
    let with = |counts: [u64; 2]| {
        let mut seen = server(0.94);
        for (cpu, count) in seen.cpus.iter_mut().zip(counts) {
            cpu.hardware_interrupts.insert("LOC".to_owned(), count);
        }
        seen
    };
    // In 5 s.
    assert_eq!(ids(&with([50_000, 50_000])), [TimerInterrupts]);
    assert_eq!(ids(&with([50_000, 49_999])), []);
    assert_eq!(ids(&with([55_000, 50_000])), [TimerInterrupts]);
    assert_eq!(ids(&with([55_001, 50_000])), []);
    let mut alone = with([50_000, 50_000]);
    alone.cpus.truncate(1);
    alone.threads[0].ran_on = vec![0];
    assert_eq!(ids(&alone), []);
    let remark = remarks(&with([51_000, 52_000])).remove(0);
    assert!(remark.sentence.contains("10,200 timer interrupts per second"), "{remark:?}");
    let rate = &remark.evidence[0];
    assert_eq!((rate.value, &*rate.unit), (10_200.0, "1/s"));
    assert!(rate.low < Some(10_200.0) && rate.high > Some(10_200.0), "{rate:?}");
    assert!(rate.source.starts_with("tier sw; at least 10000: "), "{rate:?}");
}

#[test]
fn a_log_that_is_written_thousands_of_times_per_second_is_named() {
    let with = |bytes, calls: Option<u64>| {
        let mut seen = seed(CannotTell);
        let path = "/var/log/server.log".to_owned();
        let files = vec![WrittenFile { pid: 100, path, bytes }];
        seen.file_writes = Some(FileWrites { files, calls });
        seen
    };
    // In 5 s.
    assert_eq!(ids(&with(500_000, Some(15_000))), [Circumstance::LogWrites]);
    assert_eq!(ids(&with(499_999, Some(15_000))), []);
    assert_eq!(ids(&with(500_000, Some(14_999))), []);
    assert_eq!(ids(&with(500_000, None)), []);
    let remark = remarks(&with(10 << 20, Some(200_000))).remove(0);
    let sentence = "It writes 2 MiB per second to /var/log/server.log";
    assert!(remark.sentence.starts_with(sentence), "{}", remark.sentence);
    assert!(remark.sentence.contains("40,000 write calls per second"), "{}", remark.sentence);
    // The counts of a parent include those of children that ended.
    let mut forked = with(500_000, Some(15_000));
    forked.ended_children_cpus = Some(0.1);
    assert_eq!(ids(&forked), []);
    let mut other = with(500_000, Some(15_000));
    other.file_writes.as_mut().unwrap().files[0].path = "/var/lib/redis/dump.aof".to_owned();
    assert_eq!(ids(&other), []);
    // Not a program that keeps up.
    let mut healthy = server(0.94);
    healthy.file_writes = with(10 << 20, Some(200_000)).file_writes;
    assert_eq!(ids(&healthy), []);
}

#[test]
fn a_hot_function_is_named_unless_the_finding_names_it() {
    let of = |file: &str, name: &str, share: f64| {
        let mut seen = seed(CannotTell);
        seen.threads[0].functions = functions(&[(file, name, share)]);
        seen.threads[0].samples = 2_000;
        seen
    };
    let hot = of("/usr/bin/redis-server", "lpFind", 0.2);
    let remark = remarks(&hot).into_iter().find(|one| one.id == Circumstance::HotFunction);
    let sentence = remark.expect("a remark").sentence;
    assert!(sentence.starts_with("20 % (18 to 22 %) of the 2,000 samples"), "{sentence}");
    assert!(sentence.contains("are in lpFind of redis-server"), "{sentence}");
    let is_named = |seen: &Observation| ids(seen).contains(&Circumstance::HotFunction);
    assert!(!is_named(&of("/usr/bin/redis-server", "lpFind", 0.199)));
    assert!(!is_named(&of("kernel", "tcp_ack", 0.5)));
    assert!(!is_named(&of("/usr/bin/redis-server", "redis-server+0x1a2b0", 0.5)));
}

#[test]
fn packets_are_slow_at_several_times_what_protocols_take() {
    let with = |interrupts: f64, packets: u64, segments: u64| {
        let mut seen = server(0.94);
        let cpu = &mut seen.cpus[1];
        (cpu.user, cpu.system, cpu.interrupts, cpu.idle) = (0.2, 0.1, interrupts, 0.7 - interrupts);
        cpu.backlog_processed = packets;
        seen.protocols.insert("Tcp.InSegs".to_owned(), segments);
        seen
    };
    let remark = remarks(&with(0.55, 366_000, 0)).remove(0);
    assert!(remark.sentence.contains("CPU 1 spends 7.51 us per packet"), "{}", remark.sentence);
    assert!(remark.next.contains("perf record -a -C 1"), "{}", remark.next);
    assert_eq!(value(&remark.evidence, "packets handled by the CPU"), 73_200.0);
    // 5 us.
    assert_eq!(ids(&with(0.5, 500_000, 0)), [SlowPackets]);
    assert_eq!(ids(&with(0.5, 500_100, 0)), []);
    // 30 % of the time.
    assert_eq!(ids(&with(0.3, 200_000, 0)), [SlowPackets]);
    assert_eq!(ids(&with(0.299, 190_000, 0)), []);
    // 10,000 packets per second.
    assert_eq!(ids(&with(0.5, 50_000, 0)), [SlowPackets]);
    assert_eq!(ids(&with(0.5, 49_999, 0)), []);
    // Segments in batches.
    assert_eq!(ids(&with(0.5, 400_000, 40_000)), [SlowPackets]);
    assert_eq!(ids(&with(0.5, 400_000, 40_001)), []);
}

fn listener(waiting: f64) -> SocketCounts {
    let mut listener = socket(SocketKind::TcpListen, "0.0.0.0:80", None);
    listener.reads = Some(50);
    (listener.receive_queue_share, listener.receive_queue_mean) = (Some(waiting), 5.0);
    listener
}

#[test]
fn connections_are_not_accepted_if_they_wait_while_the_program_sleeps() {
    let with = |waiting, asleep| {
        let mut seen = server(asleep);
        seen.sockets.push(listener(waiting));
        // The finding is about something else.
        seen.watched.ended = Some("exit status 1".to_owned());
        seen.elapsed_s = 0.1;
        seen.threads[0].elapsed_s = 0.1;
        seen
    };
    assert_eq!(ids(&with(0.9, 0.3)), [NotAccepted]);
    assert_eq!(ids(&with(0.89, 0.3)), []);
    assert_eq!(ids(&with(0.9, 0.29)), []);
    let remark = remarks(&with(0.96, 0.6)).remove(0);
    let sentence = &remark.sentence;
    assert!(sentence.contains("In 96 % of the readings"), "{sentence}");
    assert!(sentence.contains("accept queue of 0.0.0.0:80 (5 on average)"), "{sentence}");
    assert!(sentence.contains("server (100) slept 60 % of the time"), "{sentence}");
    assert!(remark.next.contains("sport = :80"), "{}", remark.next);
    assert_eq!(value(&remark.evidence, "connections in the accept queue"), 5.0);
    // Of two sockets, the one that has connections waiting more often.
    let mut two = with(0.92, 0.6);
    two.sockets.push(SocketCounts { local: "0.0.0.0:443".to_owned(), ..listener(1.0) });
    let both = remarks(&two);
    assert!(both.len() == 1 && both[0].sentence.contains("0.0.0.0:443"), "{both:?}");
}

/// A finding about the same queue, of whatever cause, makes the remark superfluous.
#[test]
fn a_remark_that_says_the_same_as_the_finding_is_left_out() {
    let mut waiting = server(0.94);
    waiting.sockets = vec![listener(1.0)];
    let Diagnosis { findings, remarks } = explain(&waiting);
    assert!(findings[0].cause == CannotTell, "{}", findings[0].sentence);
    assert!(findings[0].sentence.contains("waiting to be accepted"), "{}", findings[0].sentence);
    assert_eq!(remarks, []);
    // It overflows as well.
    let socket = &mut waiting.sockets[0];
    (socket.receive_queue_share, socket.receive_queue_mean) = (Some(0.98), 3.0);
    (socket.receive_queue_max, socket.send_queue_mean, socket.drops) = (16, 16.0, Some(50));
    waiting.protocols.insert("Tcp.PassiveOpens".to_owned(), 100);
    waiting.protocols.insert("TcpExt.ListenOverflows".to_owned(), 50);
    let Diagnosis { findings, remarks } = explain(&waiting);
    assert_eq!((findings[0].cause, remarks), (AcceptQueue, Vec::new()));
}

#[test]
fn packets_that_are_slow_due_to_the_cause_are_not_remarked_on() {
    let mut seen = seed(FirewallRules);
    seen.protocols = protocols(&[("Udp.InDatagrams", 27_400)]);
    seen.packets = packets(54_800, 0);
    seen.packets.as_mut().unwrap().counter = PacketCount::DATAGRAMS.to_owned();
    for cpu in &mut seen.cpus {
        (cpu.interrupts, cpu.backlog_processed) = (cpu.interrupts.max(0.4), 100_000);
    }
    let Diagnosis { findings, remarks } = explain(&seen);
    assert_eq!((findings[0].cause, remarks), (FirewallRules, Vec::new()));
    // Without a finding, they are.
    seen.threads.clear();
    seen.watched.ended = Some("exit status 1".to_owned());
    assert_eq!(ids(&seen), [SlowPackets]);
}

#[test]
fn a_program_under_valgrind_is_known_by_its_name() {
    let mut seen = server(0.94);
    seen.watched.name = "memcheck-amd64-".to_owned();
    let remark = remarks(&seen).remove(0);
    assert_eq!(remark.id, Simulated);
    assert!(remark.sentence.contains("runs under Valgrind"), "{}", remark.sentence);
    seen.watched.name = "memcached".to_owned();
    assert_eq!(ids(&seen), []);
}

#[test]
fn a_hot_function_of_the_c_library_is_named() {
    let of = |file: &str, name: &str, share: f64| {
        let mut seen = seed(SingleThread);
        let thread = &mut seen.threads[0];
        thread.functions = functions(&[("server", "work", 0.4), (file, name, share)]);
        thread.samples = 2_000;
        assert_eq!(explain(&seen).findings[0].cause, SingleThread);
        seen
    };
    let hot = of("/usr/lib/libc.so.6", "__strchrnul_avx2", 0.15);
    let remark = remarks(&hot).remove(0);
    assert_eq!(remark.id, LibcHot);
    let sentence = &remark.sentence;
    assert!(
        sentence.starts_with("15 % (13 to 17 %) of the 2,000 samples of thread "),
        "{sentence}"
    );
    assert!(sentence.contains("are in __strchrnul_avx2 of libc.so.6"), "{sentence}");
    assert!(remark.next.starts_with("linerate profile "), "{}", remark.next);
    let share = &remark.evidence[0];
    let ends = share.low.zip(share.high).unwrap();
    assert!(ends.0 > 0.13 && ends.0 < 0.14 && ends.1 > 0.16 && ends.1 < 0.17, "{share:?}");
    for (file, name, share) in [
        ("libc.so.6", "__strchrnul_avx2", 0.149),
        ("server", "parse", 0.3),
        ("kernel", "tcp_ack", 0.3),
        ("libz.so.1", "inflate_fast", 0.3),
    ] {
        assert_eq!(ids(&of(file, name, share)), [], "{name}");
    }
    let nameless = remarks(&of("libc.so.6", "libc.so.6+0x167ac0", 0.3)).remove(0).sentence;
    assert!(nameless.contains("libc.so.6+0x167ac0, which has no symbol"), "{nameless}");
    let mut few = hot.clone();
    few.threads[0].samples = 99;
    assert_eq!(ids(&few), []);
    let mut polls = hot;
    polls.threads[0].functions[1].is_polling = Some(true);
    assert_eq!(ids(&polls), []);
    // Not with other findings.
    let mut healthy = server(0.94);
    healthy.threads[0].functions = functions(&[("libc.so.6", "__strchrnul_avx2", 0.5)]);
    healthy.threads[0].samples = 2_000;
    assert_eq!(explain(&healthy).findings[0].cause, NothingWrong);
    assert_eq!(ids(&healthy), []);
}

/// Figures are in the remarks only, in the order of the table.
#[test]
fn remarks_are_in_order_and_not_part_of_the_finding() {
    let plain = explain(&server(0.94)).findings;
    let mut seen = server(0.94);
    seen.watched.name = "massif-amd64-li".to_owned();
    for cpu in &mut seen.cpus {
        (cpu.interrupts, cpu.idle, cpu.backlog_processed) = (0.4, 0.1, 100_000);
        cpu.hardware_interrupts.insert("LOC".to_owned(), 60_000);
    }
    assert_eq!(ids(&seen), [Simulated, TimerInterrupts, SlowPackets]);
    let found = explain(&seen);
    for words in ["Valgrind", "timer interrupts", "us per packet"] {
        assert!(!found.findings[0].sentence.contains(words), "{}", found.findings[0].sentence);
    }
    assert_eq!(plain[0].cause, NothingWrong);
    for remark in found.remarks {
        let texts = [&remark.sentence, &remark.next, &remark.wrong_if];
        assert!(texts.iter().all(|text| !text.contains(['{', '}'])), "{remark:?}");
        assert!(!remark.sentence.contains(" - "), "{remark:?}");
    }
}
