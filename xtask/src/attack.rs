// SPDX-License-Identifier: MIT OR Apache-2.0
//! Robustness tests that run the program under hostile conditions: damaged files, bad options,
//! unwritable outputs, signals, and little memory. One invocation of the program is a "call". The
//! calls are generated from a seed, so that findings can be reproduced.
//!
//! ```text
//! for each class:  generate its calls (small: a few; full: all or many)
//! in a few threads: run each call in its own directory with a time limit; judge how it ended
//! ```
//!
//! A finding is a panic, termination by a signal, an undocumented exit status, an error without a
//! message, a changed input, an unreadable record, or a call that does not end. Its directory is
//! kept.

mod call;
mod damage;
mod environment;
mod files;
mod judge;
mod limits;
mod paths;

use crate::command::{cargo, root, status};
use crate::outcome::{Outcome, judge as judge_status};
use call::{Call, Done};
use linerate_record::random::Random;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Number of concurrent calls: more than one, since some wait for events that never come.
const LANES: usize = 4;

/// Default seed.
const SEED: u64 = 1;

/// Extent of a run, which determines the number of calls in each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// A few, for CI.
    Small,
    /// All listed calls, and many random ones.
    Full,
}

impl Size {
    /// Returns the number of calls in a class: `small` for CI, `full` for a full run.
    fn of(self, small: usize, full: usize) -> usize {
        match self {
            Self::Small => small,
            Self::Full => full,
        }
    }

    /// Returns all calls for a full run, or a random selection of `small` calls for CI.
    fn some<T>(self, mut all: Vec<T>, small: usize, random: &mut Random) -> Vec<T> {
        while self == Self::Small && all.len() > small {
            all.swap_remove(random.below(all.len()));
        }
        all
    }
}

/// Name and generator of a class of calls. The generator returns an error if the class must be
/// skipped.
type Class = (&'static str, fn(&mut Random, Size) -> Result<Vec<Call>, String>);

const CLASSES: &[Class] = &[
    ("values", paths::values),
    ("structures", paths::structures),
    ("special-files", paths::special_files),
    ("captures", files::captures),
    ("foreign-inputs", files::foreign_inputs),
    ("records", files::records),
    ("numbers", files::numbers),
    ("dumps", files::dumps),
    ("options", environment::options),
    ("streams", environment::streams),
    ("places", environment::places),
    ("overwrites", environment::overwrites),
    ("environments", environment::environments),
    ("signals", environment::signals),
    ("limits", limits::limits),
    ("threads", limits::threads),
    ("memory-groups", limits::memory_groups),
    ("cpu-groups", limits::cpu_groups),
];

/// Classes of calls to run (indices into `CLASSES`), and how.
#[derive(Debug)]
pub(crate) struct Choice {
    classes: Vec<usize>,
    size: Size,
    seed: u64,
}

/// Parses `[--full] [--seed N] [CLASS...]`.
pub(crate) fn choose(words: &[&str]) -> Result<Choice, String> {
    let mut choice = Choice { classes: Vec::new(), size: Size::Small, seed: SEED };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--full" => choice.size = Size::Full,
            "--seed" => {
                let seed = words.next().and_then(|seed| seed.parse().ok());
                choice.seed = seed.ok_or("--seed takes a number")?;
            }
            name => {
                let found = CLASSES.iter().position(|(class, _)| *class == name);
                let names: Vec<&str> = CLASSES.iter().map(|(class, _)| *class).collect();
                choice.classes.push(found.ok_or_else(|| {
                    format!("unknown class `{name}`; known: {}", names.join(", "))
                })?);
            }
        }
    }
    if choice.classes.is_empty() {
        choice.classes = (0..CLASSES.len()).collect();
    }
    Ok(choice)
}

/// Runs the attack as a CI step.
pub(crate) fn check() -> Outcome {
    match attack(&Choice { classes: (0..CLASSES.len()).collect(), size: Size::Small, seed: SEED }) {
        Ok(skipped) => Outcome::Passed(skipped),
        Err(why) => Outcome::Failed(why),
    }
}

/// Runs the calls. The error lists the findings.
pub(crate) fn run(choice: &Choice) -> Result<(), String> {
    attack(choice).map(|_| ())
}

/// Runs the chosen classes and returns those that were skipped, with the reason.
fn attack(choice: &Choice) -> Result<Vec<String>, String> {
    judge_status(status(cargo(&["build", "--locked", "-q", "-p", "linerate"])))?;
    let program = program();
    let folder = root().join("target/attack");
    // Remove files left by an earlier attack.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut skipped = Vec::new();
    let (mut calls, mut findings) = (0, Vec::new());
    for &class in &choice.classes {
        let (name, draw) = CLASSES[class];
        let mut random = Random::new(choice.seed ^ (class as u64) << 32);
        let drawn = match draw(&mut random, choice.size) {
            Ok(drawn) => drawn,
            Err(why) => {
                println!("SKIP: {name}: {why}");
                skipped.push(format!("SKIP: hostile calls, {name}: {why}"));
                continue;
            }
        };
        let begun = Instant::now();
        let of_class = drawn.len();
        let found = run_all(drawn, &folder.join(name), &program);
        println!(
            "{name}: {of_class} calls, {} findings, {:.1} s",
            found.len(),
            begun.elapsed().as_secs_f64()
        );
        found.iter().for_each(|finding| println!("  {finding}"));
        calls += of_class;
        findings.extend(found);
    }
    println!("{calls} calls, {} findings, seed {}", findings.len(), choice.seed);
    match findings.len() {
        0 => Ok(skipped),
        count => {
            let findings = findings.join("\n");
            Err(format!("{count} findings in {calls} hostile calls\n{findings}"))
        }
    }
}

fn program() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(target).join("debug/linerate")
}

/// Runs calls in parallel and returns the findings, in call order.
fn run_all(calls: Vec<Call>, folder: &std::path::Path, program: &std::path::Path) -> Vec<String> {
    let waiting = Mutex::new(calls.into_iter().enumerate());
    let found = Mutex::new(Vec::new());
    let lane = || {
        loop {
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, call)) = next else { return };
            let place = folder.join(number.to_string());
            let why = match call.run(&place, program) {
                Ok(done) => judge::judge(&call, &done),
                Err(why) => Some(format!("the call could not be run: {why}")),
            };
            match why {
                None => drop(fs::remove_dir_all(&place)),
                Some(why) => {
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.push((number, format!("{why}\n    {}: {call}", place.display())));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(lane);
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort();
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// Time limit of a call, after which it is killed and reported as a finding. Calls without a defect
/// end earlier, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_calls() {
        for (name, draw) in &CLASSES[..11] {
            let lines = |seed| -> Vec<String> {
                let calls = draw(&mut Random::new(seed), Size::Small);
                let calls = calls.unwrap_or_else(|why| panic!("{name}: {why}"));
                calls.iter().map(|call| format!("{call:?}")).collect()
            };
            assert!(!lines(3).is_empty(), "{name}");
            assert_eq!(lines(3), lines(3), "{name}");
        }
    }

    #[test]
    fn words_are_classes_or_options() {
        assert_eq!(choose(&[]).expect("nothing is all").classes.len(), CLASSES.len());
        let one = choose(&["--full", "--seed", "7", "records"]).expect("they are known");
        assert_eq!((one.classes, one.size, one.seed), (vec![5], Size::Full, 7));
        assert!(choose(&["nothing"]).is_err() && choose(&["--seed"]).is_err());
    }
}
