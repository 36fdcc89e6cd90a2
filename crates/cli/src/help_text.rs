// SPDX-License-Identifier: MIT OR Apache-2.0
//! Help text that follows a command's options. `--help` prints all of it, `-h` only examples.

/// Number of example lines that `-h` prints; small enough for every command's help to fit on one
/// screen.
const EXAMPLES: usize = 4;

/// Returns the first examples from a command's full help, for `-h`. Examples are the indented
/// lines.
pub(crate) fn examples(full: &str) -> String {
    let lines: Vec<&str> = full.lines().filter(|line| line.starts_with("  ")).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("Examples:\n{}", lines[..lines.len().min(EXAMPLES)].join("\n")),
    }
}

/// Returns a command's full help for `--help`, with one line per paragraph for clap to wrap.
pub(crate) fn paragraphs(full: &str) -> String {
    let mut text = String::new();
    let mut follows_prose = false;
    for line in full.lines() {
        let is_prose = !line.is_empty() && !line.starts_with("  ");
        text.push(if is_prose && follows_prose { ' ' } else { '\n' });
        text += line;
        follows_prose = is_prose;
    }
    text.trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_wrapped_but_for_its_examples() {
        let full = "Of one\nparagraph. Examples:\n\n  linerate a\n  linerate b\n\nOf another.";
        let wrapped = "Of one paragraph. Examples:\n\n  linerate a\n  linerate b\n\nOf another.";
        assert_eq!(paragraphs(full), wrapped);
        assert_eq!(examples(full), "Examples:\n  linerate a\n  linerate b");
        assert_eq!(examples("None."), "");
    }
}
