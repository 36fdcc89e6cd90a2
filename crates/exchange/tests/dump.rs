// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of PROFILE_DUMP: the Netra document's sample, reproduced exactly, damaged input, and dumps
//! that are written and read back.

use linerate_exchange::profile_dump::{read, write};
use linerate_exchange::slices::{Totals, Written, slices};
use linerate_exchange::{EventCode, Processor};
use linerate_record::Figure;
use linerate_record::strands::{Place, Slice, StrandCounts, StrandsReport};
use proptest::prelude::*;

/// Code example 10-2 of "Netra Data Plane Software Suite 2.0".
const SAMPLE: &str = include_str!("../../../examples/netra-sample.dump");

fn t1() -> Processor {
    let codes = [
        (0x100, "instructions"),
        (0x1, "sb_full"),
        (0x2, "fp"),
        (0x4, "ic"),
        (0x8, "dc"),
        (0x10, "itlb"),
        (0x20, "dtlb"),
        (0x40, "l2_imiss"),
        (0x80, "l2_dmiss"),
    ];
    let code =
        |(code, name): (u64, &str)| EventCode { code, name: name.into(), native: name.into() };
    Processor {
        clock_ghz: Some(1.2),
        instructions_per_tick: Some(1.0),
        codes: codes.map(code).to_vec(),
    }
}

fn value(figure: &Figure) -> f64 {
    figure.as_number().unwrap_or_else(|| panic!("{figure:?}"))
}

fn pti(strand: &StrandCounts, event: &str) -> f64 {
    value(&strand.event(event).unwrap_or_else(|| panic!("no {event}")).pti)
}

fn fault_lines(report: &StrandsReport) -> Vec<u64> {
    report.faults.iter().map(|fault| fault.line).collect()
}

#[test]
fn the_sample_decodes_to_its_digits() {
    let report = read(SAMPLE, &t1()).unwrap();
    assert_eq!(report.faults, []);
    assert_eq!((report.lines, report.format_version.as_deref()), (21, Some("2.0")));
    let [strand] = report.strands.as_slice() else { panic!("one strand") };
    assert_eq!(strand.cpu, Some(4));
    assert_eq!(strand.packets, Some(20_000_000), "ten slices of two million");
    assert!((value(&strand.kpps) - 311.0).abs() < 0.05, "{}", value(&strand.kpps));
    assert!((value(&strand.ticks_per_packet) - 3858.8).abs() < 0.05);
    assert_eq!(value(&strand.instructions_per_packet).round(), 488.0);
    assert!((7.90..7.91).contains(&value(&strand.cpi)), "{}", value(&strand.cpi));
    assert!((value(&strand.cpi) * value(&strand.ipc) - 1.0).abs() < 1e-12);
    for (event, wanted, tolerance) in [
        ("dc", 44.95, 0.005),
        ("l2_dmiss", 9.44, 0.005),
        ("sb_full", 236.0, 0.5),
        ("ic", 0.09, 0.005),
        ("l2_imiss", 0.027, 0.0005),
        ("fp", 0.0, 0.0),
        ("itlb", 0.0, 0.0),
        ("dtlb", 0.0, 0.0),
    ] {
        let found = pti(strand, event);
        assert!((found - wanted).abs() <= tolerance, "{event}: {found} against {wanted}");
    }
    let per_packet = |event: &str| value(&strand.event(event).unwrap().per_packet);
    assert!((per_packet("dc") - 21.94).abs() < 0.005);
    assert!((per_packet("l2_dmiss") - 4.6).abs() < 0.05);
}

/// Both ends of each interval are close to the value, because the ten slices hardly differ.
#[test]
fn intervals_hold_their_value() {
    let report = read(SAMPLE, &t1()).unwrap();
    let strand = &report.strands[0];
    for figure in [&strand.kpps, &strand.cpi, &strand.instructions_per_packet] {
        let (low, high) = (figure.low.unwrap(), figure.high.unwrap());
        assert!(low <= value(figure) && value(figure) <= high, "{figure:?}");
        assert!(high / low < 1.001 && figure.n == 10, "{figure:?}");
    }
}

#[test]
fn without_a_processor_there_is_time_but_no_rate_and_codes_have_no_names() {
    let report = read(SAMPLE, &Processor::default()).unwrap();
    let strand = &report.strands[0];
    assert!((value(&strand.ticks_per_packet) - 3858.8).abs() < 0.05);
    for figure in [&strand.kpps, &strand.cpi, &strand.instructions_per_packet] {
        let why = figure.reason.as_deref().unwrap_or_default();
        assert!(why.contains("--machine"), "{figure:?}");
    }
    assert!(strand.event("code_8").is_some() && strand.event("code_100").is_some());
}

/// Returns the sample with line `at` (starting at 1) replaced.
fn with_line(at: usize, line: &str) -> String {
    let mut lines: Vec<&str> = SAMPLE.lines().collect();
    lines[at - 1] = line;
    lines.join("\n") + "\n"
}

#[test]
fn damage_costs_its_slice_and_is_named_by_line() {
    // Line 9 is the update for DC misses, between the starts in lines 8 and 10.
    for (bad, word) in [
        ("4,6043,2,305b5db43b0,512598,1,3a2ef375,29d8db7,0", "9 fields, expected 10"),
        ("4,6043,2,305b5db43b0,512598,1,3a2ef375,29d8dbg,0,311d3e00", "field 8"),
        ("4,6043,3,305b5db43b0,512598,1,3a2ef375,29d8db7,0,311d3e00", "expected 1 or 2"),
        ("4,6043,2,305b5db43b0,512598,2,3a2ef375,29d8db7,0,311d3e00", "group 2"),
        ("4,6043,2,305b5db43b0,512598,1,13a2ef375,29d8db7,0,311d3e00", "32 bits"),
        ("4,6043,2,305b5db43b0305b5db43b0,512598,1,1,1,0,311d3e00", "field 4"),
        ("4,6043,2,-5b5db43b0,512598,1,3a2ef375,29d8db7,0,311d3e00", "field 4"),
        ("4", "number of fields: 1"),
        ("garbage", "field 1"),
        ("zz,6043,2,305b5db43b0,512598,1,3a2ef375,29d8db7,0,311d3e00", "field 1"),
    ] {
        let report = read(&with_line(9, bad), &t1()).unwrap();
        assert_eq!(report.faults[0].line, 9, "{bad}: {:?}", report.faults);
        assert!(report.faults[0].sentence.contains(word), "{bad}: {:?}", report.faults);
        let strand = &report.strands[0];
        assert!(strand.event("dc").is_none(), "{bad}: its slice is omitted");
        assert!((pti(strand, "l2_dmiss") - 9.44).abs() < 0.005, "{bad}: the others are unaffected");
        assert_eq!(strand.packets, Some(16_000_000), "{bad}: one more is unknown");
        assert!((value(&strand.kpps) - 311.0).abs() < 0.05, "{bad}");
    }
}

#[test]
fn what_an_error_quotes_is_short_and_drives_no_terminal() {
    let long = format!("4,\u{1b}[2J{},2,1,1,1,1,1,0,1", "x".repeat(1000));
    let report = read(&with_line(9, &long), &t1()).unwrap();
    let sentence = &report.faults[0].sentence;
    assert!(sentence.len() < 120 && !sentence.contains('\u{1b}'), "{sentence}");
}

#[test]
fn overflowed_counts_are_refused_and_their_time_is_kept() {
    let line = "4,6043,2,305b5db43b0,512598,1,3a2ef375,29d8db7,1,311d3e00";
    let report = read(&with_line(9, line), &t1()).unwrap();
    assert_eq!(fault_lines(&report), [9]);
    assert!(report.faults[0].sentence.contains("overflow"));
    let strand = &report.strands[0];
    assert!(strand.event("dc").is_none());
    assert_eq!(strand.packets, Some(20_000_000));
    let line = "4,6043,2,305b5db43b0,512598,1,3a2ef375,29d8db7,0,311d3e00";
    let slow = Processor { instructions_per_tick: Some(0.1), ..t1() };
    let report = read(&with_line(9, line), &slow).unwrap();
    assert_eq!(report.faults.len(), 10, "no slice is plausible");
}

#[test]
fn a_lost_start_or_update_is_not_guessed() {
    // Without the start in line 8, the events counted by the update in line 9 are unknown.
    let report = read(&with_line(8, ""), &t1()).unwrap();
    let strand = &report.strands[0];
    assert!(strand.event("dc").is_none());
    assert_eq!(strand.packets, Some(20_000_000), "still two consecutive readings");
    // Without the update in line 9, two starts are consecutive.
    let report = read(&with_line(9, ""), &t1()).unwrap();
    assert_eq!(fault_lines(&report), [10]);
    assert!(report.faults[0].sentence.contains("line 8"), "{:?}", report.faults);
    assert!((value(&report.strands[0].instructions_per_packet) - 488.0).abs() < 0.5);
}

#[test]
fn dumps_that_end_early_or_are_of_another_version() {
    let cut = SAMPLE.replace("PROFILE_DUMP_END\n", "");
    let report = read(&cut, &t1()).unwrap();
    assert_eq!(fault_lines(&report), [23]);
    assert_eq!(report.strands[0].packets, Some(20_000_000));
    // Without a line feed, the last number may be missing digits.
    let report = read(cut.trim_end(), &t1()).unwrap();
    assert!(report.faults[0].sentence.contains("may be truncated"), "{:?}", report.faults);
    assert_eq!(report.strands[0].packets, Some(18_000_000));
    let other = SAMPLE.replace("2.0", "3.1");
    let error = read(&other, &t1()).unwrap_err();
    assert_eq!(error.line, Some(1));
    assert!(error.to_string().contains("`3.1`"), "{error}");
    let mixed = format!("boot\n{other}noise\n{SAMPLE}");
    let report = read(&mixed, &t1()).unwrap();
    assert_eq!(fault_lines(&report), [2]);
    assert_eq!(report.strands[0].packets, Some(20_000_000));
    let columns = SAMPLE.replace("Evt_Hi,Evt_Lo", "Evt_Lo,Evt_Hi");
    assert_eq!(read(&columns, &t1()).unwrap_err().line, Some(2));
    for nothing in ["", "hello\n", "PROFILE_DUMP_START,ver,2.0\nPROFILE_DUMP_END\n"] {
        assert!(read(nothing, &t1()).is_err(), "{nothing}");
    }
}

#[test]
fn dumps_and_strands_are_kept_apart() {
    let other = SAMPLE.replace("\n4,", "\nc,");
    let both = format!("{SAMPLE}{other}");
    let report = read(&both, &t1()).unwrap();
    assert_eq!(report.strands.iter().map(|s| s.cpu).collect::<Vec<_>>(), [Some(4), Some(12)]);
    // The same dump twice: ticks go backwards between the two, which is not a fault.
    let report = read(&format!("{SAMPLE}{SAMPLE}"), &t1()).unwrap();
    assert_eq!(report.strands[0].packets, Some(40_000_000));
    assert_eq!(report.faults, []);
    // Within one dump this is a fault; the lines before and after it are used separately.
    let body: String = SAMPLE.lines().skip(2).take(21).map(|line| format!("{line}\n")).collect();
    let twice = SAMPLE.replace("PROFILE_DUMP_END\n", &format!("{body}PROFILE_DUMP_END\n"));
    let report = read(&twice, &t1()).unwrap();
    assert_eq!(fault_lines(&report), [24]);
    assert_eq!(report.strands[0].packets, Some(40_000_000));
    assert!((value(&report.strands[0].kpps) - 311.0).abs() < 0.05);
}

/// Generates slices that a dump can represent.
fn readings() -> impl Strategy<Value = Vec<Slice>> {
    let step = (any::<bool>(), 0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 30);
    let counts = (0u64..1 << 32, 0u64..1 << 32, 0u64..3, 0u64..0x200);
    proptest::collection::vec((step, counts, any::<u8>()), 1..20).prop_map(|steps| {
        let (mut ticks, mut user) = (0, 0);
        let mut slices: Vec<Slice> = Vec::new();
        for ((is_started, wait, took, packets), (hi, lo, overflow, code), chance) in steps {
            let from = ticks + wait;
            (ticks, user) = (from + took, user + packets);
            slices.push(Slice {
                line: 0,
                from_ticks: is_started.then_some(from),
                to_ticks: ticks,
                code_hi: is_started.then_some(0x100),
                code_lo: is_started.then_some(code),
                count_hi: hi,
                count_lo: lo,
                overflow,
                user,
                is_first: slices.is_empty() || chance < 40,
                // ID and PC may have any value.
                from: if is_started { Place { id: code, pc: hi } } else { Place::default() },
                to: Place { id: packets, pc: lo },
            });
        }
        slices
    })
}

fn strand(cpu: u32, slices: Vec<Slice>) -> StrandCounts {
    linerate_exchange::derive::from_slices(cpu, slices, &t1()).0
}

fn written(number: u32, slices: Vec<Slice>) -> Written {
    Written { name: "synthetic".to_owned(), number, slices }
}

fn without_lines(mut strand: StrandCounts) -> StrandCounts {
    strand.slices.iter_mut().for_each(|slice| slice.line = 0);
    strand
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(10),
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_written_is_read_back(first in readings(), second in readings()) {
        let strands = vec![strand(4, first), strand(31, second)];
        let written = strands.iter().map(|s| written(s.cpu.unwrap(), s.slices.clone()));
        let text = write(&written.collect::<Vec<_>>());
        let report = read(&text, &t1()).unwrap();
        let found: Vec<_> = report.strands.into_iter().map(without_lines).collect();
        prop_assert_eq!(found, strands);
    }

    #[test]
    fn totals_come_back(
        packets in 1u64..1 << 40, ticks in 1u64..1 << 45, ipc in 0.01f64..1.0,
        dc in 0.0f64..0.2, l2 in 0.0f64..0.1,
    ) {
        let instructions = (ticks as f64 * ipc) as u64;
        let count = |rate: f64| (instructions as f64 * rate) as u64;
        let events = vec![
            ("dc".to_owned(), count(dc)), ("l2_dmiss".to_owned(), count(l2)), ("no".to_owned(), 1),
        ];
        let totals = Totals { packets, ticks, instructions, events };
        let (made, left_out) = slices(&totals, &t1()).unwrap();
        prop_assert_eq!(left_out, ["no"]);
        let text = write(&[written(0, made)]);
        let found = read(&text, &Processor { instructions_per_tick: None, ..t1() }).unwrap();
        prop_assert_eq!(&found.faults, &[]);
        let found = &found.strands[0];
        prop_assert_eq!(found.packets, Some(packets));
        prop_assert_eq!(found.ticks, Some(ticks));
        if instructions == 0 { return Ok(()); }
        let near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 1e-9;
        let (all, n) = (instructions as f64, packets as f64);
        prop_assert!(near(value(&found.instructions_per_packet), all / n));
        prop_assert!(near(value(&found.cpi), ticks as f64 / all));
        for (event, total) in &totals.events[..2] {
            let event = found.event(event).unwrap();
            // The error is at most half a count per slice of the event, divided by their share of
            // the instructions.
            let slices = event.count.n as f64;
            let share = all / (2.0 * slices) - 1.0;
            if share > 0.0 {
                let off = (value(&event.pti) - 1e3 * *total as f64 / all).abs();
                prop_assert!(off <= 1e3 * 0.5 / share + 1e-9, "{} {}", off, share);
            }
        }
    }

    #[test]
    fn no_text_breaks_the_readers(text in "[ -~\n]{0,400}") {
        let _ = read(&text, &t1());
        let _ = linerate_exchange::perf_stat::read(&text, None, None);
        let _ = linerate_exchange::vpp::read(&text);
        let _ = linerate_exchange::detect::format(&text);
    }

    #[test]
    fn no_damage_to_a_dump_makes_up_a_number(
        at in 0usize..1300, insert in "[ -~\n]{0,3}", remove in 0usize..40,
    ) {
        let at = at.min(SAMPLE.len());
        let end = (at + remove).min(SAMPLE.len());
        let text = format!("{}{insert}{}", &SAMPLE[..at], &SAMPLE[end..]);
        if let Ok(report) = read(&text, &t1()) {
            prop_assert!(report.faults.is_sorted_by_key(|fault| fault.line));
            for strand in &report.strands {
                for event in &strand.events {
                    prop_assert!(event.pti.as_number().is_none_or(|pti| pti >= 0.0));
                }
            }
        }
    }

    #[test]
    fn a_row_of_random_fields_is_a_fault_or_a_record(
        fields in proptest::collection::vec("[0-9a-f]{1,17}|1|2", 0..12),
    ) {
        let text = format!("PROFILE_DUMP_START,ver,2.0\n{}\nPROFILE_DUMP_END\n", fields.join(","));
        match read(&text, &t1()) {
            Ok(report) => prop_assert_eq!(report.strands.len(), 1),
            Err(error) => prop_assert!(error.line.is_none_or(|line| line == 2)),
        }
    }
}
