// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks where samples taken at counter overflow land. The program consists of loops with known
//! shares, and the interval reported for each loop must contain its share.
//!
//! Cycles are sampled with the cycle counter, whose overflow the emulator predicts exactly. For all
//! other counters, it predicts only the event before the overflow (`pmevcntr_op_finish` in QEMU's
//! target/arm), so the overflow itself is noticed only at the next entry into the kernel. Samples
//! by instructions are therefore late or missing, and the probe must say so.

use super::{Finding, finding, question};
use crate::lab::guest::{Answer, Question};
use linerate_record::accuracy::{Check, Verdict};

/// Number of runs that sample by cycles. With fewer, the check could not fail even if the samples
/// always missed their loop.
const RUNS: u64 = 5;

const CYCLES: &str = "sampling";
const INSTRUCTIONS: &str = "sampling by instructions";

pub(super) fn plan() -> [Question; 2] {
    [
        question(CYCLES, &format!("linerate-probe sampling --runs {RUNS}")),
        question(INSTRUCTIONS, "linerate-probe sampling -e instructions --runs 1"),
    ]
}

pub(super) fn judge(answer: impl Fn(&str) -> Answer) -> [Finding; 2] {
    [finding(held(&answer(CYCLES))), finding(held_or_doubted(&answer(INSTRUCTIONS)))]
}

/// Checks that the intervals of all loops contain the known shares.
fn held(answer: &Answer) -> Result<String, String> {
    let checks = answer.output.lines().filter_map(Check::parse);
    let checks = checks.collect::<Result<Vec<Check>, String>>()?;
    let shares = checks.iter().map(|check| {
        let runs = check.n as f64;
        format!("{} {:.0} of {runs}", check.name, check.value * runs)
    });
    let skid = answer.output.lines().find(|line| line.starts_with("skid ")).unwrap_or_default();
    let skid = skid.split_whitespace().collect::<Vec<&str>>().join(" ");
    let sentence = format!(
        "runs whose interval contains the known share: {}; {skid}",
        shares.collect::<Vec<_>>().join(", ")
    );
    let is_held = checks.iter().all(|check| check.verdict == Verdict::Ok);
    match (answer.status, checks.len()) {
        (0, 3) if is_held => Ok(sentence),
        (status, _) => Err(format!(
            "{}: status {status}: {sentence}: {}{}",
            answer.name, answer.output, answer.errors
        )),
    }
}

/// Checks that the loops' intervals contain the known shares, or that the probe says why there are
/// no intervals.
fn held_or_doubted(answer: &Answer) -> Result<String, String> {
    let doubt = answer.output.lines().find(|line| line.contains("cannot tell, because"));
    match (answer.status, doubt) {
        (2, Some(doubt)) => Ok(format!("sampling: {doubt}")),
        _ => held(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: i32, lines: &[&str]) -> Answer {
        Answer { status, output: lines.join("\n"), ..Answer::default() }
    }

    fn checks(verdicts: [&str; 3]) -> Vec<String> {
        let check = |verdict| format!("accuracy: a value=0.8 n=5 limit=0.6 verdict={verdict} (b)");
        verdicts.map(check).to_vec()
    }

    fn held_with(status: i32, verdicts: [&str; 3]) -> Result<String, String> {
        let lines = checks(verdicts);
        let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        lines.push("skid      0 events (median), at most 1");
        held(&answer(status, &lines))
    }

    #[test]
    fn intervals_hold_if_every_loop_says_so() {
        let sentence = held_with(0, ["ok"; 3]).expect("all hold");
        assert!(sentence.contains("a 4 of 5"), "{sentence}");
        assert!(sentence.ends_with("skid 0 events (median), at most 1"), "{sentence}");
        assert!(held_with(1, ["ok", "fail", "ok"]).is_err());
        assert!(held_with(0, ["ok", "skip", "ok"]).is_err());
        assert!(held(&answer(0, &[])).is_err());
    }

    #[test]
    fn a_doubt_is_accepted_only_with_its_reason() {
        let doubt = "instructions: cannot tell, because 9 of 10 overflows are missing";
        assert!(held_or_doubted(&answer(2, &[doubt])).is_ok());
        assert!(held_or_doubted(&answer(2, &["no event"])).is_err());
        assert!(held(&answer(2, &[doubt])).is_err());
    }
}
