// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate kernels`: contents of its record, rejected options, lists. No test asserts a time;
//! assertions on ratios hold by construction.

use crate::rig::{Folder, a_share_of_the_processors, answered, command, linerate, record, refused};
use linerate_record::kernels::{Kernel, KernelsReport, Role, Row, State};
use linerate_record::{Body, Record};
use serde_json::Value;

/// Fields present in every row, `null` where not applicable.
const ROW_FIELDS: [&str; 9] = [
    "kernel",
    "variant",
    "size",
    "src_offset",
    "dst_offset",
    "state",
    "cycles",
    "bytes_per_cycle",
    "of_bound",
];

const SUMMARY: [&str; 4] =
    ["checksum_1460_of_load", "checksum_4096_of_load", "copy_checksum_1460_of_memcpy", "selected"];

fn measured(arguments: &[&str]) -> (Record, Value) {
    let json = answered(0, &[&["kernels", "--json"], arguments].concat());
    (record(&json), serde_json::from_str(&json).expect("JSON"))
}

fn report(record: &Record) -> &KernelsReport {
    match &record.body {
        Body::Kernels(report) => report,
        _ => panic!("a record of kernels"),
    }
}

/// Asserts that a number, if present, is finite and positive, and that a missing one has a reason.
fn assert_times(row: &Row) {
    match row.cycles {
        Some(cycles) => {
            let bytes = row.bytes_per_cycle.expect("cycles and bytes give it");
            assert!(cycles > 0.0 && (bytes * cycles / row.mean_bytes - 1.0).abs() < 1e-9);
        }
        None => assert!(row.reason.is_some(), "{row:?}"),
    }
    if let Some(ticks) = row.ticks {
        assert!(ticks > 0.0 && row.n > 0, "{row:?}");
        let share = row.of_bound.expect("every case has a bound");
        assert!(share > 0.0, "{row:?}");
        let holds = |low: Option<f64>, high: Option<f64>, value: f64| {
            low.is_none_or(|low| low <= value) && high.is_none_or(|high| value <= high)
        };
        assert!(holds(row.ticks_low, row.ticks_high, ticks), "{row:?}");
        assert!(holds(row.of_bound_low, row.of_bound_high, share), "{row:?}");
    }
}

#[test]
fn a_quick_run_has_all_values_for_scripts() {
    let (record, json) = measured(&["--quick"]);
    let report = report(&record);
    assert!(report.quick && report.wrong.is_empty() && !report.interrupted, "{report:?}");
    for row in json["rows"].as_array().expect("rows") {
        for field in ROW_FIELDS {
            assert!(row.get(field).is_some(), "{field}: {row}");
        }
    }
    for name in SUMMARY {
        assert!(!json["summary"][name].is_null(), "{name}");
        assert_eq!(json["summary"][name], json["figures"][name]["value"], "{name}");
    }
    let timed = |kernel: Kernel, of: &dyn Fn(&Row) -> bool| {
        report.rows.iter().any(|row| row.kernel == kernel && of(row))
    };
    assert!(timed(Kernel::Copy, &|row| row.page_distance == Some(0)));
    assert!(timed(Kernel::Checksum, &|row| {
        row.variant == "header" && row.state == State::JustWritten
    }));
    assert!(report.cold.as_ref().is_some_and(|cold| cold.footprint_bytes > 0));
    report.rows.iter().for_each(assert_times);
    for kernel in Kernel::ALL {
        let rows = || report.rows.iter().filter(|row| row.kernel == kernel);
        let supported = report.variants.iter().filter(|v| v.compiled && v.supported);
        for name in supported.map(|v| v.name.as_str()).chain(["selected", "dispatch"]) {
            assert!(rows().any(|row| row.variant == name), "{kernel} {name}");
        }
        // The fastest bound is compared with itself, so its ratio is 1 in every round.
        let itself = rows().filter(|row| row.bound.as_deref() == Some(&row.variant));
        assert!(itself.clone().count() > 0, "{kernel}");
        for row in itself {
            assert_eq!((row.role, row.of_bound), (Role::Bound, Some(1.0)), "{row:?}");
        }
    }
}

#[test]
fn the_summary_is_read_off_the_rows() {
    let sizes = ["--size", "1460,4096", "--state", "warm", "--kernel", "checksum,copy_checksum"];
    let (record, json) = measured(&[&sizes[..], &["--quick", "--seed", "7"]].concat());
    let report = report(&record);
    assert_eq!(report.seed, 7);
    let row = |kernel: Kernel, size: u64| {
        let aligned = |row: &&Row| {
            let at_start = row.src_offset == Some(0) && row.dst_offset.is_none_or(|at| at == 0);
            at_start && row.page_distance != Some(0)
        };
        let warm = |row: &&Row| row.state == State::Warm && row.size == Some(size);
        let of = report.rows.iter().filter(|row| row.kernel == kernel && row.variant == "selected");
        of.filter(aligned).find(warm).expect("a row").of_bound.expect("a share")
    };
    let summary = |name: &str| json["summary"][name].as_f64().expect("a number");
    assert_eq!(summary("checksum_1460_of_load"), row(Kernel::Checksum, 1460));
    assert_eq!(summary("checksum_4096_of_load"), row(Kernel::Checksum, 4096));
    let time = summary("copy_checksum_1460_of_memcpy");
    assert_eq!(time, 1.0 / row(Kernel::CopyChecksum, 1460));
    assert_eq!(json["summary"]["selected"].as_str(), report.selected().as_deref());
}

#[test]
fn measures_exactly_the_requested_cases() {
    let arguments = ["--kernel", "checksum,fill", "--size", "60,1460", "--state", "warm"];
    let (record, json) =
        measured(&[&arguments[..], &["--variant", "portable", "--quick"]].concat());
    let report = report(&record);
    for row in &report.rows {
        assert!([Kernel::Checksum, Kernel::Fill].contains(&row.kernel), "{row:?}");
        assert!([Some(60), Some(1460)].contains(&row.size) && row.state == State::Warm);
        assert!(row.variant == "portable" || row.role == Role::Bound, "{row:?}");
    }
    assert!(report.cold.is_none());
    // Figures that were not measured have no value, but a reason.
    let figure = &json["figures"]["checksum_1460_of_load"];
    assert!(figure["value"].is_null() && figure["reason"].is_string(), "{figure}");
}

#[test]
fn what_cannot_be_done_is_refused_with_what_can() {
    let said = refused(&["kernels", "--variant", "fastest"]);
    for word in ["fastest", "portable", "selected"] {
        assert!(said.contains(word), "{said}");
    }
    for (arguments, words) in [
        (&["--kernel", "move"][..], "copy_checksum"),
        (&["--state", "frozen"], "just_written"),
        (&["--size", "0"], "65536"),
        (&["--size", "65537"], "65536"),
        (&["--size", "-5"], "65536"),
        (&["--cpu", "99999"], "not available to this process"),
        (&["--cpu", "-1"], "invalid CPU number '-1'"),
        (&["--list", "--svg", "plots"], "'--list' cannot be used with '--svg"),
        (&["--list", "--record", "file.json"], "'--list' cannot be used with '--record"),
        (&["--state", "just_written", "--kernel", "copy"], "no case"),
        (&["--record", "/nowhere/at/all.json"], "cannot write"),
    ] {
        let said = refused(&[&["kernels"], arguments].concat());
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn a_variant_that_cannot_run_here_fails_loudly() {
    let list = answered(0, &["kernels", "--list", "--json"]);
    let list: Value = serde_json::from_str(&list).expect("JSON");
    let variants = list["variants"].as_array().expect("variants");
    let missing = variants.iter().filter(|v| v["supported"] == Value::Bool(false));
    let mut found = 0;
    for name in missing.map(|variant| variant["name"].as_str().expect("a name")) {
        let said = refused(&["kernels", "--variant", name]);
        assert!(said.contains(name), "{said}");
        found += 1;
    }
    if found == 0 {
        println!("SKIP: every variant of this build runs on this processor");
    }
}

#[test]
fn the_list_has_every_variant_and_every_peer() {
    let text = answered(0, &["kernels", "--list"]);
    for name in ["portable", "memcpy", "internet-checksum", "smoltcp", "dpdk", "lwip1"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    assert!(text.contains("selected for"), "{text}");
    // There are always variants for other architectures; they are all on one line.
    let absent = text.lines().find(|line| line.starts_with("not in this build: "));
    let foreign = if cfg!(target_arch = "aarch64") { "sse2" } else { "adcs" };
    assert!(absent.is_some_and(|line| line.contains(foreign)), "{text}");
    assert!(!text.lines().any(|line| line.starts_with(foreign)), "{text}");
}

#[test]
fn plots_and_record_are_written_to_the_requested_paths() {
    let folder = Folder::new();
    let (plots, file) = (folder.file("plots/of/kernels"), folder.file("record.json"));
    let text = answered(
        0,
        &["kernels", "--quick", "--kernel", "checksum", "--svg", &plots, "--record", &file],
    );
    assert!(text.contains("selected") && text.contains("1460"), "{text}");
    let plot = std::fs::read_to_string(format!("{plots}/checksum-warm.svg")).expect("a plot");
    assert!(plot.starts_with("<svg") || plot.starts_with("<?xml"), "{plot}");
    let json = std::fs::read_to_string(&file).expect("a record");
    assert!(!report(&record(&json)).rows.is_empty());
}

const HEADERS: [&str; 9] = [
    "kernels",
    "--quick",
    "--kernel",
    "checksum",
    "--state",
    "just_written",
    "--size",
    "20",
    "--svg",
];

#[test]
fn reports_a_folder_without_plots() {
    let folder = Folder::new();
    let plots = folder.file("plots");
    let done = linerate(&[&HEADERS[..], &[&plots]].concat());
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(done.stderr.contains("nothing to plot"), "{done:?}");
    assert_eq!(std::fs::read_dir(&plots).expect("the folder is there").count(), 0);
    let quiet = linerate(&[&HEADERS[..], &[&plots, "--quiet"]].concat());
    assert_eq!((quiet.status, quiet.stderr.as_str()), (Some(0), ""), "{quiet:?}");
}

#[test]
fn lines_have_the_requested_width() {
    let _share = a_share_of_the_processors();
    for (columns, widest) in [("20", 40), ("60", 60), ("100", 100)] {
        let mut kernels = command(&HEADERS[..8]);
        let output = kernels.env("COLUMNS", columns).output().expect("the program starts");
        let text = String::from_utf8(output.stdout).expect("the program prints UTF-8");
        assert!(text.contains("selected"), "{text}");
        let width = text.lines().map(|line| line.chars().count()).max();
        assert!(width.is_some_and(|width| width <= widest), "{columns}: {text}");
    }
}
