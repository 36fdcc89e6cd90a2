// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rendering of `linerate tcp`. Golden files: see `common`.

mod common;

use common::{PLAIN, assert_golden, assert_same};
use linerate_record::kernels::Skipped;
use linerate_record::stats::Estimate;
use linerate_record::tcp::{
    TcpLaw, TcpLawPoint, TcpPattern, TcpProof, TcpReport, TcpSeam, TcpSet, TcpStack, TcpWire,
};
use linerate_record::{Figure, Tier};
use linerate_report::{Style, svg, tcp, tcp_histograms};

fn within(unit: &str, value: f64, part: f64) -> Figure {
    let (low, high) = (value * (1.0 - part), value * (1.0 + part));
    let estimate = Estimate { value, low, high, confidence: 0.9, n: 90 };
    Figure::number(unit, estimate, Tier::Sw, "by hand")
}

fn absent(unit: &str, reason: &str) -> Figure {
    Figure::absent(unit, Tier::Sw, "by hand", reason)
}

/// Calls to a routine, most of them with long lengths.
fn seam(routine: &str, bytes: u64) -> TcpSeam {
    let class = (u64::BITS - bytes.leading_zeros()) as usize;
    let mut lengths = vec![0; 17];
    lengths[class] = 990;
    lengths[5] = 10;
    let alignments = vec![500, 0, 0, 0, 300, 0, 0, 200];
    TcpSeam { routine: routine.to_owned(), calls: 1000, bytes: 1000 * bytes, lengths, alignments }
}

/// Returns a set that runs at this fraction of the bound's speed and spends these fractions of its
/// time in the routines.
fn set(name: &str, of_bound: f64, shares: [f64; 3]) -> TcpSet {
    let [sum, copy, both] = shares.map(|share| within("1", share, 0.1));
    let seen = |share: f64| within("1", (share + 0.01).min(1.0), 0.1);
    let [seen_sum, seen_copy, seen_both] = shares.map(seen);
    TcpSet {
        name: name.to_owned(),
        gbps_per_cpu_s: within("Gb/s", 40.0 * of_bound, 0.01),
        segments_per_cpu_s: within("1/s", 5.1e6 * of_bound, 0.01),
        exchanges_per_cpu_s: absent("1/s", "a stream has no exchanges"),
        ns_per_segment: within("ns", 195.0 / of_bound, 0.01),
        round_trip_cpu_ns: absent("ns", "one direction only"),
        round_trip_virtual_us: absent("us", "one direction only"),
        of_bound: within("1", of_bound, 0.01),
        over_c: within("1", of_bound / 0.3, 0.02),
        over_scalar: within("1", of_bound / 0.7, 0.01),
        share_checksum: sum,
        share_copy: copy,
        share_copy_checksum: both,
        sampled_checksum: seen_sum,
        sampled_copy: seen_copy,
        sampled_copy_checksum: seen_both,
        checksum_per_payload: within("1", 0.07, 0.0),
        seam: vec![seam("copy", 5840), seam("copy_checksum", 1460)],
    }
}

fn bulk() -> TcpPattern {
    TcpPattern {
        name: "bulk".to_owned(),
        segment_bytes: 1460,
        buffer_bytes: 262_800,
        wire: TcpWire::Copy,
        mix: None,
        mix_source: None,
        proof: TcpProof {
            bytes: 4_200_420,
            segments: 5208,
            lost: 27,
            reordered: 49,
            duplicated: 43,
            corrupted: 30,
            ..TcpProof::default()
        },
        best: Some("selected".to_owned()),
        slices: 1200,
        slices_dropped: 7,
        sets: vec![
            set("document", 0.3, [0.45, 0.2, 0.0]),
            set("adc", 0.7, [0.0, 0.2, 0.25]),
            set("selected", 0.95, [0.0, 0.15, 0.12]),
            set("off", 1.0, [0.0, 0.28, 0.0]),
        ],
    }
}

/// Returns the pattern without data, which has no payload and no samples from another CPU.
fn response() -> TcpPattern {
    let connection = |name: &str, of_bound: f64| TcpSet {
        gbps_per_cpu_s: absent("Gb/s", "no payload is sent"),
        exchanges_per_cpu_s: within("1/s", 850_000.0 * of_bound, 0.01),
        round_trip_cpu_ns: within("ns", 1180.0 / of_bound, 0.01),
        round_trip_virtual_us: within("us", 12.0, 0.0),
        sampled_checksum: absent("1", "leave a second processor free"),
        sampled_copy: absent("1", "leave a second processor free"),
        sampled_copy_checksum: absent("1", "leave a second processor free"),
        checksum_per_payload: absent("1", "no payload is sent"),
        seam: Vec::new(),
        ..set(name, of_bound, [0.02, 0.0, 0.0])
    };
    TcpPattern {
        name: "response".to_owned(),
        sets: vec![connection("selected", 0.93), connection("off", 1.0)],
        ..bulk()
    }
}

fn law() -> TcpLaw {
    let point = |loss: f64, mbps: f64| TcpLawPoint {
        loss,
        segment_bytes: 1460,
        round_trip_ms: 40.0,
        mbps: within("Mb/s", mbps, 0.02),
    };
    TcpLaw {
        stack: "smoltcp".to_owned(),
        ack_delay_ms: 10.0,
        segments_per_run: 60_000,
        runs_per_point: 9,
        points: vec![point(3e-4, 15.5), point(3e-3, 4.8)],
        exponent_loss: within("1", -0.51, -0.02),
        exponent_segment: within("1", 1.01, 0.01),
        exponent_round_trip: within("1", -0.97, -0.02),
        constant: within("1", 0.87, 0.02),
    }
}

fn report(patterns: Vec<TcpPattern>, laws: Vec<TcpLaw>) -> TcpReport {
    let stack = TcpStack {
        name: "smoltcp".to_owned(),
        version: "0.14".to_owned(),
        copies_by_routines: true,
        patterns,
    };
    TcpReport {
        cpu: 1,
        selected: "selected".to_owned(),
        scalar: "adc".to_owned(),
        stacks: if laws.is_empty() { vec![stack] } else { Vec::new() },
        laws,
        skipped: vec![Skipped { what: "lwip".to_owned(), reason: "it is not built".to_owned() }],
        seed: 1,
        interrupted: false,
    }
}

fn both() -> TcpReport {
    report(vec![bulk(), response()], Vec::new())
}

#[test]
fn sets_and_their_bound() {
    assert_golden("tcp.txt", &PLAIN, &tcp(&both(), &PLAIN));
}

#[test]
fn a_narrow_terminal_has_two_tables() {
    let narrow = Style { width: 72, ..PLAIN };
    assert_golden("tcp-72.txt", &narrow, &tcp(&both(), &narrow));
}

#[test]
fn lengths_and_places_of_calls() {
    assert_golden("tcp-histograms.txt", &PLAIN, &tcp_histograms(&both(), &PLAIN));
}

#[test]
fn the_law() {
    assert_golden("tcp-law.txt", &PLAIN, &tcp(&report(Vec::new(), vec![law()]), &PLAIN));
}

#[test]
fn plots_of_the_paper() {
    let plots = svg::tcp(&both());
    let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
    assert_eq!(names, ["tcp-smoltcp-shares", "tcp-smoltcp-normalised", "tcp-smoltcp-throughput"]);
    assert_same("tcp-smoltcp-shares.svg", &plots[0].svg);
}

#[test]
fn a_wire_that_carried_nothing_before_is_not_mentioned() {
    let pattern = TcpPattern { proof: TcpProof::default(), ..bulk() };
    let text = tcp(&report(vec![pattern], Vec::new()), &PLAIN);
    assert!(text.contains("slices kept\n") && !text.contains("before"), "{text}");
}

/// There is no estimate for the white paper's C code if that set did not run.
#[test]
fn a_finding_names_no_set_that_did_not_take_part() {
    let mut pattern = bulk();
    pattern.sets.remove(0);
    for set in &mut pattern.sets {
        set.over_c = absent("1", "set `document` was not measured");
    }
    let wide = Style { width: 400, ..PLAIN };
    let text = tcp(&report(vec![pattern], Vec::new()), &wide);
    let finding = text.lines().find(|line| line.starts_with("smoltcp ")).expect("a finding");
    assert!(finding.contains("without checksums and 1.36 ("), "{finding}");
    assert!(!finding.contains("paper"), "{finding}");
}
