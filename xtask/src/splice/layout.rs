// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the layout of two outputs of a command: their words in order, with numbers masked.
//!
//! Findings, rows and units can differ from one run to the next. `varying.toml` lists what may
//! differ, as patterns for the masked text and the replacement that makes the texts equal. Anything
//! else that differs is an error: a sentence that was reworded after the page was written, a column
//! that is missing, a table that moved.
//!
//! 1. Mask: each number, with its sign, becomes `0`.
//! 2. Apply the page's rules, in the order of the file.
//! 3. Split into words. A dash for a missing value counts as a number; other words without letters
//!    or digits, such as bars, are dropped, and so are repeated numbers.
//! 4. Compare the words one by one.
//!
//! A difference fails the check, except in outputs of measurements: it is listed there for a look,
//! because a run may have a finding or a row that no earlier run had.

use crate::command::{output, program};
use regex_lite::Regex;
use serde::Deserialize;
use std::fs;

const DATA: &str = include_str!("varying.toml");

/// Regular expression for a number with its sign.
const NUMBER: &str = r"[-+<>]?\b\d[\d,]*(\.\d+)?";

/// Number of words shown on each side of the first difference.
const SHOWN: usize = 6;

#[derive(Deserialize)]
struct Data {
    /// The machine on which the pages were measured, as [`machine()`] returns it.
    machine: String,
    rule: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    /// Beginning of the page's path; applies to all pages if absent.
    #[serde(default)]
    page: String,
    /// Regular expression for masked text; a space matches any white space. `^` and `$` match at
    /// line breaks.
    pattern: String,
    /// Replacement; empty by default.
    #[serde(default)]
    replacement: String,
    /// Masked texts that must become equal to each other; the test of the rule.
    #[cfg(test)]
    equal: Vec<String>,
}

struct Rule {
    page: String,
    pattern: Regex,
    replacement: String,
}

/// What may differ between two runs.
pub(super) struct Layout {
    /// Why only the beginnings of outputs are compared: tables and findings depend on the
    /// processor, its number of CPUs and its counters. `None` on the machine of the pages.
    elsewhere: Option<String>,
    /// Why this system refuses the demo its user namespace, if so.
    refused: Option<String>,
    number: Regex,
    rules: Vec<Rule>,
}

/// Differences between a page and the present outputs of its commands.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Differences that need a mend.
    pub(super) failed: Vec<String>,
    /// Differences in outputs of measurements, whose findings and rows may also be new: to be
    /// looked at.
    pub(super) noted: Vec<String>,
}

/// Commands whose output depends on what they measure.
const MEASURING: [&str; 13] = [
    "linerate diff",
    "linerate doctor",
    "linerate export target",
    "linerate kernels",
    "linerate memory",
    "linerate profile",
    "linerate run",
    "linerate stat ",
    "linerate stream",
    "linerate tcp",
    "linerate top",
    "linerate tune",
    "linerate why",
];

/// Returns whether a command measures, other than to show its help.
fn is_measured(command: &str) -> bool {
    let is_cargo = command.contains("cargo run");
    let measures = MEASURING.iter().any(|one| command.contains(one));
    (is_cargo || measures) && !command.ends_with(" -h")
}

impl Layout {
    /// Reads the list of what may differ, and determines what can be compared here.
    pub(super) fn new() -> Result<Self, String> {
        let data = data()?;
        let rules: Result<Vec<Rule>, String> = data.rule.iter().map(compiled).collect();
        let number = regex(NUMBER)?;
        let refused = output(program("unshare", &["-Urn", "true"])).err();
        Ok(Self { elsewhere: elsewhere(&data.machine, &machine()), refused, number, rules: rules? })
    }

    /// Compares each command's output on a page with its present output.
    pub(super) fn changes(&self, page: &str, text: &str, now: &str) -> Changes {
        let mut changes = Changes::default();
        for ((command, then), (_, now)) in outputs(text).iter().zip(&outputs(now)) {
            if self.refused.is_some() && command.contains("--demo") {
                continue;
            }
            let message = |why| {
                format!("{page}: `{command}`: {why}; `cargo xtask splice {page}` updates the page")
            };
            let words = || self.difference(page, then, now).filter(|_| self.elsewhere.is_none());
            let is_measured = is_measured(command);
            match (changed_beginning(then, now), words()) {
                (Some(why), _) => changes.failed.push(message(why)),
                (None, Some(why)) if is_measured => changes.noted.push(message(why)),
                (None, Some(why)) => changes.failed.push(message(why)),
                (None, None) => {}
            }
        }
        changes
    }

    /// Returns what [`Self::changes()`] does not compare.
    pub(super) fn skips(&self) -> Vec<String> {
        let words = self.elsewhere.iter();
        let words = words.map(|why| format!("SKIP all but the first word of each output: {why}"));
        let demo = self.refused.iter().map(|why| format!("SKIP outputs of --demo: {why}"));
        words.chain(demo).collect()
    }

    /// Returns the first difference between the layouts of two outputs on a page.
    fn difference(&self, page: &str, then: &str, now: &str) -> Option<String> {
        let (then, now) = (self.words(page, then), self.words(page, now));
        let same = then.iter().zip(&now).take_while(|(then, now)| then == now).count();
        if same == then.len() && same == now.len() {
            return None;
        }
        let excerpt = |words: &[String]| {
            let to = words.len().min(same + SHOWN);
            words[same.saturating_sub(SHOWN)..to].join(" ")
        };
        Some(format!("was `{}`, is `{}` (numbers masked)", excerpt(&then), excerpt(&now)))
    }

    fn words(&self, page: &str, output: &str) -> Vec<String> {
        let mut text = self.number.replace_all(output, "0").into_owned();
        for rule in self.rules.iter().filter(|rule| page.starts_with(&rule.page)) {
            text = rule.pattern.replace_all(&text, rule.replacement.as_str()).into_owned();
        }
        let words = text.split_whitespace().map(|word| if word == "-" { "0" } else { word });
        let words = words.filter(|word| word.contains(char::is_alphanumeric));
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        words.dedup_by(|word, before| word == "0" && before == "0");
        words
    }
}

fn data() -> Result<Data, String> {
    toml::from_str(DATA).map_err(|error| format!("varying.toml: {error}"))
}

fn compiled(entry: &Entry) -> Result<Rule, String> {
    let pattern = regex(&format!("(?m){}", entry.pattern.replace(' ', r"\s+")))?;
    let (page, replacement) = (entry.page.clone(), entry.replacement.clone());
    Ok(Rule { page, pattern, replacement })
}

fn regex(pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| format!("varying.toml: `{pattern}`: {error}"))
}

/// Returns why outputs of the machine `here` cannot be compared with pages measured on `there`.
fn elsewhere(there: &str, here: &str) -> Option<String> {
    (here != there)
        .then(|| format!("the pages show outputs of `{there}`, and this machine is `{here}`"))
}

/// Describes this machine: its processor, number of CPUs, and whether it has a PMU.
fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown", |(_, name)| name.trim());
    let cpus = text.lines().filter(|line| line.starts_with("processor")).count();
    let has_pmu = fs::exists("/sys/bus/event_source/devices/cpu").unwrap_or(false);
    format!("{model}, {cpus} CPUs, {} PMU", if has_pmu { "with" } else { "without" })
}

/// First words of outputs that may differ from run to run: "Keep" or "Call" a kernel variant, or a
/// masked speedup such as "1.9x". They count as equal.
const VERDICTS: [&str; 3] = ["Keep", "Call", "0x"];

/// Returns how the beginnings of two outputs differ: their first words, with numbers masked, and
/// with all [`VERDICTS`] equal.
fn changed_beginning(then: &str, now: &str) -> Option<String> {
    let beginning = |text: &str| {
        let first = masked(text.split_whitespace().next().unwrap_or_default());
        if VERDICTS.contains(&first.as_str()) { VERDICTS[0].to_owned() } else { first }
    };
    let (then, now) = (beginning(then), beginning(now));
    (then != now).then(|| format!("began with `{then}`, begins with `{now}`"))
}

/// Returns each command in the console blocks of a page, with its output.
fn outputs(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line == "```console") {
        let mut is_command = false;
        for line in lines.by_ref().take_while(|line| *line != "```") {
            let start = line.strip_prefix("$ ").filter(|_| !is_command);
            match (start, found.last_mut()) {
                (Some(command), _) => found.push((command.to_owned(), String::new())),
                (None, Some((command, _))) if is_command => *command += &format!("\n{line}"),
                (None, Some((_, output))) => *output += &format!("{line}\n"),
                (None, None) => {}
            }
            is_command = (start.is_some() || is_command) && line.ends_with('\\');
        }
    }
    found
}

/// Replaces each number in a word with `0`.
fn masked(word: &str) -> String {
    let mut masked = String::new();
    for c in word.chars() {
        match c {
            '0'..='9' | '.' if masked.ends_with('0') => {}
            '0'..='9' => masked.push('0'),
            _ => masked.push(c),
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_line_breaks_may_differ_and_words_may_not() {
        let layout = empty();
        let then = "loss   1.5 % of 1,200 packets,\n  at eth0\n▁▂▃\nns  -  3 4\n";
        assert_eq!(layout.difference("", then, "loss 12 % of 3\n packets, at eth0 ▃ ns 5\n"), None);
        let why = layout.difference("", then, "loss 1 % of 3 frames, at eth0 ns 5").unwrap();
        assert!(why.contains("0 packets, at eth0 ns 0`, is `loss 0 of 0 frames, at"), "{why}");
        let why = layout.difference("", "a b c", "a b").unwrap();
        assert!(why.starts_with("was `a b c`, is `a b`"), "{why}");
    }

    #[test]
    fn an_output_of_another_machine_is_not_compared() {
        assert_eq!(elsewhere(&machine(), &machine()), None);
        let layout = Layout { elsewhere: elsewhere("Z80", &machine()), ..empty() };
        let page = |words: &str| format!("```console\n$ a\n{words}\n```\n");
        assert_eq!(layout.changes("a.md", &page("b c"), &page("b d")), Changes::default());
        assert_eq!(layout.changes("a.md", &page("b c"), &page("d c")).failed.len(), 1);
        assert!(layout.skips()[0].contains("outputs of `Z80`"), "{:?}", layout.skips());
        assert_eq!(empty().changes("a.md", &page("b c"), &page("b d")).failed.len(), 1);
        assert_eq!(empty().skips(), Vec::<String>::new());
    }

    #[test]
    fn other_words_in_a_measurement_are_listed() {
        let page = |command: &str, words: &str| format!("```console\n$ {command}\n{words}\n```\n");
        let changes = |command: &str| {
            let (then, now) = (page(command, "best: a by 3 %"), page(command, "best: b by 4 %"));
            let changes = empty().changes("a.md", &then, &now);
            (changes.failed.len(), changes.noted.len())
        };
        assert_eq!(changes("linerate tune examples/edge.toml | head -n 8"), (0, 1));
        assert_eq!(changes("linerate tune -h"), (1, 0));
        assert_eq!(changes("linerate stages forward"), (1, 0));
        assert_eq!(changes("linerate plan --machine t1 examples/edge.toml"), (1, 0));
    }

    #[test]
    fn an_output_of_the_demo_is_not_compared_where_it_is_refused() {
        let layout = Layout { refused: Some("no".to_owned()), ..empty() };
        let page = |words: &str| format!("```console\n$ why --demo\n{words}\n```\n");
        assert_eq!(layout.changes("a.md", &page("b c"), &page("")), Changes::default());
        assert_eq!(layout.skips(), ["SKIP outputs of --demo: no"]);
        assert_eq!(empty().changes("a.md", &page("b c"), &page("")).failed.len(), 1);
    }

    fn empty() -> Layout {
        let number = regex(NUMBER).unwrap();
        Layout { elsewhere: None, refused: None, number, rules: Vec::new() }
    }

    #[test]
    fn each_rule_is_needed_and_makes_its_texts_equal() {
        let layout = Layout::new().unwrap();
        for entry in &data().unwrap().rule {
            assert!(entry.equal.len() > 1, "{}: fewer than two texts", entry.pattern);
            let bare = empty();
            let [first, others @ ..] = &entry.equal[..] else { unreachable!() };
            for other in others {
                assert!(bare.difference(&entry.page, first, other).is_some(), "{}", entry.pattern);
                let rules = vec![compiled(entry).unwrap()];
                let alone = Layout { rules, ..empty() };
                assert_eq!(alone.difference(&entry.page, first, other), None);
                assert_eq!(layout.difference(&entry.page, first, other), None);
            }
        }
    }

    #[test]
    fn verdicts_that_depend_on_the_run_begin_alike() {
        for answer in ["Call `adc`", "1.8x by merge"] {
            assert_eq!(changed_beginning("Keep `selected`", answer), None);
        }
        let why = changed_beginning("path   edge\nmore", "error: no").unwrap();
        assert_eq!(why, "began with `path`, begins with `error:`");
        assert_eq!(["2.05x", "L1", "0.215", "a-1.5.b"].map(masked), ["0x", "L0", "0", "a-0b"]);
    }

    #[test]
    fn finds_each_command_with_its_output() {
        let text = "$ prose\n```console\n$ a b | \\\nc\npath   edge\nmore\n$ d\nbest tier\n```\n\n\
                    ```text\n$ no\n```\n```console\n$ e\n```\n";
        let wanted = [("a b | \\\nc", "path   edge\nmore\n"), ("d", "best tier\n"), ("e", "")];
        assert_eq!(outputs(text), wanted.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(outputs("no block\n$ a\nb\n"), Vec::new());
    }
}
