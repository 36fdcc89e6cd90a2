// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suggestions for misspelt commands and options, in clap's errors.
//!
//! Clap's similarity measure misses typos in short names (`wyh`). For a misspelt option, clap
//! suggests passing the option as a value, after `--`; a command that starts another program would
//! then run the option as a program.

use crate::help;
use clap::builder::{PossibleValue, StyledStr};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use linerate_path::suggest::nearest;

/// Value name of arguments that are path files.
const PATH: &str = "<PATH.toml>";

/// Replaces clap's suggestions in `error`, the result of parsing the arguments `words`.
pub(crate) fn improve(error: &mut clap::Error, words: &[String]) {
    match error.kind() {
        ErrorKind::InvalidSubcommand => of_command(error),
        ErrorKind::UnknownArgument => of_option(error, words),
        ErrorKind::MissingRequiredArgument => of_missing(error, words),
        _ => {}
    }
}

fn of_command(error: &mut clap::Error) {
    let Some(ContextValue::String(written)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let command = help::command();
    let names = command.get_subcommands().map(Command::get_name);
    let (kind, value) = match nearest(written, names) {
        Some(name) => {
            (ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![name.to_owned()]))
        }
        None => (ContextKind::Suggested, ContextValue::StyledStrs(vec![help::names().into()])),
    };
    error.insert(kind, value);
}

/// Returns the subcommand among the arguments `words`, or the whole command if there is none.
fn used<'c>(command: &'c mut Command, words: &[String]) -> Option<&'c mut Command> {
    command.build();
    match words.iter().find(|word| command.find_subcommand(word).is_some()) {
        Some(name) => command.find_subcommand_mut(name),
        None => Some(command),
    }
}

fn of_option(error: &mut clap::Error, words: &[String]) {
    error.remove(ContextKind::Suggested);
    let Some(ContextValue::String(written)) = error.get(ContextKind::InvalidArg) else { return };
    let mut command = help::command();
    let Some(used) = used(&mut command, words) else { return };
    let meant = written.strip_prefix("--").and_then(|written| option(used, written));
    let by_clap = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(name)) => option(used, name.trim_start_matches('-')),
        _ => None,
    };
    let usage = used.render_usage();
    match meant.or(by_clap) {
        Some(name) => {
            error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{name}")));
        }
        None => drop(error.remove(ContextKind::SuggestedArg)),
    }
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
}

/// Finds the option whose name or alias is most similar to `written`. Returns its name as listed
/// in the help.
fn option(command: &Command, written: &str) -> Option<String> {
    let listed: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    let near = nearest(written, listed.iter().flat_map(|arg| names(arg)))?;
    let meant = listed.iter().find(|arg| names(arg).contains(&near))?;
    meant.get_long().map(str::to_owned)
}

/// Returns the long name of an option and its aliases.
fn names(option: &Arg) -> Vec<&str> {
    let synonyms = option.get_all_aliases().unwrap_or_default();
    option.get_long().into_iter().chain(synonyms).collect()
}

/// Adds how to get a missing path file, and the values that a missing argument may have.
fn of_missing(error: &mut clap::Error, words: &[String]) {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return };
    let mut command = help::command();
    let Some(used) = used(&mut command, words) else { return };
    let tip = |name: &String| match name.as_str() {
        PATH => Some("`linerate example` writes an example path, edge.toml".to_owned()),
        _ => {
            let argument = used.get_arguments().find(|argument| argument.to_string() == *name)?;
            let values = argument.get_possible_values();
            let values: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
            (!values.is_empty()).then(|| format!("possible values: {}", values.join(", ")))
        }
    };
    let tips: Vec<StyledStr> = missing.iter().filter_map(tip).map(StyledStr::from).collect();
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let parsed = help::command().try_get_matches_from(&words);
        let mut error = parsed.expect_err("the line is wrong");
        improve(&mut error, &words[1..]);
        error.to_string()
    }

    #[test]
    fn a_misspelt_command_is_recognized() {
        for (line, meant) in [
            ("linerate wyh", "why"),
            ("linerate wy 1", "why"),
            ("linerate hwy 1", "why"),
            ("linerate tun x.toml", "tune"),
            ("linerate tpo", "top"),
            ("linerate profil 1", "profile"),
            ("linerate newstage x", "new-stage"),
            ("linerate --color never doctr", "doctor"),
        ] {
            let said = said(line);
            assert!(said.contains(&format!("'{meant}'")), "{line}: {said}");
        }
    }

    #[test]
    fn an_unknown_command_gets_the_list() {
        let said = said("linerate bogus");
        for line in [
            "  tip: Measure: why, profile, top, run, ",
            "       Explain: explain, diff, ",
            "       Fix: tune, plan, budget\n",
        ] {
            assert!(said.contains(line), "{said}");
        }
        assert!(said.lines().all(|line| line.len() <= 100), "{said}");
    }

    #[test]
    fn a_missing_argument_has_its_values_listed() {
        for (line, values) in [
            ("linerate completions", "bash"),
            ("linerate schema", "record"),
            ("linerate export x.json", "prometheus"),
        ] {
            let said = said(line);
            assert!(said.contains("tip: possible values: ") && said.contains(values), "{said}");
        }
        assert!(!said("linerate report").contains("tip:"), "{}", said("linerate report"));
    }

    #[test]
    fn a_misspelt_option_is_recognized_and_not_proposed_as_a_value() {
        for (line, meant) in [
            ("linerate why --durtion 3", "--time"),
            ("linerate why --tmie 3 -- ls", "--time"),
            ("linerate why --secods 3 1", "--time"),
            ("linerate why --jsn -- ls", "--json"),
            ("linerate tune --detials x.toml", "--details"),
        ] {
            let said = said(line);
            assert!(said.contains(&format!("exists: '{meant}'")), "{line}: {said}");
            assert!(!said.contains("as a value"), "{line}: {said}");
        }
        for line in ["linerate why --xyzzy 1", "linerate why -x 1", "linerate run -x --check"] {
            assert!(!said(line).contains("tip:"), "{line}: {}", said(line));
        }
        let said = said("linerate tune --detials x.toml");
        assert!(said.contains("Usage: linerate tune [OPTIONS] [PATH.toml]"), "{said}");
    }

    #[test]
    fn a_missing_path_is_available_from_the_example() {
        for line in ["linerate run", "linerate tune"] {
            assert!(said(line).contains("linerate example"), "{}", said(line));
        }
    }

    #[test]
    fn every_time_has_the_synonyms() {
        let mut command = help::command();
        command.build();
        for command in command.get_subcommands() {
            let time = command.get_arguments().find(|arg| arg.get_long() == Some("time"));
            let names = time.map_or_else(Vec::new, names);
            let is_complete = names.is_empty() || names == ["time", "duration", "seconds"];
            assert!(is_complete, "{}: {names:?}", command.get_name());
        }
    }
}
