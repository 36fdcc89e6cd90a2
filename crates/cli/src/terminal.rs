// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sanitizes terminal output, so that file names, user input and text from records cannot inject
//! control sequences.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::str::Utf8Chunk;

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

/// Returns whether a character controls the terminal or reorders text rather than just being
/// displayed.
fn steers(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control() && c != '\n' && c != '\t'
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

/// Quotes a word for the shell if needed. Control characters and bytes that are not UTF-8, which a
/// terminal would not show, are written in octal within `$'...'`, as POSIX.1-2024 defines.
pub(crate) fn quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=".contains(c);
    match word.to_str().filter(|word| !word.contains(steers)) {
        Some(word) if !word.is_empty() && word.chars().all(is_plain) => word.to_owned(),
        Some(word) => format!("'{}'", word.replace('\'', r"'\''")),
        None => format!("$'{}'", word.as_bytes().utf8_chunks().map(escaped).collect::<String>()),
    }
}

/// Escapes a part of a word for `$'...'`.
fn escaped(part: Utf8Chunk<'_>) -> String {
    let octal = |byte: &u8| format!("\\{byte:03o}");
    let escape = |c: char| match c {
        '\'' | '\\' => format!("\\{c}"),
        c if steers(c) => c.to_string().as_bytes().iter().map(octal).collect(),
        c => c.to_string(),
    };
    let valid: String = part.valid().chars().map(escape).collect();
    valid + &part.invalid().iter().map(octal).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn spells_out_what_would_steer_a_terminal() {
        assert!(matches!(safe("a µ\tb\n", false), Cow::Borrowed("a µ\tb\n")));
        let steering = "\u{1b}[2Jx\r\u{9b}1m\u{202e}";
        assert_eq!(safe(steering, false), "\\u001b[2Jx\\u000d\\u009b1m\\u202e");
        assert_eq!(safe("a,b\r\nc\rd\r\n", false), "a,b\r\nc\\u000dd\r\n");
        assert_eq!(safe("\u{1b}[1;31mx\u{1b}[0m", true), "\u{1b}[1;31mx\u{1b}[0m");
        assert_eq!(safe("\u{1b}[2J\u{1b}[1mx\u{1b}", true), "\\u001b[2J\u{1b}[1mx\\u001b");
    }

    #[test]
    fn quotes_words_for_a_shell() {
        let all = ["a/b-c.json", "r e.json", "it's", ""].map(quoted);
        assert_eq!(all, ["a/b-c.json", "'r e.json'", "'it'\\''s'", "''"]);
    }

    #[test]
    fn words_that_a_terminal_cannot_show_stay_the_same_to_a_shell() {
        let odd = [&b"it's \\ \xff1.json"[..], b"\xe2\x80\xae\r1", b"a\xc3"].map(OsStr::from_bytes);
        let all = odd.map(quoted);
        assert_eq!(all, [r"$'it\'s \\ \3771.json'", r"$'\342\200\256\0151'", r"$'a\303'"]);
        for (word, quoted) in odd.iter().zip(all) {
            let line = format!("printf %s {quoted}");
            // A shell without `$'...'` shows nothing here.
            let Ok(read) = Command::new("bash").args(["-c", &line]).output() else { continue };
            assert_eq!(OsStr::from_bytes(&read.stdout), *word, "{line}");
        }
    }
}
