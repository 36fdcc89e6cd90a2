// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the example with a branch for IPv4 and one for IPv6.

use crate::records::assert_conserved;
use crate::rig::{EDGE_CAPTURE, EDGE_PACKETS, Folder, answered, refused, report, workers};
use linerate_dataplane::capture;
use linerate_record::run::{RunReport, StageReport};

const DUAL: &str = include_str!("../../../../examples/dual-stack.toml");
const STAGES: [&str; 6] = ["parse", "verify", "nat44", "filter", "count6", "forward"];

/// Returns the example with another mapping and a limit of one pass over its capture. Its output is
/// written to `out`.
fn path(out: &str, segments: &[(usize, u32)]) -> String {
    let run = format!(
        "[sink]\nkind = \"capture\"\nfile = {out:?}\n\n[mapping]\nworkers = [\n  {}]\n\n[run]\n\
         packets = {EDGE_PACKETS}",
        workers(&STAGES, segments)
    );
    let text = DUAL.replace("edge.pcapng", EDGE_CAPTURE);
    text.replace("[run]\ntime = \"2s\"", &run)
}

/// Returns the numbers of packets that a stage processed and that bypassed it, over all workers.
fn counts(report: &RunReport, name: &str) -> [u64; 2] {
    let stages = report.workers.iter().flat_map(|worker| &worker.stages);
    let same: Vec<&StageReport> = stages.filter(|stage| stage.name == name).collect();
    let sum = |part: fn(&StageReport) -> u64| same.iter().map(|stage| part(stage)).sum();
    [sum(|stage| stage.packets), sum(|stage| stage.bypassed)]
}

/// Returns the counts of the stages, and the packets written, in any order.
fn written(folder: &Folder, segments: &[(usize, u32)]) -> (Vec<[u64; 2]>, Vec<Vec<u8>>) {
    let out = folder.file("out.pcap");
    let file = folder.write("path.toml", path(&out, segments));
    let report = report(&["run", &file, "--json", "--oversubscribe", "--audit"]);
    assert_conserved(&report);
    let bytes = std::fs::read(&out).expect("the capture is written");
    let mut packets = Vec::new();
    let contents = capture::scan(&bytes[..], |packet| {
        packets.push(packet.bytes.to_vec());
        capture::Flow::Continue(())
    });
    contents.expect("it is a capture");
    packets.sort_unstable();
    (STAGES.iter().map(|stage| counts(&report, stage)).collect(), packets)
}

#[test]
fn a_dual_stack_path_gives_the_same_packets_under_every_mapping() {
    let folder = Folder::new();
    let (stages, packets) = written(&folder, &[(6, 1)]);
    let [parse, verify, nat44, filter, count6, _] = stages[..] else { panic!("six stages") };
    assert_eq!(parse, [EDGE_PACKETS, 0]);
    // The capture has 104 ARP packets; the others are IPv4 or IPv6.
    assert_eq!(verify[1], 104);
    assert!(nat44[0] > 3_000 && filter[0] > 3_000, "{stages:?}");
    assert!(count6[0] <= filter[0], "{stages:?}");
    let arp = packets.iter().filter(|frame| frame[12..14] == [8, 6]).count();
    assert_eq!(arp, 104, "ARP packets bypass both branches");
    // Replicas are used only where NAT does not choose different ports.
    for segments in [
        &[(1, 1), (5, 1)][..],
        &[(2, 1), (1, 1), (3, 1)],
        &[(3, 1), (3, 2)],
        &[(4, 1), (1, 1), (1, 1)],
        &[(1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1)],
    ] {
        assert_eq!(written(&folder, segments), (stages.clone(), packets.clone()), "{segments:?}");
    }
}

#[test]
fn a_check_lists_the_branches() {
    let folder = Folder::new();
    let file = folder.write("path.toml", path(&folder.file("out.pcap"), &[(6, 1)]));
    let text = answered(0, &["run", &file, "--check"]);
    assert!(text.contains("nat44 (only ipv4), filter (only ipv6), count6 (only ipv6)"), "{text}");
    let json = answered(0, &["run", &file, "--check", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["only"]["count6"], "ipv6");
    assert_eq!(json["only"].as_object().map(|only| only.len()), Some(5), "{json}");
}

#[test]
fn packets_without_headers_are_refused_before_the_run() {
    let folder = Folder::new();
    let text = path(&folder.file("out.pcap"), &[(6, 1)])
        .replace("kind = \"verify\"\nonly = \"ip\"", "kind = \"verify\"");
    let file = folder.write("path.toml", text);
    let error = refused(&["run", &file, "--check"]);
    assert!(error.contains("passes packets that are not IP; add only = \"ip\""), "{error}");
}

#[test]
fn a_class_without_packets_is_a_warning() {
    let folder = Folder::new();
    let text =
        path(&folder.file("out.pcap"), &[(6, 1)]).replacen("only = \"ipv6\"", "only = \"gre\"", 1);
    let file = folder.write("path.toml", text);
    let done = crate::rig::linerate(&["run", &file]);
    let words: Vec<&str> = done.stderr.split_whitespace().collect();
    assert!(words.join(" ").contains("(`only` = gre matches none of them)"), "{}", done.stderr);
}
