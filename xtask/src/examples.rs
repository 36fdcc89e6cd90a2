// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands the README shows, run as a reader would type them.

use crate::command::{program, root, status};

/// The lines of fenced blocks that run the program, a prompt removed.
fn commands(markdown: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            let command = line.trim().strip_prefix("$ ").unwrap_or(line.trim());
            if command.starts_with("cargo run ") {
                found.push(command);
            }
        }
    }
    found
}

/// Runs each command of the README. 0 and 1 are both answers ("done" and "the answer is no", which
/// a busy machine may well get); any other status is a failure.
pub(crate) fn check() -> Result<(), String> {
    let readme = std::fs::read_to_string(root().join("README.md"))
        .map_err(|e| format!("cannot read README.md: {e}"))?;
    let commands = commands(&readme);
    if commands.is_empty() {
        return Err("README.md shows no `cargo run` command in a fenced block".to_owned());
    }
    for command in commands {
        match status(program("sh", &["-c", command]))? {
            0 | 1 => {}
            code => return Err(format!("`{command}` ended with status {code}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::commands;

    #[test]
    fn takes_program_runs_out_of_fenced_blocks_only() {
        let text = "\
            cargo run prose\n```console\n$ cargo run --release -- a\noutput\n\
            cargo run -- b\n$ cargo test\n```\ncargo run -- c\n";
        assert_eq!(commands(text), ["cargo run --release -- a", "cargo run -- b"]);
    }
}
