// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate`: finds out why packet software misses line rate, and fixes it.

#![forbid(unsafe_code)]

mod args;
mod bench;
mod calibrate;
mod emit;
mod failure;
mod figures;
mod kernels;
mod load;
mod processors;
mod progress;
mod run;
mod schema;
mod stages;
mod tune;

use crate::args::{Cli, Command};
use crate::emit::Answer;
use crate::failure::Failure;
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match answer(&Cli::parse()) {
        Ok(Answer::Done) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("linerate: {failure}");
            ExitCode::from(2)
        }
    }
}

fn answer(cli: &Cli) -> Result<Answer, Failure> {
    match &cli.command {
        Command::Tune(args) => tune::tune(args),
        Command::Run(args) => run::run(args),
        Command::Kernels(args) => kernels::kernels(args),
        Command::Stages(args) => emit::print(&stages::stages(args)?),
        Command::Schema(args) => emit::print(&schema::schema(args)?),
    }
}
