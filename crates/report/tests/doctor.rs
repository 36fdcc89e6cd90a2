// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rendering of a `doctor` report. Golden files: see `common`.

mod common;

use common::{PLAIN, assert_golden, assert_same};
use linerate_record::doctor::{DoctorReport, Section, TierState};
use linerate_record::{Body, Record, Tier, fixtures};
use linerate_report::{Detail, Glyphs, Layout, Options, Style, doctor, text};

const COMMANDS: &str = "commands that would fix this (not run)";

/// Returns the state of an evidence tier; `unlocked_by` is the cause and the fix if the tier does
/// not work.
fn tier(tier: Tier, sentence: &str, unlocked_by: Option<(&str, &str)>) -> TierState {
    TierState {
        tier,
        way: None,
        works: unlocked_by.is_none(),
        sentence: sentence.to_owned(),
        cause: unlocked_by.map(|(cause, _)| cause.to_owned()),
        fix: unlocked_by.map(|(_, fix)| fix.to_owned()),
    }
}

/// Returns a report on a guest without hardware counters.
fn guest() -> DoctorReport {
    let why = "KVM guest without a virtual PMU";
    let host = Some(("no_virtual_pmu", "linerate stat --tier sim -- COMMAND  # on the host: qemu"));
    let load = Some(("registers_closed", "sudo modprobe pmu_user events=INST_RETIRED"));
    let install = Some(("no_valgrind", "sudo apt-get install valgrind"));
    let counters = Section::Counters;
    let plane = Section::DataPlane;
    let fix = |command: &str| Some(command.to_owned());
    let isolate = "sudo grubby --update-kernel=ALL --args='isolcpus=managed_irq,domain,1 \
                   nohz_full=1 rcu_nocbs=1'  # counts from the next boot on";
    DoctorReport {
        tiers: vec![
            tier(Tier::Hw, why, host),
            TierState {
                way: Some("registers".to_owned()),
                ..tier(Tier::Hw, "the module pmu_user is not loaded", load)
            },
            tier(Tier::User, why, host),
            tier(Tier::Sw, "events the kernel counts itself, the timestamp counter", None),
            tier(Tier::Sim, "there is no Valgrind in PATH", install),
            tier(Tier::Model, "computed from a profile; nothing is measured", None),
        ],
        best_tier: Tier::Sw,
        observations: vec![
            Section::Processor.fact("cpu", "AMD EPYC", "name reported by the kernel"),
            Section::Topology.unknown("caches", "the kernel reports no cache"),
            counters.missing("counter_units", "none", why, host.map(|(_, f)| f.to_owned())),
            counters.good("seccomp", "none", "no seccomp filter"),
            plane.advice("isolated_cpus", "none", "any program may be put there", fix(isolate)),
            plane.advice("steal", "7.3 %", "the host gave it to others: \u{1b}[2J", None),
        ],
    }
}

/// Returns a report on the same guest, but without any fixes.
fn stuck() -> DoctorReport {
    let mut report = guest();
    report.tiers.iter_mut().for_each(|tier| tier.fix = None);
    report.observations.iter_mut().for_each(|observation| observation.fix = None);
    report
}

#[test]
fn tiers_come_first_and_commands_last() {
    assert_same("doctor.txt", &doctor(&guest(), &PLAIN));
}

#[test]
fn narrow_terminals_have_texts_below_names() {
    let style = Style::plain(40);
    assert_golden("doctor-40.txt", &style, &doctor(&stuck(), &style));
}

#[test]
fn marks_have_colours() {
    let style = Style { color: true, ..Style::plain(100) };
    assert_golden("doctor-color.txt", &style, &doctor(&stuck(), &style));
}

#[test]
fn a_command_is_whole_and_said_once() {
    let text = doctor(&guest(), &PLAIN);
    for fix in guest().observations.into_iter().filter_map(|o| o.fix) {
        let command = fix.split("  # ").next();
        assert_eq!(text.lines().filter(|line| Some(*line) == command).count(), 1, "{text}");
    }
    let first = format!("{COMMANDS}\n# tiers hw, user: on the host: qemu\nlinerate ");
    assert!(text.contains(&first), "{text}");
    assert!(text.contains("# tier sim\nsudo "), "{text}");
}

#[test]
fn nothing_found_gives_no_table() {
    let empty = DoctorReport { tiers: vec![], best_tier: Tier::Model, observations: vec![] };
    let text = doctor(&empty, &PLAIN);
    assert!(text.starts_with("best tier   model\n") && !text.contains(COMMANDS), "{text}");
}

#[test]
fn a_screen_shortens_a_text_only_where_a_clause_ends() {
    let long = "it was not measured (the profile would be stored in a file with a long name, and \
                so on, beyond the second line of an observation, however wide the screen may be)";
    let list = "there are no free pages for programs that reserve them, such as DPDK, and others \
                whose names are too long for the two lines that a screen has for an observation";
    let mut report = guest();
    report.observations = vec![
        Section::DataPlane.advice("profile", "none", long, None),
        Section::DataPlane.advice("pages", "0 of 0 (2 MiB)", list, None),
    ];
    let record = Record { body: Body::Doctor(Box::new(report)), ..fixtures::record("doctor") };
    let (detail, glyphs, layout) = (Detail::Screen, Glyphs::Ascii, Layout::Table);
    let screen =
        text(&record, &Options { style: PLAIN, detail, glyphs, layout, is_written: false });
    assert!(screen.contains("none; it was not measured\n"), "{screen}");
    assert!(screen.contains("programs that reserve them"), "{screen}");
    assert!(!screen.contains(" ..."), "{screen}");
}
