// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests records written in other programs' formats, and dumps that are read back.

use linerate_exchange::totals::readings;
use linerate_exchange::{EventCode, Processor, folded, perf_script, profile_dump, table};
use linerate_record::answers::Evidence;
use linerate_record::budget::BudgetReport;
use linerate_record::regions::{RegionEvent, RegionReport, RegionsReport};
use linerate_record::run::{RunReport, StageReport, WorkerReport};
use linerate_record::stat::{HotFunction, HotSpots, StatReport};
use linerate_record::stats::Estimate;
use linerate_record::why::{Circumstance, WhyRemark};
use linerate_record::{Body, Figure, Provenance, Record, Scalar, Tier, fixtures};

fn record(body: Body) -> Record {
    Record { provenance: Provenance::default(), body }
}

fn figure(value: f64) -> Figure {
    Figure::exact("x", value, Tier::User, "synthetic")
}

fn region(name: &str, units: u64, events: &[(&str, f64)]) -> RegionReport {
    let event =
        |&(name, count): &(&str, f64)| RegionEvent { name: name.to_owned(), count: figure(count) };
    RegionReport {
        name: name.to_owned(),
        tid: 7,
        visits: 10,
        units,
        ticks: figure(3e9),
        own_ticks: figure(1e9),
        events: events.iter().map(event).collect(),
        is_sampled: false,
        verdict: String::new(),
    }
}

fn regions() -> Record {
    let events = [("instructions", 6e9), ("l1d_misses", 3e6), ("branches", 1e6)];
    record(Body::Regions(Box::new(RegionsReport {
        tier: Tier::User,
        reading: "user read".to_owned(),
        own_ticks: figure(26.0),
        regions: vec![region("burst", 1_000_000, &events), region("burst/parse; fast", 0, &[])],
    })))
}

fn processor() -> Processor {
    let code = |code, name: &str| EventCode { code, name: name.into(), native: name.into() };
    Processor {
        clock_ghz: Some(2.0),
        instructions_per_tick: None,
        codes: vec![code(0x100, "instructions"), code(8, "l1d_misses")],
    }
}

/// Includes 6 * 10^9 instructions, which must be split over two slices of a 32-bit counter.
#[test]
fn regions_come_back_from_a_dump() {
    let written = readings(&regions(), &processor()).unwrap();
    assert_eq!(written.left_out.iter().collect::<Vec<_>>(), ["branches"]);
    let names: Vec<&str> = written.strands.iter().map(|strand| strand.name.as_str()).collect();
    assert_eq!(names, ["burst of thread 7", "burst/parse; fast of thread 7"]);
    let text = profile_dump::write(&written.strands);
    let read = profile_dump::read(&text, &processor()).unwrap();
    assert_eq!(read.faults, []);
    let [burst, parse] = read.strands.as_slice() else { panic!("two regions") };
    assert_eq!((burst.packets, burst.ticks), (Some(1_000_000), Some(3_000_000_000)));
    let near = |figure: &Figure, wanted: f64| {
        let off = (figure.as_number().unwrap() / wanted - 1.0).abs();
        assert!(off < 1e-6, "{figure:?} against {wanted}");
    };
    near(&burst.instructions_per_packet, 6000.0);
    near(&burst.cpi, 0.5);
    near(&burst.event("l1d_misses").unwrap().pti, 0.5);
    near(&burst.kpps, 1e6 / 3e9 * 2e6);
    // Without units of work, visits are used; without instructions, only time and packets.
    assert_eq!((parse.packets, parse.ticks), (Some(10), Some(3_000_000_000)));
    assert_eq!(parse.cpi.as_number(), None);
}

fn stage(name: &str, packets: u64, events: &[(&str, f64)]) -> StageReport {
    let event = |&(name, per_packet): &(&str, f64)| (name.to_owned(), figure(per_packet));
    StageReport {
        name: name.to_owned(),
        packets,
        ticks_per_packet: figure(50.0),
        cycles_per_packet: figure(60.0),
        busy: Some(0.25),
        events: Some(events.iter().map(event).collect()),
        ..fixtures::stage()
    }
}

/// Returns a worker on CPU 0 with a stage that drops half of its packets.
fn strand(replica: u32) -> WorkerReport {
    let first = [("instructions", 200.0), ("l1d_misses", 3.0), ("ll_misses", 1.0), ("cpi", 0.5)];
    let second = [("instructions", 100.0), ("l1d_misses", 1.0), ("cpi", 0.6)];
    WorkerReport {
        name: format!("0.{replica}"),
        cpu: 0,
        segment: 0,
        replica,
        stages: vec![stage("source", 1_000_000, &first), stage("sink", 500_000, &second)],
        time: None,
        ticks_per_packet: figure(75.0),
        ..fixtures::worker()
    }
}

fn run(strands: u32) -> Record {
    record(Body::Run(Box::new(RunReport {
        elapsed_s: 2.0,
        ticks_per_s: 2e9,
        workers: (0..strands).map(strand).collect(),
        ..fixtures::run()
    })))
}

/// 200 instructions per packet plus 100 for every second packet are 250 per packet. An event that
/// the second stage lacks is unknown for the worker.
#[test]
fn strands_of_a_run_come_back_from_a_dump() {
    let written = readings(&run(1), &processor()).unwrap();
    assert!(written.left_out.is_empty(), "{:?}", written.left_out);
    let text = profile_dump::write(&written.strands);
    let read = profile_dump::read(&text, &processor()).unwrap();
    let [strand] = read.strands.as_slice() else { panic!("one strand") };
    assert_eq!((strand.packets, strand.ticks), (Some(1_000_000), Some(75_000_000)));
    let number = |figure: &Figure| figure.as_number().unwrap();
    assert_eq!(number(&strand.instructions_per_packet), 250.0);
    assert_eq!(number(&strand.cpi), 0.3);
    assert_eq!(number(&strand.event("l1d_misses").unwrap().per_packet), 3.5);
    assert!(strand.event("ll_misses").is_none());
    // Two workers that shared a CPU are two strands in the dump.
    let written = readings(&run(2), &processor()).unwrap();
    let read = profile_dump::read(&profile_dump::write(&written.strands), &processor()).unwrap();
    assert_eq!(read.strands.len(), 2);
}

#[test]
fn stacks_of_a_run_are_shares_of_its_time() {
    let text = folded::stacks(&run(1)).unwrap();
    assert_eq!(text, "worker 0.0;source 1000000000\nworker 0.0;sink 1000000000\n");
}

#[test]
fn what_a_format_cannot_hold_is_refused() {
    let budget = BudgetReport { rows: Vec::new(), ..fixtures::budget() };
    let budget = record(Body::Budget(Box::new(budget)));
    let error = readings(&budget, &processor()).unwrap_err().to_string();
    assert!(error.contains("run, tune"), "{error}");
    assert!(folded::stacks(&budget).is_err() && table::rows(&budget).is_err());
    let error = readings(&regions(), &Processor::default()).unwrap_err().to_string();
    assert!(error.contains("--machine"), "{error}");
}

#[test]
fn stacks_have_one_frame_per_region() {
    let text = folded::stacks(&regions()).unwrap();
    assert_eq!(text, "thread 7;burst 1000000000\nthread 7;burst;parse_ fast 1000000000\n");
}

/// Counts are written exactly, although an `f64` cannot represent every 64-bit number.
#[test]
fn counts_by_function_are_flat_stacks_of_module_and_function() {
    let function = |name: &str, module: &str, counts: [u64; 2]| HotFunction {
        name: name.to_owned(),
        module: module.to_owned(),
        counts: counts.to_vec(),
        lines: Vec::new(),
    };
    let hot = HotSpots {
        by: "l1d_misses".to_owned(),
        events: vec!["instructions".to_owned(), "l1d_misses".to_owned()],
        totals: vec![9, u64::MAX],
        functions: vec![
            function("walk", "a.out", [4, u64::MAX - 1]),
            function("f(a; b)", "lib.so", [3, 1]),
            function("idle", "lib.so", [2, 0]),
        ],
        unread: Vec::new(),
    };
    let stat = |hot| record(Body::Stat(Box::new(StatReport { hot, ..fixtures::stat() })));
    let text = folded::stacks(&stat(Some(hot))).unwrap();
    assert_eq!(text, "a.out;walk 18446744073709551614\nlib.so;f(a_ b) 1\n");
    let error = folded::stacks(&stat(None)).unwrap_err().to_string();
    assert!(error.contains("stat --hot"), "{error}");
}

/// Splits an RFC 4180 line into fields; deliberately simple.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().unwrap().push(c),
        }
    }
    fields
}

#[test]
fn values_are_separated_by_commas_and_nothing_else() {
    let mut rows = table::rows(&regions()).unwrap();
    rows[0].stage = "a, b".to_owned();
    rows[1].figure = Figure::absent("x", Tier::Sw, "", "no counter, none at all");
    rows[2].figure.value = Scalar::Number(1.0 / 3.0);
    let text = table::csv(&rows);
    let lines: Vec<Vec<String>> = text.trim_end().split("\r\n").map(fields).collect();
    assert_eq!(lines.len(), rows.len() + 1);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
    assert_eq!(lines[1][1], "a, b");
    assert_eq!((lines[2][3].as_str(), lines[2][9].as_str()), ("", "no counter, none at all"));
    assert_eq!(lines[3][3].parse(), Ok(1.0 / 3.0));
}

#[test]
fn gauges_stand_once_with_their_labels_escaped() {
    let mut rows = table::rows(&regions()).unwrap();
    rows[0].stage = "a \"quoted\" \\ name".to_owned();
    rows[1].figure = Figure::absent("x", Tier::Sw, "", "none");
    let text = table::prometheus(&rows).unwrap();
    let mut types: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    let all = types.len();
    types.dedup();
    assert_eq!(types.len(), all, "{text}");
    assert!(text.contains(r#"stage="a \"quoted\" \\ name""#), "{text}");
    assert!(text.contains("linerate_stage_l1d_misses{worker=\"7\",stage=\"burst\""), "{text}");
    assert_eq!(text.lines().count(), all + rows.len() - 1, "an absent figure has no sample");
    rows.iter_mut().for_each(|row| row.figure = Figure::absent("x", Tier::Sw, "", "none"));
    assert!(table::prometheus(&rows).is_err());
}

/// Collectors reject a file in which two samples have the same name and labels.
#[test]
fn functions_of_the_same_name_are_kept_apart() {
    let mut report = fixtures::profile();
    let any = report.functions[0].clone();
    let of = |module: &str| linerate_record::profile::FunctionCost {
        name: "memcpy".to_owned(),
        module: module.to_owned(),
        share: Figure::exact("ratio", 0.1, Tier::Sw, "a test"),
        ..any.clone()
    };
    // Static functions of two files may have the same name in one module.
    report.functions = ["libc.so.6", "server", "server"].map(of).to_vec();
    let rows = table::rows(&record(Body::Profile(Box::new(report)))).unwrap();
    let text = table::prometheus(&rows).unwrap();
    let share = "linerate_stage_share{worker=";
    let samples: Vec<&str> = text.lines().filter(|line| line.starts_with(share)).collect();
    assert_eq!(samples.len(), 3, "{text}");
    assert!(samples[0].contains("\"libc.so.6\",stage=\"memcpy\""), "{text}");
    let names = text.lines().filter_map(|line| line.rsplit_once(' ').map(|(name, _)| name));
    let mut seen = std::collections::BTreeSet::new();
    assert!(names.clone().all(|name| seen.insert(name)), "{text}");
    let csv = table::csv(&rows);
    assert!(csv.lines().any(|line| line.contains("libc.so.6,memcpy")), "{csv}");
}

#[test]
fn evidence_of_remarks_has_its_interval() {
    let estimate = Estimate { value: 7.5, low: 7.0, high: 8.0, confidence: 0.95, n: 50 };
    let mut report = fixtures::why();
    report.remarks = vec![WhyRemark {
        id: Circumstance::SlowPackets,
        sentence: String::new(),
        evidence: vec![Evidence::of("time per packet", estimate, "us", "tier sw; at least 5")],
        next: String::new(),
        wrong_if: String::new(),
    }];
    let csv = table::csv(&table::rows(&record(Body::Why(Box::new(report)))).unwrap());
    let line = ",slow_packets,time per packet,7.5,us,1,7,8,sw,";
    assert!(csv.lines().any(|one| one == line), "{csv}");
}

/// The cores ran at half of the frequency measured before the window, so that each sample, taken
/// after a fixed number of cycles, stands for twice the time.
#[test]
fn samples_of_cycles_stand_for_the_cpu_time_of_the_record() {
    let mut report = fixtures::profile();
    report.sampling.event = "cycles".to_owned();
    report.sampling.has_kernel = true;
    report.cpu_s = 2.0 * report.samples as f64 / report.sampling.rate_hz;
    report.lost_samples = 0;
    let expected = 2e9 / report.sampling.rate_hz;
    assert!((report.ns_per_sample() / expected - 1.0).abs() < 1e-9);
    let text = perf_script::text(&record(Body::Profile(Box::new(report.clone())))).unwrap();
    let first = text.lines().next().unwrap();
    assert!(first.contains(&format!(": {expected:.0} cpu-clock:")), "{first}");
    // The CPU time of a record of user mode includes the kernel's, which has no samples.
    report.sampling.has_kernel = false;
    assert!((report.ns_per_sample() - 1e9 / report.sampling.rate_hz).abs() < 1e-6);
}
