// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the verdicts, and that each line on which a scheme's correctness depends is needed.
#![forbid(unsafe_code)]

use linerate_vector_models::{
    PREEMPTIONS, Preemption, Scheme, Tasks, Wrong, document, explore, schemes, verdicts,
};

fn scheme(name: &str) -> Scheme {
    schemes().into_iter().find(|s| s.name == name).unwrap_or_else(|| panic!("no scheme {name}"))
}

const MENDED: &str = "AN2581 corrected, pops first; scalar code if the stack is full";
const ENTER: &str = "enter";
const ENTER_AND_NEST: &str = "enter; interrupts nest";
const ALL_NEST: &str = "all nest";
const TASKS: &str = "task_enter and switch; interrupts nest";

/// Kinds of preemption under which each scheme is correct.
const RIGHT: &[(&str, &[&str])] = &[
    (MENDED, &["nested interrupts", "strict priorities"]),
    (ENTER, EVERYWHERE),
    (ENTER_AND_NEST, EVERYWHERE),
    (ALL_NEST, &["nested interrupts", "strict priorities"]),
    (TASKS, EVERYWHERE),
];

const EVERYWHERE: &[&str] = &[
    "nested interrupts",
    "strict priorities",
    "priorities, sleep inside",
    "time slices",
    "slices and interrupts",
];

#[test]
fn schemes_are_right_where_documented() {
    for verdict in verdicts() {
        let (name, preemption) = (verdict.scheme.name, verdict.preemption.name);
        let right = RIGHT.iter().find(|row| row.0 == name).map_or(&[][..], |row| row.1);
        let expected = right.contains(&preemption);
        assert_eq!(verdict.found.wrong.is_empty(), expected, "{name}, {preemption}");
        assert!(verdict.found.states > 100, "{name}, {preemption}: hardly explored");
    }
}

/// The unmodified note has the defects that one would expect from reading it.
#[test]
fn each_reading_of_the_note_fails_as_expected() {
    let found = verdicts();
    let is = |scheme: &str, preemption: &str, wrong: Wrong| {
        let row = found
            .iter()
            .find(|v| v.scheme.name == scheme && v.preemption.name == preemption)
            .unwrap_or_else(|| panic!("no {scheme}, {preemption}"));
        row.found.wrong.iter().any(|(found, _)| *found == wrong)
    };
    let appendix = "AN2581 appendix, no semaphore; stack overflow undetected";
    assert!(is(appendix, "nested interrupts", Wrong::OverrunsStack));
    // The count is decremented before the registers are popped.
    assert!(is(
        "AN2581, no semaphore; scalar code if the stack is full",
        "nested interrupts",
        Wrong::Corrupts
    ));
    assert!(!is(
        "AN2581, no semaphore; scalar code if the stack is full",
        "nested interrupts",
        Wrong::Stuck
    ));
    // With nested interrupts, spinning waits for a context that cannot run; with time slices, that
    // context can run.
    assert!(is(
        "AN2581, no semaphore; spins if the stack is full",
        "nested interrupts",
        Wrong::Stuck
    ));
    assert!(!is("AN2581, no semaphore; spins if the stack is full", "time slices", Wrong::Stuck));
    let text = "AN2581 text, spinning semaphore; scalar code if the stack is full";
    assert!(is(text, "nested interrupts", Wrong::Stuck));
    assert!(is(text, "strict priorities", Wrong::Stuck));
    assert!(is(text, "time slices", Wrong::Corrupts));
    let asleep = "AN2581 text, sleeping semaphore; scalar code if the stack is full";
    assert!(!is(asleep, "priorities, sleep inside", Wrong::Stuck));
}

/// Returns whether a modified scheme has a defect under a kind of preemption for which the original
/// is correct.
fn is_noticed(name: &str, changed: &Scheme) -> bool {
    let right = RIGHT.iter().find(|row| row.0 == name).expect("the scheme is listed in RIGHT").1;
    let kinds = PREEMPTIONS.iter().filter(|preemption| right.contains(&preemption.name));
    kinds.into_iter().any(|preemption| !explore(changed, preemption).wrong.is_empty())
}

/// Lines on which correctness does not depend, with their purpose or the reason.
const SPARING: &[(&str, &str, &str)] = &[
    (MENDED, "read", "last in, first out: the count is what the context counted on entry"),
    (ALL_NEST, "vacate", "handlers would save unneeded registers"),
    (TASKS, "withdraw", "the scheduler would save the registers of tasks that are not inside"),
    (TASKS, "compare", "the scheduler would load registers that are already loaded"),
    (TASKS, "disown", "handlers would save unneeded registers"),
    (TASKS, "vacate", "handlers would save unneeded registers; the next task owns them anyway"),
];

/// Removes each line in turn from every scheme that is correct under some kind of preemption.
#[test]
fn without_any_line_that_a_proof_rests_on_the_proof_fails() {
    let mut wrong = Vec::new();
    for (name, _) in RIGHT {
        let scheme = scheme(name);
        for line in scheme.names() {
            let spares = SPARING.iter().any(|row| row.0 == *name && row.1 == line);
            let noticed = is_noticed(name, &scheme.without(line));
            if noticed == spares {
                wrong.push(format!("{name} without {line}: {noticed}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_order_of_neighbours_matters_where_the_c_says_so() {
    for (name, first, second) in
        [(MENDED, "pop", "count_down"), (TASKS, "declare", "own"), (TASKS, "give", "fill")]
    {
        let scheme = scheme(name);
        let swapped = scheme.swapped(first, second);
        assert_ne!(scheme, swapped, "{name}: {first} before {second}");
        assert!(is_noticed(name, &swapped), "{name}: {second} before {first}");
    }
}

const SLICED: Preemption =
    Preemption { name: "more", extent: "", tasks: 3, policy: Tasks::Sliced, interrupts: 2 };

/// Explores more contexts than the results page, or other combinations of tasks and interrupts.
#[test]
fn what_is_right_stays_right_with_another_task() {
    assert!(explore(&scheme(ENTER), &SLICED).wrong.is_empty());
    assert!(explore(&scheme(ENTER_AND_NEST), &SLICED).wrong.is_empty());
    let fewer = Preemption { interrupts: 1, ..SLICED };
    assert!(explore(&scheme(TASKS), &fewer).wrong.is_empty());
}

/// With only two users, the note has no defect.
#[test]
fn the_note_needs_a_third_user_to_go_wrong_under_interrupts() {
    let preemption = Preemption { tasks: 1, interrupts: 1, ..PREEMPTIONS[0] };
    assert_eq!(preemption.policy, Tasks::ByPriority { may_sleep: false });
    let note = scheme("AN2581, no semaphore; scalar code if the stack is full");
    assert!(explore(&note, &preemption).wrong.is_empty());
    let preemption = Preemption { interrupts: 2, ..preemption };
    assert!(!explore(&note, &preemption).wrong.is_empty());
}

#[test]
fn traces_are_shortest_and_end_at_the_fault() {
    let preemption = &PREEMPTIONS[3];
    assert_eq!(preemption.name, "time slices");
    let found =
        explore(&scheme("AN2581, no semaphore; scalar code if the stack is full"), preemption);
    let (wrong, trace) = &found.wrong[0];
    assert_eq!(*wrong, Wrong::Corrupts);
    let text = trace.to_string();
    assert!(text.ends_with("reads"), "{text}");
    // Two users suffice: one is preempted in the middle.
    assert!(!text.contains("task 3"), "{text}");
}

#[test]
fn the_page_of_results_has_what_the_models_say() {
    let page = include_str!("../../../docs/results/vector-models.md");
    let found = document(&verdicts());
    assert!(
        page.contains(found.trim()),
        "the page is out of date: run cargo xtask splice docs/results/vector-models.md"
    );
}
