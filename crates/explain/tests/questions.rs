// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions about runs and strands, with known answers.

#[path = "../../plan/tests/reference/sim.rs"]
#[expect(dead_code, reason = "a few of its worlds are enough here")]
mod sim;

use linerate_cmt::processor::Processor;
use linerate_explain::cpi::{costs_of, of_strand};
use linerate_explain::questions::{Inquiry, QUESTIONS, ask};
use linerate_explain::regions::as_strands;
use linerate_record::answers::{Answer, AnswerVerdict};
use linerate_record::run::RunReport;
use linerate_record::strands::{ForeignFormat, Machine, StrandCounts, StrandEvent, StrandsReport};
use linerate_record::{Body, Figure, Provenance, Record, Tier, fixtures};
use sim::{Dice, World, mapping, processed_kpps, run};

fn record(body: Body) -> Record {
    Record { provenance: Provenance::default(), body }
}

fn asked(record: &Record) -> Inquiry<'_> {
    Inquiry {
        record,
        file: "run.json",
        against: None,
        processor: None,
        line_bits_per_s: None,
        costs: None,
    }
}

fn answer(asked: &Inquiry<'_>, id: &str) -> Answer {
    let mut report = ask(asked, Some(id)).expect("a question");
    assert_eq!(report.answers.len(), 1);
    report.answers.remove(0)
}

fn value(answer: &Answer, name: &str) -> f64 {
    let found = answer.evidence.iter().find(|evidence| evidence.name.contains(name));
    found.unwrap_or_else(|| panic!("no {name} in {:?}", answer.evidence)).value
}

fn hw(unit: &str, value: f64) -> Figure {
    Figure::exact(unit, value, Tier::Hw, "synthetic")
}

/// Returns a strand of the T1 with the document's figures.
fn strand(cpu: u32, name: &str, instructions: f64, cpi: f64, dc_pti: f64) -> StrandCounts {
    let kpps = 1.2e6 / (instructions * cpi);
    let mut strand = StrandCounts {
        name: Some(name.to_owned()),
        cpu: Some(cpu),
        packets: Some(1_000_000),
        ticks: None,
        kpps: hw("kpps", kpps),
        ticks_per_packet: hw("ticks/packet", instructions * cpi),
        instructions_per_packet: hw("instructions/packet", instructions),
        cpi: hw("cycles/instruction", cpi),
        ipc: hw("instructions/cycle", 1.0 / cpi),
        events: vec![StrandEvent {
            name: "dc".to_owned(),
            native: "DC_miss".to_owned(),
            count: hw("events", 1e6),
            per_packet: hw("events/packet", dc_pti * instructions / 1e3),
            pti: hw("events/1000 instructions", dc_pti),
        }],
        nodes: Vec::new(),
        slices: Vec::new(),
        cpi_by_cause: None,
    };
    let costs = costs_of(&Processor::named("t1").expect("it is there")).expect("events");
    strand.cpi_by_cause = of_strand(&strand, &costs);
    strand
}

fn imported(strands: Vec<StrandCounts>) -> Record {
    let machine =
        Machine { name: "T1".into(), source: "".into(), clock_ghz: 1.2, strands_per_core: Some(4) };
    let report = StrandsReport {
        format: ForeignFormat::ProfileDump,
        format_version: Some("2.0".to_owned()),
        machine: Some(machine),
        strands,
        lines: 9,
        faults: Vec::new(),
    };
    record(Body::Strands(Box::new(report)))
}

/// Returns a record of the document's configuration 2, with the instructions per packet that 310
/// kpps imply.
fn configuration_2() -> Record {
    imported(vec![
        strand(0, "PDSN_RX", 454.0, 8.53, 62.0),
        strand(1, "RLP", 990.0, 3.91, 14.3),
        strand(3, "ATIF_TX", 1373.0, 2.82, 5.7),
    ])
}

fn simulated(stages: &[f64], parts: &[(usize, u32)]) -> RunReport {
    let mut world = World::random(&mut Dice::new(3), stages.len());
    world.stages = stages.to_vec();
    world.capture = vec![(0, None); 16];
    (world.period, world.jitter, world.slowdown, world.drop_when_full) = (0.0, 0.0, 1.0, false);
    run(&world, &mapping(parts), 0.01, 1)
}

#[test]
fn all_questions_are_answered_or_say_what_to_do_next() {
    let records = [
        configuration_2(),
        imported(Vec::new()),
        record(Body::Run(Box::new(simulated(&[100.0, 300.0], &[(1, 1), (1, 1)])))),
    ];
    for record in &records {
        let report = ask(&asked(record), None).expect("all of them");
        let ids: Vec<&str> = report.answers.iter().map(|answer| answer.id.as_str()).collect();
        assert_eq!(ids, QUESTIONS.map(|question| question.id));
        for answer in &report.answers {
            let cannot = answer.verdict == AnswerVerdict::CannotTell;
            assert_eq!(cannot, answer.sentence.starts_with("cannot tell"), "{answer:?}");
            assert!(!cannot || answer.next.is_some(), "{answer:?}");
            let needs_evidence = answer.verdict == AnswerVerdict::Answered;
            assert!(!needs_evidence || !answer.evidence.is_empty(), "{answer:?}");
        }
    }
    let error = ask(&asked(&records[0]), Some("why")).expect_err("no such question");
    assert!(error.to_string().contains("bottleneck, bound"), "{error}");
}

#[test]
fn a_record_of_why_is_asked_only_what_it_can_answer() {
    let record = record(Body::Why(Box::new(fixtures::why())));
    let report = ask(&asked(&record), None).expect("all of them");
    let ids: Vec<&str> = report.answers.iter().map(|answer| answer.id.as_str()).collect();
    assert_eq!(ids, ["bottleneck", "small-packets"]);
    let fix = fixtures::why().findings[0].fix.clone().expect("a fix");
    assert_eq!(report.answers[0].advice, [fix]);
    let bound = answer(&asked(&record), "bound");
    assert_eq!(bound.verdict, AnswerVerdict::CannotTell);
    assert!(bound.sentence.contains("a why record lacks the data"), "{bound:?}");
    assert!(bound.next.is_some_and(|next| next.starts_with("linerate profile PID")));
}

/// The fixture's region was entered once, around a loop over all packets.
#[test]
fn only_vectors_of_vpp_have_a_size_at_which_they_are_full() {
    let Body::Regions(regions) = fixtures::record("regions").body else { panic!("regions") };
    let sentence = |format: ForeignFormat| {
        let strands = StrandsReport { format, ..as_strands(&regions, Some(3e9)) };
        answer(&asked(&record(Body::Strands(Box::new(strands)))), "bottleneck").sentence
    };
    let (of_regions, of_vpp) = (sentence(ForeignFormat::Regions), sentence(ForeignFormat::Vpp));
    assert!(of_regions.starts_with("`program/work` on thread "), "{of_regions}");
    assert!(!of_regions.contains("vectors"), "{of_regions}");
    assert!(of_vpp.contains("vectors are full"), "{of_vpp}");
}

#[test]
fn the_strand_of_most_cycles_per_instruction_is_the_one_to_split() {
    let record = configuration_2();
    let found = answer(&asked(&record), "split");
    assert_eq!(found.verdict, AnswerVerdict::Answered);
    assert!(found.sentence.starts_with("PDSN_RX first"), "{found:?}");
    assert_eq!(value(&found, "PDSN_RX"), 8.53);
    // Counters do not show that this strand limits the application, since all strands may be
    // polling.
    assert_eq!(answer(&asked(&record), "bottleneck").verdict, AnswerVerdict::CannotTell);
}

#[test]
fn bound_follows_the_rule_of_the_document() {
    let found = answer(&asked(&configuration_2()), "bound");
    assert_eq!(found.verdict, AnswerVerdict::Answered);
    assert!(found.sentence.contains("the rule-of-thumb limit for this processor"), "{found:?}");
    let says =
        "PDSN_RX: memory-bound by rule of thumb, but counted cache misses explain at most 17 % of";
    assert!(found.sentence.contains(says), "{found:?}");
    assert!(found.sentence.contains("ATIF_TX: compute-bound (below"), "{found:?}");
    assert!((value(&found, "PDSN_RX dc") - 62.0 * 0.023).abs() < 1e-9);
}

/// A task of 575 instructions with a budget of 202 per strand takes three strands, with 606 in
/// total.
#[test]
fn line_rate_at_64_bytes_takes_three_strands() {
    let t1 = Processor::named("t1").expect("it is there");
    let record = imported(vec![strand(0, "all", 575.0, 2.0, 1.0)]);
    let asked = Inquiry { processor: Some(&t1), line_bits_per_s: Some(1e9), ..asked(&record) };
    let found = answer(&asked, "line-rate-64");
    assert_eq!(found.verdict, AnswerVerdict::Answered);
    assert!(found.sentence.contains("575") && found.sentence.contains("202"), "{found:?}");
    assert!(found.sentence.contains("606"), "{found:?}");
    assert_eq!(value(&found, "strands"), 3.0);
    let asked = Inquiry { line_bits_per_s: Some(0.3e9), ..asked };
    assert_eq!(answer(&asked, "line-rate-64").verdict, AnswerVerdict::DoesNotArise);
    let asked = Inquiry { line_bits_per_s: None, ..asked };
    let found = answer(&asked, "line-rate-64");
    assert!(found.next.is_some_and(|next| next.contains("--line")), "no line rate is known");
}

/// Every strand must keep up; 454, 990 and 1373 instructions take 3, 5 and 7 strands with 202 each.
#[test]
fn line_rate_at_64_bytes_applies_to_every_strand() {
    let t1 = Processor::named("t1").expect("it is there");
    let record = configuration_2();
    let asked = Inquiry { processor: Some(&t1), line_bits_per_s: Some(1e9), ..asked(&record) };
    let found = answer(&asked, "line-rate-64");
    for part in [
        "ATIF_TX executes 1373",
        "RLP executes 990 (strands needed: 5)",
        "PDSN_RX executes 454 (strands needed: 3)",
    ] {
        assert!(found.sentence.contains(part), "{part}: {found:?}");
    }
    assert!(found.sentence.contains("15 strands are needed"), "{found:?}");
    assert!(found.advice.iter().any(|advice| advice.contains("polls")), "{found:?}");
}

/// A path that sustains line rate with frames of 300 bytes and more: 390,625 packets per second at
/// 1 Gb/s.
#[test]
fn small_packets_miss_the_line_from_the_size_that_the_rate_implies() {
    let record = imported(vec![strand(0, "all", 1.2e9 / 390_625.0, 1.0, 1.0)]);
    let asked = Inquiry { line_bits_per_s: Some(1e9), ..asked(&record) };
    let found = answer(&asked, "small-packets");
    assert!(found.sentence.contains("frames of 300 bytes"), "{found:?}");
    assert!((value(&found, "share of line rate at 64") - 84.0 / 320.0).abs() < 1e-9);
    assert!(
        found.advice[0]
            .starts_with("line rate with 64-byte frames requires 3.81 times the current rate")
    );
    let asked = Inquiry { line_bits_per_s: Some(1e10), ..asked };
    let sentence = answer(&asked, "small-packets").sentence;
    let expected = "391 kpps is too slow for 10 Gb/s at every frame size: it fills 48.1 % of the \
                    line with 1518-byte frames and 2.62 % with 64-byte frames";
    assert!(sentence.starts_with(expected), "{sentence}");
    let asked = Inquiry { line_bits_per_s: Some(1e8), ..asked };
    assert_eq!(answer(&asked, "small-packets").verdict, AnswerVerdict::DoesNotArise);
}

#[test]
fn scaling_takes_two_records_and_names_what_grew() {
    let one = imported(vec![strand(0, "rx", 454.0, 8.53, 62.0)]);
    let two = imported(vec![strand(0, "rx", 454.0, 12.5, 62.0)]);
    assert_eq!(answer(&asked(&two), "scaling").verdict, AnswerVerdict::CannotTell);
    let found = answer(&Inquiry { against: Some(&one), ..asked(&two) }, "scaling");
    assert!(found.sentence.contains("rx cpi from 8.53 to 12.5"), "{found:?}");
    assert!(!found.sentence.contains("instructions from"), "{found:?}");
    assert!(value(&found, "rx rate, now") < value(&found, "rx rate, before"), "{found:?}");
    assert!(found.evidence.iter().all(|one| !one.name.contains("dc")), "what grew: {found:?}");
    // As many packets as with fewer ports: there is nothing to explain, whatever else differs.
    let found = answer(&Inquiry { against: Some(&one), ..asked(&one) }, "scaling");
    assert_eq!(found.verdict, AnswerVerdict::DoesNotArise, "{found:?}");
    // Fewer packets, each at the same cost: the counts do not show what delays them.
    let mut late = strand(0, "rx", 454.0, 8.53, 62.0);
    late.kpps = hw("kpps", 100.0);
    let late = imported(vec![late]);
    let found = answer(&Inquiry { against: Some(&one), ..asked(&late) }, "scaling");
    assert!(found.sentence.contains("no cost per packet or per instruction grows"), "{found:?}");
}

#[test]
fn placing_threads_matters_where_the_pipe_is_full() {
    let t1 = Processor::named("t1").expect("it is there");
    let record = configuration_2();
    let found = answer(&Inquiry { processor: Some(&t1), ..asked(&record) }, "placement");
    // 0.117 + 0.256 + 0.355 of 1, and the strand that polls on the same core was not counted.
    assert!((value(&found, "core 0, 3 of 4") - 0.728).abs() < 0.001, "{found:?}");
    assert_eq!(found.verdict, AnswerVerdict::CannotTell);
    let Body::Strands(mut report) = record.body else { panic!("strands") };
    report.strands.push(strand(2, "ATIF_RX", 100.0, 12.0, 1.0));
    let all = imported(report.strands);
    let found = answer(&Inquiry { processor: Some(&t1), ..asked(&all) }, "placement");
    assert!(found.sentence.contains("so it is not the bottleneck"), "{found:?}");
    let full =
        imported((0..4).map(|cpu| strand(cpu, &format!("s{cpu}"), 500.0, 4.0, 1.0)).collect());
    let found = answer(&Inquiry { processor: Some(&t1), ..asked(&full) }, "placement");
    assert!(found.sentence.contains("core 0 (s0, s1, s2, s3)"), "{found:?}");
    assert_eq!(answer(&asked(&full), "placement").verdict, AnswerVerdict::CannotTell);
}

#[test]
fn a_run_shows_its_bottleneck_and_polling_neighbours() {
    let run = simulated(&[100.0, 400.0], &[(1, 1), (1, 1)]);
    let cpus: Vec<u32> = (0..2).collect();
    let rate = processed_kpps(&run);
    let placed = |mut run: RunReport| {
        run.cpus_available = Some(2);
        for (worker, cpu) in run.workers.iter_mut().zip(&cpus) {
            worker.cpu = *cpu;
        }
        let mut placed = record(Body::Run(Box::new(run)));
        (placed.provenance.cpus, placed.provenance.siblings) = (cpus.clone(), Some(Vec::new()));
        placed
    };
    let alone = placed(run.clone());
    let found = answer(&asked(&alone), "bottleneck");
    assert_eq!(found.verdict, AnswerVerdict::Answered, "{found:?}");
    assert_eq!(value(&found, "processed"), rate);
    assert_eq!(answer(&asked(&alone), "split").verdict, AnswerVerdict::Answered);
    // The strand before the bottleneck is blocked rather than polling, so the path is reversed.
    assert_eq!(answer(&asked(&alone), "parking").verdict, AnswerVerdict::DoesNotArise);
    let run = simulated(&[400.0, 50.0], &[(1, 1), (1, 1)]);
    let (alone, mut beside) = (placed(run.clone()), placed(run));
    beside.provenance.siblings = Some(vec![cpus.clone()]);
    assert_eq!(answer(&asked(&alone), "parking").verdict, AnswerVerdict::DoesNotArise);
    let found = answer(&asked(&beside), "parking");
    assert_eq!(found.verdict, AnswerVerdict::Answered, "{found:?}");
    assert!(value(&found, "polls") > 0.5, "{found:?}");
    assert_eq!(answer(&asked(&alone), "placement").verdict, AnswerVerdict::DoesNotArise);
    assert_eq!(answer(&asked(&beside), "placement").verdict, AnswerVerdict::Answered);
}

/// A path without instruction counts, with one strand that takes longer than 672 ns per packet.
#[test]
fn without_instructions_the_packet_time_determines_the_number_of_workers() {
    let record = record(Body::Run(Box::new(simulated(&[4000.0], &[(1, 1)]))));
    let asked = Inquiry { line_bits_per_s: Some(1e9), ..asked(&record) };
    let found = answer(&asked, "line-rate-64");
    let workers = (value(&found, "work per packet") / 672.0).ceil();
    assert!(workers > 1.0, "{found:?}");
    assert!(found.sentence.contains(&format!("at least {workers} workers")), "{found:?}");
}
