// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with complete, truncated and modified status files of the module.

use super::*;
use crate::event::Class;
use proptest::prelude::*;

/// Status file of a guest with a Cortex-A57 and two CPUs. Perf has revoked access on the second
/// CPU.
pub(crate) const TEXT: &str = concat!(
    "cpu 0 open 1 PMUSERENR 0x1 PMCR 0x41013041 counting 0x80000003 before PMUSERENR 0x0 ",
    "PMCR 0x41013040 holder perf\n",
    "cpu 1 open 1 PMUSERENR 0x0 PMCR 0x41013041 counting 0x80000003 before PMUSERENR 0x0 ",
    "PMCR 0x41013040 holder none\n",
    "counters 6\n",
    "counter 0 event 0x8 INST_RETIRED user\n",
    "counter 1 event 0x11f - user\n",
    "counter 31 event 0x11 CPU_CYCLES user\n",
);

fn module() -> Module {
    Module::read(TEXT).unwrap()
}

pub(crate) fn event(name: &str, selector: Selector) -> Event {
    Event {
        name: name.to_owned(),
        native: Some(format!("{} ({:#04x})", name.to_uppercase(), selector.config)),
        unit: "events",
        class: Class::Hardware,
        selector,
        is_user_only: false,
        unit_cpus: Vec::new(),
    }
}

#[test]
fn what_the_module_says_is_understood() {
    let module = module();
    assert_eq!((module.counters, module.open_cpus()), (6, vec![0]));
    assert_eq!(module.cpus[1].number, 1);
    let selected: Vec<_> =
        module.selected.iter().map(|s| (s.counter, s.event, s.name.as_deref())).collect();
    let names = [(0, 8, Some("INST_RETIRED")), (1, 0x11f, None), (31, 17, Some("CPU_CYCLES"))];
    assert_eq!(selected, names);
    assert_eq!(module.tier(), Tier::User);
    let kernel = Module::read(&TEXT.replace(" user", "")).unwrap();
    assert_eq!(kernel.tier(), Tier::Hw);
}

#[test]
fn text_that_is_cut_anywhere_is_refused() {
    for end in 0..TEXT.len() {
        assert!(Module::read(&TEXT[..end]).is_err(), "{}", &TEXT[..end]);
    }
}

#[test]
fn text_that_the_module_does_not_write_is_refused_with_its_line() {
    for (from, to, line) in [
        ("cpu 0 open", "cpu 1 open", 3),
        ("cpu 0 open", "cpu +0 open", 1),
        ("cpu 1 open 1", "cpu 1 open 2", 2),
        ("open 1 PMUSERENR", "open 1  PMUSERENR", 1),
        ("PMUSERENR 0x1 ", "PMUSERENR 1 ", 1),
        ("PMUSERENR 0x1 ", "PMUSERENR 0x+1 ", 1),
        ("PMUSERENR 0x1 ", "PMUSERENR 0x ", 1),
        ("PMCR 0x41013041", "PMCR 0x410130410", 1),
        ("holder none", "holder me", 2),
        ("holder perf", "holder perf again", 1),
        ("counters 6", "counters 1", 5),
        ("counters 6", "counters 60", 3),
        ("counters 6\n", "", 3),
        ("counter 0 ", "counter 1 ", 4),
        ("counter 1 ", "counter 31 ", 5),
        ("event 0x8 ", "event 0x10008 ", 4),
        ("INST_RETIRED user", "INST_RETIRED kernel", 4),
        ("INST_RETIRED", "INST-RETIRED", 4),
        ("event 0x11 ", "event 0x8 ", 6),
        ("counter 31 event 0x11 CPU_CYCLES user\n", "", 6),
        ("CPU_CYCLES user\n", "CPU_CYCLES user\n\n", 6),
        ("CPU_CYCLES user", "CPU_CYCLES user\r", 6),
    ] {
        assert!(TEXT.contains(from), "{from}");
        let found = Module::read(&TEXT.replacen(from, to, 1));
        assert_eq!(found.as_ref().map_err(|wrong| wrong.line), Err(line), "{from}, {to}");
    }
    assert_eq!(Module::read("").unwrap_err().line, 1);
    let cut = Module::read("cpu 0").unwrap_err();
    assert_eq!(cut.to_string(), "line 1 is incomplete");
}

#[test]
fn a_closed_cpu_is_refused() {
    let module = module();
    assert!(module.open_on(0).is_ok());
    let closed = |cpu, was_opened| Err(RegisterRefusal::Closed { cpu, was_opened });
    assert_eq!(module.open_on(1), closed(1, true));
    assert_eq!(module.open_on(7), closed(7, false));
    let stopped = Module::read(&TEXT.replace("PMCR 0x41013041", "PMCR 0x41013040")).unwrap();
    assert_eq!(stopped.open_on(0), closed(0, true));
}

#[test]
fn an_event_is_found_by_its_number() {
    let module = module();
    let cpu = module.open_on(0).unwrap();
    let found = |selector| module.counter_of(&cpu, &event("e", selector), true);
    let user = |counter| Ok((counter, Tier::User));
    assert_eq!(found(Selector::new(RAW, 8)), user(0));
    assert_eq!(found(Selector::new(HARDWARE, 1)), user(0));
    assert_eq!(found(Selector::new(RAW, 0x11f)), user(1));
    assert_eq!(found(Selector::new(RAW, 0x11)), user(31));
    assert_eq!(found(Selector::new(HARDWARE, 0)), user(31));
    // Generic kernel events, and codes too large for a register, have no architectural number.
    for other in [Selector::new(HARDWARE, 3), Selector::new(3, 8), Selector::new(RAW, 1 << 20)] {
        assert_eq!(found(other), Err(RegisterRefusal::NoNumber));
    }
    let missing = RegisterRefusal::NotSelected { user_only: true };
    assert_eq!(found(Selector::new(RAW, 3)), Err(missing));
}

#[test]
fn refuses_mismatched_counters() {
    let instructions = event("instructions", Selector::new(RAW, 8));
    let cycles = event("cycles", Selector::new(RAW, 0x11));
    let refused = |text: &str, event: &Event, user_only| {
        let module = Module::read(text).unwrap();
        let cpu = module.open_on(0).unwrap();
        module.counter_of(&cpu, event, user_only).unwrap_err()
    };
    let kernel = refused(&TEXT.replace(" user", ""), &instructions, true);
    assert_eq!(kernel, RegisterRefusal::CountsKernelMode);
    let stopped = TEXT.replace("counting 0x80000003", "counting 0x80000002");
    assert_eq!(refused(&stopped, &instructions, true), RegisterRefusal::Stopped { cpu: 0 });
    // The divider by 64 applies to a 32-bit cycle counter, not to a 64-bit one.
    let divided = TEXT.replace("PMCR 0x41013041", "PMCR 0x41013009");
    assert_eq!(refused(&divided, &cycles, true), RegisterRefusal::Stopped { cpu: 0 });
    let long = Module::read(&TEXT.replace("PMCR 0x41013041", "PMCR 0x41013049")).unwrap();
    assert!(long.counter_of(&long.open_on(0).unwrap(), &cycles, true).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// No single-character change makes an inaccessible register accessible, or selects another
    /// counter.
    #[test]
    fn text_survives_anything(at in 0..TEXT.len(), to in "[ -~\n]") {
        let mut text = TEXT.to_owned();
        text.replace_range(at..=at, &to);
        if let Ok(read) = Module::read(&text) {
            prop_assert_eq!(read.cpus.len(), 2);
            prop_assert_eq!(read.selected.last().unwrap().counter, CYCLE_COUNTER);
        }
    }
}
