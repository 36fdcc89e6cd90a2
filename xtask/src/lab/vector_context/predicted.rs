// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a run with the predictions of `lab/vector-models`. The operating system's schemes,
//! which need no proof, have no model.

use super::plan::{MOST_PER_COMPARISON, RIGHT};
use super::run::{Mode, Ran, Run};
use linerate_vector_models::{PREEMPTIONS, Verdict, Wrong, explore, schemes};

/// Returns the scheme's name in the models.
fn model(scheme: &str) -> Option<&'static str> {
    match scheme {
        "note" => Some("AN2581, no semaphore; scalar code if the stack is full"),
        "note-semaphore" => {
            Some("AN2581 text, spinning semaphore; scalar code if the stack is full")
        }
        "note-spin" => Some("AN2581, no semaphore; spins if the stack is full"),
        "exclusive" => Some("enter; interrupts nest"),
        "hooked" => Some("task_enter and switch; interrupts nest"),
        _ => None,
    }
}

/// Returns the models' name for the kind of preemption that a mode belongs to.
fn preemption(mode: Mode) -> &'static str {
    match mode {
        Mode::Nested => "nested interrupts",
        Mode::Priority => "strict priorities",
        Mode::Sleep => "priorities, sleep inside",
        Mode::Load | Mode::Yield | Mode::Sliced => "time slices",
        Mode::All => "slices and interrupts",
    }
}

/// Returns the models' prediction for a run; `None` for the operating system's schemes, which have
/// no model.
pub(super) fn verdict(run: &Run) -> Option<Verdict> {
    let (name, kind) = (model(run.scheme)?, preemption(run.settings.mode));
    let scheme = schemes().into_iter().find(|scheme| scheme.name == name);
    let scheme = scheme.expect("every scheme named here has a model");
    let preemption = PREEMPTIONS.iter().find(|preemption| preemption.name == kind);
    let preemption = preemption.expect("every kind of preemption named here has a model");
    Some(Verdict { found: explore(&scheme, preemption), preemption, scheme })
}

/// Returns the first difference between a run and its prediction, if any.
pub(super) fn fault(run: &Run, ran: &Ran) -> Option<String> {
    let [corrupt, wrong, stalled] = ["corrupt", "wrong", "stalled"].map(|n| ran.number(n));
    let found = verdict(run).map(|verdict| verdict.found.wrong).unwrap_or_default();
    let may = |what: fn(Wrong) -> bool| found.iter().any(|(wrong, _)| what(*wrong));
    let may_stall = may(|wrong| wrong == Wrong::Stuck);
    let may_corrupt = may(|wrong| wrong != Wrong::Stuck);
    let what = if corrupt + wrong > 0 && !may_corrupt {
        "the models rule out corruption".to_owned()
    } else if stalled > 0 && !may_stall {
        "the models rule out a stall".to_owned()
    } else if may_corrupt && corrupt + stalled == 0 {
        "the models predict corruption, but neither corruption nor a stall occurred".to_owned()
    } else if RIGHT.contains(&run.scheme) {
        too_little(run, ran)?
    } else {
        return None;
    };
    Some(format!(
        "{} under {}: {what} ({corrupt} corruptions, {wrong} wrong sums, stalled {stalled})",
        run.scheme,
        run.settings.mode.name()
    ))
}

/// Returns why a run without errors has checked too little; `None` if it has checked enough.
fn too_little(run: &Run, ran: &Ran) -> Option<String> {
    let (switched, asked) = (ran.switched(), u64::from(run.settings.switches));
    let compared = ran.number("compared");
    if switched < asked {
        return Some(format!("the run ended after {switched} of {asked} switches"));
    }
    let is_few = run.scheme != "scalar" && compared * MOST_PER_COMPARISON < asked;
    is_few.then(|| format!("too few comparisons: {compared} in {asked} switches"))
}

#[cfg(test)]
mod tests {
    use super::{Mode, Ran, Run, fault, model, verdict};
    use crate::lab::vector_context::plan::{RIGHT, SCHEMES, checked};

    fn violation_of(scheme: &'static str, mode: Mode, line: &str) -> Option<String> {
        fault(&Run { scheme, settings: checked(mode, 100) }, &Ran::parse(line))
    }

    #[test]
    fn what_must_be_right_is_and_was_looked_at() {
        let exclusive = |line| violation_of("exclusive", Mode::Sliced, line);
        assert_eq!(exclusive("RESULT switches=60 interrupts=40 compared=9 corrupt=0"), None);
        assert!(exclusive("RESULT switches=60 interrupts=40 compared=9 corrupt=1").is_some());
        assert!(exclusive("RESULT switches=60 interrupts=40 compared=9 wrong=1").is_some());
        assert!(exclusive("RESULT switches=60 interrupts=40 compared=9 stalled=1").is_some());
        assert!(exclusive("RESULT switches=60 interrupts=39 compared=9 corrupt=0").is_some());
        assert!(exclusive("RESULT switches=60 interrupts=40 compared=1 corrupt=0").is_some());
        assert!(
            violation_of("lazy", Mode::All, "RESULT switches=100 compared=9 wrong=1").is_some()
        );
        assert_eq!(violation_of("scalar", Mode::All, "RESULT switches=100 compared=0"), None);
    }

    #[test]
    fn what_is_wrong_is_wrong_as_the_models_say() {
        let corrupt = "RESULT switches=100 compared=9 corrupt=2";
        let stalled = "RESULT switches=9 compared=1 stalled=1";
        let nothing = "RESULT switches=100 compared=9 corrupt=0";
        assert_eq!(violation_of("note", Mode::Nested, corrupt), None);
        assert!(violation_of("note", Mode::Nested, stalled).is_some());
        assert!(violation_of("note", Mode::Nested, nothing).is_some());
        assert_eq!(violation_of("note-semaphore", Mode::Nested, stalled), None);
        assert!(violation_of("note-spin", Mode::Sliced, stalled).is_some());
        assert!(violation_of("note-spin", Mode::Sliced, nothing).is_some());
    }

    #[test]
    fn the_models_have_every_scheme_that_needs_a_proof() {
        for scheme in SCHEMES {
            let run = Run { scheme, settings: checked(Mode::Nested, 1) };
            assert_eq!(verdict(&run).is_some(), model(scheme).is_some(), "{scheme}");
            assert!(model(scheme).is_some() || RIGHT.contains(&scheme), "{scheme}");
        }
    }
}
