// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests which packets of a capture are selected or rejected, and their order and buckets.

use super::*;
use crate::capture::{LinkType, PcapWriter};

/// Returns a pcap file with these frames, each given with its time in ns and its original length.
fn file(frames: &[(u64, &[u8], u32)]) -> Vec<u8> {
    let mut file = Vec::new();
    for (time_ns, frame, original) in frames {
        let mut one = PcapWriter::new(Vec::new()).unwrap();
        one.write(*time_ns, frame).unwrap();
        let mut one = one.finish().unwrap();
        one[36..40].copy_from_slice(&original.to_le_bytes());
        file.extend_from_slice(&one[if file.is_empty() { 0 } else { 24 }..]);
    }
    file
}

const REST_ALLOWED: CaptureRules = CaptureRules { allow_left_out: true, ..CaptureRules::WHOLE };

/// Returns rejection causes with their packets and bytes.
fn causes(list: &[(&str, u64, u64)]) -> BTreeMap<String, Tally> {
    let one = |(cause, packets, bytes): &(&str, u64, u64)| {
        ((*cause).to_owned(), Tally { packets: *packets, bytes: *bytes })
    };
    list.iter().map(one).collect()
}

struct ByFirstByte;

impl Steer for ByFirstByte {
    fn bucket(&self, frame: &[u8]) -> Option<u8> {
        frame.first().copied().filter(|byte| *byte < 100)
    }
}

struct Always(u8);

impl Steer for Always {
    fn bucket(&self, _: &[u8]) -> Option<u8> {
        Some(self.0)
    }
}

#[test]
fn odd_packets_are_counted_and_the_others_kept() {
    let mut bytes = file(&[
        (5, &[1; 60], 60),
        (6, &[], 0),
        (7, &[2; 101], 101),
        (3, &[3; 100], 100),
        (9, &[4; 40], 1500),
        (9, &[5; 7], 7),
        (10, &[6; 60], 60),
    ]);
    bytes.truncate(bytes.len() - 1);
    let traffic = Traffic::from_capture(&bytes, 100, REST_ALLOWED, &[]).unwrap();
    let kept: Vec<_> = (0..traffic.len()).map(|i| traffic.frame(i).to_vec()).collect();
    assert_eq!(kept, [vec![1; 60], vec![3; 100], vec![5; 7]]);
    let times: Vec<_> = traffic.frames().iter().map(|f| f.time_ns).collect();
    assert_eq!(times, [5, 5, 9], "times never decrease");
    assert_eq!(traffic.duration_ns(), 4);
    assert_eq!((traffic.total_bytes(), traffic.mean_bytes()), (167, 167.0 / 3.0));
    assert_eq!(traffic.mean_sent_bytes(), (60.0 + 100.0 + 60.0) / 3.0);
    let expected = causes(&[
        ("zero_length", 1, 0),
        ("too_long", 1, 101),
        ("cut_short", 1, 1500),
        ("truncated_tail", 1, 16 + 59),
    ]);
    assert_eq!(traffic.input().left_out, expected);
}

#[test]
fn a_capture_of_headers_only_says_how_to_record() {
    let error =
        Traffic::from_capture(&file(&[(0, &[0; 96], 1514)]), 2048, CaptureRules::default(), &[])
            .unwrap_err();
    assert_eq!(error, TrafficError::AllRejected(causes(&[("cut_short", 1, 1514)])));
    let text = error.to_string();
    assert!(text.contains(": 1 cut_short (") && text.contains("tcpdump -s 0"), "{text}");
}

#[test]
fn unreadable_captures_keep_their_reason() {
    let mut bytes = file(&[(0, &[0; 60], 60)]);
    bytes[20] = 101;
    let error = Traffic::from_capture(&bytes, 2048, CaptureRules::default(), &[]).unwrap_err();
    assert_eq!(error, TrafficError::Capture(CaptureError::LinkType(LinkType(101))));
    assert!(error.to_string().contains("raw IP (101)"), "{error}");
}

#[test]
fn the_first_stage_that_steers_decides() {
    let bytes = file(&[(0, &[7; 60], 60), (0, &[200; 60], 60)]);
    let buckets = |steers: &[Arc<dyn Steer>]| -> Vec<u8> {
        let traffic = Traffic::from_capture(&bytes, 2048, CaptureRules::default(), steers).unwrap();
        traffic.frames().iter().map(|f| f.bucket).collect()
    };
    let hashed = address_bucket(&[200; 60]);
    assert_eq!(buckets(&[Arc::new(ByFirstByte)]), [7, hashed]);
    assert_eq!(buckets(&[Arc::new(ByFirstByte), Arc::new(Always(9))]), [7, 9]);
    assert_eq!(buckets(&[Arc::new(Always(9)), Arc::new(ByFirstByte)]), [9, 9]);
}

/// Returns a TCP packet from port `port` to port 80 with the given fragment field.
fn tcp(hosts: [u8; 2], port: u16, fragment: u16) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x08, 0x00, 0x45, 0, 0, 46, 0, 0]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, 6, 0, 0]);
    frame.extend(hosts.iter().flat_map(|host| [10, 0, 0, *host]));
    frame.extend(port.to_be_bytes());
    frame.extend([0, 80]);
    frame.resize(60, 0);
    frame
}

#[test]
fn connections_spread_and_fragments_stay_with_their_flow() {
    const MORE_FRAGMENTS: u16 = 0x2000;
    let buckets = |frames: &[Vec<u8>], steers: &[Arc<dyn Steer>]| -> Vec<u8> {
        let mut builder = TrafficBuilder::new(steers);
        frames.iter().for_each(|frame| builder.push(frame, 0, &[]));
        builder.finish().unwrap().frames().iter().map(|frame| frame.bucket).collect()
    };
    let mut frames: Vec<Vec<u8>> = (0..200).map(|port| tcp([1, 2], 1000 + port, 0)).collect();
    let used = buckets(&frames, &[]).into_iter().collect::<BTreeSet<_>>().len();
    assert!(used > 80, "200 connections between two hosts use {used} of 128 buckets");
    frames.push(tcp([3, 4], 1000, 0));
    frames.push(tcp([2, 1], 80, MORE_FRAGMENTS));
    let all = buckets(&frames, &[]);
    let pair = address_bucket(&frames[0]);
    assert!(all[..200].iter().chain(&all[201..]).all(|bucket| *bucket == pair), "{all:?}");
    assert_eq!(all[200], flow_bucket(&frames[200]), "other hosts are hashed by port");
    assert_eq!(buckets(&frames, &[Arc::new(ByFirstByte)]), [2; 202]);
}

#[test]
fn generated_traffic_has_the_requested_mix() {
    let imix = [60, 60, 60, 60, 60, 60, 60, 590, 590, 590, 590, 1514];
    let generator = Generator { sizes: &imix, flows: 5000, seed: 1 };
    let traffic = Traffic::generate(generator, 2048, &[]).unwrap();
    let mean = f64::from(imix.iter().sum::<u32>()) / imix.len() as f64;
    assert_eq!((traffic.mean_bytes(), traffic.mean_sent_bytes()), (mean, mean));
    assert_eq!(traffic.bucket_weights().iter().sum::<u64>(), traffic.len() as u64);
    assert_eq!(traffic.duration_ns(), (traffic.len() as u64 - 1) * GENERATED_GAP_NS);
    assert_eq!(traffic.input().left_out, BTreeMap::new());
    for replicas in 2..=4 {
        let share = crate::bucket::largest_share(&traffic.bucket_weights(), replicas);
        assert!(share * f64::from(replicas) < 1.01, "{replicas} replicas: {share}");
    }
}

#[test]
fn the_recorded_capture_suits_replicas() {
    let file = include_bytes!("../../../../examples/edge.pcapng");
    let traffic = Traffic::from_capture(file, 1514, CaptureRules::default(), &[]).unwrap();
    assert_eq!(traffic.input().left_out, BTreeMap::new());
    assert_eq!(traffic.input().repairs(), [""; 0]);
    assert!(traffic.len() > 4096 && (300.0..420.0).contains(&traffic.mean_bytes()));
    for replicas in 2..=4 {
        let share = crate::bucket::largest_share(&traffic.bucket_weights(), replicas);
        assert!(share * f64::from(replicas) < 1.01, "{replicas} replicas: {share}");
    }
}

#[test]
fn running_numbers_run_on_and_wrap() {
    let running = |bytes, first, step| Running { at: 1, bytes, first, step };
    let written = |number: Running, pass| {
        let mut frame = [0xee; 6];
        number.write(&mut frame, pass);
        frame
    };
    assert_eq!(written(running(4, 5, 7), 0), [0xee, 0, 0, 0, 5, 0xee]);
    assert_eq!(written(running(4, 5, 7), 300), [0xee, 0, 0, 0x08, 0x39, 0xee]);
    assert_eq!(written(running(2, 0xfffe, 1), 3), [0xee, 0, 1, 0xee, 0xee, 0xee]);
    assert_eq!(written(running(4, u32::MAX, 2), 1 << 31), [0xee, 0xff, 0xff, 0xff, 0xff, 0xee]);
}

#[test]
fn a_builder_keeps_frames_in_order_and_their_numbers_apart() {
    let number = |at, first| Running { at, bytes: 2, first, step: 1 };
    let mut builder = TrafficBuilder::new(&[]);
    builder.push(&[1; 60], 9, &[number(0, 1), number(58, 2)]);
    builder.push(&[2; 61], 4, &[]);
    builder.push(&[3; 62], 10, &[number(7, 3)]);
    builder.reject("odd", Tally { packets: 2, bytes: 9 });
    let traffic = builder.finish().unwrap();
    let numbers: Vec<Vec<u32>> = traffic
        .frames()
        .iter()
        .map(|frame| traffic.running(*frame).iter().map(|n| n.first).collect())
        .collect();
    assert_eq!(numbers, [vec![1, 2], vec![], vec![3]]);
    assert_eq!(traffic.frame(1), [2; 61]);
    assert_eq!(traffic.frames()[1].time_ns, 9);
    assert_eq!(traffic.input().left_out, causes(&[("odd", 2, 9)]));
    let mut nothing = TrafficBuilder::new(&[]);
    nothing.reject("odd", Tally { packets: 3, bytes: 9 });
    let refused = nothing.finish().unwrap_err();
    assert_eq!(refused, TrafficError::AllRejected(causes(&[("odd", 3, 9)])));
}

#[test]
fn generator_errors_are_passed_on() {
    let generator = Generator { sizes: &[60], flows: 0, seed: 1 };
    let error = Traffic::generate(generator, 2048, &[]).unwrap_err();
    assert_eq!(error, TrafficError::Generator(GeneratorError::NoFlows));
}
