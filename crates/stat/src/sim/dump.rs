// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses a callgrind file's header: event names and totals, block range, and trigger.
//!
//! The rest of the file, which attributes events to functions, is parsed in `functions.rs`.

use super::names::COUNTERS;
use std::io::{self, BufRead};

/// One callgrind file: a process's counts between two points in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dump {
    /// First line of the command with its arguments, separated by spaces.
    pub(super) command: String,
    /// Basic blocks executed before the dump interval began, including the parent's; 0 if the
    /// interval begins with the program itself.
    pub(super) first_block: u64,
    /// Basic blocks executed when the dump interval ended.
    pub(super) last_block: u64,
    /// Whether the file was written because the process ended.
    pub(super) is_last: bool,
    /// Counts, in the order of [`COUNTERS`].
    pub(super) counts: [u64; COUNTERS.len()],
}

/// Parses the header; `None` if the file ends within it because the process has not finished
/// writing.
///
/// The header has the lines `desc: Timerange: Basic block A - B`, `desc: Trigger: why`, and, in
/// this order, `positions:`, `events:` with names and `summary:` with at most as many numbers,
/// since trailing zeros are omitted. It contains the command unquoted, so lines of a script may
/// come in between: only the last three lines, if consecutive, mark the end.
pub(super) fn read(mut file: impl BufRead) -> Result<Option<Dump>, String> {
    let mut command = None;
    let mut blocks = None;
    let mut is_last = false;
    let mut names: Option<String> = None;
    let mut may_have_names = false;
    let mut line = Vec::new();
    loop {
        line.clear();
        file.read_until(b'\n', &mut line).map_err(|error: io::Error| error.to_string())?;
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        blocks = range(text).or(blocks);
        command = command.or_else(|| Some(text.strip_prefix("cmd:")?.trim().to_owned()));
        if let Some(trigger) = text.strip_prefix("desc: Trigger: ") {
            is_last = trigger == "Program termination";
        }
        if let (Some(names), Some(numbers)) = (&names, text.strip_prefix("summary:")) {
            let (first_block, last_block) =
                blocks.ok_or("the file does not record its time range")?;
            let counts = counts(names, numbers)?;
            let command = command.unwrap_or_default();
            return Ok(Some(Dump { command, first_block, last_block, is_last, counts }));
        }
        let has_names = may_have_names.then(|| text.strip_prefix("events:")).flatten();
        names = has_names.map(str::to_owned);
        may_have_names = text.starts_with("positions:");
    }
}

/// Returns the range of basic blocks in which events were counted.
fn range(line: &str) -> Option<(u64, u64)> {
    let (from, to) = line.strip_prefix("desc: Timerange: Basic block ")?.split_once(" - ")?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

fn counts(names: &str, numbers: &str) -> Result<[u64; COUNTERS.len()], String> {
    let numbers: Vec<u64> = numbers
        .split_whitespace()
        .map(|number| number.parse().map_err(|_| format!("invalid count `{number}`")))
        .collect::<Result<_, _>>()?;
    let names: Vec<&str> = names.split_whitespace().collect();
    if numbers.len() > names.len() {
        return Err(format!("{} counts for {} events", numbers.len(), names.len()));
    }
    let mut counts = [0; COUNTERS.len()];
    for (count, counter) in counts.iter_mut().zip(COUNTERS) {
        let place = names.iter().position(|&name| name == counter);
        let place = place.ok_or_else(|| format!("the file has no {counter}"))?;
        *count = numbers.get(place).copied().unwrap_or(0);
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = "\
# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 21647
cmd:  ./t
part: 1


desc: I1 cache: 16384 B, 32 B, 4-way associative

desc: Timerange: Basic block 17 - 1011252
desc: Trigger: Program termination

positions: line
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim
summary: 5038683 1007084 1001481 721 247 217 424 161 121 1010385 1233 59
";

    fn read_text(text: &str) -> Result<Option<Dump>, String> {
        read(text.as_bytes())
    }

    #[test]
    fn a_head_as_written() {
        let counts =
            [5038683, 1007084, 1001481, 721, 247, 217, 424, 161, 121, 1010385, 1233, 59, 0];
        let command = "./t".to_owned();
        let dump = Dump { command, first_block: 17, last_block: 1_011_252, is_last: true, counts };
        assert_eq!(read_text(HEAD), Ok(Some(dump.clone())));
        let forking = HEAD.replace("Program termination", "--dump-before=_Fork");
        assert_eq!(read_text(&forking), Ok(Some(Dump { is_last: false, ..dump })));
    }

    #[test]
    fn the_order_of_events_is_that_of_the_file() {
        let text = HEAD.replace("Ir Dr", "Dr New Ir").replace("5038683 1007084", "1 2 3");
        let counts = read_text(&text).unwrap().unwrap().counts;
        assert_eq!(counts[..3], [3, 1, 1_001_481]);
    }

    #[test]
    fn a_command_that_looks_like_a_head_is_none() {
        let script =
            "cmd:  sh -c events: Ir\nsummary: 1\ndesc: Trigger: x\npositions: line\necho\n";
        let text = HEAD.replace("cmd:  ./t\n", script);
        let dump = read_text(HEAD).unwrap().unwrap();
        let command = "sh -c events: Ir".to_owned();
        assert_eq!(read_text(&text), Ok(Some(Dump { command, ..dump })));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (from, to, reason) in [
            ("59\n", "59 0 0\n", "14 counts for 13 events"),
            ("721", "-1", "invalid count `-1`"),
            ("721", "18446744073709551616", "invalid count `18446744073709551616`"),
            ("Bcm ", "", "the file has no Bcm"),
            ("Timerange", "Time", "the file does not record its time range"),
        ] {
            assert_eq!(read_text(&HEAD.replace(from, to)), Err(reason.to_owned()), "{to}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        /// A file that is still being written is treated as missing, at whichever byte it ends.
        #[test]
        fn rejects_a_partial_dump_header(end in 0..HEAD.len()) {
            prop_assert_eq!(read_text(&HEAD[..end]), Ok(None));
        }

        #[test]
        fn survives_anything(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(read(bytes.as_slice()), Ok(None));
        }

        /// Header lines in any order, truncated, duplicated and corrupted, are parsed only if the
        /// last three lines are valid and in order.
        #[test]
        fn survives_damage(
            lines in prop::collection::vec((0..15usize, 0..90usize, any::<char>()), 0..40),
        ) {
            let whole: Vec<&str> = HEAD.lines().collect();
            let damaged = |&(line, at, by): &(usize, usize, char)| match whole[line].get(..at) {
                Some(start) if at % 3 == 0 => format!("{start}{by}\n"),
                _ => format!("{}\n", whole[line]),
            };
            let text: String = lines.iter().map(damaged).collect();
            if let Ok(Some(_)) = read_text(&text) {
                prop_assert!(text.contains("events:"));
                prop_assert!(text.contains("positions: line\nevents:"));
            }
        }
    }
}
