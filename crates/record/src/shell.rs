// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quoting for a shell: a command in a record, a report or a message can be copied to a shell,
//! which reads it back unchanged, and it does not affect the terminal that shows it.
//!
//! ```text
//! letters, digits, /._-+=,:@%           as they are
//! other characters                      within '...'; a quote in them is '\''
//! words with what no terminal shows     within $'...': \n, \t, and \ooo for other bytes
//! ```
//!
//! `$'...'` is in POSIX.1-2024; bash(1), ksh(1) and zsh(1) have had it for long, but dash(1) does
//! not read it.

use std::ffi::OsStr;
use std::str::Utf8Chunk;

/// Returns whether a character controls the terminal or reorders text rather than just being
/// displayed.
pub fn steers_terminal(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Quotes a word for a shell if needed.
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=,:@%".contains(c);
    match word.to_str().filter(|word| !word.contains(steers_terminal)) {
        Some(word) if !word.is_empty() && word.chars().all(is_plain) => word.to_owned(),
        Some(word) => format!("'{}'", word.replace('\'', r"'\''")),
        None => {
            let parts = word.as_encoded_bytes().utf8_chunks().map(escaped);
            format!("$'{}'", parts.collect::<String>())
        }
    }
}

/// Quotes the words of a command for a shell, separated by spaces.
pub fn command_line<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Escapes a part of a word for `$'...'`.
fn escaped(part: Utf8Chunk<'_>) -> String {
    let octal = |byte: &u8| format!("\\{byte:03o}");
    let escape = |c: char| match c {
        '\n' => r"\n".to_owned(),
        '\t' => r"\t".to_owned(),
        '\'' | '\\' => format!("\\{c}"),
        c if steers_terminal(c) => c.to_string().as_bytes().iter().map(octal).collect(),
        c => c.to_string(),
    };
    let valid: String = part.valid().chars().map(escape).collect();
    valid + &part.invalid().iter().map(octal).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn words_are_quoted_only_if_needed() {
        let all = ["a/b-c.json", "--size=64,1460", "r e.json", "it's", "µ", ""].map(quoted);
        assert_eq!(all, ["a/b-c.json", "--size=64,1460", "'r e.json'", r"'it'\''s'", "'µ'", "''"]);
        assert_eq!(command_line(["sh", "-c", "exit 0"]), "sh -c 'exit 0'");
    }

    #[test]
    fn what_a_terminal_does_not_show_is_escaped() {
        let all = ["a\nb\t'\\", "\x1b[\u{85}1", "\u{202e}"].map(quoted);
        assert_eq!(all, [r"$'a\nb\t\'\\'", r"$'\033[\302\2051'", r"$'\342\200\256'"]);
        let odd = [&b"it's \\ \xff1.json"[..], b"a\xc3"].map(OsStr::from_bytes);
        assert_eq!(odd.map(quoted), [r"$'it\'s \\ \3771.json'", r"$'a\303'"]);
    }
}
