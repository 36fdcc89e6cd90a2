// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that steps are selected and run as intended.

use super::{LANES, STEPS, Step, choose, parallel, side_by_side};
use std::sync::{Barrier, Mutex};

#[test]
fn steps_that_use_the_same_run_one_after_the_other_and_others_in_parallel() {
    const fn step(name: &'static str, uses: &'static str) -> Step {
        parallel(uses, name, || unreachable!())
    }
    static SYNTHETIC: [Step; 5] =
        [step("a", "x"), step("b", "x"), step("c", "y"), step("d", "x"), step("e", "z")];
    // Steps a and c wait for each other, so they must run at the same time. After that, another
    // step may begin while one of them is still running.
    let both = Barrier::new(2);
    let running = Mutex::new(Vec::new());
    let results = side_by_side(SYNTHETIC.iter().collect(), |step| {
        let others: Vec<&str> = {
            let mut running = running.lock().expect("no step panics");
            running.push(step.uses);
            running.iter().flatten().copied().collect()
        };
        if ["a", "c"].contains(&step.name) {
            both.wait();
        }
        running.lock().expect("no step panics").retain(|uses| *uses != step.uses);
        (step.name, others)
    });
    assert_eq!(results.iter().map(|(name, _)| *name).collect::<String>(), "abcde");
    for (name, others) in results {
        assert!(others.len() <= LANES, "{name} with {others:?}");
        let once = |what: &&str| others.iter().filter(|other| other == &what).count() == 1;
        assert!(others.iter().all(once), "{name} with {others:?}");
    }
}

#[test]
fn steps_are_chosen_by_a_part_of_their_names() {
    let names = |words: &[&str]| -> Vec<&str> {
        choose(words)
            .map_or_else(|why| panic!("{why}"), |c| c.steps)
            .iter()
            .map(|s| s.name)
            .collect()
    };
    assert_eq!(names(&["guests"]), ["guests"]);
    assert_eq!(names(&["Miri", "--fast", "format"]), ["format", "ring under Miri"]);
    assert_eq!(names(&[]).len(), STEPS.len());
    let why = choose(&["format", "nothing"]).err().unwrap_or_default();
    assert!(why.contains("`nothing`") && why.contains("\n  ring under Miri"), "{why}");
}

/// The documentation lists the steps in table order; those that run in parallel must come last.
#[test]
fn steps_that_run_alone_stand_first_and_names_are_unique() {
    assert!(STEPS.is_sorted_by_key(|step| step.uses.is_some()));
    for step in STEPS {
        assert_eq!(STEPS.iter().filter(|other| other.name == step.name).count(), 1);
    }
}
