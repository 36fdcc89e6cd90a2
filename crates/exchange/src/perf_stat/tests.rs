// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the JSON and separator formats; those of the plain format are in `plain`.

use super::*;
use linerate_record::strands::StrandCounts;

fn value(strand: &StrandCounts, name: &str) -> Option<f64> {
    strand.event(name).unwrap_or_else(|| panic!("no {name}")).count.as_number()
}

#[test]
fn counts_of_one_type_of_core_are_not_those_of_the_program() {
    let rows = |atom: &str| {
        format!(
            "{atom},,cpu_atom/cycles/,300,30.00,,\n2000,,cpu_core/cycles/,700,70.00,,\n\
             {atom},,cpu_atom/instructions/,300,30.00,,\n\
             1000,,cpu_core/instructions/,700,70.00,,\n"
        )
    };
    let both = read(&rows("500"), Some(10.0), None).expect("events");
    let [strand] = both.strands.as_slice() else { panic!("one strand") };
    assert_eq!((strand.cpi.as_number(), strand.ipc.as_number()), (None, None));
    assert!(strand.event("cycles").is_none() && strand.event("instructions").is_none());
    assert_eq!(value(strand, "cpu_core_cycles"), Some(2000.0));
    assert_eq!(value(strand, "cpu_atom_cycles"), Some(500.0));
    for unused in ["<not counted>", "0"] {
        let one = read(&rows(unused), Some(10.0), None).expect("events");
        assert_eq!(one.strands[0].cpi.as_number(), Some(2.0), "{unused}");
    }
}

/// JSON and separator formats as printed by perf 6.1, with and without hardware counters.
#[test]
fn one_strand_in_both_forms() {
    let json = "{\"counter-value\" : \"0.765429\", \"unit\" : \"msec\", \
        \"event\" : \"task-clock\", \"event-runtime\" : 765429, \"pcnt-running\" : 100.00, \
        \"metric-value\" : 0.485035, \"metric-unit\" : \"CPUs utilized\"}\n\
        {\"counter-value\" : \"2000.000000\", \"unit\" : \"\", \"event\" : \"cycles:u\", \
        \"event-runtime\" : 765429, \"pcnt-running\" : 50.00}\n\
        {\"counter-value\" : \"1000.000000\", \"unit\" : \"\", \"event\" : \
        \"instructions:u\", \"event-runtime\" : 765429, \"pcnt-running\" : 100.00}\n\
        {\"counter-value\" : \"<not supported>\", \"unit\" : \"\", \"event\" : \
        \"cache-misses\", \"event-runtime\" : 0, \"pcnt-running\" : 100.00}\n";
    let csv = "# started on a day\n\n0.765429,msec,task-clock,765429,100.00,0.130,CPUs used\n\
        2000,,cycles:u,765429,50.00,,\n1000,,instructions:u,765429,100.00,0.5,insn per cycle\n\
        ,,,,,0.7,stalled cycles per insn\n<not supported>,,cache-misses,0,100.00,,\n";
    for text in [json.to_owned(), csv.to_owned(), csv.replace(',', ";")] {
        let report = read(&text, None, Some("ll_misses")).expect("events");
        assert_eq!((report.lines, report.faults.len()), (4, 0), "{text}");
        let [strand] = report.strands.as_slice() else { panic!("one strand") };
        assert_eq!(value(strand, "task_clock_ns"), Some(765_429.0));
        assert_eq!(strand.cpi.as_number(), Some(2.0));
        assert_eq!(strand.ipc.as_number(), Some(0.5));
        let missing = strand.event("ll_misses").expect("it is listed");
        assert_eq!(missing.count.reason.as_deref(), Some("perf does not support this event here"));
        assert_eq!(missing.pti.as_number(), None);
        let cycles = &strand.event("cycles").expect("they are counted").count;
        assert_eq!((cycles.low, cycles.high), (Some(1000.0), None), "counted half of the time");
        assert_eq!((strand.cpi.low, strand.cpi.high), (Some(1.0), None));
        assert_eq!((strand.ipc.low, strand.ipc.high), (None, Some(1.0)));
        assert_eq!(cycles.tier, Tier::User);
        assert!(cycles.method.contains("50 %"), "{}", cycles.method);
        assert!(strand.kpps.reason.as_deref().is_some_and(|why| why.contains("packets")));
    }
}

#[test]
fn intervals_add_up_and_strands_are_kept_apart() {
    let text = "     0.100187034,CPU0,107,,cycles,1072701,100.00,0.011,GHz\n\
                \x20    0.100187034,CPU1,75,,cycles,1072701,100.00,,\n\
                \x20    0.155826408,CPU0,6,,cycles,61242,100.00,,\n\
                \x20    0.155826408,CPU1,<not counted>,,cycles,0,0.00,,\n";
    let report = read(text, None, None).expect("events");
    assert_eq!(report.strands.len(), 2);
    assert_eq!(report.strands[0].cpu, Some(0));
    assert_eq!(value(&report.strands[0], "cycles"), Some(113.0));
    assert_eq!(value(&report.strands[1], "cycles"), None, "an interval has no count");
    let text = "S0-D0-C0,1,101.76,msec,task-clock,101761269,100.00,1.000,CPUs utilized\n\
                S0-D0-C1,1,20,msec,task-clock,101761269,100.00,1.000,CPUs utilized\n";
    let report = read(text, None, None).expect("events");
    assert_eq!(report.strands[0].name.as_deref(), Some("S0-D0-C0"));
    assert_eq!(value(&report.strands[1], "task_clock_ns"), Some(20e6));
    let text = "0.56,msec,task-clock,20.19%,562785,100.00,0.179,CPUs utilized\n";
    assert_eq!(
        value(&read(text, None, None).expect("an event").strands[0], "task_clock_ns"),
        Some(56e4)
    );
}

/// Two intervals, with an event that is counted throughout the first and for a tenth of the
/// second.
#[test]
fn what_was_counted_of_intervals_adds_up() {
    let text = "0.1,100,,cycles,1000,100.00,,\n0.2,300,,cycles,1000,10.00,,\n\
                0.1,50,,instructions,1000,100.00,,\n0.2,50,,instructions,1000,100.00,,\n";
    let report = read(text, None, None).expect("events");
    let count = &report.strands[0].event("cycles").expect("they are counted").count;
    assert_eq!((count.as_number(), count.low), (Some(400.0), Some(130.0)));
    assert!(count.method.contains("32 %"), "{}", count.method);
    let exact = &report.strands[0].event("instructions").expect("they are, too").count;
    assert_eq!((exact.as_number(), exact.low), (Some(100.0), None));
    assert_eq!(report.strands[0].cpi.low, Some(1.3));
}

#[test]
fn cache_misses_are_those_of_the_level_that_the_processor_counts() {
    let text = "9,,cache-misses,73,100.00\n";
    let name = |text: &str, level| {
        let report = read(text, None, level).expect("events");
        let names = report.strands[0].events.iter().map(|event| event.name.clone());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(name(text, None), "cache_misses");
    assert_eq!(name(text, Some("l2_misses")), "l2_misses");
    let both = "9,,cache-misses,73,100.00\n8,,L1-dcache-load-misses,73,100.00\n\
                3,,LLC-load-misses,73,100.00\n";
    assert_eq!(name(both, Some("l1d_misses")), "cache_misses l1d_misses ll_misses");
}

#[test]
fn packets_are_those_of_all_strands_together() {
    let text = "CPU0,107,,instructions,1072701,100.00\nCPU1,75,,instructions,9,100.00\n";
    let report = read(text, Some(10.0), None).expect("events");
    for strand in &report.strands {
        assert_eq!(strand.packets, None);
        let why = strand.instructions_per_packet.reason.clone().expect("a reason");
        assert!(why.contains("total of all strands"), "{why}");
    }
}

#[test]
fn damage_is_named_by_line() {
    let text = "50,,page-faults,73,100.00\n50,,page-fau\nhello\n12,,cycles,9,100.00\n";
    let report = read(text, None, None).expect("two events");
    let lines: Vec<u64> = report.faults.iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [2, 3]);
    assert_eq!(value(&report.strands[0], "cycles"), Some(12.0));
    assert_eq!(read("hello\n", None, None).expect_err("nothing").line, Some(1));
    assert_eq!(read("", None, None).expect_err("nothing").line, None);
    for text in ["inf,,cycles,1,100.00\n", "nan,,cycles,1,100.00\n", "-5,,cycles,1,100.00\n"] {
        assert!(read(text, None, None).is_err(), "{text}");
    }
}

/// Without privileges, perf counts user mode only, and says so after the slash on hybrid machines.
#[test]
fn modifiers_of_pmu_events_are_no_part_of_their_names() {
    for [cycles, instructions] in [
        ["cpu_core/cycles/u", "cpu_core/instructions/u"],
        ["cpu_core/cycles:u/", "cpu_core/instructions:u/"],
        ["cycles:u", "instructions:u"],
        ["cycles:ue", "instructions:ub"],
    ] {
        let text = format!("2000,,{cycles},700,100.00,,\n1000,,{instructions},700,100.00,,\n");
        let report = read(&text, None, None).expect("events");
        let [strand] = report.strands.as_slice() else { panic!("one strand") };
        assert_eq!(strand.cpi.as_number(), Some(2.0), "{cycles}");
        let cycles = &strand.event("cycles").expect("they are counted").count;
        assert_eq!(cycles.tier, Tier::User);
    }
}

#[test]
fn control_groups_and_caches_are_kept_apart() {
    let row = |key: &str, name: &str, count| {
        format!(
            "{{\"{key}\" : \"{name}\", \"counter-value\" : \"{count}\", \"unit\" : \"\", \
             \"event\" : \"cycles\", \"event-runtime\" : 7, \"pcnt-running\" : 100.0}}\n"
        )
    };
    for (key, names, shown) in [
        ("cgroup", ["a", "a/b"], ["cgroup a", "cgroup a/b"]),
        ("cache", ["S0-D0-L3-ID0", "S0-D0-L3-ID8"], ["S0-D0-L3-ID0", "S0-D0-L3-ID8"]),
    ] {
        let text = row(key, names[0], 300) + &row(key, names[1], 200);
        let report = read(&text, None, None).expect("events");
        let strands = report.strands.iter();
        let found: Vec<_> =
            strands.map(|strand| (strand.name.as_deref(), value(strand, "cycles"))).collect();
        assert_eq!(found, [(Some(shown[0]), Some(300.0)), (Some(shown[1]), Some(200.0))]);
    }
    let text = "300,,cycles,a,7,100.00,,\n200,,cycles,a/b,1.25%,7,100.00,,\n";
    let report = read(text, None, None).expect("events");
    assert_eq!((report.strands.len(), report.faults.len()), (2, 0));
    assert_eq!(report.strands[1].name.as_deref(), Some("cgroup a/b"));
    assert_eq!(value(&report.strands[1], "cycles"), Some(200.0));
    let text = "5.25,GiB,read,a,7,100.00,,\n61,C,temperature,b,7,100.00,,\n";
    let report = read(text, None, None).expect("events");
    assert_eq!((report.strands.len(), report.faults.len()), (2, 0), "every unit is known");
    // Rows of the measured program.
    for own in ["10,foo,bar,baz,123,45", "10,,bar,4-4,123,45"] {
        assert!(!is_its_own(own), "{own}");
        let report = read(&format!("{own}\n300,,cycles,7,100.00,,\n"), Some(1e6), None);
        let report = report.expect("events");
        assert_eq!((report.strands.len(), report.faults.len()), (1, 1), "{own}");
    }
}
