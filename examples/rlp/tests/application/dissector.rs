// SPDX-License-Identifier: MIT OR Apache-2.0
//! Independent check of the serving node's side: tshark dissects it as GRE with PPP inside, and
//! reports no malformed packet.

use crate::rig::{a10, capture, example, path, ran, traffic};
use linerate_rlp::ppp;
use linerate_stage_api::testing::PcapWriter;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

/// Fields that tshark prints per frame.
const FIELDS: [&str; 6] = [
    "_ws.malformed",
    "gre.proto",
    "gre.key",
    "gre.sequence_number",
    "ppp.fcs.status",
    "ip.checksum.status",
];
const GOOD: &str = "1";
const BAD: &str = "0";

/// Returns whether tshark is available; if not, prints that the test is skipped.
fn is_installed() -> bool {
    let mut found = Command::new("tshark");
    let found = found.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let found = found.status().is_ok();
    if !found {
        println!("SKIP: tshark is not installed");
    }
    found
}

/// Dissects frames with tshark and returns each frame's fields.
fn judge<'a>(frames: impl Iterator<Item = &'a [u8]>) -> Vec<[String; FIELDS.len()]> {
    let mut capture = PcapWriter::new(Vec::new()).expect("memory takes it");
    frames.for_each(|frame| capture.write(0, frame).expect("memory takes it"));
    let mut file = tempfile::NamedTempFile::new().expect("a place for files");
    file.write_all(&capture.finish().expect("memory takes it")).expect("room in the file");
    let mut command = Command::new("tshark");
    command.args(["-n", "-o", "ppp.fcs_type:16-Bit", "-o", "ip.check_checksum:TRUE", "-r"]);
    command.arg(file.path()).args(["-T", "fields", "-E", "separator=;", "-E", "aggregator=,"]);
    command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let output = command.output().expect("tshark starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let fields = |line: &str| {
        let fields: Vec<String> = line.split(';').map(str::to_owned).collect();
        fields.try_into().unwrap_or_else(|fields| panic!("{fields:?}"))
    };
    String::from_utf8_lossy(&output.stdout).lines().map(fields).collect()
}

/// Asserts that each frame is valid A10 GRE, with consecutive sequence numbers in its session.
fn assert_valid_gre(judged: &[[String; FIELDS.len()]]) {
    let mut next: BTreeMap<&str, u32> = BTreeMap::new();
    for [malformed, protocol, key, number, _, ip] in judged {
        assert_eq!((malformed.as_str(), protocol.as_str()), ("", "0x8881"));
        let expected = next.entry(key).or_default();
        assert_eq!(number, &expected.to_string(), "session {key}");
        *expected += 1;
        assert!(ip.split(',').all(|status| status == GOOD), "{ip}");
    }
    assert!(next.len() > 1, "several sessions");
}

#[test]
fn the_dissector_detects_faults() {
    if !is_installed() {
        return;
    }
    let mut stream = Vec::new();
    let sizes = capture();
    ppp::push_frame(ppp::PROTOCOL_IPV4, &sizes.frame(0)[14..], &mut stream);
    let mut damaged = stream.clone();
    damaged[20] ^= 1;
    let mut cut = a10(1, 2, &stream);
    cut.truncate(40);
    let judged = judge([&a10(1, 0, &stream)[..], &a10(1, 1, &damaged), &cut].into_iter());
    let sums: Vec<&str> = judged.iter().map(|fields| fields[4].as_str()).collect();
    assert_eq!(sums, [GOOD, BAD, ""]);
    assert!(!judged[2][0].is_empty(), "what is cut is malformed");
}

#[test]
fn packets_in_envelopes_are_ppp_with_a_good_check_sequence() {
    if !is_installed() {
        return;
    }
    const PACKETS: u64 = 3_000;
    // Without a fixed size, each captured packet has its own A10 packet.
    let path = path(
        "source = { kind = 'a10', file = 'edge.pcapng', sessions = 8 }\n\
         [[stage]]\nkind = 'PDSN_RX'\n",
    );
    let outcome = ran(&path, &traffic(&path), PACKETS);
    let judged = judge(outcome.kept.iter().map(|(_, _, bytes)| bytes));
    assert_eq!(judged.len() as u64, PACKETS);
    assert_valid_gre(&judged);
    assert!(judged.iter().all(|fields| fields[4] == GOOD), "the check sequence of each");
    let inner = judged.iter().filter(|fields| fields[5].contains(',')).count();
    assert!(inner > 500, "{inner} packets had an inner checksum");
}

/// PPP frames continue in the next packet here, so only the A10 headers and each packet's first PPP
/// frame are checked.
#[test]
fn nothing_is_malformed_in_packets_of_one_size_and_in_what_the_reverse_path_sends() {
    if !is_installed() {
        return;
    }
    const PACKETS: u64 = 5_000;
    let forward = path(
        "source = { kind = 'a10', file = 'edge.pcapng', sessions = 8, bytes = 338 }\n\
         [[stage]]\nkind = 'PDSN_RX'\n",
    );
    let reverse = path(
        "source = { kind = 'a10', file = 'edge.pcapng', sessions = 8, direction = 'reverse' }\n\
         [[stage]]\nkind = 'ATIF_RX'\n[[stage]]\nkind = 'RLP'\n[[stage]]\nkind = 'PDSN_TX'\n",
    );
    for path in [forward, reverse, example("rlp-reverse")] {
        let outcome = ran(&path, &traffic(&path), PACKETS);
        let judged = judge(outcome.kept.iter().map(|(_, _, bytes)| bytes));
        assert_eq!(judged.len() as u64, PACKETS);
        assert_valid_gre(&judged);
    }
}
