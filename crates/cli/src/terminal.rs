// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sanitizes terminal output, so that file names, user input and text from records cannot inject
//! control sequences.

use linerate_record::shell::steers_terminal;
use std::borrow::Cow;
use std::fmt::Write;

/// Escapes control characters, including bidirectional controls, in JSON syntax (`\u001b`), so that
/// JSON output keeps its meaning. Keeps line endings (including the CRLF of CSV), tabs and, if
/// `has_colors` is set, colours.
pub(crate) fn safe(text: &str, has_colors: bool) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(steers) {
        let (before, from) = rest.split_at(at);
        safe += before;
        let length = match has_colors {
            _ if from.starts_with("\r\n") => 2,
            true => color_bytes(from),
            false => 0,
        };
        let (kept, behind) = from.split_at(length);
        safe += kept;
        rest = behind;
        if length == 0 {
            let mut chars = from.chars();
            // Writing to a String cannot fail.
            let _ = chars.next().map_or(Ok(()), |c| write!(safe, "\\u{:04x}", u32::from(c)));
            rest = chars.as_str();
        }
    }
    Cow::Owned(safe + rest)
}

/// Returns whether a character affects the terminal by more than a new line or a tab.
fn steers(c: char) -> bool {
    steers_terminal(c) && c != '\n' && c != '\t'
}

/// Returns the length in bytes of the colour escape sequence at the start of a string; 0 if there
/// is none.
fn color_bytes(text: &str) -> usize {
    let Some(inner) = text.strip_prefix("\u{1b}[") else { return 0 };
    let digits = inner.find(|c: char| !c.is_ascii_digit() && c != ';');
    match digits.filter(|end| inner[*end..].starts_with('m')) {
        Some(end) => "\u{1b}[".len() + end + 1,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spells_out_what_would_steer_a_terminal() {
        assert!(matches!(safe("a µ\tb\n", false), Cow::Borrowed("a µ\tb\n")));
        let steering = "\u{1b}[2Jx\r\u{9b}1m\u{202e}";
        assert_eq!(safe(steering, false), "\\u001b[2Jx\\u000d\\u009b1m\\u202e");
        assert_eq!(safe("a,b\r\nc\rd\r\n", false), "a,b\r\nc\\u000dd\r\n");
        assert_eq!(safe("\u{1b}[1;31mx\u{1b}[0m", true), "\u{1b}[1;31mx\u{1b}[0m");
        assert_eq!(safe("\u{1b}[2J\u{1b}[1mx\u{1b}", true), "\\u001b[2J\u{1b}[1mx\\u001b");
    }
}
