// SPDX-License-Identifier: MIT OR Apache-2.0
//! The accuracy suite: programs that measure or simulate quantities with known values, and print
//! the errors. A check is applied to a median, or to a fraction with an allowance for its sampling
//! error; a failed measurement is not repeated.
//!
//! Each program is an example in its crate and prints the lines defined in
//! [`linerate_record::accuracy`]. CI runs all of them at the smallest size that can still fail;
//! `--full` uses the size behind the published figures.

use crate::command::{cargo, status_with_lines};
use crate::outcome::Outcome;
use linerate_record::accuracy::{Check, Verdict};

/// A program in the suite.
struct Program {
    /// Name on the command line: one word.
    name: &'static str,
    package: &'static str,
    example: &'static str,
    arguments: &'static [&'static str],
    /// Additional arguments for the full size.
    full: &'static [&'static str],
}

const PROGRAMS: [Program; 8] = [
    Program {
        name: "levels",
        package: "linerate-hierarchy",
        example: "corpus",
        arguments: &["--accuracy"],
        full: &["--full"],
    },
    Program {
        name: "engine",
        package: "linerate-trial",
        example: "engine_accuracy",
        arguments: &[],
        full: &["400"],
    },
    Program {
        name: "profile",
        package: "linerate-dataplane",
        example: "accuracy",
        arguments: &[],
        full: &["31"],
    },
    Program {
        name: "shares",
        package: "linerate-tcpbench",
        example: "shares_accuracy",
        arguments: &[],
        full: &["31"],
    },
    Program {
        name: "scaling",
        package: "linerate-counters",
        example: "scaling_accuracy",
        arguments: &[],
        full: &["101"],
    },
    Program {
        name: "polling",
        package: "linerate-observe",
        example: "polling_accuracy",
        arguments: &["4"],
        full: &["24"],
    },
    Program {
        name: "places",
        package: "linerate-observe",
        example: "places_accuracy",
        arguments: &["6"],
        full: &["100"],
    },
    Program {
        name: "observe",
        package: "linerate-observe",
        example: "observe_accuracy",
        arguments: &[],
        full: &["21"],
    },
];

/// Programs to run, and whether to run them at the full size.
pub(crate) struct Choice {
    programs: Vec<&'static Program>,
    is_full: bool,
}

/// Selects the programs named in the arguments, or all programs if there are none.
pub(crate) fn choose(words: &[&str]) -> Result<Choice, String> {
    let (options, names): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| **word == "--full");
    if let Some(name) = names.iter().find(|name| PROGRAMS.iter().all(|p| p.name != **name)) {
        let known: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        return Err(format!("unknown accuracy program `{name}`; known: {}", known.join(", ")));
    }
    let is_wanted = |program: &&Program| names.is_empty() || names.contains(&program.name);
    Ok(Choice {
        programs: PROGRAMS.iter().filter(is_wanted).collect(),
        is_full: !options.is_empty(),
    })
}

/// Runs programs and prints their checks as a table. The error states how many failed.
pub(crate) fn run(choice: &Choice) -> Result<(), String> {
    let checks = checks(choice)?;
    print!("\n{}", table(&checks));
    verdict(&checks)
}

/// Runs the suite at its small size, as a CI step.
pub(crate) fn check() -> Outcome {
    let checks = choose(&[]).and_then(|choice| checks(&choice));
    let checks = match checks {
        Ok(checks) => checks,
        Err(why) => return Outcome::Failed(why),
    };
    print!("\n{}", table(&checks));
    let skipped = checks.iter().filter(|check| check.verdict == Verdict::Skip);
    let skipped = skipped.map(|check| format!("SKIP: {}: {}", check.name, check.why)).collect();
    verdict(&checks).map_or_else(Outcome::Failed, |()| Outcome::Passed(skipped))
}

/// Returns all programs' checks. The error names the program that failed or printed no check.
fn checks(choice: &Choice) -> Result<Vec<Check>, String> {
    let mut checks = Vec::new();
    for program in &choice.programs {
        let Program { name, package, example, arguments, full } = program;
        let full: &[&str] = if choice.is_full { full } else { &[] };
        let build = ["run", "--release", "--locked", "-q", "-p", package, "--example", example];
        let command = cargo(&[&build, &["--"][..], arguments, full].concat());
        let mut found = Vec::new();
        let status = status_with_lines(command, |line| found.extend(Check::parse(line)))?;
        if status != 0 {
            return Err(format!("`{name}` ended with status {status}"));
        }
        if found.is_empty() {
            return Err(format!("`{name}` printed no checks"));
        }
        checks.extend(found.into_iter().collect::<Result<Vec<_>, _>>()?);
    }
    Ok(checks)
}

fn verdict(checks: &[Check]) -> Result<(), String> {
    let failed = checks.iter().filter(|check| check.verdict == Verdict::Fail);
    let figures = |check: &Check| {
        let Check { name, value, n, limit, .. } = check;
        format!("{name} ({value:.4}, limit {limit:.4}, n {n})")
    };
    let failed: Vec<String> = failed.map(figures).collect();
    match failed.len() {
        0 => Ok(()),
        count => Err(format!("{count} of {} checks failed: {}", checks.len(), failed.join(", "))),
    }
}

/// Formats one row per check, and a total.
fn table(checks: &[Check]) -> String {
    let wide = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text =
        format!("{:<wide$} {:>8} {:>9} {:>9}  verdict\n", "check", "n", "value", "limit");
    let figure = |value: f64| if value.is_nan() { "-".to_owned() } else { format!("{value:.4}") };
    for Check { name, value, n, limit, verdict, why } in checks {
        let (value, limit) = (figure(*value), figure(*limit));
        text += &format!("{name:<wide$} {n:>8} {value:>9} {limit:>9}  {verdict:<4}  {why}\n");
    }
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    let [ok, fail, skip] = [Verdict::Ok, Verdict::Fail, Verdict::Skip].map(count);
    text + &format!("{ok} ok, {fail} failed, {skip} skipped\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_chosen_by_name() {
        let all = choose(&["--full"]).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!((all.programs.len(), all.is_full), (PROGRAMS.len(), true));
        let one = choose(&[PROGRAMS[0].name]).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!((one.programs.len(), one.is_full), (1, false));
        assert!(choose(&["--quick"]).is_err_and(|why| why.contains("`--quick`")));
    }

    #[test]
    fn one_failed_check_fails_the_suite_and_skips_do_not() {
        let good = Check::at_most("good", 0.1, 9, 0.2, "a bound");
        let skip = Check::skip("skipped", "one processor");
        let bad = Check::at_most("bad", 0.3, 9, 0.2, "a bound");
        assert_eq!(verdict(&[good.clone(), skip.clone()]), Ok(()));
        let why = verdict(&[good.clone(), bad.clone()]);
        assert_eq!(why, Err("1 of 2 checks failed: bad (0.3000, limit 0.2000, n 9)".to_owned()));
        let text = table(&[good, skip, bad]);
        assert!(
            text.contains("1 ok, 1 failed, 1 skipped") && text.contains("one processor"),
            "{text}"
        );
    }
}
