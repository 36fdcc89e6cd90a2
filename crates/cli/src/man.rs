// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate man`: writes the manual pages.
//!
//! `clap_mangen` renders the command line. This module divides the text after a command's options
//! into the usual sections of a manual page.

use crate::args::{Cli, ManArgs};
use crate::failure::Failure;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::fs;
use std::io;
use std::path::Path;

/// Writes a manual page for the program and for each command. Returns their paths, one per line.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub(crate) fn man(args: &ManArgs) -> Result<String, Failure> {
    let cannot =
        |error: io::Error| Failure::new(format!("cannot write to {}: {error}", args.dir.display()));
    fs::create_dir_all(&args.dir).map_err(cannot)?;
    let mut whole = Cli::command().disable_help_subcommand(true);
    whole.build();
    let mut pages = vec![page(&whole, &args.dir).map_err(cannot)?];
    for command in whole.get_subcommands().filter(|command| !command.is_hide_set()) {
        pages.push(page(command, &args.dir).map_err(cannot)?);
    }
    pages.sort_unstable();
    Ok(pages.iter().map(|page| format!("{page}\n")).collect())
}

/// Writes a command's page; returns its path.
fn page(command: &Command, dir: &Path) -> io::Result<String> {
    let man = Man::new(command.clone());
    let path = dir.join(man.get_filename());
    let mut rendered = Vec::new();
    man.render(&mut rendered)?;
    fs::write(&path, arranged(&String::from_utf8_lossy(&rendered), &Prose::of(command)))?;
    Ok(path.display().to_string())
}

const SECTION: &str = "\n.SH ";

/// Replaces two sections of a rendered page with the sections of `prose`: DESCRIPTION, which only
/// repeats the NAME section, and EXTRA, whose title does not suit its content.
fn arranged(rendered: &str, prose: &Prose) -> String {
    let mut sections = rendered.split(SECTION);
    let mut page = sections.next().unwrap_or_default().to_owned();
    let add = |page: &mut String, title: &str, body: &str| {
        if !body.trim().is_empty() {
            *page = format!("{}{SECTION}{title}\n{}\n", page.trim_end(), body.trim_end());
        }
    };
    for section in sections {
        let (title, body) = section.split_once('\n').unwrap_or((section, ""));
        match title {
            "DESCRIPTION" => add(&mut page, title, &prose.description),
            "EXTRA" => {}
            _ => add(&mut page, title, body),
        }
    }
    for (title, body) in prose.last() {
        add(&mut page, title, body);
    }
    page
}

/// The text after a command's options, divided into the sections of a manual page.
#[derive(Debug, Default)]
struct Prose {
    description: String,
    examples: String,
    status: String,
    see_also: String,
}

impl Prose {
    fn of(command: &Command) -> Self {
        let text = command.get_after_long_help().or_else(|| command.get_after_help());
        let mut prose = Self::divided(&text.map(ToString::to_string).unwrap_or_default());
        let first = match command.get_name() {
            "linerate" => String::new(),
            _ => "linerate(1); ".to_owned(),
        };
        let documents = format!("{first}README.md and docs/ in linerate's source repository");
        prose.see_also = Roff::new().text([roman(documents)]).to_roff();
        prose
    }

    /// Divides a help text into sections. Indented lines are examples if they follow `Examples:` or
    /// are commands. A paragraph that begins with `Exit status` becomes the section of that name.
    fn divided(text: &str) -> Self {
        let mut prose = Self::default();
        let mut is_example = false;
        for block in blocks(text) {
            match block {
                Block::Indented(lines) if is_example || are_commands(&lines) => {
                    prose.examples += &verbatim(&lines);
                }
                Block::Indented(lines) => prose.description += &verbatim(&lines),
                Block::Paragraph(text) => {
                    let without = text.strip_suffix("Examples:");
                    is_example = without.is_some();
                    let text = without.unwrap_or(&text).trim();
                    match text.strip_prefix("Exit status") {
                        Some(status) => {
                            prose.status += &paragraph(status.trim_start_matches(':').trim());
                        }
                        None => prose.description += &paragraph(text),
                    }
                }
            }
        }
        prose
    }

    /// Returns the sections that follow OPTIONS in the page, with their titles.
    fn last(&self) -> [(&str, &str); 3] {
        [("EXIT STATUS", &self.status), ("EXAMPLES", &self.examples), ("SEE ALSO", &self.see_also)]
    }
}

enum Block {
    Paragraph(String),
    Indented(Vec<String>),
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut follows_blank = true;
    for line in text.lines() {
        let is_indented = line.starts_with("  ");
        match blocks.last_mut() {
            _ if line.trim().is_empty() => {}
            Some(Block::Indented(lines)) if is_indented => lines.push(line.to_owned()),
            Some(Block::Paragraph(text)) if !is_indented && !follows_blank => {
                text.push(' ');
                text.push_str(line);
            }
            _ if is_indented => blocks.push(Block::Indented(vec![line.to_owned()])),
            _ => blocks.push(Block::Paragraph(line.to_owned())),
        }
        follows_blank = line.trim().is_empty();
    }
    blocks
}

fn are_commands(lines: &[String]) -> bool {
    lines.iter().all(|line| line.starts_with("  linerate "))
}

fn paragraph(text: &str) -> String {
    match text.is_empty() {
        true => String::new(),
        false => format!(".PP\n{}", Roff::new().text([roman(text)]).to_roff()),
    }
}

/// Formats lines as a block in which line breaks are preserved.
fn verbatim(lines: &[String]) -> String {
    let lines = lines.iter().map(|line| Roff::new().text([roman(line)]).to_roff());
    format!(".PP\n.nf\n{}.fi\n", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_for_each_command() {
        let dir = tempfile::tempdir().unwrap();
        let files = man(&ManArgs { dir: dir.path().join("man1") }).unwrap();
        assert_eq!(files.lines().count(), Cli::command().get_subcommands().count() + 1);
        let page = fs::read_to_string(dir.path().join("man1/linerate-run.1")).unwrap();
        assert!(page.contains("\\-\\-oversubscribe"), "{page}");
        for file in files.lines() {
            let page = fs::read_to_string(file).unwrap();
            assert!(!page.contains(".SH EXTRA") && page.contains(".SH NAME"), "{file}: {page}");
            assert_eq!(page.matches(".SH SEE ALSO").count(), 1, "{file}: {page}");
        }
    }

    #[test]
    fn the_description_does_not_repeat_the_name() {
        let dir = tempfile::tempdir().unwrap();
        man(&ManArgs { dir: dir.path().to_owned() }).unwrap();
        let page = fs::read_to_string(dir.path().join("linerate-why.1")).unwrap();
        assert_eq!(page.matches("Explain why a running program").count(), 1, "{page}");
        let titles: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        let expected =
            ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"];
        assert_eq!(titles, expected, "{page}");
    }

    #[test]
    fn help_is_divided_into_sections() {
        let text = "Of one.\n\n  name  what it is\n\nMore. Examples:\n\n  linerate a\n  linerate b\
                    \n\nLast.\n\nExit status: 0.";
        let prose = Prose::divided(text);
        assert_eq!(
            prose.description,
            ".PP\nOf one.\n.PP\n.nf\n  name  what it is\n.fi\n.PP\nMore.\n.PP\nLast.\n"
        );
        assert_eq!(prose.examples, ".PP\n.nf\n  linerate a\n  linerate b\n.fi\n");
        assert_eq!(prose.status, ".PP\n0.\n");
    }
}
