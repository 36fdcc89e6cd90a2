// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the kernels of a path: all variants produce the same packets, unknown variants are
//! rejected, and the kernels' share of time is reported.

use crate::rig::{EDGE_PACKETS, EDGE_STAGES, EDGE_TIME, EDGE_WORKERS, Folder, answered, edge};
use crate::rig::{record, refused, report, tuned, workers};
use linerate_kernels::variants;
use linerate_record::Body;
use linerate_record::kernels::Kernel;
use linerate_record::run::{RunReport, StageReport};
use std::fs;

const NAME: &str = "name = \"edge\"";

#[test]
fn every_variant_makes_the_same_packets_under_every_mapping() {
    let folder = Folder::new();
    let out = folder.file("out.pcap");
    let sink = format!("[sink]\nkind = \"capture\"\nfile = {out:?}\n\n[run]");
    let packets = format!("packets = {EDGE_PACKETS}");
    for segments in [&[(7, 1)][..], &[(2, 1), (5, 1)], &[(7, 2)]] {
        let workers = workers(&EDGE_STAGES, segments);
        let mut expected: Option<Vec<u8>> = None;
        for variant in variants().filter(|variant| variant.is_supported()) {
            let name = variant.name();
            let kernels = format!("{NAME}\nkernels = {name:?}");
            let text = edge(&[
                (NAME, &kernels),
                (EDGE_WORKERS, &workers),
                (EDGE_TIME, &packets),
                ("[run]", &sink),
            ]);
            let file = folder.write("path.toml", text);
            let run = report(&["run", &file, "--json", "--oversubscribe", "--audit"]);
            assert_eq!(run.kernels.as_deref(), Some(name));
            let made = fs::read(&out).expect("the sink writes");
            assert!(made.len() > 1_000_000, "{name}: {} bytes", made.len());
            let first = expected.get_or_insert_with(|| made.clone());
            assert!(*first == made, "{segments:?}: {name} produces different packets");
        }
    }
}

#[test]
fn a_variant_that_cannot_be_used_is_refused_and_those_that_can_are_named() {
    let folder = Folder::new();
    let file = folder.write("path.toml", edge(&[]));
    let named = edge(&[(NAME, "name = \"edge\"\nkernels = \"fastest\"")]);
    let named = folder.write("named.toml", named);
    for command in ["run", "tune"] {
        let said = refused(&[command, &file, "--kernels", "fastest"]);
        assert!(said.contains("--kernels: ") && said.contains("`fastest`"), "{said}");
        assert!(said.contains("portable") && said.contains("or selected"), "{said}");
        let said = refused(&[command, &named]);
        assert!(said.contains(&format!("{named}:8:11: ")), "{said}");
        assert!(said.contains("portable") && said.contains("or selected"), "{said}");
    }
    // The command line overrides the key in the path file.
    answered(0, &["run", &named, "--kernels", "portable", "--check"]);
    for variant in variants().filter(|variant| !variant.is_supported()) {
        let said = refused(&["run", &file, "--kernels", variant.name()]);
        assert!(said.contains(variant.name()) && said.contains("portable"), "{said}");
    }
}

fn stage<'r>(report: &'r RunReport, name: &str) -> &'r StageReport {
    report.workers[0].stages.iter().find(|stage| stage.name == name).expect("a stage of the path")
}

#[test]
fn a_run_reports_kernel_shares_per_stage() {
    let folder = Folder::new();
    let file = folder.write("path.toml", edge(&[]));
    // Long enough to average over the logged calls.
    let json = answered(0, &["run", &file, "--time", "2s", "--json"]);
    let Body::Run(report) = record(&json).body else { panic!("{json}") };
    assert_eq!(report.kernels.as_deref(), Some("selected"));
    let called = |name| -> Vec<Kernel> {
        let uses = stage(&report, name).kernels.as_ref().expect("calls were logged");
        uses.iter().map(|one| one.kernel).collect()
    };
    assert_eq!((called("source"), called("verify")), (vec![Kernel::Copy], vec![Kernel::Checksum]));
    for name in ["parse", "filter", "nat44", "forward", "gre_encap", "count", "sink"] {
        assert_eq!(called(name), [], "{name}");
    }
    let copy = &stage(&report, "source").kernels.as_ref().expect("logged")[0];
    assert_eq!(copy.calls_per_packet, 1.0);
    let source = &stage(&report, "source").ledger.output;
    let mean = source.bytes as f64 / source.packets as f64;
    assert!((copy.bytes_per_call / mean - 1.0).abs() < 0.1, "{copy:?}, mean {mean}");
    let text = answered(0, &["run", &file, "--time", "300ms"]);
    assert!(text.contains("kernels of  worker  kernel") && text.contains("checksum"), "{text}");
    // Which variant is fastest, and by how much, depends on the machine.
    let last: Vec<&str> = text.lines().rev().take(3).collect();
    let advice = ["this path's calls", "kernel calls", "would speed up this path"];
    assert!(advice.iter().any(|words| last.iter().any(|line| line.contains(words))), "{text}");
}

/// If the path file forces a variant, a tuning session switches to other kernels only after
/// measuring them. The file it writes names the kernels it keeps.
#[test]
fn a_tuning_that_keeps_other_kernels_has_tried_them() {
    let folder = Folder::new();
    let given = edge(&[(NAME, "name = \"edge\" # the site's\nkernels = \"portable\" # for now")]);
    let file = folder.write("path.toml", given);
    let out = folder.file("tuned.toml");
    let Some((_, report)) = tuned(&[&file, "--time", "500ms"], Some(&out)) else { return };
    let advice = report.kernel_advice.as_ref().expect("there are calls");
    assert_eq!(advice.in_use, "portable");
    assert_eq!(report.baseline.kernels.as_deref(), Some("portable"));
    let tried = if advice.worth_trying { &advice.fastest } else { &advice.in_use };
    assert!(report.candidates.iter().all(|c| c.kernels.as_ref() == Some(tried)), "{report:?}");
    let alone = |name: &str| name.starts_with("kernels ");
    let only = report.candidates.iter().find(|candidate| alone(&candidate.name));
    assert_eq!(only.is_some_and(|only| only.measured_kpps.is_some()), advice.worth_trying);
    let kept = match report.chosen {
        Some(index) => report.candidates[index as usize].kernels.clone(),
        None => report.baseline.kernels.clone(),
    };
    assert_eq!(report.tuned.kernels, kept);
    let shares = report.kernel_shares.as_ref().expect("calls were logged");
    let stages = EDGE_STAGES.len() + 2;
    assert_eq!(shares.len(), 2 * stages);
    let written = fs::read_to_string(&out).expect("the file is written");
    let line = format!("kernels = {:?} # for now", kept.expect("it is said"));
    assert!(written.contains(&line), "{line} not in {written}");
    answered(0, &["run", &out, "--check"]);
}
