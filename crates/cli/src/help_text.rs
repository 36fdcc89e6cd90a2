// SPDX-License-Identifier: MIT OR Apache-2.0
//! The help text that follows a command's options: all of it for `--help`, only examples for `-h`.

/// Number of example lines that `-h` shows: few enough that the help of every command fits on one
/// screen.
const EXAMPLES: usize = 4;

/// The first examples in a command's full help, for `-h`. Examples are the indented lines.
pub(crate) fn examples(full: &str) -> String {
    let lines: Vec<&str> = full.lines().filter(|line| line.starts_with("  ")).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("Examples:\n{}", lines[..lines.len().min(EXAMPLES)].join("\n")),
    }
}

/// A command's full help for `--help`, one line per paragraph; clap wraps it to the terminal width.
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
