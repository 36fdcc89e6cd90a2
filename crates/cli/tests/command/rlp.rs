// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the Radio Link Protocol example paths the way a user would.

use crate::records::assert_conserved;
use crate::rig::{Folder, answered, command, linerate, record, refused};
use linerate_record::Body;
use serde_json::Value;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

/// The five paths, each with its number of workers.
const PATHS: [(&str, usize); 5] = [
    ("rlp-config1", 12),
    ("rlp-config2", 12),
    ("rlp-merged", 1),
    ("rlp-replicated", 4),
    ("rlp-reverse", 3),
];

#[test]
fn every_path_runs_anywhere_and_reports_the_rate_per_flow() {
    for (name, workers) in PATHS {
        let file = format!("{EXAMPLES}/{name}.toml");
        let json = answered(0, &["run", "--oversubscribe", "--time", "100ms", "--json", &file]);
        let Body::Run(report) = record(&json).body else { panic!("{name} is no run") };
        assert_eq!(report.workers.len(), workers, "{name}");
        assert_conserved(&report);
        let drops: u64 = report
            .workers
            .iter()
            .flat_map(|worker| &worker.stages)
            .flat_map(|stage| stage.drops.values())
            .sum();
        assert_eq!(drops, 0, "{name}");
        let value: Value = serde_json::from_str(&json).expect("JSON");
        let number = |name: &str| value["summary"][name].as_f64();
        // 1 Gb/s at 338 bytes per frame, plus 24 on the wire.
        let line_kpps = 1e6 / (8.0 * 362.0);
        let is = |name: &str, wanted: f64| {
            number(name).is_some_and(|number| (number - wanted).abs() <= 1e-9 * wanted)
        };
        assert!(is("line_rate_kpps", 4.0 * line_kpps), "{name}");
        // If other programs are running, a worker may get no CPU time during the measurement, and
        // the rate is missing or 0.
        match number("flow_kpps") {
            Some(kpps) => assert!(is("flow_line_share", kpps / line_kpps), "{name}: {kpps} kpps"),
            None => assert!(value["figures"]["flow_line_share"]["reason"].is_string(), "{name}"),
        }
    }
}

#[test]
fn prints_the_rate_of_a_flow_next_to_its_line() {
    let file = format!("{EXAMPLES}/rlp-merged.toml");
    let said = answered(0, &["run", "--time", "500ms", &file]);
    let line = said.lines().find(|line| line.starts_with("per flow")).expect("it is said");
    assert!(
        line.contains("on each of 4 ports, ") && line.contains("of 1 Gb/s at 342 bytes"),
        "{line}"
    );
}

#[test]
fn rejects_invalid_session_parameters_at_their_position() {
    let folder = Folder::new();
    let source =
        |file: &str| format!("[source]\nkind = 'a10'\nfile = '{file}'\n[[stage]]\nkind = 'RLP'\n");
    let path = folder.write("path.toml", source("none.pcap"));
    let said = refused(&["run", &path]);
    assert!(said.contains("path.toml:3:8") && said.contains("cannot read"), "{said}");
    let notes = folder.write("notes.txt", "not a capture");
    let path = folder.write("path.toml", source(&notes));
    let said = refused(&["run", &path]);
    assert!(said.contains("path.toml:3:8") && said.contains("notes.txt"), "{said}");
    let ring = source("none.pcap") + "ring_bytes = 1000\n";
    let said = refused(&["run", &folder.write("path.toml", ring)]);
    assert!(said.contains("path.toml:6:14") && said.contains("power of two"), "{said}");
}

/// A path with a stage that does not suit its packets: `PDSN_TX` is for the opposite direction.
#[test]
fn a_path_that_drops_everything_says_where_and_why_and_what_to_do() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(format!("{EXAMPLES}/rlp-merged.toml")).expect("an example");
    let text = text.replace("PDSN_RX", "PDSN_TX").replace("time = \"2s\"", "packets = 20000");
    let text = text.replace("\"edge.pcapng\"", &format!("{:?}", format!("{EXAMPLES}/edge.pcapng")));
    let file = folder.write("path.toml", text);
    let kept = folder.file("run.json");
    let done = linerate(&["run", "--record", &kept, &file]);
    assert_eq!(done.status, Some(0), "{done:?}");
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let all = "o packet reached the sink: `PDSN_TX` dropped all 20,000 ";
    let warned = joined(&done.stderr);
    assert!(warned.contains(all), "{warned}");
    assert!(warned.contains("(not_framed): `linerate stages KIND` lists"), "{warned}");
    let found = joined(&done.stdout);
    assert!(found.contains("the path: no packet reached the sink: `PDSN_TX`"), "{found}");
    // On one screen, what happened and its remedy each stand once.
    let shown = command(&["report", &kept]).env("LINERATE_DETAILS", "0").output();
    let shown = shown.expect("the program starts");
    let said = [shown.stderr, shown.stdout].concat();
    let said = joined(&String::from_utf8(said).expect("UTF-8"));
    assert_eq!(said.matches(all).count(), 1, "{said}");
    assert_eq!(said.matches("`linerate stages KIND` lists").count(), 1, "{said}");
    let said = linerate(&["run", "--goal", "1kpps", "--quiet", &file]);
    assert_eq!(said.status, Some(2), "{said:?}");
    assert!(
        said.stderr.contains("whether the goal is met, because no packet reached the sink"),
        "{said:?}"
    );
    let asked = linerate(&["explain", &kept, "--ask", "bottleneck"]);
    let answer = joined(&asked.stdout);
    assert!(answer.contains("no packet reached the sink: `PDSN_TX` dropped all "), "{answer}");
}

/// A record contains the rate at which the source offers packets, or why there is no such rate.
#[test]
fn the_record_of_a_run_has_the_rate_of_its_source() {
    let file = format!("{EXAMPLES}/rlp-merged.toml");
    let offered = |rate: &str| {
        let arguments = ["run", "--time", "100ms", "--json", "--rate", rate, &file];
        let json: Value = serde_json::from_str(&answered(0, &arguments)).expect("JSON");
        assert_eq!(json["offered_kpps"]["value"], json["summary"]["offered_kpps"]);
        (json["offered_kpps"]["value"].as_f64(), json["offered_kpps"]["reason"].clone())
    };
    let (none, reason) = offered("max");
    assert!(none.is_none() && reason.as_str().is_some_and(|why| why.contains("no fixed rate")));
    let (paced, _) = offered("20kpps");
    assert!(paced.is_some_and(|kpps| (kpps / 20.0 - 1.0).abs() < 1e-6), "{paced:?}");
    // Four 1 Gb/s lines, 338 bytes per frame plus 24 on the wire.
    let (line, _) = offered("line");
    assert!(line.is_some_and(|kpps| (kpps / (4e6 / (8.0 * 362.0)) - 1.0).abs() < 1e-6), "{line:?}");
}
