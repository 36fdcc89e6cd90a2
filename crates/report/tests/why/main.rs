// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rendering of an observed program. Golden files: see `common`.

#[path = "../common/mod.rs"]
mod common;
mod live;
mod remarks;

use common::{PLAIN, assert_golden};
use linerate_record::answers::Evidence;
use linerate_record::stats::Estimate;
use linerate_record::why::ThreadState::{Asleep, Kernel, Unaccounted, User, Waiting};
use linerate_record::why::{
    Cause, CpuCounts, FunctionTime, Gain, InterfaceCounts, Observation, PacketCount, ProgramCounts,
    RanInstead, SleepTime, SocketCounts, SocketKind, ThreadActivity, ThreadState, ThreadTime,
    Unread, WhyFinding, WhyReport,
};
use linerate_record::{Body, Figure, Record, Tier, fixtures};
use linerate_report::{Detail, Markup, Style, why, why_line};
use std::collections::BTreeMap;

fn figure(unit: &str, value: f64, low: f64, high: f64, tier: Tier) -> Figure {
    Figure::number(unit, Estimate { value, low, high, confidence: 0.95, n: 50 }, tier, "by hand")
}

fn share(value: f64) -> Figure {
    figure("ratio", value, value - 0.01, value + 0.01, Tier::Sw)
}

fn thread(name: &str, tid: u32, shares: &[(ThreadState, f64)]) -> ThreadActivity {
    let time = shares.iter().map(|(state, x)| ThreadTime { state: *state, share: share(*x) });
    ThreadActivity {
        pid: 1234,
        tid,
        name: name.to_owned(),
        ran_on: vec![1],
        allowed: vec![0, 1],
        elapsed_s: 2.0,
        time: time.collect(),
        asleep_on: Vec::new(),
        ran_instead: Vec::new(),
        waits_us_log2: Vec::new(),
        voluntary_switches: 3,
        involuntary_switches: 512,
        minor_faults: 0,
        major_faults: 0,
        system_calls: Some(401_208),
        functions: Vec::new(),
        samples: 1998,
        busy: share(0.4),
        cost_ns: figure("ns", 2040.0, 1900.0, 2180.0, Tier::Sw),
        io_calls: None,
        lock_wait: None,
        memory: None,
        cipher_instructions: None,
        nice: None,
        policy: None,
        tracer: None,
        execs: None,
        sleep_samples: None,
    }
}

/// Returns a polling thread that waits for a CPU, and one that sleeps.
fn threads() -> Vec<ThreadActivity> {
    let mut poller = thread(
        "dpdk-worker1",
        1236,
        &[(User, 0.34), (Kernel, 0.17), (Waiting, 0.49), (Unaccounted, 0.0)],
    );
    poller.ran_instead = vec![RanInstead {
        name: "dpkg".to_owned(),
        tid: Some(4711),
        pid: Some(4711),
        seconds: 0.92,
        times: 40,
        longest_s: 0.252,
    }];
    poller.functions = vec![FunctionTime {
        name: "dpdk-testpmd+0x7cd00".to_owned(),
        file: "/usr/bin/dpdk-testpmd".to_owned(),
        share: 0.66,
        is_polling: Some(true),
    }];
    let mut main = thread("dpdk-testpmd", 1234, &[(User, 0.0), (Waiting, 0.0), (Asleep, 1.0)]);
    main.asleep_on = vec![SleepTime {
        on: "read".to_owned(),
        share: 1.0,
        object: Some("/dev/null".to_owned()),
        holder: None,
    }];
    main.cost_ns = Figure::absent("ns", Tier::Sw, "by hand", "it sleeps");
    vec![poller, main]
}

fn interface() -> InterfaceCounts {
    InterfaceCounts {
        name: "v2".to_owned(),
        driver: Some("veth".to_owned()),
        rx_packets: 195_008,
        rx_bytes: 195_008 * 60,
        tx_packets: 100_302,
        tx_bytes: 100_302 * 60,
        features: BTreeMap::from([("rx-gro".to_owned(), false)]),
        ..InterfaceCounts::default()
    }
}

fn packet_socket() -> SocketCounts {
    SocketCounts {
        kind: SocketKind::Packet,
        inode: 99,
        pid: 1234,
        local: "v2".to_owned(),
        remote: None,
        peer_pid: None,
        reads: Some(20),
        receive_queue_mean: 0.0,
        receive_queue_max: 0,
        receive_queue_share: None,
        receive_buffer: None,
        send_queue_mean: 0.0,
        send_buffer: None,
        drops: None,
        port_sharers: None,
        tcp: None,
    }
}

fn findings() -> Vec<WhyFinding> {
    let contention = WhyFinding {
        cause: Cause::CpuContention,
        sentence:
            "Thread dpdk-worker1 (1236) waited 49 % of the time for CPU 1, 1.9 ms at a time; there \
                   ran dpkg 920 ms, 252 ms at once at most. Meanwhile 94706 packets (49 %) \
                   overflowed its ring."
                .to_owned(),
        evidence: vec![Evidence {
            name: "time waiting for a CPU".to_owned(),
            value: 0.49,
            unit: "ratio".to_owned(),
            source: "tier sw; at least 0.05: twice the error of accounts".to_owned(),
            low: Some(0.48),
            high: Some(0.5),
        }],
        gain: Gain {
            percent: figure("percent", 94.0, 47.0, 104.0, Tier::Model),
            then_limited_by: Some("what is offered".to_owned()),
        },
        fix: Some("Keep others off CPU 1: a cpuset or isolcpus=1".to_owned()),
        workaround: Some("a larger ring bridges 252 ms, but adds latency".to_owned()),
        wrong_if: "with CPU 1 to itself, the thread still waits for it more than 5 % of the time"
            .to_owned(),
    };
    let squeeze = WhyFinding {
        cause: Cause::NapiBudget,
        sentence: "NAPI on CPU 1 stopped polling with packets left.".to_owned(),
        evidence: Vec::new(),
        gain: Gain {
            percent: figure("percent", 5.0, 0.0, 50.0, Tier::Model),
            then_limited_by: None,
        },
        fix: Some("sysctl net.core.netdev_budget=600".to_owned()),
        workaround: None,
        wrong_if: "with twice the budget, column 3 grows as before".to_owned(),
    };
    vec![contention, squeeze]
}

/// Returns a report on a polling thread that other threads kept off its CPU for half of the time.
fn example() -> WhyReport {
    let mut watched = fixtures::why().observation.watched;
    watched.name = "dpdk-testpmd".to_owned();
    watched.pids = vec![1234];
    watched.line_bits_per_s = Some(1e9);
    watched.is_command = false;
    watched.ended = None;
    let cpu = |cpu, user, idle| CpuCounts { cpu, user, idle, ..CpuCounts::default() };
    let observation = Observation {
        watched,
        elapsed_s: 2.0,
        slices: 20,
        threads: threads(),
        threads_left_out: 0,
        ended_threads_cpus: None,
        ended_children_cpus: None,
        memory: None,
        full_descriptors: Vec::new(),
        requests: None,
        output_pipes: Vec::new(),
        file_writes: None,
        unix_clients: None,
        local_ports: None,
        sched_autogroup: None,
        quotas: Vec::new(),
        cpus: vec![cpu(0, 0.3, 0.7), cpu(1, 1.0, 0.0)],
        interfaces: vec![interface()],
        protocols: BTreeMap::new(),
        sockets: vec![packet_socket()],
        peers: Vec::new(),
        program: Some(ProgramCounts {
            adapter: "dpdk".to_owned(),
            program: Some("DPDK 22.11.11".to_owned()),
            unit: "packets".to_owned(),
            received: Some(100_302),
            sent: Some(100_302),
            missed: None,
            bytes: Some(100_302 * 60),
            others: BTreeMap::new(),
        }),
        events: Vec::new(),
        shared_lines: Vec::new(),
        last_level_cache_bytes: None,
        event_costs: None,
        arrivals: None,
        packets: Some(PacketCount {
            packets: 100_302,
            bytes: Some(100_302 * 60),
            counter: "DPDK telemetry /ethdev/stats".to_owned(),
        }),
        packets_per_s: vec![50_151.0; 20],
        observer: share(0.004),
        unread: vec![Unread {
            what: "kernel_samples".to_owned(),
            reason: "kernel.perf_event_paranoid is 2".to_owned(),
            fix: Some("sysctl kernel.perf_event_paranoid=1".to_owned()),
        }],
    };
    WhyReport { observation, findings: findings(), remarks: Vec::new() }
}

#[test]
fn the_answer_fits_on_a_screen() {
    let text = why(&example(), Detail::Brief, &PLAIN);
    assert!(text.lines().count() <= 40, "{text}");
    assert_golden("why.txt", &PLAIN, &text);
    let narrow = Style::plain(80);
    let text = why(&example(), Detail::Brief, &narrow);
    assert!(text.lines().count() <= 60, "{text}");
    assert_golden("why-80.txt", &narrow, &text);
}

#[test]
fn a_capture_program_has_not_read_what_its_interface_received() {
    let with = |on_cpu: f64| {
        let mut report = example();
        let seen = &mut report.observation;
        (seen.watched.name, seen.program) = ("tcpdump".to_owned(), None);
        seen.threads = vec![thread("tcpdump", 1234, &[(User, on_cpu), (Asleep, 1.0 - on_cpu)])];
        let counter = "v2 rx_packets".to_owned();
        seen.packets = Some(PacketCount { packets: 100_302, bytes: None, counter });
        report.findings[0].cause = Cause::WaitingForPeer;
        why(&report, Detail::Brief, &PLAIN)
    };
    let asleep = with(0.0);
    let words = "too little CPU time to have read these packets";
    assert!(asleep.contains(words) && !asleep.contains("ns on CPU"), "{asleep}");
    assert!(asleep.contains("throughput"), "{asleep}");
    let is_of_program = |line: &&str| line.starts_with("program");
    let row = asleep.lines().find(is_of_program).expect("a row");
    assert!(!row.contains("100,302"), "{row}");
    let reads = with(0.02);
    assert!(reads.contains("ns on CPU") && !reads.contains(words), "{reads}");
    let row = reads.lines().find(is_of_program).expect("a row");
    assert!(row.contains("100,302"), "{row}");
}

#[test]
fn details_have_everything_that_was_read() {
    let text = why(&example(), Detail::Full, &PLAIN);
    assert_golden("why-details.txt", &PLAIN, &text);
    for word in ["perf_event_paranoid=1", "dpdk-testpmd+0x7cd00", "4711", "napi_budget"] {
        assert!(text.contains(word), "{word}");
    }
}

#[test]
fn a_name_that_is_not_that_of_the_first_process_has_its_pid() {
    let mut report = example();
    let text = why(&report, Detail::Brief, &PLAIN);
    assert!(text.contains("\nwatched     dpdk-testpmd") && !text.contains("busiest"), "{text}");
    report.observation.watched.pids = vec![1, 1234];
    let text = why(&report, Detail::Brief, &PLAIN);
    assert!(text.contains(" (pid 1234), the busiest of pid 1, 1234"), "{text}");
}

/// All states in one table, of which several are 0 everywhere, and an object with a long name.
#[test]
fn the_threads_in_full_have_no_broken_words_and_no_empty_columns() {
    let mut report = example();
    let shares: Vec<(ThreadState, f64)> = ThreadState::ALL
        .into_iter()
        .map(|state| (state, if matches!(state, User | Kernel | Asleep) { 0.3 } else { 0.0 }))
        .collect();
    let mut one = thread("bio_close_file", 8683, &shares);
    let object = "futex 0x5581d3f2a3e8 in /usr/bin/redis-check-rdb, private".to_owned();
    one.asleep_on = threads().into_iter().flat_map(|thread| thread.asleep_on).take(1).collect();
    let sleep = one.asleep_on.first_mut().expect("a thread that sleeps");
    "futex".clone_into(&mut sleep.on);
    sleep.object = Some(object);
    report.observation.threads = vec![one];
    for width in [80, 100] {
        let text = why(&report, Detail::Full, &Style::plain(width));
        let at = text.find("\nthread ").expect("the table of threads");
        let table: Vec<&str> = text[at + 1..].lines().take(5).collect();
        assert!(table[1].starts_with("bio_close_file  8683 "), "{text}");
        assert!(table[1].trim_end().ends_with(" futex"), "{text}");
        let head: String = text[..at].lines().rev().take(2).collect();
        for absent in ["quota", "stolen", "rest", "irq"] {
            assert!(!head.contains(absent), "{absent}: {text}");
        }
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            flat.contains("asleep in bio_close_file 8683: futex (futex 0x5581d3f2a3e8 in "),
            "{text}"
        );
    }
}

/// The record of an invented version 2.99 has a cause that this version does not know. Its
/// sentence, gain and fix are shown nevertheless.
#[test]
fn a_cause_of_a_newer_version_is_shown_with_what_its_record_says() {
    let json = include_str!("../../../record/tests/v2_99/why.json");
    let Body::Why(report) = Record::from_json(json).unwrap().body else { panic!("a why record") };
    for detail in [Detail::Screen, Detail::Full] {
        let text = why(&report, detail, &PLAIN);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let finding =
            "finding unknown to this version: The CPUs of threads of sleep run at 800 MHz";
        assert!(words.contains(finding), "{text}");
        assert!(words.contains("gain throughput +338 % (300 to 360 %), model"), "{text}");
        assert!(words.contains("do Clean the fans."), "{text}");
    }
    assert!(why_line(&report, &PLAIN).contains("unknown to this version"));
}

#[test]
fn many_connections_take_few_rows_and_losses_come_first() {
    let socket = |local: &str, remote: Option<&str>, drops: u64| SocketCounts {
        kind: SocketKind::Tcp,
        local: local.to_owned(),
        remote: remote.map(str::to_owned),
        drops: Some(drops),
        port_sharers: None,
        ..packet_socket()
    };
    let clients = (0..300).map(|n| socket("10.0.0.1:80", Some(&format!("10.0.0.2:{n}")), 0));
    let servers = (0..40).map(|n| socket(&format!("10.0.0.1:{n}"), Some("10.0.0.3:81"), 0));
    let lossy = socket("10.0.0.1:7", None, 5);
    let mut report = example();
    report.observation.sockets = clients.chain(servers).chain([lossy]).collect();
    let text = why(&report, Detail::Full, &PLAIN);
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("tcp ")).collect();
    assert_eq!(rows.len(), 12, "{text}");
    assert!(rows[0].contains("10.0.0.1:7 "), "{text}");
    assert!(rows[10].contains("291 sockets") && rows[10].contains("10.0.0.1:80"), "{text}");
    assert!(rows[11].contains("40 sockets") && rows[11].contains("10.0.0.3:81"), "{text}");
}

#[test]
fn markdown_has_tables() {
    let style = Style { markup: Markup::Markdown, ..PLAIN };
    let text = why(&example(), Detail::Brief, &style);
    assert!(text.contains("- **watched** dpdk-testpmd") && text.contains("| packets |"), "{text}");
}

#[test]
fn names_of_other_programs_do_not_reach_the_terminal_as_they_are() {
    let mut report = example();
    let bad = "a\x1b[2J\nQ\u{9b}31m";
    report.observation.watched.name = bad.to_owned();
    report.observation.threads[0].name = bad.to_owned();
    report.observation.threads[0].functions[0].name = bad.to_owned();
    report.observation.threads[0].ran_instead[0].name = bad.to_owned();
    report.observation.threads[1].asleep_on[0].object = Some(bad.to_owned());
    report.observation.interfaces[0].name = bad.to_owned();
    report.observation.sockets[0].local = bad.to_owned();
    report.observation.unread[0].reason = bad.to_owned();
    report.findings[0].sentence = bad.to_owned();
    report.findings[0].fix = Some(bad.to_owned());
    report.remarks = remarks::of_profiler_and_valgrind();
    (report.remarks[0].sentence, report.remarks[0].next) = (bad.to_owned(), bad.to_owned());
    (report.remarks[1].wrong_if, report.remarks[1].evidence[0].name) =
        (bad.to_owned(), bad.to_owned());
    for detail in [Detail::Brief, Detail::Full] {
        let text = why(&report, detail, &PLAIN) + &why_line(&report, &PLAIN);
        let is_control = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(is_control), "{text:?}");
        assert!(!text.contains("\nQ"), "{text}");
    }
}

#[test]
fn a_window_of_many_is_a_line() {
    let text = why_line(&example(), &Style::plain(400));
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("cpu_contention") && text.contains("50,151 packets/s"), "{text}");
}
