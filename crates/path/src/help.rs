// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates the help text for every section and key of a path file.

use crate::keys::{FILE, Key, Kind, Omitted, Section, toml_of};
use crate::spec::Kinds;
use crate::suggest::list;
use crate::value::expected;
use std::fmt::Write;

/// Returns the help text for all keys of a path file and all parameters of `kinds`, by section.
pub fn help<'k>(kinds: impl Into<Kinds<'k>>) -> String {
    let mut text = String::new();
    section(&mut text, &FILE, kinds.into());
    text
}

/// Longest line, in characters.
const WIDTH: usize = 100;

/// Appends an indented line; text that does not fit continues on the following lines, indented
/// further.
fn line(out: &mut String, indent: usize, words: std::fmt::Arguments<'_>) {
    let text = words.to_string();
    let mut column = indent;
    let _ = write!(out, "{:indent$}", "");
    for (index, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > WIDTH {
            column = indent + 2;
            let _ = write!(out, "\n{:column$}", "");
        } else if index > 0 {
            column += 1;
            out.push(' ');
        }
        column += length;
        out.push_str(word);
    }
    out.push('\n');
}

fn section(out: &mut String, section: &Section, kinds: Kinds<'_>) {
    let title = if section.title.is_empty() { "At the top of the file" } else { section.title };
    line(out, 0, format_args!("{title}: {}", section.help));
    let variants = section.variants(kinds);
    for key in section.keys.iter().filter(|key| inner_section(key).is_none()) {
        let what = match key.kind {
            Kind::Variant if !variants.is_empty() => {
                format!("one of {}", list(variants.iter().map(|v| v.kind)))
            }
            kind => expected(&kind),
        };
        one_key(out, 2, key, &what);
    }
    for variant in &variants {
        line(out, 2, format_args!("kind = \"{}\": {}", variant.kind, variant.help));
        variant.keys.iter().for_each(|key| one_key(out, 4, key, &expected(&key.kind)));
    }
    for inner in section.keys.iter().filter_map(inner_section) {
        out.push('\n');
        self::section(out, inner, kinds);
    }
}

fn inner_section(key: &Key) -> Option<&'static Section> {
    match key.kind {
        Kind::Table(section) | Kind::Tables(section) => Some(section),
        _ => None,
    }
}

fn one_key(out: &mut String, indent: usize, key: &Key, what: &str) {
    let omitted = match key.omitted {
        Omitted::Is(default) => {
            toml_of(default).map_or("required".to_owned(), |text| format!("default {text}"))
        }
        Omitted::Means(meaning) => format!("default: {meaning}"),
        Omitted::EmptySection => "optional".to_owned(),
    };
    line(out, indent, format_args!("{} - {what}; {omitted}", key.name));
    line(out, indent + 4, format_args!("{}", key.help));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_continue_with_a_deeper_indent() {
        let mut out = String::new();
        line(&mut out, 4, format_args!("{}", ["word"; 30].join(" ")));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].chars().count() <= WIDTH && lines[0].chars().count() + 5 > WIDTH);
        assert!(lines[1].starts_with("      word"));
    }

    #[test]
    fn a_word_longer_than_a_line_is_not_cut() {
        let mut out = String::new();
        line(&mut out, 2, format_args!("{}", "x".repeat(120)));
        assert_eq!(out, format!("  {}\n", "x".repeat(120)));
    }
}
