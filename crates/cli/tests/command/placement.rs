// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the mapping does not affect the output: each flow has the same packets in the same
//! order.

use crate::records::assert_conserved;
use crate::rig::{EDGE_STAGES, EDGE_TIME, EDGE_WORKERS, Folder, edge, report, workers};
use linerate_dataplane::capture;
use std::collections::BTreeMap;

/// Number of packets: more than the capture contains, so that flows repeat.
const PACKETS: u64 = 10_000;

/// Returns a packet's flow key (that of the inner packet if tunnelled): addresses, protocol, and
/// the field that distinguishes hosts behind one translated address, which is ports, echo
/// identifier, or fragment identification.
fn flow(frame: &[u8]) -> Vec<u8> {
    const ETHERNET: usize = 14;
    const TUNNEL: usize = 20 + 4;
    let tunnelled = frame[12..14] == [0x08, 0x00] && frame[ETHERNET + 9] == 47;
    let packet = &frame[ETHERNET + if tunnelled { TUNNEL } else { 0 }..];
    let (protocol, addresses, behind) = match packet[0] >> 4 {
        4 => (packet[9], 12..20, usize::from(packet[0] & 15) * 4),
        6 => (packet[6], 8..40, 40),
        other => panic!("IP version {other}"),
    };
    let fragment = packet[0] >> 4 == 4 && (packet[6] & 0x3f != 0 || packet[7] != 0);
    let host = match protocol {
        _ if fragment => 4..6,
        6 | 17 => behind..behind + 4,
        1 => behind + 4..behind + 6,
        _ => 0..0,
    };
    [&[protocol], &packet[addresses], &packet[host]].concat()
}

type Flows = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// Returns the packets written by the edge router under this mapping, by flow.
fn written(folder: &Folder, segments: &[(usize, u32)]) -> Flows {
    let out = folder.file("out.pcap");
    let sink = format!("[sink]\nkind = \"capture\"\nfile = {out:?}\n\n[run]");
    let workers = workers(&EDGE_STAGES, segments);
    let offer = format!("packets = {PACKETS}");
    let changes =
        [(EDGE_WORKERS, workers.as_str()), (EDGE_TIME, offer.as_str()), ("[run]", sink.as_str())];
    let file = folder.write("path.toml", edge(&changes));
    let report = report(&["run", &file, "--json", "--oversubscribe", "--audit"]);
    assert_conserved(&report);
    let bytes = std::fs::read(&out).expect("the capture is written");
    let mut flows = Flows::new();
    let contents = capture::scan(&bytes[..], |packet| {
        flows.entry(flow(packet.bytes)).or_default().push(packet.bytes.to_vec());
        capture::Flow::Continue(())
    });
    let packets = contents.expect("the capture is one").packets;
    let sinks = report.workers.iter().flat_map(|s| &s.stages).filter(|s| s.name == "sink");
    assert_eq!(packets, sinks.map(|sink| sink.packets).sum::<u64>());
    flows
}

#[test]
fn placement_changes_no_packet_and_no_order_within_a_flow() {
    let folder = Folder::new();
    let expected = written(&folder, &[(7, 1)]);
    let packets: usize = expected.values().map(Vec::len).sum();
    assert!(expected.len() > 300 && packets > 9_000, "{packets} in {} flows", expected.len());
    let longest = expected.values().map(Vec::len).max();
    assert!(longest > Some(100), "the longest flow has {longest:?} packets");
    let mappings: [&[(usize, u32)]; 6] = [
        &[(2, 1), (3, 1), (2, 1)],
        &[(7, 2)],
        &[(7, 4)],
        &[(1, 1), (3, 2), (3, 3)],
        &[(2, 3), (5, 1)],
        &[(1, 2), (2, 1), (4, 4)],
    ];
    for segments in mappings {
        let flows = written(&folder, segments);
        assert!(flows.keys().eq(expected.keys()), "{segments:?} yields different flows");
        for (key, packets) in &flows {
            assert!(packets == &expected[key], "{segments:?}: flow {key:02x?} differs");
        }
    }
}
