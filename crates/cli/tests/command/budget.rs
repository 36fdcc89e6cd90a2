// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate budget`: figures from the Netra document, the command's record, and bad input.

use crate::rig::{Folder, linerate};
use linerate_record::why::PacketCount;
use linerate_record::{Body, Figure, Record, Tier, fixtures};
use serde_json::Value;

fn record(args: &[&str]) -> (Record, Value) {
    let done = linerate(&[&["budget", "--json"], args].concat());
    assert_eq!(done.status, Some(0), "{done:?}");
    let record = Record::from_json(&done.stdout).expect("a record");
    (record, serde_json::from_str(&done.stdout).expect("JSON"))
}

#[test]
fn a_packet_of_64_bytes_may_take_672_ns_and_202_instructions() {
    let (record, json) = record(&["--machine", "t1", "--line", "1Gb/s", "--frame", "64"]);
    assert!(matches!(record.body, Body::Budget(_)));
    let of = |name: &str| json["summary"][name].as_f64().expect("a number");
    assert!((of("ns_per_packet") - 672.0).abs() < 1e-9);
    assert!((of("packets_per_s") / 1e6 - 1.488).abs() < 5e-4);
    assert!((of("cycles_per_packet") - 806.4).abs() < 1e-9);
    assert!((of("instructions_per_packet") - 201.6).abs() < 1e-9);
    assert_eq!(json["summary"]["frames"].as_array().map(Vec::len), Some(2), "and the mix");
    let done = linerate(&["budget", "--machine", "t1", "--line", "1Gb/s", "--instructions", "575"]);
    let row = done.stdout.lines().filter(|line| line.trim_start().starts_with("64 ")).nth(1);
    let cells: Vec<&str> = row.expect("a row").split_whitespace().collect();
    assert_eq!(cells, ["64", "3", "606", "202"]);
}

#[test]
fn a_repeated_size_is_listed_once() {
    let (_, json) = record(&["--machine", "t1", "--frame", "342,64,342"]);
    assert_eq!(json["summary"]["frames"].as_array().map(Vec::len), Some(3), "and the mix");
}

#[test]
fn a_machine_is_changed_by_options_and_read_from_a_file() {
    let (_, json) = record(&["--machine", "t2", "--line", "1Gb/s", "--clock", "1.2"]);
    assert!((json["summary"]["instructions_per_packet"].as_f64().unwrap() - 201.6).abs() < 1e-9);
    let folder = Folder::new();
    let file = folder.file("mine.toml");
    let text = "name = \"mine\"\nsource = \"a guess\"\nclock_ghz = 2.0\ncores = 4\n\
                pipes_per_core = 1\nstrands_per_pipe = 2\ninstructions_per_cycle = 3.0\n";
    std::fs::write(&file, text).expect("the folder can be written");
    let (_, json) = record(&["--machine", &file, "--line", "1Gb/s", "--frame", "64"]);
    assert!((json["summary"]["instructions_per_packet"].as_f64().unwrap() - 2016.0).abs() < 1e-9);
    std::fs::write(&file, text.replace("cores = 4", "cores = -4")).expect("as before");
    let done = linerate(&["budget", "--machine", &file]);
    assert_eq!(done.status, Some(2));
    assert!(done.stderr.contains("cores") && done.stderr.contains("line 4"), "{}", done.stderr);
}

/// Without the quota, the workers would have run all the time.
#[test]
fn a_rate_measured_under_a_quota_includes_the_stops() {
    let folder = Folder::new();
    let of = |cpu_quota| {
        let mut run = fixtures::record("run");
        run.provenance.cpu_quota = cpu_quota;
        let rate = match &mut run.body {
            Body::Run(report) => {
                // Without the counters of a quota, it is assumed to throttle.
                report.quotas = None;
                report.sustained_kpps(&run.provenance).as_number()
            }
            _ => unreachable!("a record of run"),
        };
        let file = folder.write("run.json", run.to_json_pretty().expect("JSON"));
        let budget = record(&["--line", "1Tb/s", "--clock", "3", "--from", &file]).0;
        let Body::Budget(report) = budget.body else { panic!("a record of budget") };
        let measured = report.shortfall.expect("it is below this line").packets_per_s;
        assert!((measured - rate.expect("a rate") * 1e3).abs() < 1.0, "{measured} {rate:?}");
        measured
    };
    assert!(of(Some(0.2)) < of(None));
}

#[test]
fn this_machine_has_a_clock_and_no_guess_at_instructions() {
    let (_, json) = record(&["--line", "10Gb/s", "--clock", "3"]);
    let cycles = json["summary"]["cycles_per_packet"].as_f64().expect("a number");
    assert!((cycles - 67.2 * 3.0).abs() < 1e-9);
    assert_eq!(json["summary"]["instructions_per_packet"], Value::Null);
    let done = linerate(&["budget", "--clock", "3"]);
    // Lines break according to the length of the processor's name.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(done.stdout.contains("set --ipc"), "{}", done.stdout);
    assert!(words(&done.stdout).contains("(clock from --clock; "), "{}", done.stdout);
    let done = linerate(&["budget", "--clock", "3", "--machine", "t1"]);
    assert!(words(&done.stdout).contains("; clock from --clock)"), "{}", done.stdout);
    let done = linerate(&["budget"]);
    if done.status == Some(2) && done.stderr.contains("the core clock is unknown") {
        println!("SKIP: {}", done.stderr);
        return;
    }
    let text = words(&done.stdout);
    assert!(text.contains(" GHz (95 % confidence interval, evidence tier sw); cores"), "{text}");
}

#[test]
fn a_run_is_held_against_the_line() {
    let folder = Folder::new();
    let (run, plots) = (folder.file("run.json"), folder.file("plots"));
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/edge.toml");
    let done = linerate(&["run", "--time", "100ms", "-q", "--record", &run, example]);
    assert_eq!(done.status, Some(0), "{done:?}");
    let args = ["--line", "1Tb/s", "--clock", "3", "--from", &run, "--svg", &plots];
    let (record, _) = record(&args);
    let Body::Budget(report) = record.body else { panic!("another record") };
    let found = report.shortfall.expect("a run was given");
    assert!(0.0 < found.share_of_line && found.share_of_line < 1.0, "{found:?}");
    assert!(found.share_of_line_at_shortest < found.share_of_line, "{found:?}");
    assert!(found.holds_from_bytes > found.frame_bytes, "{found:?}");
    let plot = format!("{plots}/budget.svg");
    assert!(std::fs::read_to_string(&plot).expect("a plot").contains("<svg"));
    let there = "the rate was measured on ";
    let done = linerate(&["budget", "--machine", "t2", "--from", &run]);
    assert!(done.stderr.contains(there) && done.status == Some(0), "{done:?}");
    for quiet in [&["--clock", "3", "--from", &run][..], &["--machine", "t2", "-q", "--from", &run]]
    {
        let done = linerate(&[&["budget"], quiet].concat());
        assert!(!done.stderr.contains(there), "{quiet:?}: {}", done.stderr);
    }
    let done = linerate(&["budget", "--from", &plot]);
    assert_eq!(done.status, Some(2));
    assert!(done.stderr.contains("--from"), "{}", done.stderr);
}

/// Figures 10-3 and 10-5: forwarding limits by frame size.
#[test]
fn the_roofline_is_drawn_where_limits_are_known() {
    let folder = Folder::new();
    let (plots, plot) = (folder.file("plots"), folder.file("plots/roofline.svg"));
    let args = ["budget", "--svg", &plots, "--machine"];
    let done = linerate(&[&args[..], &["t1", "--instructions", "488"]].concat());
    assert_eq!(done.status, Some(0), "{done:?}");
    let svg = std::fs::read_to_string(&plot).expect("a plot");
    for line in ["the line", "interfaces", "memory", "instructions", "measured"] {
        assert!(svg.contains(&format!(">{line}</text>")), "{line}: {svg}");
    }
    std::fs::remove_file(&plot).expect("it was written");
    let done = linerate(&[&args[..], &["t1", "--frame", "64"]].concat());
    assert!(done.stderr.contains("at least two frame sizes") && done.status == Some(0), "{done:?}");
    let done = linerate(&[&args[..], &["this", "--clock", "3"]].concat());
    assert!(done.stderr.contains("[bandwidth]") && done.status == Some(0), "{done:?}");
    assert!(!std::path::Path::new(&plot).exists());
}

#[test]
fn a_packet_rate_is_a_line_rate_at_one_frame_size() {
    let done = linerate(&["budget", "--line", "10Mpps", "--clock", "3", "--json", "--details"]);
    assert_eq!(done.status, Some(0), "{done:?}");
    let record: serde_json::Value = serde_json::from_str(&done.stdout).expect("a record");
    let rows = record["rows"].as_array().expect("rows");
    let sizes: Vec<f64> = rows.iter().filter_map(|row| row["frame_bytes"].as_f64()).collect();
    // IMIX is always included.
    assert_eq!(sizes.first(), Some(&64.0), "{sizes:?}");
    assert!((rows[0]["ns_per_packet"].as_f64().unwrap() - 100.0).abs() < 1e-6, "{}", rows[0]);
    assert!((rows[0]["cycles_per_packet"].as_f64().unwrap() - 300.0).abs() < 1e-6, "{}", rows[0]);
}

#[test]
fn what_makes_no_sense_is_refused_with_what_does() {
    let refused = |args: &[&str], word: &str| {
        let done = linerate(&[&["budget"], args].concat());
        assert_eq!(done.status, Some(2), "{args:?}");
        assert!(done.stderr.contains(word), "{args:?}: {}", done.stderr);
        assert_eq!(done.stdout, "");
    };
    refused(&["--frame", "63"], "64 to");
    refused(&["--frame", "0"], "64 to");
    refused(&["--strands", "0"], "strands");
    refused(&["--line", "1.5Mpp"], "like '10Gb/s'");
    refused(&["--line", "1.5Mpps", "--frame", "64,128"], "one frame size");
    refused(&["--line", "10000000000000pps"], "1kb/s to 1000Tb/s");
    refused(&["--line", "1pps"], "1kb/s to 1000Tb/s");
    refused(&["--line", "1.5Mpps", "--from", "run.json"], "must be a bit rate");
    refused(&["--line", "0Gb/s"], "--line");
    refused(&["--line", "1b/s"], "1kb/s to 1000Tb/s");
    refused(&["--line", "1001Tb/s"], "1kb/s to 1000Tb/s");
    refused(&["--cores", "65537"], "65536");
    refused(&["--pipes", "4294967295"], "65536");
    refused(&["--instructions", "1e10"], "at most 1000000000 instructions");
    for clock in ["nan", "0", "-1", "0.001", "101", "1e300"] {
        refused(&[&format!("--clock={clock}")], "expected a clock of 0.01 to 100 GHz");
    }
    for line in ["0", "1.5Mpp", "max"] {
        let done = linerate(&["budget", "--line", line]);
        assert_eq!(done.stderr.matches("like '10Gb/s'").count(), 1, "{line}: {}", done.stderr);
        assert!(!done.stderr.contains("write packets"), "{line}: {}", done.stderr);
    }
    refused(&["--machine", "t9"], "t1, t2");
    refused(&["--instructions", "-1"], "greater than 0");
}

#[test]
fn frames_of_the_table_do_not_replace_those_that_were_measured() {
    let folder = Folder::new();
    let mut why = fixtures::record("why");
    let Body::Why(report) = &mut why.body else { panic!("a record of why") };
    report.observation.packets = Some(PacketCount {
        packets: 100_000,
        bytes: Some(63_000_000),
        counter: PacketCount::CONNECTIONS.to_owned(),
    });
    for thread in &mut report.observation.threads {
        thread.cost_ns = Figure::exact("ns", 500.0, Tier::Sw, "by hand");
    }
    let file = folder.write("why.json", why.to_json_pretty().expect("JSON"));
    let line = ["--line", "1Tb/s", "--clock", "3"];
    for frames in [&[][..], &["--frame", "64"]] {
        let args = [&line[..], &["--from", &file], frames].concat();
        let Body::Budget(report) = record(&args).0.body else { panic!("a record of budget") };
        // Payload, headers of 66 bytes, and the FCS.
        assert_eq!(report.shortfall.expect("a rate").frame_bytes, 700.0, "{frames:?}");
    }
}
