// SPDX-License-Identifier: MIT OR Apache-2.0
//! Test helpers: run paths of the application on one CPU and collect the results.

use linerate_rlp::app::{EXTENSION, KINDS};
use linerate_rlp::envelope::{self, Ends, HEADER_BYTES};
use linerate_rlp::frame::{ByteRange, NakList, Writer};
use linerate_stage_api::params::Params;
use linerate_stage_api::source::{CaptureRules, Traffic, TrafficBuilder};
use linerate_stage_api::spec::ParamSpec;
use linerate_stage_api::testing::Tally;
use linerate_stage_api::testing::{Job, Outcome, Watch, run, steering};
use linerate_stage_api::testing::{Path, RunLength, Sink, Source};
use std::collections::BTreeMap;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Reads the example path with this name.
pub(crate) fn example(name: &str) -> Path {
    let text = std::fs::read_to_string(format!("{EXAMPLES}/{name}.toml")).expect("an example");
    path(&text)
}

/// Parses a path of the application's stages whose sinks keep all delivered packets.
pub(crate) fn path(text: &str) -> Path {
    let read = EXTENSION.read(text, "test");
    let mut path = read.unwrap_or_else(|problems| panic!("{problems}"));
    path.sink = Sink::Capture { file: "kept.pcap".to_owned(), packets: u64::MAX };
    path
}

/// Returns the packets of the capture in the repository.
pub(crate) fn capture() -> Traffic {
    let file = std::fs::read(format!("{EXAMPLES}/edge.pcapng")).expect("the capture");
    Traffic::from_capture(&file, 9_000, CaptureRules::default(), &[]).expect("it can be replayed")
}

/// Returns the traffic from the path's own source.
pub(crate) fn traffic(path: &Path) -> Traffic {
    let Source::Registered(used) = &path.source else { panic!("its source has sessions") };
    let kind = EXTENSION.source(&used.kind).expect("the kind");
    let steers = steering(path, KINDS).expect("its stages");
    (kind.traffic)(used, &capture(), &steers).expect("its packets")
}

/// Returns traffic that consists of the given frames.
pub(crate) fn frames(path: &Path, frames: &[Vec<u8>]) -> Traffic {
    let steers = steering(path, KINDS).expect("its stages");
    let mut builder = TrafficBuilder::new(&steers);
    frames.iter().for_each(|frame| builder.push(frame, 0, &[]));
    builder.finish().expect("there are frames")
}

/// Offers `packets` packets to the path, and asserts that packets and bytes are conserved.
pub(crate) fn ran(path: &Path, traffic: &Traffic, packets: u64) -> Outcome {
    let mut options = path.run;
    options.length = RunLength::Packets(packets);
    let cpus = vec![0; path.mapping.workers()];
    let job =
        Job { options, oversubscribe: true, audit: true, ..Job::new(path, KINDS, traffic, &cpus) };
    let watch = Watch::unattended();
    let outcome = run(&job, &watch).expect("it runs");
    let report = &outcome.report;
    assert!(report.is_conserved());
    assert!(report.rings.iter().all(|ring| ring.held == 0));
    // Every packet that reaches a sink ends there.
    let stages = report.workers.iter().flat_map(|worker| &worker.stages);
    let stages = stages.filter(|stage| stage.name != "sink");
    let gone: Tally = stages
        .map(|stage| stage.ledger.consumed + stage.ledger.drops.values().copied().sum())
        .sum();
    assert_eq!(packets, outcome.kept.len() as u64 + gone.packets, "packets");
    outcome
}

/// Returns a stage kind's default parameters.
pub(crate) fn defaults(kind: &str) -> Params {
    let kind = EXTENSION.stage(kind).expect("a kind");
    let default = |param: &ParamSpec| {
        let value = param.default.value().expect("every parameter here has a default");
        (param.name.to_owned(), value)
    };
    kind.spec.params.iter().map(default).collect()
}

/// Returns the packets dropped, by stage and cause.
pub(crate) fn drops(outcome: &Outcome) -> BTreeMap<(String, String), u64> {
    let mut drops = BTreeMap::new();
    for stage in outcome.report.workers.iter().flat_map(|worker| &worker.stages) {
        for (cause, packets) in stage.drops.iter().filter(|(_, packets)| **packets > 0) {
            *drops.entry((stage.name.clone(), cause.clone())).or_default() += packets;
        }
    }
    drops
}

/// Returns a named stage counter, summed over all replicas.
pub(crate) fn counted(outcome: &Outcome, name: &str) -> u64 {
    let stages = outcome.report.workers.iter().flat_map(|worker| &worker.stages);
    stages.filter_map(|stage| stage.counts.get(name)).sum()
}

/// Returns an A10 packet as a serving node would send it.
pub(crate) fn a10(key: u32, sequence: u32, bytes: &[u8]) -> Vec<u8> {
    let ends = Ends { ethernet: [2; 12], ipv4: [192, 0, 2, 1, 192, 0, 2, 2] };
    let mut header = [0; HEADER_BYTES];
    assert!(envelope::write_header(&mut header, &ends, key, sequence, bytes.len()));
    [&header, bytes].concat()
}

/// Returns an access-side packet with the frames that `write` adds.
pub(crate) fn access(key: u32, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut packet = vec![0; 2_000];
    let mut writer = Writer::new(&mut packet).expect("room for the header");
    write(&mut writer);
    let bytes = writer.finish(&[2; 12], key);
    packet.truncate(bytes.max(60));
    packet
}

/// Returns a packet with a NAK list of these ranges: first byte, length.
pub(crate) fn nak(key: u32, ranges: &[(u32, u32)]) -> Vec<u8> {
    let mut list = NakList::default();
    ranges.iter().for_each(|&(first, bytes)| assert!(list.push(ByteRange { first, bytes })));
    access(key, |writer| assert!(writer.nak(&list)))
}

/// Returns a packet with a terminal's data frame.
pub(crate) fn data(key: u32, sequence: u32, bytes: &[u8]) -> Vec<u8> {
    access(key, |writer| assert!(writer.data(sequence, [bytes, &[]], false)))
}
