// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests captures with unusable packets: good packets are replayed, and others are counted by
//! cause.

use crate::records::assert_conserved;
use crate::rig::{EDGE_PACKETS, EDGE_TIME, Folder, answered, edge, pcap, report, udp};
use linerate_record::run::{RunReport, StageReport};
use std::collections::BTreeMap;

const GOOD: u64 = 40;

/// Returns an ARP request, padded to the minimum frame size.
fn arp() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 8, 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.resize(60, 0);
    frame
}

/// Frames that the edge router cannot use, with the stage that drops them and the expected cause.
/// The stage is empty for frames rejected when reading the capture.
fn odd() -> Vec<(Vec<u8>, &'static str, &'static str)> {
    let good = udp(9);
    let mut bad_length = good.clone();
    bad_length[16..18].copy_from_slice(&900_u16.to_be_bytes());
    let mut bad_sum = good.clone();
    bad_sum[24] ^= 1;
    let mut bad_version = good.clone();
    bad_version[14] = 0x15;
    let mut giant = udp(9);
    giant.resize(9_014, 0);
    vec![
        (arp(), "parse", "not_ip"),
        (Vec::new(), "", "zero_length"),
        (giant, "", "too_long"),
        (good[..3].to_vec(), "parse", "cut_header"),
        (good[..14].to_vec(), "parse", "cut_header"),
        (good[..30].to_vec(), "parse", "cut_header"),
        (bad_length, "parse", "bad_header"),
        (bad_version, "parse", "bad_header"),
        (bad_sum, "verify", "bad_l3_checksum"),
    ]
}

/// Returns a capture of good packets with odd ones in between.
fn capture(odd: &[Vec<u8>]) -> Vec<u8> {
    let good: Vec<_> = (0..GOOD as u8).map(udp).collect();
    let rest = good.iter().skip(odd.len());
    let mixed = good.iter().zip(odd).flat_map(|(good, odd)| [good, odd]).chain(rest);
    pcap(mixed.map(Vec::as_slice))
}

fn stage<'r>(report: &'r RunReport, name: &str) -> &'r StageReport {
    let mut stages = report.workers.iter().flat_map(|worker| &worker.stages);
    stages.find(|stage| stage.name == name).unwrap_or_else(|| panic!("no stage {name}"))
}

fn counted<'a>(causes: impl Iterator<Item = &'a str>) -> BTreeMap<String, u64> {
    let mut counted = BTreeMap::new();
    for cause in causes {
        *counted.entry(cause.to_owned()).or_default() += 1;
    }
    counted
}

#[test]
fn good_packets_go_through_and_odd_ones_are_counted_by_cause() {
    let folder = Folder::new();
    let odd = odd();
    let frames: Vec<_> = odd.iter().map(|(frame, ..)| frame.clone()).collect();
    let mut bytes = capture(&frames);
    // Append a packet truncated after its headers, and the beginning of another packet.
    let mut cut = pcap([&udp(1)[..42]]);
    cut[36..40].copy_from_slice(&60_u32.to_le_bytes());
    bytes.extend(&cut[24..]);
    bytes.extend(&pcap([&udp(1)[..]])[24..60]);
    folder.write("odd.pcap", bytes);
    let at = |wanted: &'static str| {
        let of_stage = odd.iter().filter(move |(_, stage, _)| *stage == wanted);
        of_stage.map(|(.., cause)| *cause)
    };
    let offered = GOOD + (at("parse").count() + at("verify").count()) as u64;
    let offer = format!("packets = {offered}");
    let text = edge(&[(EDGE_TIME, offer.as_str())]);
    let text = text.replace(crate::rig::EDGE_CAPTURE, "odd.pcap");
    let text = text.replace("[source]", "[source]\nallow_left_out = true");
    let file = folder.write("path.toml", text);
    let report = report(&["run", &file, "--json", "--audit"]);
    assert_conserved(&report);
    let rejected = at("").chain(["cut_short", "truncated_tail"]);
    assert_eq!(report.rejected, counted(rejected));
    assert_eq!(stage(&report, "source").packets, offered);
    for name in ["parse", "verify"] {
        let mut drops = stage(&report, name).drops.clone();
        drops.retain(|_, packets| *packets > 0);
        assert_eq!(drops, counted(at(name)), "{name}");
    }
    for name in ["filter", "nat44", "forward", "gre_encap", "count", "sink"] {
        assert_eq!(stage(&report, name).packets, GOOD, "{name}");
    }
    let checked = answered(0, &["run", &file, "--check"]);
    for cause in report.rejected.keys() {
        assert!(checked.contains(&format!("skipped: 1 {cause}, ")), "{cause} not in {checked}");
    }
}

#[test]
fn a_recording_that_breaks_off_gives_what_came_before() {
    let folder = Folder::new();
    let whole = std::fs::read(crate::rig::EDGE_CAPTURE).expect("the example's capture");
    folder.write("broken-off.pcapng", &whole[..whole.len() - 10]);
    let offer = format!("packets = {}", EDGE_PACKETS - 1);
    let text = edge(&[(EDGE_TIME, offer.as_str())]);
    let text = text.replace(crate::rig::EDGE_CAPTURE, "broken-off.pcapng");
    let file = folder.write("path.toml", text);
    let checked = answered(0, &["run", &file, "--check"]);
    assert!(checked.contains(&format!("\n{} packets of", EDGE_PACKETS - 1)), "{checked}");
    let report = report(&["run", &file, "--json"]);
    assert_conserved(&report);
    assert_eq!(report.rejected, counted(["truncated_tail"].into_iter()));
    assert_eq!(stage(&report, "source").packets, EDGE_PACKETS - 1);
}
