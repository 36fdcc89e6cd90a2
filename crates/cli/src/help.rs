// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assembles the command line, with its grouped help, and shell completions.

use crate::args::{Cli, CompletionsArgs};
use clap::{Arg, ArgGroup, Command, CommandFactory, Id};
use std::fmt::Write;

/// Commands, grouped by the question they answer.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Measure",
        &["why", "profile", "top", "run", "stat", "memory", "kernels", "stream", "tcp", "regions"],
    ),
    ("Explain", &["explain", "diff", "report", "import", "export"]),
    ("Fix", &["tune", "plan", "budget"]),
    ("Look up", &["doctor", "example", "stages", "new-stage", "schema", "completions", "man"]),
];

/// Commands to try first after installing.
const TRY: &str = "\
Try first:
  linerate why --demo                          diagnose a demo that drops packets; no root needed
  linerate why PID                             find out what limits a running program
  linerate example && linerate tune edge.toml  find and remove a packet path's bottleneck";

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

/// Commands that are listed together on the last line of their group, so that the help fits on one
/// screen.
const ON_ONE_LINE: [&str; 4] = ["example", "schema", "completions", "man"];

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
            let _ = writeln!(
                text,
                "  {names}  Example path, JSON schemas, shell completions, manual pages"
            );
        }
        text.push('\n');
    }
    text
}

/// Lists the names of all commands, one line per group, indented to follow `tip: `.
pub(crate) fn names() -> String {
    let line = |(heading, names): &(&str, &[&str])| format!("{heading}: {}", names.join(", "));
    GROUPS.iter().map(line).collect::<Vec<_>>().join("\n       ")
}

/// Returns the completion script for a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> String {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut without_hidden(), "linerate", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns the command line without hidden options, which clap's completions would include.
fn without_hidden() -> Command {
    let mut all = command();
    all.build();
    command().mut_subcommands(|command| match all.find_subcommand(command.get_name()) {
        Some(full) => listed(command, full),
        None => command,
    })
}

/// Returns a subcommand that has only the options listed in its help. `full` is the subcommand in
/// built form. Global options and `--help` are added when the subcommand is built.
fn listed(command: Command, full: &Command) -> Command {
    let is_listed = |arg: &&Arg| !arg.is_hide_set() && !arg.is_global_set();
    let args: Vec<&Arg> =
        full.get_arguments().filter(is_listed).filter(|arg| arg.get_id() != "help").collect();
    let is_kept = |id: &&Id| args.iter().any(|arg| arg.get_id() == *id);
    let groups = full.get_groups().map(|group| {
        ArgGroup::new(group.get_id().clone()).args(group.get_args().filter(is_kept).cloned())
    });
    let bare = command.defer(|command| command);
    bare.groups(groups.collect::<Vec<_>>()).args(args.iter().map(|arg| (*arg).clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

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
    fn completions_leave_out_hidden_options() {
        let mut command = command();
        command.build();
        let all = command.get_subcommands().flat_map(Command::get_arguments);
        let hidden: Vec<_> = all.filter(|arg| arg.is_hide_set()).collect();
        assert!(hidden.iter().any(|arg| arg.get_long() == Some("demo-part")), "{hidden:?}");
        for shell in clap_complete::Shell::value_variants() {
            let script = completions(&CompletionsArgs { shell: *shell });
            assert!(!script.contains("demo-part"), "{shell}");
            for name in ["oversubscribe", "demo", "color", "time"] {
                assert!(script.contains(name), "{shell}: {name}");
            }
        }
    }
}
