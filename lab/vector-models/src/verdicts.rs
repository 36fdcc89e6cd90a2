// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts on all schemes under all kinds of preemption, as a Markdown page without conclusions.

use crate::explore::{Found, Wrong, explore};
use crate::preemption::{PREEMPTIONS, Preemption};
use crate::scheme::{DEPTH, Scheme, schemes};
use std::fmt::Write as _;

/// Verdict on a scheme under a kind of preemption.
pub struct Verdict {
    /// Explored scheme.
    pub scheme: Scheme,
    /// Assumed kind of preemption.
    pub preemption: &'static Preemption,
    /// Result of the exploration.
    pub found: Found,
}

impl Verdict {
    /// Summarizes the verdict in a few words.
    #[must_use]
    pub fn words(&self) -> String {
        let wrong: Vec<String> = self.found.wrong.iter().map(|(w, _)| w.to_string()).collect();
        if wrong.is_empty() { "right".to_owned() } else { wrong.join(", ") }
    }
}

/// Explores all combinations, which takes seconds in an optimized build.
#[must_use]
pub fn verdicts() -> Vec<Verdict> {
    let schemes = schemes();
    let under = |scheme: &Scheme| {
        let scheme = scheme.clone();
        PREEMPTIONS.iter().map(move |preemption| Verdict {
            found: explore(&scheme, preemption),
            preemption,
            scheme: scheme.clone(),
        })
    };
    schemes.iter().flat_map(under).collect()
}

/// Formats the table of verdicts and the shortest trace to each defect, in Markdown.
#[must_use]
pub fn document(verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    let names: Vec<&str> = PREEMPTIONS.iter().map(|p| p.name).collect();
    let _ = writeln!(text, "| scheme | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(names.len()));
    for of_scheme in verdicts.chunks(PREEMPTIONS.len()) {
        let words: Vec<String> = of_scheme.iter().map(Verdict::words).collect();
        let _ = writeln!(text, "| {} | {} |", of_scheme[0].scheme.name, words.join(" | "));
    }
    let _ = writeln!(text, "\nIn these models, the stack of AN2581 holds {DEPTH} context.\n");
    let _ = writeln!(text, "| preemption | contexts | states, all schemes |\n|---|---|--:|");
    for (i, preemption) in PREEMPTIONS.iter().enumerate() {
        let of = verdicts.iter().skip(i).step_by(PREEMPTIONS.len());
        let states: usize = of.map(|verdict| verdict.found.states).sum();
        let _ = writeln!(text, "| {} | {} | {states} |", preemption.name, preemption.extent);
    }
    let _ = write!(text, "\n## The shortest traces\n");
    for verdict in verdicts.iter().filter(|verdict| !verdict.found.wrong.is_empty()) {
        let _ = writeln!(text, "\n### {}, {}", verdict.scheme.name, verdict.preemption.name);
        for (wrong, trace) in &verdict.found.wrong {
            let steps = trace.steps.len();
            let _ = writeln!(
                text,
                "\n{}, after {steps} steps:\n\n```text\n{trace}\n```",
                verdict_word(*wrong)
            );
        }
    }
    text
}

fn verdict_word(wrong: Wrong) -> &'static str {
    match wrong {
        Wrong::Corrupts => "A context reads another's registers",
        Wrong::OverrunsStack => "Registers are written past the end of the stack",
        Wrong::Stuck => "A context never gets the vector registers again",
    }
}
