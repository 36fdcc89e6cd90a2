// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest is asked, and what must be true of its answers.

use super::guest::{Answer, Guest, Question};
use std::collections::BTreeMap;

/// Something that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) holds: bool,
    /// What was found, with its numbers.
    pub(crate) sentence: String,
}

/// What a guest is asked.
pub(crate) fn plan(_guest: &Guest) -> Vec<Question> {
    let questions = [("pmus", "ls /sys/bus/event_source/devices"), ("counts", "known counts")];
    let question = |(name, command): (&str, &str)| Question {
        name: name.to_owned(),
        command: command.to_owned(),
    };
    questions.map(question).to_vec()
}

/// What is true of the answers.
pub(crate) fn judge(guest: &Guest, answers: &[Answer]) -> Vec<Finding> {
    let answer = |name: &str| {
        let found = answers.iter().find(|answer| answer.name == name);
        found.map_or("", |answer| answer.output.as_str())
    };
    let mut findings = vec![driver(guest, answer("pmus"))];
    findings.extend(counts(answer("counts")));
    findings
}

fn driver(guest: &Guest, pmus: &str) -> Finding {
    let holds = pmus.split_whitespace().any(|pmu| pmu == guest.pmu);
    let sentence = if holds {
        format!("the driver {} counts", guest.pmu)
    } else {
        let found: Vec<&str> = pmus.split_whitespace().collect();
        format!("there is no driver {}, but {}", guest.pmu, found.join(", "))
    };
    Finding { holds, sentence }
}

/// Events that `known counts` counts, alone each.
const EVENTS: [&str; 4] = ["instructions", "cycles", "raw_08", "raw_11"];

/// What `known counts` printed: a loop of known instructions, counted with several events.
///
/// A count is what the loop carries out, exactly, plus what stands around it in user mode: from the
/// return of the ioctl(2) that starts the event to the call of the one that stops it. That part is
/// the same for every length of the loop, in every repetition. A cycle of this emulator is an
/// instruction.
fn counts(text: &str) -> Vec<Finding> {
    let mut lines = text.lines();
    let per_turn = lines.find_map(|line| line.strip_prefix("turn ")?.parse::<u64>().ok());
    let Some(per_turn) = per_turn else {
        return vec![Finding { holds: false, sentence: "`known counts` said nothing".to_owned() }];
    };
    let mut around: BTreeMap<&str, Vec<(u64, i128)>> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["count", event, turns, count] = words[..]
            && let (Ok(turns), Ok(count)) = (turns.parse::<u64>(), count.parse::<u64>())
        {
            let rest = i128::from(count) - i128::from(turns) * i128::from(per_turn);
            around.entry(event).or_default().push((turns, rest));
        }
    }
    let of = |event: &&str| count_of(event, per_turn, around.get(event).map_or(&[], Vec::as_slice));
    EVENTS.iter().map(of).collect()
}

/// Whether the counts of an event are exact; `around` has the turns of each loop, and what was
/// counted beyond them.
fn count_of(event: &str, per_turn: u64, around: &[(u64, i128)]) -> Finding {
    let turns = around.iter().map(|(turns, _)| *turns);
    let (Some(least), Some(most)) = (turns.clone().min(), turns.max()) else {
        return Finding { holds: false, sentence: format!("{event}: was not counted") };
    };
    let mut rest: Vec<i128> = around.iter().map(|(_, rest)| *rest).collect();
    rest.sort_unstable();
    rest.dedup();
    let holds = least < most && matches!(rest[..], [rest] if (0..100).contains(&rest));
    let rest: Vec<String> = rest.iter().map(i128::to_string).collect();
    let sentence = format!(
        "{event}: {per_turn} per turn and {} around the loop, {} times, {least} to {most} turns",
        rest.join(" or "),
        around.len()
    );
    Finding { holds, sentence }
}

#[cfg(test)]
mod tests {
    use super::{Finding, counts};

    fn judged(lines: &[&str]) -> Finding {
        counts(&lines.join("\n")).swap_remove(0)
    }

    #[test]
    fn exact_counts_are_told_from_all_others() {
        let exact = judged(&["turn 2", "count instructions 1 25", "count instructions 100 223"]);
        let sentence = "instructions: 2 per turn and 23 around the loop, 2 times, 1 to 100 turns";
        assert_eq!(exact, Finding { holds: true, sentence: sentence.to_owned() });
        for wrong in [
            &["turn 2", "count instructions 1 25", "count instructions 100 224"][..],
            &["turn 2", "count instructions 1 25"],
            &["turn 2", "count instructions 1 1", "count instructions 100 199"],
            &["turn 2", "refused instructions 2"],
            &["turn 2", "count instructions 1 502", "count instructions 100 700"],
            &["count instructions 1 25"],
            &[],
        ] {
            assert!(!judged(wrong).holds, "{wrong:?}");
        }
    }
}
