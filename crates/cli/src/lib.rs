// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `linerate` program as a function: finds out why packet software misses line rate, and fixes
//! it.
//!
//! A crate with its own stages depends on this crate and on `linerate-stage-api`, and its `main`
//! passes its kinds to [`main`]. The result is the complete program, whose checker, schema, help
//! and builder include the crate's kinds:
//!
//! ```no_run
//! use linerate_stage_api::Extension;
//! # static EXTENSION: Extension = Extension { stages: &[], sources: &[] };
//!
//! fn main() -> std::process::ExitCode {
//!     linerate::main(&[&EXTENSION])
//! }
//! ```
//!
//! `linerate new-stage NAME` writes a template for this kind of crate. [`main`] is the only public
//! item of this crate.

#![forbid(unsafe_code)]

mod appearance;
mod args;
mod budget;
mod diff;
mod doctor;
mod emit;
mod example;
mod explain;
mod export;
mod failure;
mod files;
mod goal;
mod help;
mod help_text;
mod hints;
mod import;
mod input;
mod interrupt;
mod kernels;
mod kinds;
mod load;
mod machine;
mod man;
mod memory;
mod new_stage;
mod objects;
mod parse;
mod plan;
mod plots;
mod processors;
mod profile;
mod progress;
mod provenance;
mod regions;
mod report;
mod run;
mod schema;
mod stages;
mod stat;
mod stream;
mod tcp;
mod terminal;
mod top;
mod tune;
mod why;

use crate::args::{Cli, Command};
use crate::emit::Answer;
use crate::failure::Failure;
use clap::FromArgMatches;
use linerate_linux::heap::{self, Heap};
use linerate_machine::{Root, free_memory};
use linerate_record::units::memory_size;
use linerate_stage_api::Extension;
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static HEAP: Heap = Heap;

/// Runs the program with this process's arguments, adding the kinds of `extensions` to its own.
/// Returns the exit status.
///
/// # Panics
/// Panics if two stage kinds, or two source kinds, have the same name.
pub fn main(extensions: &[&'static Extension]) -> ExitCode {
    kinds::add(extensions);
    let matches = help::command().try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return refused(error),
    };
    if let Err(failure) = appearance::set(cli.color, |form| cli.command.has(form)) {
        emit::say(&format!("linerate: {failure}\n"));
        return ExitCode::from(cli.command.status_of_failure());
    }
    heap::guard(no_room, cli.command.status_of_failure());
    // If the signal action cannot be set, a write beyond the file size limit kills the program, but
    // leaves no partial file.
    let _ = linerate_linux::signal::fail_writes_beyond_the_file_limit();
    match answer(&cli) {
        Ok(answer) => status(answer),
        Err(failure) => {
            emit::say(&format!("linerate: {failure}\n"));
            ExitCode::from(cli.command.status_of_failure())
        }
    }
}

/// Returns why `bytes` more bytes of memory are not available, given the `held` bytes already on
/// the heap; `None` if they are available, or if free memory is unknown.
fn no_room(bytes: usize, held: usize) -> Option<String> {
    let free = free_memory::free_in_addition_to(&Root::new(Path::new("/")), held as u64)?;
    let is_more = bytes as u64 > free.bytes;
    is_more.then(|| {
        format!("only {} of memory is free: {}", memory_size(free.bytes as f64), free.reason)
    })
}

/// Prints help or command-line errors.
fn refused(mut error: clap::Error) -> ExitCode {
    if std::env::args_os().len() < 2 {
        emit::say(&help::first());
        return ExitCode::from(failure::STATUS_OF_FAILURE);
    }
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    hints::improve(&mut error, &words.collect::<Vec<_>>());
    let printed = print_error(&error);
    if !error.use_stderr() {
        match emit::check_stdout().and_then(|()| emit::ended(printed)) {
            Ok(answer) => return status(answer),
            Err(failure) => emit::say(&format!("linerate: {failure}\n")),
        }
    }
    let is_stat = command_word(std::env::args_os().skip(1)).is_some_and(|word| word == "stat");
    ExitCode::from(if is_stat { failure::STATUS_AS_ENV } else { failure::STATUS_OF_FAILURE })
}

/// Returns the name of the command among the arguments: the first word that is neither an option
/// nor the value of one.
fn command_word(mut words: impl Iterator<Item = OsString>) -> Option<OsString> {
    loop {
        let word = words.next()?;
        match word.as_encoded_bytes() {
            b"--color" => drop(words.next()),
            [b'-', ..] => {}
            _ => return Some(word),
        }
    }
}

/// Prints clap's message, without colours if user input contains an escape sequence.
fn print_error(error: &clap::Error) -> io::Result<()> {
    let text = error.render().to_string();
    match terminal::safe(&text, false) {
        Cow::Borrowed(_) => error.print(),
        Cow::Owned(safe) if error.use_stderr() => io::stderr().write_all(safe.as_bytes()),
        Cow::Owned(safe) => io::stdout().write_all(safe.as_bytes()),
    }
}

fn status(answer: Answer) -> ExitCode {
    match answer {
        Answer::Done => ExitCode::SUCCESS,
        Answer::No => ExitCode::from(1),
        Answer::Status(status) => ExitCode::from(status),
    }
}

fn answer(cli: &Cli) -> Result<Answer, Failure> {
    cli.command.check_form()?;
    if cli.command.prints() {
        emit::check_stdout()?;
    }
    match &cli.command {
        Command::Why(args) => why::why(args),
        Command::Profile(args) => profile::profile(args),
        Command::Top(args) => top::top(args),
        Command::Diff(args) => diff::diff(args),
        Command::Tune(args) => tune::tune(args),
        Command::Run(args) => run::run(args),
        Command::Plan(args) => plan::plan(args),
        Command::Budget(args) => budget::budget(args),
        Command::Import(args) => import::import(args),
        Command::Export(args) => export::export(args),
        Command::Explain(args) => explain::explain(args),
        Command::Kernels(args) => kernels::kernels(args),
        Command::Memory(args) => memory::memory(args),
        Command::Stat(args) => stat::stat(args),
        Command::Stream(args) => stream::stream(args),
        Command::Tcp(args) => tcp::tcp(args),
        Command::Doctor(args) => doctor::doctor(args),
        Command::Regions(args) => regions::regions(args),
        Command::Report(args) => report::report(args),
        Command::Example(args) => emit::print(&example::example(args)?),
        Command::NewStage(args) => emit::print(&new_stage::new_stage(args)?),
        Command::Stages(args) => emit::print(&stages::stages(args)?),
        Command::Schema(args) => emit::print(&schema::schema(args)?),
        Command::Completions(args) => emit::print(&help::completions(args)),
        Command::Man(args) => emit::print(&man::man(args)?),
    }
}
