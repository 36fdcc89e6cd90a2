// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats the report of a `doctor` record: which tiers work, what was observed, and all
//! recommended commands, for copying. Manual steps and steps on other machines are
//! shown as `#` comments.

use crate::layout::{Paint, fenced, labelled, limited, painted, stacked};
use crate::value::{ABSENT, clean, cut};
use crate::{Markup, Style};
use linerate_record::doctor::{DoctorReport, Observation, Section, TierState, Verdict};

/// Formats the report of `linerate doctor`. Commands may exceed `style.width`; those longer than
/// 100 columns continue on the next line after a backslash.
pub fn doctor(report: &DoctorReport, style: &Style) -> String {
    let names = report.observations.iter().map(|o| clean(&o.name).chars().count());
    let sheet = Sheet { column: names.max().unwrap_or(0) + 4, style };
    let sections = SECTIONS.iter().map(|(section, head)| {
        let items = report.observations.iter().filter(|o| o.section == *section);
        sheet.block(head, items.map(|o| sheet.observation(o)).collect())
    });
    let mut blocks = vec![
        labelled("best tier", Paint::Head, report.best_tier.name(), style)
            + &labelled("marks", Paint::Head, MARKS, style),
        sheet.block("tiers", report.tiers.iter().map(|tier| sheet.tier(tier)).collect()),
    ];
    blocks.extend(sections);
    let commands = fenced(&sheet.commands(report).concat(), style);
    blocks.push(sheet.block(COMMANDS, if commands.is_empty() { vec![] } else { vec![commands] }));
    stacked(&blocks)
}

/// Formats one screen: tiers, settings that reduce accuracy or speed, and commands.
pub(crate) fn screen(report: &DoctorReport, style: &Style) -> String {
    let is_wrong = |one: &&Observation| matches!(one.verdict, Verdict::Advice | Verdict::Missing);
    let wrong: Vec<&Observation> = report.observations.iter().filter(is_wrong).collect();
    let names = wrong.iter().map(|one| clean(&one.name).chars().count());
    let column = names.max().unwrap_or(0) + 4;
    let sheet = Sheet { column, style };
    let room = style.width.saturating_sub(column);
    let tiers = report.tiers.iter().map(|tier| {
        sheet.tier(&TierState { sentence: brief("", &tier.sentence, room), ..tier.clone() })
    });
    let tiers = tiers.collect();
    let wrong = wrong.into_iter().map(|one| {
        let (mark, paint) = mark(one.verdict);
        let value = one.value.as_deref().unwrap_or(ABSENT);
        sheet.item(mark, paint, &one.name, &brief(&format!("{value}; "), &one.sentence, room))
    });
    let wrong = wrong.collect();
    let commands = fenced(&sheet.commands(report).concat(), style);
    let commands = sheet.block(COMMANDS, if commands.is_empty() { vec![] } else { vec![commands] });
    let above =
        [sheet.block("tiers", tiers), limited(&sheet.block("costs accuracy or speed", wrong), 14)];
    let used: usize = above.iter().map(|block| block.lines().count()).sum();
    let left = LINES.saturating_sub(used).max(COMMAND_LINES_LEAST);
    stacked(&[&above[..], &[limited(&commands, left)]].concat())
}

/// Maximum number of lines on one screen for the tiers, the settings and the commands.
const LINES: usize = 34;
/// Minimum number of lines for the commands, regardless of the length of the preceding blocks.
const COMMAND_LINES_LEAST: usize = 9;

/// Shortens a value and the sentence about it to two lines of `columns`. The text is cut at the end
/// of a clause, because a partial clause is useless to the reader.
fn brief(value: &str, sentence: &str, columns: usize) -> String {
    let text = format!("{value}{sentence}");
    // The last word of the first line may have to move to the second.
    let room = (2 * columns).saturating_sub(12).max(columns);
    if text.chars().count() <= room {
        return text;
    }
    let fits = text.char_indices().nth(room).map_or(&text[..], |(end, _)| &text[..end]);
    let last = |ends: &[&str]| {
        ends.iter().filter_map(|end| fits.rfind(end)).filter(|end| *end > value.len()).max()
    };
    match last(&["; ", " (", ": "]).or_else(|| last(&[", "])) {
        Some(end) => text[..end].to_owned(),
        None => cut(&text, room),
    }
}

const SECTIONS: [(Section, &str); 5] = [
    (Section::Processor, "processor"),
    (Section::Topology, "topology"),
    (Section::Counters, "counters"),
    (Section::DataPlane, "data plane"),
    (Section::Programs, "programs watched"),
];

const COMMANDS: &str = "commands that would fix this (not run)";
const MARKS: &str = "+ good, ! costs accuracy or speed, x missing, ? unknown";

fn named(state: &TierState) -> String {
    let way = state.way.as_ref().map(|way| format!(" {way}"));
    state.tier.name().to_owned() + &way.unwrap_or_default()
}

/// Returns a verdict's mark and colour.
fn mark(verdict: Verdict) -> (&'static str, Option<Paint>) {
    match verdict {
        Verdict::Fact => (" ", None),
        Verdict::Good => ("+", Some(Paint::Good)),
        Verdict::Advice => ("!", Some(Paint::Warning)),
        Verdict::Missing => ("x", Some(Paint::Warning)),
        Verdict::Unknown => ("?", None),
    }
}

/// Minimum terminal width at which text is placed next to names.
const TWO_COLUMNS: usize = 72;

/// Text indentation and style.
struct Sheet<'a> {
    column: usize,
    style: &'a Style,
}

impl Sheet<'_> {
    /// Formats a heading with its items; empty if there are none.
    fn block(&self, head: &str, items: Vec<String>) -> String {
        if items.is_empty() {
            return String::new();
        }
        painted(Paint::Head, head, self.style) + "\n" + &items.concat()
    }

    fn tier(&self, state: &TierState) -> String {
        let (mark, paint) = if state.works { ("+", Paint::Good) } else { ("x", Paint::Warning) };
        self.item(mark, Some(paint), &named(state), &state.sentence)
    }

    fn observation(&self, observation: &Observation) -> String {
        let (mark, paint) = mark(observation.verdict);
        let value = observation.value.as_deref().unwrap_or(ABSENT);
        let text = format!("{value}; {}", observation.sentence);
        self.item(mark, paint, &observation.name, &text)
    }

    /// Formats a mark and a name, with `text` to their right or, on a narrow terminal, below.
    fn item(&self, mark: &str, paint: Option<Paint>, name: &str, text: &str) -> String {
        let label = format!("{mark} {}", clean(name));
        if self.style.markup == Markup::Markdown {
            return labelled(label.trim(), Paint::Head, &clean(text), self.style);
        }
        let is_beside = self.style.width >= TWO_COLUMNS;
        let indent = " ".repeat(if is_beside { self.column } else { 4 });
        let options = textwrap::Options::new(self.style.width)
            .initial_indent(&indent)
            .subsequent_indent(&indent);
        let body = textwrap::fill(&clean(text), options);
        let shown = paint.map_or(label.clone(), |paint| painted(paint, &label, self.style));
        match is_beside {
            true => {
                let beside = body.chars().skip(label.chars().count()).collect::<String>();
                format!("{shown}{beside}\n")
            }
            false => format!("{}\n{body}\n", shown.trim_end()),
        }
    }

    /// Returns the commands without duplicates. Each is preceded by a comment that names the tiers
    /// it would enable or, if there are none, the observations it would fix, followed by the
    /// command's own comment. A command that fixes both a tier and an observation is printed only
    /// with the tier.
    fn commands(&self, report: &DoctorReport) -> Vec<String> {
        let tiers = report.tiers.iter().map(|tier| (named(tier), &tier.fix));
        let observed = report.observations.iter().map(|o| (o.name.clone(), &o.fix));
        let tiers = grouped(tiers);
        let known = |fix: &str| tiers.iter().any(|(_, of_tier)| *of_tier == fix);
        let observed = grouped(observed).into_iter().filter(|(_, fix)| !known(fix));
        let named = tiers.iter().map(|(names, fix)| match names.len() {
            1 => (format!("tier {}", names[0]), *fix),
            _ => (format!("tiers {}", names.join(", ")), *fix),
        });
        let observed = observed.map(|(names, fix)| (names.join(", "), fix));
        let item = |(names, fix): (String, &str)| match fix.split_once("  # ") {
            Some((command, why)) => {
                let comment = format!("# {}: {}", clean(&names), clean(why));
                format!("{}\n{}\n", broken(&comment), broken(&clean(command)))
            }
            None => {
                let comment = format!("# {}", clean(&names));
                format!("{}\n{}\n", broken(&comment), broken(&clean(fix)))
            }
        };
        named.chain(observed).map(item).collect()
    }
}

/// Maximum width of a command or of its comment.
const COMMAND_COLUMNS: usize = 100;

/// Breaks a comment into several, and a command at spaces outside quotes, after a backslash, so
/// that a shell still reads it as one.
fn broken(line: &str) -> String {
    const INDENT: &str = "    ";
    const BACKSLASH: &str = " \\";
    if line.chars().count() <= COMMAND_COLUMNS {
        return line.to_owned();
    }
    if let Some(comment) = line.strip_prefix("# ") {
        let options = textwrap::Options::new(COMMAND_COLUMNS)
            .word_splitter(textwrap::WordSplitter::NoHyphenation)
            .initial_indent("# ")
            .subsequent_indent("# ");
        return textwrap::fill(comment, options);
    }
    let (mut all, mut current) = (String::new(), String::new());
    for word in words(line) {
        let width = current.chars().count() + 1 + word.chars().count() + BACKSLASH.len();
        if current.is_empty() {
            current += word;
        } else if width <= COMMAND_COLUMNS {
            current = format!("{current} {word}");
        } else {
            all += &format!("{current}{BACKSLASH}\n");
            current = format!("{INDENT}{word}");
        }
    }
    all + &current
}

/// Splits a command at spaces outside quotes. A comment is one word, with all that follows it.
fn words(command: &str) -> Vec<&str> {
    let (mut all, mut from, mut quote) = (Vec::new(), 0, None);
    for (at, c) in command.char_indices() {
        match (quote, c) {
            (None, '#') if at == from => break,
            (None, ' ') => {
                all.push(&command[from..at]);
                from = at + 1;
            }
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    all.push(&command[from..]);
    all
}

/// Returns each fix once, in order of first appearance, with the names of all tiers or observations
/// that it applies to.
fn grouped<'a>(
    all: impl Iterator<Item = (String, &'a Option<String>)>,
) -> Vec<(Vec<String>, &'a str)> {
    let mut groups: Vec<(Vec<String>, &str)> = Vec::new();
    for (name, fix) in all {
        let Some(fix) = fix else { continue };
        match groups.iter_mut().find(|(_, known)| known == fix) {
            Some((names, _)) => names.push(name),
            None => groups.push((vec![name], fix)),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_continue_after_a_backslash_and_stay_the_same_command() {
        let loops = "for i in $(seq 25 26) 29 31 33 35 38 40 42; do echo 0 | sudo tee \
                     /proc/irq/$i/smp_affinity_list; done";
        let quoted = format!("sudo grubby --args='{}' --update-kernel=ALL", "isolcpus ".repeat(9));
        let noted = format!("sudo true {} # a comment {}", "a ".repeat(30), "b ".repeat(30));
        for command in [loops, &quoted, &noted, "sudo short"] {
            let text = broken(command);
            assert_eq!(text.replace(" \\\n    ", " "), command);
            let is_long = command.len() > COMMAND_COLUMNS;
            assert_eq!(text.contains(" \\\n"), is_long, "{text}");
            let first = text.lines().next().unwrap_or_default();
            assert!(first.len() <= COMMAND_COLUMNS && first.matches('\'').count() != 1, "{text}");
        }
        let comment = broken(&format!("# tiers hw, user: {}", "on the host ".repeat(12)));
        assert!(comment.lines().count() == 2 && comment.lines().all(|line| line.starts_with("# ")));
        assert!(comment.lines().all(|line| line.len() <= COMMAND_COLUMNS), "{comment}");
    }
}
