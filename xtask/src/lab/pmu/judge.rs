// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks on the output of `lab/pmu`.

use std::collections::BTreeMap;

/// Names of the checks that the program performs itself.
const CHECKS: [&str; 10] = [
    "closed",
    "opened",
    "closed-again",
    "divider",
    "filters",
    "software-increment",
    "overflow-flags",
    "overflow-interrupt",
    "widening",
    "programs",
];

/// Architectural numbers of the events counted by QEMU (its target/arm/helper.c, pm_events).
const EMULATED: [u64; 3] = [0x00, 0x08, 0x11];

/// A function that returns, for `n`, a program's expected number of instructions and its result.
/// The number is `None` if it must be taken from the program's disassembly.
type Truth = fn(u64) -> (Option<u64>, u64);

/// Programs as in `lab/pmu/programs.S`, which derives these numbers from the instructions.
const PROGRAMS: [(&str, Truth); 5] = [
    ("empty", |n| (Some(0), n)),
    ("c_loop", |n| (None, n)),
    ("loop", |n| (Some(3 * n + 5), n)),
    ("two_branches", |n| (Some(4 * n + 4), n)),
    ("sum_average", |n| (Some(4 * n + 6), (3 * n * (n - 1) / 2 + n) / n)),
];

/// Values of `n` for which each program runs.
const LENGTHS: [u64; 3] = [1, 10, 1000];

/// Checks the output on a console and returns a summary.
pub(super) fn judge(console: &str, listing: &str) -> Result<String, String> {
    let result = console.lines().last().unwrap_or_default();
    if result != "RESULT PASS" {
        return Err(format!("the output ends with `{result}`, not `RESULT PASS`"));
    }
    for name in CHECKS {
        let passed = format!("check {name} PASS ");
        if !console.lines().any(|line| line.starts_with(&passed)) {
            return Err(format!("no line begins with `{passed}`"));
        }
    }
    let programs = programs(console, loop_of("program_c_loop", listing)?)?;
    let (counted, known) = events(console)?;
    Ok(format!(
        "{} checks passed, {programs} program runs counted exactly, {counted} of {known} events \
         counted; the others are null, because the emulator does not count them",
        CHECKS.len()
    ))
}

/// Returns, for each line that begins with `kind NAME`, the name and the numbers after it.
fn values<'a>(console: &'a str, kind: &str) -> Result<Vec<(&'a str, Vec<u64>)>, String> {
    let lines = console.lines().filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
    let read = |line: &'a str| {
        let (name, numbers) = line.split_once(' ').unwrap_or((line, ""));
        let numbers: Result<Vec<u64>, _> = numbers.split(' ').map(str::parse).collect();
        numbers.map(|numbers| (name, numbers)).map_err(|_| format!("`{line}` has no numbers"))
    };
    lines.map(read).collect()
}

/// Checks that each program executed the expected number of instructions, and returns the number of
/// runs.
pub(super) fn programs(console: &str, turn: u64) -> Result<usize, String> {
    let runs: BTreeMap<(&str, u64), [u64; 3]> = values(console, "program")?
        .into_iter()
        .filter_map(|(name, numbers)| match numbers[..] {
            [n, instructions, cycles, result] => Some(((name, n), [instructions, cycles, result])),
            _ => None,
        })
        .collect();
    let run = |name, n| {
        let run = runs.get(&(name, n)).copied();
        run.ok_or_else(|| format!("program {name} did not run with n = {n}"))
    };
    // The C program's instructions outside its loop, from the shortest run.
    let rest = run("c_loop", 1)?[0].checked_sub(turn);
    let rest = rest.ok_or("program c_loop executed fewer instructions than one iteration has")?;
    for (name, truth) in PROGRAMS {
        for n in LENGTHS {
            let (expected, result) = truth(n);
            let expected = expected.unwrap_or(rest + turn * n);
            // In this emulation, every instruction takes one cycle.
            let expected = [expected, expected, result];
            if run(name, n)? != expected {
                let found = run(name, n)?;
                return Err(format!("{name} {n}: {found:?}, expected {expected:?}"));
            }
        }
    }
    Ok(PROGRAMS.len() * LENGTHS.len())
}

/// Checks that each program returned its result, the cycle counter advanced, and no instruction was
/// counted. More cannot be checked if the emulator does not count instructions.
pub(super) fn uncounted(console: &str) -> Result<(), String> {
    let runs = values(console, "program")?;
    for (name, truth) in PROGRAMS {
        for n in LENGTHS {
            let is_run = |(run, numbers): &&(&str, Vec<u64>)| *run == name && numbers[0] == n;
            match runs.iter().find(is_run).map(|(_, numbers)| &numbers[1..]) {
                Some(&[0, _, result]) if result == truth(n).1 => {}
                found => return Err(format!("{name} {n}: {found:?}")),
            }
        }
    }
    let cycles = runs.iter().map(|(_, numbers)| numbers.get(2).copied().unwrap_or(0));
    match cycles.max() {
        Some(1..) => Ok(()),
        _ => Err("the cycle counter does not advance".to_owned()),
    }
}

/// Checks that exactly the events that the emulator implements have counts above 0. Returns the
/// number of these events and the number of all events.
fn events(console: &str) -> Result<(usize, usize), String> {
    let events = values(console, "event")?;
    let is_wrong = |(_, numbers): &&(&str, Vec<u64>)| match numbers[..] {
        [code, count] => (count > 0) != EMULATED.contains(&code),
        _ => true,
    };
    if let Some((name, numbers)) = events.iter().find(is_wrong) {
        return Err(format!(
            "event {name}: code and count {numbers:?}; only the codes {EMULATED:?} must be counted"
        ));
    }
    let counted = events.iter().filter(|(_, numbers)| numbers[1] > 0).count();
    match counted == EMULATED.len() {
        true => Ok((counted, events.len())),
        false => Err(format!("{counted} events were counted, expected {}", EMULATED.len())),
    }
}

/// Returns the number of instructions in a function's only loop: from the target of its backward
/// branch to that branch.
pub(super) fn loop_of(function: &str, listing: &str) -> Result<u64, String> {
    let begin = format!("<{function}>:");
    let lines = listing.lines().skip_while(|line| !line.ends_with(&begin)).skip(1);
    let mut turns = Vec::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let mut columns = line.split('\t');
        let address = columns.next().and_then(|a| hexadecimal(a.trim().trim_end_matches(':')));
        let operand = columns.nth(2).and_then(|o| hexadecimal(o.split(' ').next().unwrap_or("")));
        if let (Some(address), Some(target)) = (address, operand)
            && line.contains(&format!("<{function}+"))
            && target < address
        {
            turns.push((address - target) / 4 + 1);
        }
    }
    match turns[..] {
        [turn] => Ok(turn),
        _ => Err(format!("the listing of {function} has {} loops, not one", turns.len())),
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::{CHECKS, LENGTHS, PROGRAMS, judge, loop_of, uncounted};

    const LISTING: &str = "40200100 <other>:\n40200100:\te3a03000 \tmov\tr3, #0\n\n\
        40200a50 <program_c_loop>:\n40200a50:\te3a03000 \tmov\tr3, #0\n\
        40200a54:\te59d3004 \tldr\tr3, [sp, #4]\n40200a58:\te1500003 \tcmp\tr0, r3\n\
        40200a5c:\t8afffffc \tbhi\t40200a54 <program_c_loop+0x4>\n40200a60:\te12fff1e \tbx\tlr\n\n";

    /// Returns the output of a board whose C program has 3 instructions per iteration, plus 7.
    fn console() -> String {
        let mut console = String::from("counters 4\n");
        for name in CHECKS {
            console += &format!("check {name} PASS so it is 1\n");
        }
        console += "event CPU_CYCLES 17 614\nevent INST_RETIRED 8 614\nevent SW_INCR 0 1\n\
                    event L1D_CACHE_ACCESS 4 0\nprogram reads 0 19 19 0\n";
        for (name, truth) in PROGRAMS {
            for n in LENGTHS {
                let (instructions, result) = truth(n);
                let instructions = instructions.unwrap_or(7 + 3 * n);
                console += &format!("program {name} {n} {instructions} {instructions} {result}\n");
            }
        }
        console + "RESULT PASS\n"
    }

    #[test]
    fn one_instruction_more_or_less_is_found() {
        let right = console();
        assert!(judge(&right, LISTING).is_ok_and(|said| said.contains("3 of 4 events")));
        for (from, to) in [
            ("two_branches 10 44 44", "two_branches 10 45 45"),
            ("loop 1000 3005 3005", "loop 1000 3005 3006"),
            ("c_loop 10 37 37", "c_loop 10 36 36"),
            ("sum_average 10 46 46 14", "sum_average 10 46 46 15"),
            ("program empty 10 0", "program gone 10 0"),
        ] {
            assert!(right.contains(from), "{from}");
            assert!(judge(&right.replace(from, to), LISTING).is_err(), "{to}");
        }
    }

    #[test]
    fn a_claim_that_fails_or_is_not_made_is_found() {
        let right = console();
        for (from, to) in [
            ("check divider PASS", "check divider FAIL"),
            ("check widening PASS so it is 1\n", ""),
            ("RESULT PASS", "RESULT FAIL"),
            ("RESULT PASS\n", ""),
            ("L1D_CACHE_ACCESS 4 0", "L1D_CACHE_ACCESS 4 7"),
            ("SW_INCR 0 1", "SW_INCR 0 0"),
            ("event SW_INCR 0 1\n", ""),
        ] {
            assert!(judge(&right.replace(from, to), LISTING).is_err(), "{from}");
        }
    }

    #[test]
    fn programs_without_counts_have_results_and_time() {
        let mut console = String::from("program reads 0 0 375 0\n");
        for (name, truth) in PROGRAMS {
            for n in LENGTHS {
                console += &format!("program {name} {n} 0 91 {}\n", truth(n).1);
            }
        }
        assert_eq!(uncounted(&console), Ok(()));
        for (from, to) in [
            ("loop 10 0 91 10\n", "loop 10 35 91 10\n"),
            ("loop 10 0 91 10\n", "loop 10 0 91 11\n"),
            ("program empty 1 0 91 1\n", ""),
            ("program empty 1 0 91 1\n", "program empty\n"),
        ] {
            assert!(console.contains(from), "{from}");
            assert!(uncounted(&console.replacen(from, to, 1)).is_err(), "{to}");
        }
        let still = console.replace(" 91 ", " 0 ").replace(" 375 ", " 0 ");
        assert!(uncounted(&still).is_err());
    }

    #[test]
    fn a_loop_is_found_in_a_listing() {
        assert_eq!(loop_of("program_c_loop", LISTING), Ok(3));
        assert!(loop_of("other", LISTING).is_err());
        assert!(loop_of("gone", LISTING).is_err());
    }
}
