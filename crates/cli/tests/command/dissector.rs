// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the stages independently: tshark must not find errors in the captures they write.

use crate::rig::{EDGE_PACKETS, EDGE_STAGES, EDGE_TIME, EDGE_WORKERS, Folder};
use crate::rig::{edge, pcap, report, udp, workers};
use std::process::{Command, Stdio};

/// Fields that tshark prints for each frame: whether it is malformed, then the status of each
/// checksum.
const FIELDS: [&str; 6] = [
    "_ws.malformed",
    "ip.checksum.status",
    "tcp.checksum.status",
    "udp.checksum.status",
    "icmp.checksum.status",
    "icmpv6.checksum.status",
];
const BAD: &str = "0";
const GOOD: &str = "1";

/// An independent dissector's verdict on a capture.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) frames: u64,
    pub(crate) malformed: u64,
    /// Frames with a wrong checksum, and the number of correct checksums by field.
    pub(crate) bad: u64,
    pub(crate) good: [u64; FIELDS.len()],
}

/// Returns whether tshark is installed; prints a note if not.
pub(crate) fn is_installed() -> bool {
    let mut found = Command::new("tshark");
    let found = found.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let found = found.status().is_ok();
    if !found {
        println!("SKIP: tshark is not installed");
    }
    found
}

pub(crate) fn judge(file: &str) -> Judgement {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", file, "-T", "fields", "-E", "separator=;", "-E", "aggregator=,"]);
    for protocol in ["ip", "tcp", "udp"] {
        command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let output = command.output().expect("tshark starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut judgement = Judgement::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let fields: Vec<Vec<&str>> = line.split(';').map(|f| f.split(',').collect()).collect();
        assert_eq!(fields.len(), FIELDS.len(), "{line}");
        judgement.frames += 1;
        judgement.malformed += u64::from(fields[0] != [""]);
        judgement.bad += u64::from(fields[1..].iter().flatten().any(|state| *state == BAD));
        for (good, states) in judgement.good.iter_mut().zip(&fields).skip(1) {
            *good += states.iter().filter(|state| **state == GOOD).count() as u64;
        }
    }
    judgement
}

#[test]
fn the_dissector_detects_faults() {
    if !is_installed() {
        return;
    }
    let mut bad_sum = udp(1);
    bad_sum[24] ^= 1;
    let mut cut = udp(1);
    cut.truncate(38);
    let folder = Folder::new();
    let file = folder.write("wrong.pcap", pcap([&udp(1)[..], &bad_sum, &cut]));
    let good = [0, 2, 0, 0, 0, 0];
    assert_eq!(judge(&file), Judgement { frames: 3, malformed: 1, bad: 1, good });
}

/// Runs the edge router without the stages in `left_out`, and asserts that tshark finds no errors
/// in its output.
fn assert_nothing_is_wrong(left_out: &[&str]) {
    if !is_installed() {
        return;
    }
    let folder = Folder::new();
    let out = folder.file("out.pcap");
    let sink = format!("[sink]\nkind = \"capture\"\nfile = {out:?}\n\n[run]");
    let mut stages = EDGE_STAGES.to_vec();
    stages.retain(|stage| !left_out.contains(stage));
    let workers = workers(&stages, &[(stages.len(), 1)]);
    let offer = format!("packets = {EDGE_PACKETS}");
    let mut text = edge(&[
        (EDGE_WORKERS, workers.as_str()),
        (EDGE_TIME, offer.as_str()),
        ("[run]", sink.as_str()),
    ]);
    for stage in left_out {
        let head = format!("[[stage]]\nkind = \"{stage}\"");
        let (before, rest) = text.split_once(&head).expect("the stage is there");
        let (_, behind) = rest.split_once("\n\n").expect("an empty line ends it");
        text = before.to_owned() + behind;
    }
    let report = report(&["run", &folder.write("path.toml", text), "--json"]);
    let sink = report.workers[0].stages.last().expect("a worker has a tail");
    let judgement = judge(&out);
    let clean = Judgement { frames: sink.packets, malformed: 0, bad: 0, good: judgement.good };
    assert_eq!(judgement, clean);
    assert!(judgement.frames > 6_500, "{judgement:?}");
    assert!(judgement.good[1..].iter().all(|good| *good > 10), "{judgement:?}");
}

#[test]
fn nothing_is_wrong_with_what_the_edge_router_sends() {
    assert_nothing_is_wrong(&[]);
}

#[test]
fn nothing_is_wrong_with_what_the_edge_router_sends_without_a_tunnel() {
    assert_nothing_is_wrong(&["gre_encap"]);
}
