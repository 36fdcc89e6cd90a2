// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that files are read with the intended meaning.

use crate::generate::{cases, file};
use crate::kinds::{KINDS, STEM};
use linerate_path::check::{Described, read};
use linerate_path::keys::IMIX_BYTES;
use linerate_path::model::{
    CaptureRules, FullRing, IdlePolicy, IdleRules, Line, Mapping, PacketClass, Path, Rate,
    RunLength, RunOptions, Segment, Sink, Source, StageUse, Value,
};
use proptest::prelude::*;

fn described(text: &str) -> Described {
    match read(text, STEM, KINDS) {
        Ok(described) => described,
        Err(problems) => panic!("{}", problems.display("test")),
    }
}

#[test]
fn the_shortest_file_has_every_default() {
    let path = described("[source]\nkind = 'generator'\n[[stage]]\nkind = 'parse'\n").path;
    let parse = StageUse {
        name: "parse".to_owned(),
        kind: "parse".to_owned(),
        only: PacketClass::All,
        params: [("other".to_owned(), Value::Text("drop".to_owned()))].into(),
    };
    let run = RunOptions {
        length: RunLength::Seconds(2.0),
        rate: Rate::Max,
        burst: 32,
        ring: 256,
        full_ring: FullRing::Wait,
    };
    let expected = Path {
        name: "stem".to_owned(),
        kernels: "selected".to_owned(),
        line: None,
        source: Source::Generator {
            sizes: IMIX_BYTES.to_vec(),
            flows: 1024,
            seed: 1,
            buffer_bytes: 2048,
        },
        stages: vec![parse],
        sink: Sink::Null,
        mapping: Mapping::merged(1),
        run,
        idle: IdleRules::default(),
    };
    assert_eq!(path, expected);
}

#[test]
fn a_stage_is_restricted_to_a_class_of_packets() {
    for class in PacketClass::ALL.into_iter().filter(|class| *class != PacketClass::Other) {
        let text = format!(
            "[source]\nkind = 'generator'\n[[stage]]\nkind = 'parse'\n[[stage]]\nkind = 'verify'\n\
             only = '{}'\n",
            class.word()
        );
        assert_eq!(described(&text).path.stages[1].only, class);
    }
}

const FULL: &str = r#"
name = "edge"
kernels = "avx2"
[line]
rate = "10Gb/s"
ports = 2
[source]
kind = "capture"
file = "edge.pcapng"
buffer_bytes = 9000
[[stage]]
kind = "parse"
[[stage]]
kind = "filter"
name = "guard"
rules = ["drop udp", "pass any"]
[[stage]]
kind = "nat44"
outside = "192.0.2.1"
[[stage]]
kind = "count"
[sink]
kind = "capture"
file = "out.pcap"
packets = 10
[mapping]
workers = [
  { stages = ["parse"], cpus = [3] },
  { stages = ["guard", "nat44"], replicas = 2, cpus = [5, 4] },
  { stages = ["count"], idle = "auto" },
]
[idle]
policy = "slow"
park_after = "20us"
[run]
packets = 100_000
rate = "1.5Mpps"
burst = 256
ring = 0x400
full_ring = "drop"
"#;

#[test]
fn a_full_file_means_what_it_says() {
    let path = described(FULL).path;
    assert_eq!((path.name.as_str(), path.kernels.as_str()), ("edge", "avx2"));
    assert_eq!(path.line, Some(Line { bits_per_s: 1e10, ports: 2 }));
    assert_eq!(
        path.source,
        Source::Capture {
            file: "edge.pcapng".to_owned(),
            buffer_bytes: 9000,
            rules: CaptureRules::default(),
        }
    );
    assert_eq!(path.sink, Sink::Capture { file: "out.pcap".to_owned(), packets: 10 });
    let names: Vec<_> = path.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["parse", "guard", "nat44", "count"]);
    let rules = Value::Texts(vec!["drop udp".to_owned(), "pass any".to_owned()]);
    let guard =
        [("rules".to_owned(), rules), ("otherwise".to_owned(), Value::Text("pass".to_owned()))];
    assert_eq!(path.stages[1].params, guard.into());
    let nat44 = [
        ("outside".to_owned(), Value::Text("192.0.2.1".to_owned())),
        ("flows".to_owned(), Value::Integer(4096)),
    ];
    assert_eq!(path.stages[2].params, nat44.into());
    let segments = vec![
        Segment { stages: 0..1, replicas: 1, cpus: vec![3] },
        Segment { stages: 1..3, replicas: 2, cpus: vec![5, 4] },
        Segment { stages: 3..4, replicas: 1, cpus: vec![] },
    ];
    assert_eq!(path.mapping, Mapping { segments });
    let run = RunOptions {
        length: RunLength::Packets(100_000),
        rate: Rate::PacketsPerSecond(1.5e6),
        burst: 256,
        ring: 1024,
        full_ring: FullRing::Drop,
    };
    assert_eq!(path.run, run);
    let idle = IdleRules {
        policy: IdlePolicy::Slow,
        park_after_s: Some(20e-6),
        workers: vec![None, None, Some(IdlePolicy::Auto)],
    };
    assert_eq!(path.idle, idle);
    assert_eq!(path.idle.of_segment(1), IdlePolicy::Slow);
}

#[test]
fn the_generator_takes_sizes_in_three_forms() {
    for (written, meant) in
        [("60", vec![60]), ("[60, 1514]", vec![60, 1514]), ("'imix'", IMIX_BYTES.to_vec())]
    {
        let text =
            format!("[source]\nkind = 'generator'\nsizes = {written}\n[[stage]]\nkind = 'parse'\n");
        let Source::Generator { sizes, .. } = described(&text).path.source else {
            panic!("a generator")
        };
        assert_eq!(sizes, meant);
    }
    let of = |bytes| IMIX_BYTES.iter().filter(|&&size| size == bytes).count();
    assert_eq!([of(60), of(590), of(1514)], [7, 4, 1], "the simple mix");
}

#[test]
fn shows_a_stage_error_at_its_parameter() {
    let described = described(FULL);
    let place = |stage, param, entry| {
        let problem = described.problem_at(stage, param, entry, "no");
        (problem.line, problem.column)
    };
    assert_eq!(place(1, "rules", Some(1)), (16, 22), "the entry");
    assert_eq!(place(1, "rules", None), (16, 9), "the parameter");
    assert_eq!(place(1, "rules", Some(9)), (16, 9), "an entry that is not there");
    assert_eq!(place(2, "flows", None), (17, 1), "a default: the stage");
    let file = described.problem_at_key("source", "file", "cannot be read");
    assert_eq!(file.to_string(), "9:8: cannot be read");
    let kernels = described.problem_at_key("", "kernels", "no such variant");
    assert_eq!(kernels.to_string(), "3:11: no such variant");
    let line = described.problem_at_key("line", "rate", "too slow");
    assert_eq!((line.line, line.column), (5, 8));
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn every_way_of_writing_is_read(file in file()) {
        let read = read(&file.text, STEM, KINDS);
        let shown = read.as_ref().err().map(|problems| problems.display("file").to_string());
        prop_assert!(read.is_ok(), "{}{}", shown.unwrap_or_default(), file.text);
        let stages = read.expect("just asked").path.stages;
        let kinds: Vec<_> = stages.into_iter().map(|s| s.kind).collect();
        prop_assert_eq!(kinds, file.kinds);
    }
}
