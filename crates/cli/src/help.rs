// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assembles the command line, with its grouped help, shell completions and manual pages.

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::failure::Failure;
use clap::{Command, CommandFactory};
use std::fmt::Write;
use std::fs;

/// Commands, grouped by the question they answer.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Measure",
        &["why", "profile", "top", "run", "stat", "memory", "kernels", "stream", "tcp", "regions"],
    ),
    ("Explain", &["explain", "diff", "report", "import", "export"]),
    ("Fix", &["tune", "plan", "budget"]),
    ("Look up", &["doctor", "stages", "new-stage", "schema", "completions", "man"]),
];

/// Commands to try first after installing.
const TRY: &str = "\
Try first:
  linerate why --demo                diagnose a demo program that drops packets; no root needed
  linerate why PID                   find out what limits a running program
  linerate tune examples/edge.toml   find and remove a packet path's bottleneck";

/// Returns the text that is printed if no command is given.
pub(crate) fn first() -> String {
    format!(
        "linerate finds out why packet software misses line rate, and fixes \
         it.\n\n{TRY}\n\nlinerate -h lists the commands; linerate COMMAND -h prints short help, \
         and linerate COMMAND --help prints the full help.\n"
    )
}

/// Returns the definition of the command-line interface. Subcommands are grouped in the help text
/// and built on demand.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let groups = groups(&command);
    let template = format!(
        "{{about}}\n{{usage-heading}} {{usage}}\n\n{TRY}\n\n{groups}Options:\n\
         {{options}}{{after-help}}\n"
    );
    command.help_template(template)
}

/// Commands that share the last line of their group, so that the help fits on a screen.
const ON_ONE_LINE: [&str; 3] = ["schema", "completions", "man"];

fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "{heading}:");
        let (together, alone): (Vec<&str>, Vec<&str>) =
            names.iter().partition(|name| ON_ONE_LINE.contains(name));
        for name in alone {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:<11}  {about}");
        }
        if !together.is_empty() {
            let names = together.join(" | ");
            let _ = writeln!(text, "  {names}  JSON schemas, shell completions, manual pages");
        }
        text.push('\n');
    }
    text
}

/// Returns the completion script for a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> String {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "linerate", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes a manual page for the program and for each command. Returns their paths, one per line.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub(crate) fn man(args: &ManArgs) -> Result<String, Failure> {
    let cannot = |error: std::io::Error| Failure::new(format!("{}: {error}", args.dir.display()));
    fs::create_dir_all(&args.dir).map_err(cannot)?;
    let whole = Cli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(whole, &args.dir).map_err(cannot)?;
    let pages = fs::read_dir(&args.dir).map_err(cannot)?;
    let pages: std::io::Result<Vec<_>> = pages.map(|page| Ok(page?.path())).collect();
    let mut pages = pages.map_err(cannot)?;
    pages.retain(|page| page.file_name().is_some_and(is_ours));
    pages.sort_unstable();
    Ok(pages.iter().map(|page| format!("{}\n", page.display())).collect())
}

fn is_ours(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("linerate") && name.ends_with(".1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter()).collect();
        let mut all: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert!(all.iter().eq(grouped.into_iter()), "{all:?}");
    }

    #[test]
    fn the_help_fits_a_screen() {
        let help = command().render_help().to_string();
        assert!(help.lines().count() <= 45, "{help}");
        assert!(help.lines().all(|line| line.len() <= 100), "{help}");
        for word in ["Measure:", "Fix:", "Try first:", "--version", "Exit status"] {
            assert!(help.contains(word), "{word}: {help}");
        }
    }

    #[test]
    fn the_short_help_of_every_command_fits_a_screen() {
        let mut command = command().term_width(80);
        command.build();
        for command in command.get_subcommands() {
            let help = command.clone().term_width(80).render_help().to_string();
            assert!(help.lines().count() <= 40, "{}: {help}", help.lines().count());
            assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
        }
    }

    #[test]
    fn completions_know_the_options_of_commands() {
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh] {
            let script = completions(&CompletionsArgs { shell });
            assert!(script.contains("--oversubscribe"), "{shell}");
        }
    }

    #[test]
    fn a_page_for_each_command() {
        let dir = tempfile::tempdir().unwrap();
        let files = man(&ManArgs { dir: dir.path().join("man1") }).unwrap();
        assert_eq!(files.lines().count(), Cli::command().get_subcommands().count() + 1);
        let page = fs::read_to_string(dir.path().join("man1/linerate-run.1")).unwrap();
        assert!(page.contains("\\-\\-oversubscribe"), "{page}");
    }
}
