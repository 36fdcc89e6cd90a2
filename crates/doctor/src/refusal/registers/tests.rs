// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with synthetic machines, whose files are in a directory, with and without the module.

use super::*;
use linerate_counters::event::Class;
use linerate_linux::perf::{RAW, Selector};
use std::path::Path;
use tempfile::TempDir;

/// State file read in a guest with a Cortex-A57 and two CPUs. Perf has disabled access on the
/// second one.
const TEXT: &str = concat!(
    "cpu 0 open 1 PMUSERENR 0x1 PMCR 0x41013041 counting 0x80000003 before PMUSERENR 0x0 ",
    "PMCR 0x41013040 holder perf\n",
    "cpu 1 open 1 PMUSERENR 0x0 PMCR 0x41013041 counting 0x80000003 before PMUSERENR 0x0 ",
    "PMCR 0x41013040 holder none\n",
    "counters 6\n",
    "counter 0 event 0x8 INST_RETIRED user\n",
    "counter 1 event 0x11f - user\n",
    "counter 31 event 0x11 CPU_CYCLES user\n",
);

fn event(name: &str, selector: Selector) -> Event {
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

fn around(text: Option<&str>) -> (TempDir, HostFacts) {
    let root = tempfile::tempdir().unwrap();
    if let Some(text) = text {
        std::fs::create_dir(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join(FILE), text).unwrap();
    }
    let around = HostFacts::from(root.path());
    (root, around)
}

/// Returns the explanation for an event's refusal if the module reports `text`.
fn explained(text: &str, why: &RegisterRefusal, event: &Event) -> Explanation {
    let (_root, around) = around(Some(text));
    explain(why, event, &around)
}

fn missing() -> Event {
    event("l1d_cache_refill", Selector::new(RAW, 3))
}

#[test]
fn selected_events_are_named() {
    let counted = |text: &str| counted(&Module::read(text).unwrap());
    assert_eq!(counted(TEXT), "CPU_CYCLES, 0x11f, INST_RETIRED in user mode");
    assert!(!counted(&TEXT.replace(" user", "")).contains("user"));
}

#[test]
fn a_closed_cpu_comes_with_what_opens_it() {
    let closed_at =
        |cpu, was_opened| explained(TEXT, &RegisterRefusal::Closed { cpu, was_opened }, &missing());
    let closed = closed_at(1, true);
    assert!(closed.sentence.contains("CPU 1, bypassing the module"), "{closed:?}");
    let fix = "sudo rmmod pmu_user && sudo insmod pmu_user.ko user_only=1 \
               events=INST_RETIRED,0x11f";
    assert_eq!((closed.cause, closed.fix.as_deref()), (Cause::RegistersClosed, Some(fix)));
    let unknown = closed_at(7, false);
    assert!(unknown.sentence.contains("did not make the counters of CPU 7"), "{unknown:?}");
}

#[test]
fn an_event_that_is_not_selected_comes_with_the_line_that_selects_it() {
    let fix = |text: &str, user_only| {
        let explanation = explained(text, &RegisterRefusal::NotSelected { user_only }, &missing());
        assert_eq!(explanation.cause, Cause::NotSelected);
        assert!(
            explanation.sentence.contains(
                "the pmu_user module has not programmed a counter for `l1d_cache_refill`"
            )
        );
        explanation.fix.unwrap()
    };
    assert_eq!(
        fix(TEXT, true),
        "sudo rmmod pmu_user && sudo insmod pmu_user.ko user_only=1 \
         events=INST_RETIRED,0x11f,L1D_CACHE_REFILL"
    );
    let kernel = TEXT.replace(" user", "");
    assert!(
        fix(&kernel, false).ends_with("pmu_user.ko events=INST_RETIRED,0x11f,L1D_CACHE_REFILL")
    );
    let nameless = kernel.replace("CPU_CYCLES", "-").replace("INST_RETIRED", "-");
    assert!(fix(&nameless, false).ends_with("events=0x8,0x11f,0x3"));
    let full = kernel.replace("counters 6", "counters 2");
    assert!(fix(&full, false).contains("events=L1D_CACHE_REFILL  # and at most 1 more"));
}

#[test]
fn a_mismatched_counter_requires_a_reload() {
    let instructions = event("instructions", Selector::new(RAW, 8));
    let text = TEXT.replace(" user", "");
    let kernel = explained(&text, &RegisterRefusal::CountsKernelMode, &instructions);
    assert!(kernel.fix.unwrap().contains("user_only=1 events=INST_RETIRED"));
    let stopped = explained(TEXT, &RegisterRefusal::Stopped { cpu: 0 }, &instructions);
    assert_eq!(stopped.cause, Cause::RegistersClosed);
}

#[test]
fn a_thread_is_sent_to_an_open_cpu() {
    let stay = |allowed: &[u32]| {
        let why = RegisterRefusal::NotOnOneCpu { allowed: allowed.to_vec() };
        explained(TEXT, &why, &missing()).fix.unwrap()
    };
    assert_eq!(stay(&[0, 1]), "taskset -c 0 COMMAND");
    assert_eq!(stay(&[1, 2]), "taskset -c 1 COMMAND");
}

#[test]
fn text_that_is_not_understood_is_named_with_its_line() {
    let (_root, around) = around(Some(&TEXT[..TEXT.len() - 1]));
    let why = RegisterRefusal::NotUnderstood { line: 6, reason: "is incomplete" };
    let explanation = explain(&why, &missing(), &around);
    assert_eq!(explanation.cause, Cause::RegistersClosed);
    let sentence = &explanation.sentence;
    assert!(sentence.contains("proc/pmu_user: line 6 is incomplete"), "{sentence}");
    assert_eq!(examine(&around), Some(Err(explanation)));
}

/// Uses the real processor unless the module is loaded: the reason is reported without reading a
/// register.
#[test]
fn without_the_module_the_reason_is_reported() {
    if Path::new("/").join(FILE).exists() {
        println!("SKIP: the module is loaded here");
        return;
    }
    let (_root, around) = around(None);
    let explanation = not_loaded(&around);
    assert_eq!(explanation.cause, Cause::RegistersClosed);
    let wanted =
        if CAN_BE_OPENED { "is neither loaded nor" } else { "are available only on ARMv7" };
    assert!(explanation.sentence.contains(wanted), "{explanation:?}");
    assert_eq!(explanation.fix.is_some(), CAN_BE_OPENED);
    assert_eq!(examine(&around), CAN_BE_OPENED.then_some(Err(explanation)));
}

#[test]
fn the_module_is_a_way_out_of_what_perf_alone_lacks() {
    let explanation = |cause, fix: &str| Explanation::new(cause, "why", fix);
    let fix = |cause, fix| with_module(explanation(cause, fix)).fix.unwrap();
    let module = "or, to read registers directly: sudo insmod pmu_user.ko events=INST_RETIRED";
    assert_eq!(fix(Cause::Paranoid, "sudo a"), format!("sudo a  # {module}"));
    assert_eq!(fix(Cause::NoPmuDriver, "sudo a  # b"), format!("sudo a  # b; {module}"));
    assert_eq!(fix(Cause::TooManyEvents, "sudo a"), "sudo a");
}

/// Returns one explanation of each kind that has a fix.
pub(in crate::refusal) fn explanations() -> Vec<(Cause, Explanation)> {
    let refused = |why: RegisterRefusal| explained(TEXT, &why, &missing());
    vec![
        (Cause::RegistersClosed, refused(RegisterRefusal::Closed { cpu: 1, was_opened: true })),
        (Cause::RegistersClosed, only_installed()),
        (Cause::RegistersClosed, not_built("6.1.0")),
        (Cause::RegistersClosed, unreadable("access was disabled in the meantime")),
        (Cause::RegistersClosed, refused(RegisterRefusal::Stopped { cpu: 0 })),
        (Cause::NotSelected, refused(RegisterRefusal::NotSelected { user_only: true })),
        (Cause::NotSelected, refused(RegisterRefusal::CountsKernelMode)),
        (Cause::NotSelected, refused(RegisterRefusal::NoNumber)),
        (Cause::NotOnOneCpu, stay(&[0, 1], Module::read(TEXT).ok().as_ref())),
        (Cause::CountersBusy, held()),
        (Cause::UnsupportedEvent, refused(RegisterRefusal::StandsStill)),
    ]
}
