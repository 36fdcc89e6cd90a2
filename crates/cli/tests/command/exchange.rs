// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate import`, `export` and `explain`: the Netra document's dump, round trips through other
//! formats, and answers.

use crate::rig::{Folder, linerate};
use crate::validator::Validator;
use linerate_record::{Body, Record};
use serde_json::Value;
use std::fs;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/netra-sample.dump");
const EDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/edge.toml");

fn json(args: &[&str]) -> Value {
    let done = linerate(args);
    assert_eq!(done.status, Some(0), "{args:?}: {done:?}");
    let value: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(Validator::new(&linerate_record::schema_json()).verdict(&value), Ok(()), "{args:?}");
    Record::from_json(&done.stdout).expect("a record");
    value
}

fn import(file: &str, more: &[&str]) -> Value {
    let value = json(&[&["import", file, "--json"], more].concat());
    assert_eq!(value["kind"], "strands");
    value["summary"].clone()
}

fn number(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap_or_else(|| panic!("{name} in {of}"))
}

#[test]
fn the_dump_of_the_document_has_its_figures() {
    let summary = import(SAMPLE, &["--machine", "t1"]);
    let strand = &summary["strands"][0];
    for (name, wanted, tolerance) in [
        ("kpps", 311.0, 0.05),
        ("instructions_per_packet", 488.0, 0.5),
        ("cpi", 7.905, 0.005),
        ("dc_pti", 44.95, 0.005),
        ("l2_dmiss_pti", 9.44, 0.005),
        ("sb_full_pti", 236.0, 0.5),
        ("ic_pti", 0.09, 0.005),
        ("l2_imiss_pti", 0.027, 0.0005),
        ("fp_instr_pti", 0.0, 0.0),
        ("itlb_pti", 0.0, 0.0),
        ("dtlb_pti", 0.0, 0.0),
    ] {
        let found = number(strand, name);
        assert!((found - wanted).abs() <= tolerance, "{name}: {found} against {wanted}");
    }
    assert_eq!((&strand["bound"], &summary["faults"]), (&"memory".into(), &0.into()));
    // The same values are also available by name, as in every record.
    for name in ["kpps", "ticks_per_packet", "instructions_per_packet", "cpi", "dc_pti"] {
        assert_eq!(summary[format!("cpu_4_{name}")], strand[name], "{name}");
    }
    let figures = &json(&["import", SAMPLE, "--json"])["figures"];
    assert_eq!(figures["cpu_4_cpi"]["n"], 10);
    let assumed = linerate(&["import", SAMPLE]);
    assert!(assumed.stdout.contains("assumed"), "{assumed:?}");
    assert!(!linerate(&["import", SAMPLE, "--machine", "t1"]).stdout.contains("assumed"));
    // The Netra document does not give the T2's event codes.
    let summary = import(SAMPLE, &["--machine", "t2"]);
    assert_eq!(summary["strands"][0]["cpi"], Value::Null);
    assert!(number(&summary["strands"][0], "kpps") > 360.0, "at 1.4 GHz");
}

/// The dump has event codes of an unknown processor, so the T1's must not be used.
#[test]
fn a_dump_of_another_processor_is_not_read_with_codes_of_the_t1() {
    let folder = Folder::new();
    let file = folder.file("other.dump");
    let sample = fs::read_to_string(SAMPLE).expect("the sample");
    fs::write(&file, sample.replace(",1,100,", ",1,2f2,")).expect("the folder can be written");
    let done = linerate(&["import", &file]);
    assert_eq!((done.status, done.stdout.as_str()), (Some(2), ""));
    assert!(done.stderr.contains("codes that t1 does not define (2f2)"), "{}", done.stderr);
    let summary = import(&file, &["--machine", "t2"]);
    assert!(number(&summary["strands"][0], "kpps") > 360.0);
    let own = folder.file("own.toml");
    let t2 = include_str!("../../../cmt/data/processors/t2.toml");
    let codes = "[[event]]\ncode = 0x2f2\nname = \"instructions\"\nnative = \"Instr_cnt\"\n\
                 [[event]]\ncode = 0x8\nname = \"dc\"\nnative = \"DC_miss\"\nwaits_for = \"l2\"\n";
    fs::write(&own, format!("{t2}\n{codes}")).expect("as before");
    let summary = import(&file, &["--machine", &own]);
    assert!((number(&summary["strands"][0], "dc_pti") - 44.95).abs() < 0.005);
}

/// A count scaled by perf gets a warning, and the raw count is the lower end of its interval.
#[test]
fn scaled_counts_of_perf_are_marked() {
    let folder = Folder::new();
    let file = folder.file("perf.csv");
    let text = "2000,,cycles,765429,50.00,,\n1000,,instructions,765429,100.00,,\n";
    fs::write(&file, text).expect("the folder can be written");
    let value = json(&["import", &file, "--json"]);
    assert_eq!(value["warnings"][0]["code"], "scaled_elsewhere");
    assert_eq!(value["warnings"][0]["names"][0], "cycles");
    let cpi = &value["figures"]["all_cpi"];
    assert_eq!((&cpi["value"], &cpi["low"]), (&2.0.into(), &1.0.into()));
    assert_eq!(cpi["high"], Value::Null);
    let done = linerate(&["import", &file]);
    assert!(done.stderr.contains("as little as 50 % of the time"), "{}", done.stderr);
    fs::write(&file, text.replace("50.00", "100.00")).expect("as before");
    assert_eq!(linerate(&["import", &file]).stderr, "");
}

#[test]
fn a_dump_is_written_again_from_its_record() {
    let folder = Folder::new();
    let (record, dump) = (folder.file("strands.json"), folder.file("again.dump"));
    let first = import(SAMPLE, &["--record", &record]);
    let done = linerate(&["export", &record, "--format", "profile-dump"]);
    assert_eq!(done.status, Some(0), "{done:?}");
    fs::write(&dump, &done.stdout).expect("the folder can be written");
    assert_eq!(import(&dump, &[]), first);
    let done = linerate(&["export", &record, "--format", "csv"]);
    assert!(done.stdout.contains("\r\ncpu 4,,dc_pti,44.9"), "{}", done.stdout);
    let done = linerate(&["export", &record, "--format", "prometheus"]);
    assert!(done.stdout.contains("# TYPE linerate_worker_kpps gauge\n"), "{}", done.stdout);
    let done = linerate(&["export", &record, "--format", "folded"]);
    assert_eq!((done.status, done.stdout.as_str()), (Some(2), ""));
    assert!(done.stderr.contains("no time breakdown"), "{}", done.stderr);
}

#[test]
fn a_run_is_written_in_every_form_and_a_dump_of_it_has_its_times() {
    let folder = Folder::new();
    let (run, dump) = (folder.file("run.json"), folder.file("run.dump"));
    let done = linerate(&["run", "--time", "100ms", "-q", "--record", &run, EDGE]);
    assert_eq!(done.status, Some(0), "{done:?}");
    let text = fs::read_to_string(&run).expect("a record");
    let Body::Run(report) = Record::from_json(&text).expect("a record").body else { panic!("run") };
    let done = linerate(&["export", &run, "--format", "profile-dump"]);
    assert_eq!(done.status, Some(0), "{done:?}");
    fs::write(&dump, &done.stdout).expect("the folder can be written");
    let summary = import(&dump, &["--clock", &(report.ticks_per_s / 1e9).to_string()]);
    let strands = summary["strands"].as_array().expect("a list");
    assert_eq!((strands.len(), &summary["faults"]), (report.workers.len(), &0.into()));
    for strand in &report.workers {
        let found = strands.iter().find(|found| found["cpu"] == strand.cpu).expect("its processor");
        let packets = strand.stages[0].packets;
        assert_eq!(found["packets"], packets, "{}", strand.name);
        let wanted = strand.ticks_per_packet.as_number().expect("it was timed");
        let off = (number(found, "ticks_per_packet") - wanted).abs();
        assert!(off <= 1.0 / packets as f64, "{}: off by {off}", strand.name);
    }
    for (format, wanted) in [
        ("csv", "worker,stage,name,value,unit"),
        ("folded", "worker 0.0;"),
        ("prometheus", "linerate_stage_ticks_per_packet{worker=\"0.0\",stage=\"source\""),
    ] {
        let done = linerate(&["export", &run, "--format", format]);
        assert_eq!(done.status, Some(0), "{done:?}");
        assert!(done.stdout.contains(wanted), "{format}: {}", done.stdout);
    }
}

#[test]
fn damaged_input_is_named_by_line_and_useless_input_ends_with_status_2() {
    let folder = Folder::new();
    let file = folder.file("console.log");
    let sample = fs::read_to_string(SAMPLE).expect("the sample");
    let mut damaged = sample.replace("29d8db7,0,311d3e00", "29d8db7,0").into_bytes();
    damaged.splice(0..0, *b"\xff\xfe boot\n");
    fs::write(&file, &damaged).expect("the folder can be written");
    let summary = import(&file, &[]);
    assert_eq!((&summary["faults"], &summary["first_fault_line"]), (&1.into(), &10.into()));
    assert_eq!(summary["strands"][0].get("dc_pti"), None, "nothing is guessed");
    let done = linerate(&["import", &file]);
    assert!(done.stdout.contains("fault       line 10: 9 fields, expected 10"), "{done:?}");
    let done = linerate(&["import", &file, "--json"]);
    assert!(done.stderr.contains("line 10"), "{done:?}");
    for (text, word) in [
        (
            "PROFILE_DUMP_START,ver,9.0\n1,2,3\nPROFILE_DUMP_END\n",
            "line 1: unsupported version `9.0`",
        ),
        ("hello\n", "--format"),
        ("", "--format"),
    ] {
        fs::write(&file, text).expect("the folder can be written");
        let done = linerate(&["import", &file]);
        assert_eq!((done.status, done.stdout.as_str()), (Some(2), ""), "{text}");
        assert!(done.stderr.contains(word), "{text}: {}", done.stderr);
    }
    let done = linerate(&["import", &folder.file("none")]);
    assert!(done.status == Some(2) && done.stderr.contains("none"), "{done:?}");
    let done = linerate(&["export", SAMPLE, "--format", "csv"]);
    assert!(done.status == Some(2) && done.stderr.contains("netra-sample.dump"), "{done:?}");
}

#[test]
fn perf_and_vpp_are_recognised() {
    let folder = Folder::new();
    let file = folder.file("input");
    let perf = "CPU3,1000,,instructions:u,5,100.00,,\nCPU3,2500,,cycles:u,5,100.00,,\n";
    fs::write(&file, perf).expect("the folder can be written");
    let strand = import(&file, &[])["strands"][0].clone();
    assert_eq!((&strand["cpu"], &strand["cpi"]), (&3.into(), &2.5.into()));
    assert_eq!((&strand["kpps"], &strand["cycles_pti"]), (&Value::Null, &2500.0.into()));
    let vpp = "Thread 1 vpp_wk_0 (lcore 2)\nTime 2.0, 10 sec internal node vector rate 1.00\n\
               vector rates in 1.0000e6, out 1.0000e6, drop 0.0000e0, punt 0.0000e0\n\
               ip4-lookup active 20000 2000000 0 2.50e1 100.00\n";
    fs::write(&file, vpp).expect("the folder can be written");
    let record = folder.file("vpp.json");
    let strand = import(&file, &["--record", &record])["strands"][0].clone();
    assert_eq!((&strand["name"], &strand["kpps"]), (&"vpp_wk_0".into(), &1000.0.into()));
    assert_eq!(strand["ticks_per_packet"], 25.0);
    let done = linerate(&["export", &record, "--format", "folded"]);
    assert_eq!(done.stdout, "vpp_wk_0;ip4-lookup 50000000\n");
    let done = linerate(&["export", &record, "--format", "profile-dump"]);
    assert!(done.status == Some(2) && done.stderr.contains("vpp_wk_0"), "{done:?}");
    let ask = ["explain", &record, "--ask", "line-rate-64", "--line", "10Gb/s"];
    let done = linerate(&ask);
    assert!(done.status == Some(2) && done.stdout.contains("--clock"), "{done:?}");
    import(&file, &["--clock", "0.1", "--record", &record]);
    // 25 ticks at 0.1 GHz are 250 ns; packets arrive every 67.2 ns.
    let done = linerate(&ask);
    assert!(done.status == Some(0) && done.stdout.contains("at least 4 workers"), "{done:?}");
}

#[test]
fn questions_are_answered_from_the_record() {
    let folder = Folder::new();
    let record = folder.file("strands.json");
    import(SAMPLE, &["--record", &record]);
    let value = json(&["explain", &record, "--line", "1Gb/s", "--json"]);
    assert_eq!(value["kind"], "answers");
    let answers = value["summary"]["answers"].as_array().expect("a list");
    let of = |id: &str| answers.iter().find(|one| one["id"] == id).expect("it is there").clone();
    assert_eq!(of("line-rate-64")["verdict"], "answered");
    let sentence = of("line-rate-64")["sentence"].to_string();
    assert!(sentence.contains("488") && sentence.contains("606"), "{sentence}");
    assert_eq!(of("scaling")["verdict"], "cannot_tell");
    let asked = |args: &[&str]| linerate(&[&["explain", &record], args].concat());
    let done = asked(&["--ask", "bound"]);
    assert!(done.status == Some(0) && done.stdout.contains("memory-bound"), "{done:?}");
    assert!(!done.stdout.contains("(placement)"), "only one question is answered: {done:?}");
    let done = asked(&["--ask", "scaling"]);
    assert!(done.status == Some(2) && done.stdout.contains("--against"), "{done:?}");
    let done = asked(&["--ask", "scaling", "--against", &record]);
    let fell = !done.stdout.contains("the packet rate of each worker is the same");
    assert!(done.status == Some(0) && !fell, "{done:?}");
    let done = asked(&["--ask", "why"]);
    assert!(done.status == Some(2) && done.stderr.contains("bottleneck"), "{done:?}");
    let budget = folder.file("budget.json");
    json(&["budget", "--machine", "t1", "--json", "--record", &budget]);
    let done = linerate(&["explain", &budget]);
    assert!(done.status == Some(2) && done.stdout.is_empty(), "{done:?}");
    assert!(
        done.stderr.contains("only from run, tune, import, regions and why records"),
        "{done:?}"
    );
    let done = linerate(&["explain", "--list"]);
    assert!(done.status == Some(0) && done.stdout.contains("line-rate-64"), "{done:?}");
}
