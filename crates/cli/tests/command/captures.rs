// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests captures as found in practice: segments coalesced by offload, truncated frames, damage.

use crate::dissector::{is_installed, judge};
use crate::records::assert_conserved;
use crate::rig::{
    EDGE_CAPTURE, EDGE_TIME, Folder, answered, edge, linerate, pcap, refused, report,
};
use crate::rig::{EDGE_PACKETS, udp};
use linerate_record::run::CutSegments;

/// Returns a path that replays `packets` packets of `capture`, with additional source keys, and
/// writes them to `out`.
fn path(capture: &str, keys: &str, packets: u64, out: &str) -> String {
    format!(
        "[source]\nkind = \"capture\"\nfile = {capture:?}\n{keys}\n[[stage]]\nkind = \"parse\"\n\
         [sink]\nkind = \"capture\"\nfile = {out:?}\n[run]\npackets = {packets}\n"
    )
}

/// Returns a TCP frame with the timestamp option and `payload` bytes of payload, as captured with
/// checksum offload.
fn tcp(payload: usize, flags: u8) -> Vec<u8> {
    let total = (20 + 32 + payload) as u16;
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 9, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x9c, 0x40, 0x14, 0x51, 0, 0, 0, 1, 0, 0, 0, 1, 0x80, flags, 1, 0, 0, 0, 0, 0]);
    frame.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    frame.extend((0..payload).map(|at| at as u8));
    frame
}

/// Returns a pcap file of frames truncated to at most `snap` bytes.
fn snapped(frames: &[Vec<u8>], snap: usize) -> Vec<u8> {
    let mut file = Vec::new();
    for frame in frames {
        let mut one = pcap([&frame[..frame.len().min(snap)]]);
        one[36..40].copy_from_slice(&(frame.len() as u32).to_le_bytes());
        file.extend(&one[if file.is_empty() { 0 } else { 24 }..]);
    }
    file
}

#[test]
fn joined_segments_are_cut_to_what_the_wire_carries() {
    let folder = Folder::new();
    let frames = [tcp(14_480 + 5, 0x18), tcp(0, 0x10)];
    let capture = folder.write("joined.pcap", pcap(frames.iter().map(Vec::as_slice)));
    let out = folder.file("out.pcap");
    let file = folder.write("path.toml", path(&capture, "", 12, &out));
    let checked = answered(0, &["run", &file, "--check"]);
    assert!(checked.contains("1 frame with coalesced TCP segments split into 11"), "{checked}");
    let report = report(&["run", &file, "--json", "--audit"]);
    assert_conserved(&report);
    let input = report.input.expect("a capture was read");
    assert_eq!(input.cut_segments, Some(CutSegments { frames: 1, segments: 11, mtu: 1500 }));
    assert_eq!((input.offered.packets, input.left_out_share()), (12, 0.0));
    if is_installed() {
        let judgement = judge(&out);
        assert_eq!((judgement.frames, judgement.malformed), (12, 0), "{judgement:?}");
        // The headers of the acknowledgement are written as captured, i.e. without valid checksums.
        assert_eq!((judgement.bad, &judgement.good[1..3]), (1, &[11, 11][..]), "{judgement:?}");
    }

    let keep = "segment = \"keep\"";
    let file = folder.write("keep.toml", path(&capture, keep, 1, &out));
    let said = refused(&["run", &file]);
    for word in
        ["% of the capture's bytes", "1 joined_segments", "ethtool -K", "allow_left_out = true"]
    {
        assert!(said.contains(word), "{word} not in {said}");
    }
    let rest = format!("{keep}\nallow_left_out = true");
    let file = folder.write("rest.toml", path(&capture, &rest, 1, &out));
    let done = linerate(&["run", &file]);
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(done.stderr.contains("mostly due to `joined_segments` (1 packet"), "{}", done.stderr);
    assert!(done.stdout.contains("\nleft out    99."), "{}", done.stdout);
    let whole = format!("{keep}\nbuffer_bytes = 65407");
    let file = folder.write("whole.toml", path(&capture, &whole, 2, &out));
    answered(0, &["run", &file]);
}

/// Returns a TCP segment as the sender's stack passes it to the interface: the checksum covers only
/// the pseudo-header.
fn unfinished(mut frame: Vec<u8>) -> Vec<u8> {
    let transport_bytes = frame.len() as u32 - 34;
    let addresses = frame[26..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum: u32 = addresses.sum::<u32>() + 6 + transport_bytes;
    let folded = (sum >> 16) + (sum & 0xffff);
    frame[50..52].copy_from_slice(&(folded as u16).to_be_bytes());
    frame
}

#[test]
fn checksums_left_to_the_interface_are_computed() {
    let folder = Folder::new();
    let wrong = tcp(7, 0x10);
    let frames = [unfinished(tcp(1000, 0x18)), unfinished(tcp(0, 0x10)), wrong, udp(3)];
    let capture = folder.write("sent.pcap", pcap(frames.iter().map(Vec::as_slice)));
    let out = folder.file("out.pcap");
    let file = folder.write("path.toml", path(&capture, "", 4, &out));
    let report = report(&["run", &file, "--json", "--audit"]);
    assert_eq!(report.input.expect("a capture was read").completed_checksums, 2);
    let checked = answered(0, &["run", &file, "--check"]);
    assert!(checked.contains("checksums completed in 2 frames"), "{checked}");
    if is_installed() {
        let judgement = judge(&out);
        // One of the three TCP segments has a wrong checksum, which is kept.
        let tcp = judgement.good[2];
        assert_eq!((judgement.frames, judgement.malformed, tcp), (4, 0, 2), "{judgement:?}");
    }
}

#[test]
fn frames_cut_by_a_snap_length_are_refused_or_padded() {
    let folder = Folder::new();
    let frames = [tcp(1000, 0x10), tcp(1448, 0x18), udp(3)];
    let capture = folder.write("snapped.pcap", snapped(&frames, 96));
    let out = folder.file("out.pcap");
    let file = folder.write("path.toml", path(&capture, "", 3, &out));
    let said = refused(&["run", &file, "--check"]);
    for word in ["2 cut_short", "pad = true", "tcpdump -s 0", "allow_left_out = true"] {
        assert!(said.contains(word), "{word} not in {said}");
    }
    let file = folder.write("pad.toml", path(&capture, "pad = true", 3, &out));
    let report = report(&["run", &file, "--json"]);
    let input = report.input.expect("a capture was read");
    let bytes = frames.iter().map(Vec::len).sum::<usize>() as u64;
    assert_eq!((input.padded_frames, input.offered.bytes), (2, bytes));
    if is_installed() {
        let judgement = judge(&out);
        assert_eq!((judgement.frames, judgement.malformed), (3, 0), "{judgement:?}");
        assert_eq!(judgement.good[2], 2, "{judgement:?}");
    }
}

#[test]
fn reports_the_offset_of_damage_and_the_unread_rest() {
    let folder = Folder::new();
    let mut file = std::fs::read(EDGE_CAPTURE).expect("the example's capture");
    // Corrupt the length of the thirteenth block.
    let mut at = 0;
    for _ in 0..12 {
        at += u32::from_le_bytes(file[at + 4..at + 8].try_into().expect("4 bytes")) as usize;
    }
    file[at + 4] ^= 0x10;
    let unread = file.len() - at;
    let capture = folder.write("damaged.pcapng", &file);
    let out = folder.file("out.pcap");
    let refusing = folder.write("path.toml", path(&capture, "", 1, &out));
    let said = refused(&["run", &refusing]);
    assert!(said.contains(&format!("starting at byte {at}")), "{said}");
    let rest = folder.write("rest.toml", path(&capture, "allow_left_out = true", 1, &out));
    let checked = answered(0, &["run", &rest, "--check"]);
    let expected = format!("unread: {unread} bytes, starting at offset {at}\n");
    assert!(checked.contains(&expected), "{checked}");
}

#[test]
fn a_stage_that_found_nothing_to_do_is_a_warning() {
    let folder = Folder::new();
    let offer = format!("packets = {EDGE_PACKETS}");
    let busy = folder.write("busy.toml", edge(&[(EDGE_TIME, offer.as_str())]));
    let done = linerate(&["run", &busy]);
    assert!(!done.stderr.contains("applied to none"), "{}", done.stderr);
    for word in ["stage", "counted", "mappings made", "permitted by rule", "by default route"] {
        assert!(done.stdout.contains(word), "{word} not in {}", done.stdout);
    }
    let inside = edge(&[(EDGE_TIME, offer.as_str())]);
    let at = inside.find("inside = \"").expect("the example translates") + 10;
    let end = at + inside[at..].find('"').expect("the text ends");
    let elsewhere = format!("{}203.0.113.0/24{}", &inside[..at], &inside[end..]);
    let done = linerate(&["run", &folder.write("idle.toml", elsewhere)]);
    let said = done.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in ["`nat44` applied to none", "`inside` = 203.0.113.0/24 matches no source address"] {
        assert!(said.contains(word), "{word} not in {said}");
    }
}

#[test]
fn a_capture_of_loopback_traffic_is_not_for_a_router() {
    let folder = Folder::new();
    let mut frames = [udp(1), udp(2)];
    let stages = "[[stage]]\nkind = 'parse'\n[[stage]]\nkind = 'forward'\nname = 'route'\n\
                  source_mac = '02:00:00:00:00:01'\nnext_hop_mac = '02:00:00:00:00:02'\n";
    let mut check = |source: u8| {
        frames.iter_mut().for_each(|frame| frame[26] = source);
        let capture = folder.write("lo.pcap", pcap(frames.iter().map(Vec::as_slice)));
        let text = format!("[source]\nkind = 'capture'\nfile = '{capture}'\n{stages}");
        answered(0, &["run", "--check", &folder.write("lo.toml", text)])
    };
    let warned = check(127);
    let expected = "warning: 100.0 % of the packets have loopback addresses, which `route` drops";
    assert!(warned.contains(expected), "{warned}");
    let silent = check(10);
    assert!(!silent.contains("warning"), "{silent}");
}

/// Two captures recorded on `lo` by `dumpcap -i any`, one with LINUX_SLL and one with LINUX_SLL2
/// headers, and the first of them reduced to raw IP by editcap. Each has six IPv4 packets and two
/// IPv6 packets.
const HEADERLESS: [&str; 3] = ["cooked.pcap", "cooked-2.pcap", "raw-ip.pcap"];

#[test]
fn captures_without_ethernet_headers_are_replayed() {
    let folder = Folder::new();
    for name in HEADERLESS {
        let capture = format!("{}/tests/captures/{name}", env!("CARGO_MANIFEST_DIR"));
        let out = folder.file("out.pcap");
        let file = folder.write("path.toml", path(&capture, "", 8, &out));
        let checked = answered(0, &["run", "--check", &file]);
        assert!(checked.contains("8 packets captured without one"), "{checked}");
        // 14 bytes of Ethernet header, 20 or 40 of IP header, 8 of UDP header, 50 or 40 of payload.
        assert!(checked.contains("8 packets of 94.5 bytes"), "{checked}");
        let report = report(&["run", &file, "--json", "--audit"]);
        assert_conserved(&report);
        assert_eq!(report.input.expect("a capture was read").framed_packets, 8);
        if is_installed() {
            let judgement = judge(&out);
            assert_eq!((judgement.frames, judgement.malformed), (8, 0), "{name}: {judgement:?}");
        }
    }
}

#[test]
fn a_part_of_a_capture_is_replayed() {
    let folder = Folder::new();
    let out = folder.file("out.pcap");
    let packets = |keys: &str| {
        let file = folder.write("path.toml", path(EDGE_CAPTURE, keys, 8, &out));
        let json = answered(0, &["run", "--check", "--json", &file]);
        let found: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let count = |value: &serde_json::Value| value.as_u64().expect("a count");
        (count(&found["packets"]), count(&found["input"]["unselected_packets"]))
    };
    assert_eq!(packets(""), (EDGE_PACKETS, 0));
    assert_eq!(packets("first = 100"), (100, 0));
    assert_eq!(packets("skip = 100"), (EDGE_PACKETS - 100, 100));
    assert_eq!(packets("skip = 7000\nfirst = 9000"), (300, 7000));
    let (sampled, rest) = packets("sample = 4");
    assert!(sampled > EDGE_PACKETS / 20 && sampled < EDGE_PACKETS / 2, "{sampled} of 7300");
    assert_eq!(sampled + rest, EDGE_PACKETS);
    let file = folder.write("path.toml", path(EDGE_CAPTURE, "skip = 8000", 8, &out));
    let said = refused(&["run", "--check", &file]);
    assert!(said.contains("select none of the 7300 packets"), "{said}");
}

/// The whole file exceeds available memory, but part of it does not.
#[test]
fn a_long_capture_is_refused_by_the_memory_of_what_is_replayed() {
    let folder = Folder::new();
    let frame = [&udp(1)[..], &[0; 1440]].concat();
    let capture = folder.write("long.pcap", pcap((0..100_000).map(|_| &frame[..])));
    let out = folder.file("out.pcap");
    let checked = |keys: &str| {
        let file = folder.write("path.toml", path(&capture, keys, 8, &out));
        let program = env!("CARGO_BIN_EXE_linerate");
        let line = "ulimit -v 150000 && exec \"$@\"";
        let arguments = ["-c", line, "sh", program, "run", "--check", file.as_str()];
        std::process::Command::new("sh").args(arguments).output().expect("there is a shell")
    };
    let all = checked("");
    let said = String::from_utf8_lossy(&all.stderr);
    assert_eq!(all.status.code(), Some(2), "{said}");
    for word in ["the capture does not fit in memory", "ulimit -v", "first = ", "sample = "] {
        assert!(said.contains(word), "{word} not in {said}");
    }
    let part = checked("first = 5000");
    assert_eq!(part.status.code(), Some(0), "{part:?}");
}
