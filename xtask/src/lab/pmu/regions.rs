// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the output of `known regions`: counts read from registers, counts by perf, and no counts.

use super::super::Question;
use std::collections::{BTreeMap, BTreeSet};

/// Instructions per iteration of the loop in `known regions`.
const TURN: u64 = 2;
/// Numbers of iterations for which the loop runs.
const LENGTHS: [u64; 3] = [1, 1000, 1_000_000];

/// The check fails if there are at least this many instructions around the loop: more than a call,
/// a return, and what the compiler may add because it generates different code for the same reads
/// in different places.
const MOST_AROUND: u64 = 24;

/// Returns the command that runs `known regions` on this CPU.
pub(super) fn asked(name: &str, cpu: u32) -> Question {
    Question { name: name.replace(' ', "_"), command: format!("known regions {cpu}") }
}

/// Returns the distinct lines that contain counts.
fn counts(text: &str) -> BTreeSet<&str> {
    text.lines().filter(|line| line.starts_with("count ")).collect()
}

/// Checks that counts read from registers are exact. If another process interrupts a region, the
/// output must say that the count is absent.
pub(super) fn exact(text: &str) -> Result<(), String> {
    by_registers(text, Of::Every)
}

/// Like [`exact`], but for one of several processors, where only the lowest count for each length
/// is checked: QEMU counts the instructions of all processors (`icount_get_raw`), so a count may be
/// too high, but never too low.
pub(super) fn least_exact(text: &str) -> Result<(), String> {
    by_registers(text, Of::Least)
}

/// Which counts must be exact: all of them, or only the lowest for each length.
#[derive(Clone, Copy)]
enum Of {
    Every,
    Least,
}

fn by_registers(text: &str, of: Of) -> Result<(), String> {
    says(text, "reading registers")?;
    says(text, "figure User registers, ")?;
    turns_are_counted(text, of)
}

/// Like [`exact`], but for counts by perf.
pub(super) fn exact_by_perf(text: &str) -> Result<(), String> {
    says(text, "reading read(2)")?;
    turns_are_counted(text, Of::Every)
}

/// Like [`least_exact`], but for counts by perf.
pub(super) fn least_exact_by_perf(text: &str) -> Result<(), String> {
    says(text, "reading read(2)")?;
    turns_are_counted(text, Of::Least)
}

/// Checks that each iteration adds exactly its instructions to the count, and that the number of
/// other instructions in the region is the same for all lengths.
fn turns_are_counted(text: &str, of: Of) -> Result<(), String> {
    let absent = text.lines().filter(|line| line.starts_with("absent "));
    if let Some(line) = absent.into_iter().find(|line| !line.contains("left its CPU")) {
        return Err(line.to_owned());
    }
    for event in ["instructions", "cycles"] {
        let begin = format!("count {event} ");
        let read = |line: &&str| {
            let (turns, count) = line.strip_prefix(&begin)?.split_once(' ')?;
            Some((turns.parse::<u64>().ok()?, count.parse::<u64>().ok()?))
        };
        let all: BTreeSet<(u64, u64)> = counts(text).iter().filter_map(read).collect();
        let runs: Vec<(u64, u64)> = match of {
            Of::Every => all.into_iter().collect(),
            // In reverse order, the minimum overwrites the other entries with the same length.
            Of::Least => all.into_iter().rev().collect::<BTreeMap<_, _>>().into_iter().collect(),
        };
        let around: BTreeSet<_> =
            runs.iter().map(|(turns, count)| count.checked_sub(TURN * turns)).collect();
        let lengths: BTreeSet<u64> = runs.iter().map(|(turns, _)| *turns).collect();
        let is_little = around.iter().all(|around| around.is_some_and(|count| count < MOST_AROUND));
        if around.len() != 1 || !is_little || lengths != BTreeSet::from(LENGTHS) {
            return Err(format!(
                "{event}: expected {TURN} per iteration plus a constant below {MOST_AROUND}, for \
                 {LENGTHS:?} iterations; found (iterations, count) {runs:?}"
            ));
        }
    }
    Ok(())
}

/// Checks that there are no counts if the thread may run on both CPUs.
pub(super) fn anywhere(text: &str) -> Result<(), String> {
    nothing(text, "must be pinned to one CPU; it may currently run on CPUs 0-1; try: taskset -c ")
}

/// Checks that there are no counts after perf has revoked access to the registers, and that the
/// module reports this.
pub(super) fn closed(text: &str) -> Result<(), String> {
    nothing(text, "another program disabled the counters of CPU 0")
}

/// Checks that there are no counts if the kernel has no PMU driver and no module is loaded.
pub(super) fn no_driver(text: &str) -> Result<(), String> {
    nothing(text, "the device tree")?;
    says(text, "sudo insmod pmu_user.ko")
}

/// Checks that there are no counts after access was revoked inside a region, and that the program
/// continues.
pub(super) fn closing(text: &str) -> Result<(), String> {
    says(text, "ended 0")?;
    says(text, "reading registers")?;
    nothing(text, "register access was revoked during the run")
}

fn nothing(text: &str, reason: &str) -> Result<(), String> {
    match counts(text).first() {
        None => says(text, reason),
        Some(count) => {
            Err(format!("the output contains `{count}`, although nothing can be counted"))
        }
    }
}

fn says(text: &str, what: &str) -> Result<(), String> {
    match text.contains(what) {
        true => Ok(()),
        false => Err(format!("the output does not contain `{what}`: {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: &str = "turn 2\nreading registers\ncount instructions 1 9\ncount cycles 1 8\n\
        count instructions 1 9\ncount cycles 1 8\ncount instructions 1000 2007\n\
        count cycles 1000 2006\ncount instructions 1000000 2000007\n\
        count cycles 1000000 2000006\nfigure User registers, between\n";

    #[test]
    fn one_instruction_more_or_less_is_found() {
        assert_eq!(exact(EXACT), Ok(()));
        let away = "absent cycles 1 the thread left its CPU in 1 of 1 visits\n";
        assert_eq!(exact(&EXACT.replacen("count cycles 1 8\n", away, 1)), Ok(()));
        for (from, to) in [
            ("instructions 1 9", "instructions 1 10"),
            ("cycles 1000 2006", "cycles 1000 2005"),
            ("count instructions 1000 2007", "absent instructions 1000 left its CPU"),
            ("count cycles 1 8\n", "absent cycles 1 it was closed\n"),
            ("cycles 1 8", "cycles 1 1"),
            ("instructions ", "instructions 9"),
            ("reading registers", "reading read(2)"),
            ("figure User registers", "figure User between"),
        ] {
            assert!(EXACT.contains(from), "{from}");
            assert!(exact(&EXACT.replace(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn of_several_processors_the_least_count_of_each_length_is_right() {
        let more = EXACT.to_owned() + "count instructions 1000000 2004783\n";
        assert_eq!((least_exact(EXACT), least_exact(&more)), (Ok(()), Ok(())));
        assert!(exact(&more).is_err());
        let less = EXACT.to_owned() + "count instructions 1000000 2000006\n";
        assert!(least_exact(&less).is_err());
        assert!(least_exact(&EXACT.replace("1000 2007", "1000 2008")).is_err());
    }

    #[test]
    fn a_count_where_there_can_be_none_is_found() {
        let reason = "absent cycles 1 register access was revoked during the run: so\n";
        let said = format!("ended 0\nturn 2\nreading registers\n{reason}");
        assert_eq!(closing(&said), Ok(()));
        assert!(closing(&said.replace("ended 0", "ended 1")).is_err());
        assert!(closing(&said.replace("register access", "thread was")).is_err());
        assert!(closing(&(said.clone() + "count cycles 1 9\n")).is_err());
        assert!(anywhere(&said).is_err() && closed(&said).is_err() && no_driver(&said).is_err());
    }
}
