// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the output of `known`, a program that executes a known number of instructions: the
//! kernel's counts, and user-mode reads of the counters.
//!
//! A count must be exactly the loop's instructions plus those of the user-mode code around the
//! loop: from the return of the system call that starts the event (or from the first read) to the
//! system call that stops it (or to the second read). The code around the loop must execute the
//! same number of instructions for every loop length and in every repetition. In this emulator,
//! every instruction takes one cycle.

use super::{Finding, finding};

/// Events that `known counts` counts, one at a time.
const COUNTED: [&str; 4] = ["instructions", "cycles", "raw_08", "raw_11"];

/// Events read by `known reads`.
const READ: [&str; 2] = ["instructions_by_user", "cycles_by_user"];

/// The check fails if there are at least this many instructions outside the loop; no compiler adds
/// as many.
const MOST_AROUND: i128 = 100;

/// Checks that the kernel's counts are exact.
pub(super) fn counts(text: &str) -> Vec<Finding> {
    let group = ["group"].map(|name| finding(of_group(text, name)));
    COUNTED.map(|event| finding(exact(text, event))).into_iter().chain(group).collect()
}

/// Checks that user-mode reads agree with reads by the kernel.
pub(super) fn reads(text: &str) -> Vec<Finding> {
    let exact = READ.map(|event| finding(exact(text, event)));
    exact.into_iter().chain(READ.map(|event| finding(between(text, event)))).collect()
}

/// Checks that user-mode reads fail, rather than return a wrong value, where the kernel forbids
/// them.
pub(super) fn no_reads(text: &str) -> Finding {
    let unread = text.lines().filter(|line| line.starts_with("unread ")).count();
    let counted = text.lines().filter(|line| line.starts_with("count ")).count();
    finding(match (unread, counted) {
        (1.., 0) => Ok(format!("user mode was refused access to closed counters, {unread} times")),
        _ => Err(format!("{unread} reads by user mode were refused, {counted} were not")),
    })
}

/// Returns the number of instructions per loop iteration.
fn per_iteration(text: &str) -> Result<u64, String> {
    let found = text.lines().find_map(|line| line.strip_prefix("turn ")?.parse().ok());
    found.ok_or_else(|| "`known` did not report the instructions per iteration".to_owned())
}

/// Returns the numbers in each line that begins with `words`.
fn numbers(text: &str, words: &str) -> Vec<Vec<u64>> {
    let of_line = |line: &str| -> Option<Vec<u64>> {
        let rest = line.strip_prefix(words)?.strip_prefix(' ')?;
        rest.split(' ').map(|number| number.parse().ok()).collect()
    };
    text.lines().filter_map(of_line).collect()
}

/// Checks the lines `count EVENT TURNS COUNT`.
fn exact(text: &str, event: &str) -> Result<String, String> {
    let pairs: Vec<(u64, u64)> = numbers(text, &format!("count {event}"))
        .iter()
        .filter_map(|line| Some((*line.first()?, *line.get(1)?)))
        .collect();
    exact_of(event, per_iteration(text)?, &pairs)
}

/// Checks the lines `group TURNS INSTRUCTIONS CYCLES ENABLED RUNNING`.
fn of_group(text: &str, name: &str) -> Result<String, String> {
    let lines = numbers(text, name);
    let mut instructions = Vec::new();
    for line in &lines {
        let [turns, count, cycles, enabled, running] = line[..] else {
            return Err(format!("{name}: expected five numbers per line, found {}", line.len()));
        };
        if cycles != count || enabled != running {
            return Err(format!(
                "{name}: {count} instructions in {cycles} cycles, on the counters for {running} ns \
                 of {enabled} ns; the numbers of each pair must be equal"
            ));
        }
        instructions.push((turns, count));
    }
    exact_of("instructions in a group with cycles", per_iteration(text)?, &instructions)
}

/// Checks that the count in each pair (iterations, count) is exact.
fn exact_of(event: &str, each: u64, pairs: &[(u64, u64)]) -> Result<String, String> {
    let turns = pairs.iter().map(|(turns, _)| *turns);
    let (Some(least), Some(most)) = (turns.clone().min(), turns.max()) else {
        return Err(format!("{event}: not counted"));
    };
    let beyond =
        |(turns, count): &(u64, u64)| i128::from(*count) - i128::from(*turns) * i128::from(each);
    let mut around: Vec<i128> = pairs.iter().map(beyond).collect();
    around.sort_unstable();
    around.dedup();
    let words: Vec<String> = around.iter().map(i128::to_string).collect();
    let sentence = format!(
        "{event}: {each} per iteration and {} outside the loop, in {} runs of {least} to {most} \
         iterations",
        words.join(" or "),
        pairs.len(),
    );
    match around[..] {
        [around] if (0..MOST_AROUND).contains(&around) && least < most => Ok(sentence),
        _ => Err(sentence),
    }
}

/// Checks the line `between EVENT CASES TOTAL`: in all cases, the user-mode read must be between
/// the kernel's reads before and after it.
fn between(text: &str, event: &str) -> Result<String, String> {
    let lines = numbers(text, &format!("between {event}"));
    let Some([cases, of]) = lines.first().map(Vec::as_slice) else {
        return Err(format!("{event} was not compared with the kernel's reads"));
    };
    let sentence = format!(
        "{event}: {cases} of {of} reads are between the kernel's reads before and after them"
    );
    if cases == of && *of > 0 { Ok(sentence) } else { Err(sentence) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_exact_counts() {
        let exact = |lines: &[&str]| exact(&lines.join("\n"), "cycles");
        let sentence =
            "cycles: 2 per iteration and 23 outside the loop, in 2 runs of 1 to 100 iterations";
        let lines = ["turn 2", "count cycles 1 25", "count cycles 100 223"];
        assert_eq!(exact(&lines).as_deref(), Ok(sentence));
        for wrong in [
            &["turn 2", "count cycles 1 25", "count cycles 100 224"][..],
            &["turn 2", "count cycles 1 25"],
            &["turn 2", "count cycles 1 1", "count cycles 100 199"],
            &["turn 2", "count cycles 1 502", "count cycles 100 700"],
            &["turn 2", "refused cycles 2"],
            &["turn 2", "count cycles_too 1 25", "count cycles_too 100 223"],
            &["count cycles 1 25", "count cycles 100 223"],
            &[],
        ] {
            assert!(exact(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_group_is_whole_or_wrong() {
        let group =
            |second: &str| of_group(&format!("turn 2\ngroup 1 25 25 9 9\n{second}"), "group");
        assert!(group("group 100 223 223 9 9").is_ok());
        for wrong in ["group 100 223 222 9 9", "group 100 223 223 9 8", "group 100 223", ""] {
            assert!(group(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reads_agree_always_or_not() {
        assert!(between("between a 10 10", "a").is_ok());
        for wrong in ["between a 9 10", "between a 0 0", "between b 10 10", ""] {
            assert!(between(wrong, "a").is_err(), "{wrong}");
        }
        assert!(no_reads("turn 2\nunread a 1\nbetween a 0 9").holds);
        assert!(!no_reads("turn 2\ncount a 1 25").holds);
        assert!(!no_reads("turn 2").holds);
    }
}
