// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the limits of streams: each rule is applied to a point with its evidence, and to a point
//! without it.

use linerate_explain::stream::rules::RULES;
use linerate_explain::stream::{explain, findings};
use linerate_record::fixtures;
use linerate_record::stats::Estimate;
use linerate_record::stream::{
    StreamMode, StreamPathKind, StreamPoint, StreamReport, StreamTcp, StreamUdp,
};
use linerate_record::why::Cause;
use linerate_record::{Figure, Tier};

/// Returns a figure whose interval has no width. (The interval of `Figure::exact` is unknown.)
fn figure(unit: &str, value: f64) -> Figure {
    Figure::number(unit, Estimate::exactly(value), Tier::Sw, "synthetic")
}

fn cpus(cpus: f64) -> Figure {
    figure("CPUs", cpus)
}

/// A TCP stream whose sides have headroom, and which nothing limits.
fn idle() -> StreamReport {
    let stored = fixtures::stream();
    let mut point = stored.points[0].clone();
    point.gbps = figure("Gb/s", 10.0);
    point.message_bytes = 65_536;
    point.connections = 1;
    point.udp = None;
    for side in [&mut point.sender, &mut point.receiver] {
        side.cpu = cpus(0.2);
        side.waiting = Some(0.0);
        side.paused = 0.0;
        side.bytes_per_call = 65_536.0;
        side.cpus = vec![0];
        side.allowed_cpus = 2;
    }
    point.tcp = Some(StreamTcp {
        busy: 1.0,
        segments: 100_000,
        segment_bytes: 32_768.0,
        mss_bytes: 1448,
        cwnd: 100.0,
        rtt_us: 50.0,
        min_rtt_us: 20.0,
        window_scaling: true,
        peer_window_bytes: Some(65_535),
        ..StreamTcp::default()
    });
    let mut report =
        StreamReport { mode: StreamMode::Tcp, points: vec![point], explained: Some(0), ..stored };
    report.path.kind = StreamPathKind::Namespaces;
    report.path.interface = Some("veth0".to_owned());
    report.path.software_checksum = Some(false);
    report.path.qdisc_bits_per_s = None;
    report
}

fn with(change: impl Fn(&mut StreamReport, &mut StreamPoint)) -> StreamReport {
    let mut report = idle();
    let mut point = report.points.remove(0);
    change(&mut report, &mut point);
    report.points = vec![point];
    report
}

fn tcp(change: impl Fn(&mut StreamTcp)) -> StreamReport {
    with(|_, point| change(point.tcp.as_mut().expect("TCP")))
}

fn udp(change: impl Fn(&mut StreamUdp)) -> StreamReport {
    with(|report, point| {
        report.mode = StreamMode::Udp;
        point.tcp = None;
        let mut udp = StreamUdp {
            sent: 10_000,
            received: 10_000,
            buffer_drops: Some(0),
            lost: Some(0),
            ..StreamUdp::default()
        };
        change(&mut udp);
        point.udp = Some(udp);
    })
}

/// Keywords of cause and limit.
fn verdict(mut report: StreamReport) -> (String, String) {
    explain(&mut report);
    let point = &report.points[0];
    assert_eq!(report.findings[0].cause.name(), point.finding);
    assert!(!report.findings[0].sentence.contains('{'), "{:?}", report.findings[0]);
    (point.finding.clone(), point.limited_by.clone())
}

fn is(report: StreamReport, finding: &str, limited_by: &str) {
    assert_eq!(verdict(report), (finding.to_owned(), limited_by.to_owned()));
}

#[test]
fn a_stream_without_evidence_has_no_cause() {
    is(idle(), "cannot_tell", "cannot_tell");
}

#[test]
fn windows_and_buffers_limit() {
    is(tcp(|tcp| tcp.sndbuf_limited = 0.5), "send_buffer", "send_buffer");
    is(tcp(|tcp| tcp.rwnd_limited = 0.5), "receive_window", "receive_window");
    // A large window that closes indicates a receiver that does not read.
    let large = tcp(|tcp| (tcp.rwnd_limited, tcp.peer_window_bytes) = (0.5, Some(6 << 20)));
    is(large, "cannot_tell", "cannot_tell");
    let both = tcp(|tcp| (tcp.rwnd_limited, tcp.sndbuf_limited) = (0.3, 0.4));
    is(both, "send_buffer", "send_buffer");
    let unscaled = tcp(|tcp| (tcp.rwnd_limited, tcp.window_scaling) = (0.5, false));
    let sentence = findings(&unscaled, &unscaled.points[0])[0].sentence.clone();
    assert!(sentence.contains("Window scaling is off"), "{sentence}");
    is(unscaled, "receive_window", "receive_window");
}

#[test]
fn a_message_larger_than_the_send_buffer_makes_the_sender_sleep_in_each_call() {
    let sleeping = |buffer: u64, switches: f64| {
        with(move |_, point| {
            point.message_bytes = 8 << 20;
            point.sender.buffer_bytes = Some(buffer);
            point.sender.calls_per_mb = 16.0;
            point.sender.switches_per_mb = switches;
        })
    };
    is(sleeping(8192, 16.2), "send_buffer", "send_buffer");
    assert_ne!(verdict(sleeping(4 << 20, 16.2)).0, "send_buffer", "160 times the product");
    assert_ne!(verdict(sleeping(8192, 1.0)).0, "send_buffer", "the calls return at once");
}

#[test]
fn copies_of_segments_that_the_receiver_had_are_not_lost_in_its_buffer() {
    // Measured with a firewall rule that drops 1 % of the segments.
    let lossy = |needless| {
        tcp(move |tcp| {
            tcp.segments = 2_012_527;
            tcp.retransmitted = 34_690;
            tcp.receiver_drops = Some(17_985);
            tcp.needless = needless;
        })
    };
    is(lossy(Some(14_719)), "tcp_loss", "congestion_window");
    is(lossy(Some(0)), "receive_window", "receive_window");
}

#[test]
fn each_connection_has_its_own_bandwidth_delay_product() {
    let sentence = |connections| {
        let report = with(|_, point| {
            point.connections = connections;
            point.tcp.as_mut().expect("TCP").sndbuf_limited = 0.5;
        });
        findings(&report, &report.points[0])[0].sentence.clone()
    };
    // 10 Gb/s times 50 us.
    assert!(sentence(1).ends_with("product of a connection is 61 KiB."), "{}", sentence(1));
    assert!(sentence(4).ends_with("product of a connection is 15.3 KiB."), "{}", sentence(4));
}

#[test]
fn pauses_limit() {
    is(with(|_, point| point.sender.paused = 0.8), "timer_sleep", "sender_pause");
    let reader = with(|_, point| {
        point.receiver.paused = 0.8;
        point.tcp.as_mut().expect("TCP").rwnd_limited = 0.7;
    });
    is(reader, "slow_receiver", "receiver_pause");
    // The receiver sleeps, but its window never stops the sender.
    is(with(|_, point| point.receiver.paused = 0.8), "cannot_tell", "cannot_tell");
}

#[test]
fn rates_and_losses_limit() {
    let paced = tcp(|tcp| tcp.pacing_bits_per_s = Some(10.5e9));
    is(paced, "rate_limiter", "rate_limit");
    let loose = tcp(|tcp| tcp.pacing_bits_per_s = Some(100e9));
    is(loose, "cannot_tell", "cannot_tell");
    let bucket = with(|report, point| {
        report.path.qdisc_bits_per_s = Some(10.2e9);
        // The limiter drops packets, and TCP retransmits: the limit explains the loss.
        point.tcp.as_mut().expect("TCP").retransmitted = 1000;
    });
    is(bucket, "rate_limiter", "rate_limit");
    is(tcp(|tcp| tcp.retransmitted = 500), "tcp_loss", "congestion_window");
    is(tcp(|tcp| tcp.retransmitted = 5), "cannot_tell", "cannot_tell");
    let needless = tcp(|tcp| (tcp.retransmitted, tcp.needless) = (500, Some(480)));
    is(needless, "cannot_tell", "cannot_tell");
    let overflow = tcp(|tcp| (tcp.retransmitted, tcp.receiver_drops) = (500, Some(400)));
    is(overflow, "receive_window", "receive_window");
}

#[test]
fn datagrams_are_lost_by_place() {
    is(udp(|udp| udp.buffer_drops = Some(2000)), "socket_buffer", "receive_buffer");
    is(udp(|udp| udp.lost = Some(2000)), "backlog_overflow", "receive_buffer");
    is(udp(|udp| udp.paced_bits_per_s = Some(10_000_000_000)), "rate_limiter", "rate_limit");
    is(udp(|_| ()), "cannot_tell", "cannot_tell");
    let unknown = udp(|udp| (udp.buffer_drops, udp.lost) = (None, None));
    is(unknown, "cannot_tell", "cannot_tell");
}

/// A sweep of UDP receive buffers that was measured on two CPUs: buffer in bytes as accounted by
/// the kernel, datagrams sent and dropped, CPU time of sender and receiver.
const DATAGRAMS: [(u64, u64, u64, [f64; 2]); 7] = [
    (212_992, 173_004, 11_007, [0.998, 0.598]),
    (16_384, 169_531, 18_465, [0.977, 0.560]),
    (32_768, 175_538, 2201, [0.999, 0.482]),
    (65_536, 179_691, 14_070, [0.996, 0.572]),
    (131_072, 174_648, 4958, [0.997, 0.470]),
    (262_144, 176_834, 3915, [0.998, 0.470]),
    (425_984, 169_180, 3293, [0.998, 0.606]),
];

/// Returns a UDP sweep over [`DATAGRAMS`] with the drops that `drops` returns for a buffer size and
/// its measured drops, and with senders that use `spare` CPUs less.
fn datagrams(drops: impl Fn(u64, u64) -> u64, spare: f64) -> StreamReport {
    let mut report = udp(|_| ());
    let point = report.points.remove(0);
    for (buffer, sent, dropped, [sender, receiver]) in DATAGRAMS {
        let mut point = point.clone();
        let dropped = drops(buffer, dropped);
        let udp = point.udp.as_mut().expect("UDP");
        (udp.sent, udp.received, udp.buffer_drops) = (sent, sent - dropped, Some(dropped));
        (point.sender.cpu, point.receiver.cpu) = (cpus(sender - spare), cpus(receiver));
        for side in [&mut point.sender, &mut point.receiver] {
            side.bytes_per_call = 1472.0;
        }
        (point.message_bytes, point.receiver.buffer_bytes) = (1472, Some(buffer));
        report.points.push(point);
    }
    report
}

fn limits(mut report: StreamReport) -> Vec<(String, String)> {
    explain(&mut report);
    report.points.into_iter().map(|point| (point.finding, point.limited_by)).collect()
}

#[test]
fn a_loss_that_does_not_follow_the_buffer_is_not_blamed_on_it() {
    let report = datagrams(|_, dropped| dropped, 0.0);
    let causes = |index: usize| -> Vec<Cause> {
        findings(&report, &report.points[index]).iter().map(|finding| finding.cause).collect()
    };
    // Four times 32 and 64 KiB lose as many. There is nothing to compare with four times 128 KiB.
    assert_eq!(causes(2), [Cause::SystemCalls, Cause::SlowReceiver]);
    assert_eq!(causes(4), [Cause::SystemCalls, Cause::SocketBuffer]);
    let loss = &findings(&report, &report.points[2])[1].sentence;
    assert!(loss.starts_with("1.3 % of 175538 datagrams were dropped"), "{loss}");
    for (finding, limit) in limits(report) {
        assert_eq!((finding.as_str(), limit.as_str()), ("system_calls", "sender_cpu"));
    }
    // A sender with idle time would send more, but for what is lost.
    let falling = datagrams(|buffer, _| 80_000 * 16_384 / buffer, 0.3);
    for (finding, limit) in limits(falling) {
        assert_eq!((finding.as_str(), limit.as_str()), ("socket_buffer", "receive_buffer"));
    }
    let constant = datagrams(|_, _| 20_000, 0.3);
    for (finding, limit) in limits(constant) {
        assert_eq!((finding.as_str(), limit.as_str()), ("cannot_tell", "cannot_tell"));
    }
}

#[test]
fn a_receiver_without_idle_time_loses_what_a_faster_sender_sends() {
    let mut report = datagrams(|_, _| 60_000, 0.0);
    for point in &mut report.points {
        point.receiver.cpu = cpus(0.97);
    }
    for (finding, limit) in limits(report) {
        assert_eq!((finding.as_str(), limit.as_str()), ("system_calls", "receiver_cpu"));
    }
    let mut paused = datagrams(|_, _| 60_000, 0.0);
    for point in &mut paused.points {
        point.receiver.paused = 0.6;
    }
    for (finding, limit) in limits(paused) {
        assert_eq!((finding.as_str(), limit.as_str()), ("slow_receiver", "receiver_pause"));
    }
}

#[test]
fn ends_that_take_turns_wait_for_each_other() {
    // As measured between two namespaces on two CPUs.
    let turns = |kind, mode| {
        with(|report, point| {
            (report.path.kind, report.mode) = (kind, mode);
            (point.sender.cpu, point.receiver.cpu) = (cpus(0.76), cpus(0.69));
            (point.sender.switches_per_mb, point.receiver.switches_per_mb) = (4.0, 9.0);
        })
    };
    let here = turns(StreamPathKind::Namespaces, StreamMode::Tcp);
    let sentence = findings(&here, &here.points[0])[0].sentence.clone();
    assert!(sentence.contains("76 % of a CPU and the receiver 69 % of a CPU"), "{sentence}");
    assert!(sentence.contains("13 context switches"), "{sentence}");
    is(here, "waiting_for_peer", "wake_ups");
    is(turns(StreamPathKind::Network, StreamMode::Tcp), "cannot_tell", "cannot_tell");
    let mut datagrams = turns(StreamPathKind::Namespaces, StreamMode::Udp);
    datagrams.points[0].tcp = None;
    is(datagrams, "cannot_tell", "cannot_tell");
}

#[test]
fn a_full_cpu_is_the_limit_even_if_its_cost_cannot_be_divided() {
    let medium = with(|_, point| {
        (point.sender.cpu, point.sender.bytes_per_call) = (cpus(0.99), 8192.0);
    });
    is(medium, "processing_cost", "sender_cpu");
}

#[test]
fn processors_limit() {
    let one = with(|_, point| {
        for side in [&mut point.sender, &mut point.receiver] {
            (side.cpu, side.allowed_cpus) = (cpus(0.48), 1);
        }
    });
    is(one, "cpu_contention", "sender_cpu");
    let waits = with(|_, point| {
        (point.receiver.cpu, point.receiver.waiting) = (cpus(0.7), Some(0.25));
    });
    is(waits, "cpu_contention", "receiver_cpu");
    let checksum = with(|report, point| {
        report.path.software_checksum = Some(true);
        point.sender.cpu = cpus(0.95);
    });
    is(checksum, "software_checksum", "sender_cpu");
}

/// A stream of 8 connections, and the CPU time of its sides in CPUs. The machine has 16 CPUs.
fn eight(path: StreamPathKind, allowed: u64, cpu: [f64; 2], waiting: f64) -> StreamReport {
    with(|report, point| {
        report.path.kind = path;
        (point.connections, point.machine.cpus) = (8, 16);
        for (side, used) in [&mut point.sender, &mut point.receiver].into_iter().zip(cpu) {
            (side.cpu, side.waiting, side.allowed_cpus) = (cpus(used), Some(waiting), allowed);
            side.cpus = (0..allowed.min(8) as u32).collect();
        }
    })
}

#[test]
fn many_connections_are_limited_by_the_cpus_that_they_can_use() {
    use StreamPathKind::{Namespaces, Network};
    let found = |report: StreamReport| verdict(report).0;
    // 8 connections at 15 % each, and even at 80 %, leave their CPUs time.
    assert_eq!(found(eight(Network, 16, [1.2, 0.9], 0.0)), "cannot_tell");
    assert_eq!(found(eight(Network, 16, [6.4, 4.0], 0.0)), "cannot_tell");
    assert_eq!(found(eight(Network, 16, [7.2, 4.0], 0.0)), "copying");
    // Waiting for a CPU counts by thread.
    assert_eq!(found(eight(Network, 16, [1.2, 0.9], 0.7)), "cannot_tell");
    assert_eq!(found(eight(Network, 16, [4.0, 0.9], 4.0)), "cpu_contention");
    // Two CPUs that are fully used, by one side or by both.
    let one_side = eight(Network, 2, [1.9, 0.9], 2.0);
    let sentence = findings(&one_side, &one_side.points[0])[0].sentence.clone();
    assert!(sentence.contains("95 % of 2 CPUs"), "{sentence}");
    let both = eight(Namespaces, 2, [1.1, 0.8], 0.0);
    let sentence = findings(&both, &both.points[0])[0].sentence.clone();
    let expected = "55 % of 2 CPUs (95 % with the other side, on the same CPUs)";
    assert!(sentence.contains(expected), "{sentence}");
    assert_eq!(found(both), "copying");
    assert_eq!(found(eight(Network, 2, [1.1, 0.8], 0.0)), "cannot_tell");
    // Requests are held back while each thread is mostly idle.
    let mut held = eight(Network, 16, [1.2, 0.9], 0.0);
    held.mode = StreamMode::Request;
    held.points[0].tcp.as_mut().expect("TCP").held_back = 0.9;
    assert_eq!(found(held), "nagle_delay");
}

#[test]
fn two_half_busy_machines_are_not_one_busy_machine() {
    let halves = |kind, software_checksum, waiting| {
        with(|report, point| {
            (report.path.kind, report.path.software_checksum) = (kind, Some(software_checksum));
            for side in [&mut point.sender, &mut point.receiver] {
                (side.cpu, side.waiting) = (cpus(0.45 - waiting), Some(waiting));
            }
        })
    };
    is(halves(StreamPathKind::Network, true, 0.0), "cannot_tell", "cannot_tell");
    is(halves(StreamPathKind::Network, false, 0.15), "cannot_tell", "cannot_tell");
    is(halves(StreamPathKind::Namespaces, false, 0.15), "cpu_contention", "sender_cpu");
}

#[test]
fn commands_for_the_senders_interface_name_the_host_that_sends() {
    let found = |reverse| {
        let report = with(|report, point| {
            (report.path.kind, report.reverse) = (StreamPathKind::Network, reverse);
            report.path.software_checksum = Some(true);
            point.sender.cpu = cpus(0.95);
        });
        findings(&report, &report.points[0]).remove(0)
    };
    let (here, there) = (found(false), found(true));
    assert_eq!(here.cause, Cause::SoftwareChecksum);
    assert_eq!(here.fix.as_deref(), Some("ethtool -K veth0 tx on tso on gso on"));
    assert!(there.sentence.contains("is off on veth0 at the server)"), "{}", there.sentence);
    assert!(there.fix.is_some_and(|fix| fix.ends_with("gso on at the server")));
}

#[test]
fn calls_and_copies_limit() {
    let tiny = with(|_, point| {
        (point.sender.cpu, point.sender.bytes_per_call) = (cpus(1.0), 64.0);
    });
    is(tiny, "system_calls", "sender_cpu");
    let large = with(|_, point| point.receiver.cpu = cpus(1.0));
    is(large, "copying", "receiver_cpu");
}

#[test]
fn a_sweep_of_messages_separates_calls_from_bytes() {
    // 0.5 us per call and 0.1 us per KiB: equal at 5 KiB.
    let mut report = idle();
    let point = report.points.remove(0);
    for message in [128.0, 1024.0, 4096.0, 8192.0, 65_536.0] {
        let mut point = point.clone();
        let per_kb = (0.5 + 0.1 * message / 1024.0) / (message / 1024.0);
        point.message_bytes = message as u64;
        point.sender.cpu = cpus(1.0);
        point.sender.bytes_per_call = message;
        point.sender.cpu_us_per_kb = figure("us/KB", per_kb);
        report.points.push(point);
    }
    explain(&mut report);
    let found: Vec<&str> = report.points.iter().map(|point| point.finding.as_str()).collect();
    assert_eq!(found, ["system_calls", "system_calls", "system_calls", "copying", "copying"]);
    let sentence = &findings(&report, &report.points[2])[0].sentence;
    assert!(sentence.contains("56 %") && sentence.contains("0.5 us"), "{sentence}");
}

#[test]
fn requests_wait_for_acknowledgements_or_for_the_peer() {
    let held = with(|report, point| {
        report.mode = StreamMode::Request;
        point.tcp.as_mut().expect("TCP").held_back = 0.9;
    });
    is(held, "nagle_delay", "round_trip");
    is(with(|report, _| report.mode = StreamMode::Request), "waiting_for_peer", "round_trip");
}

#[test]
fn the_gain_is_what_the_sweep_has_shown() {
    let mut report = tcp(|tcp| tcp.sndbuf_limited = 0.5);
    let mut faster = report.points[0].clone();
    faster.send_buffer_bytes = Some(1 << 20);
    faster.gbps = figure("Gb/s", 15.0);
    report.points.push(faster);
    let first = findings(&report, &report.points[0]).remove(0);
    assert_eq!(first.cause, Cause::SendBuffer);
    let gain = first.gain.percent.as_number().expect("a gain");
    assert!((gain - 50.0).abs() < 1e-6, "{gain}");
}

#[test]
fn thresholds_have_sources() {
    for rule in RULES {
        assert!(!rule.conditions.is_empty(), "{rule:?}");
        assert!(rule.conditions.iter().all(|condition| condition.source.len() > 5), "{rule:?}");
    }
}
