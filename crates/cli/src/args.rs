// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use linerate_path::model::Rate;
use std::path::PathBuf;

/// Finds out why packet software misses line rate, and fixes it.
#[derive(Debug, Parser)]
#[command(name = "linerate", version, arg_required_else_help = true, after_help = AFTER)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER: &str = "\
Results go to stdout, everything else to stderr. Exit status: 0 done, 1 the answer is no
(--goal missed), 2 could not do it.";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure a packet path, name its bottleneck, try better mappings, keep the best
    Tune(TuneArgs),
    /// Run a packet path with its mapping as given, and profile every strand
    Run(RunArgs),
    /// List the stages a path can use, their parameters, and what they forbid
    Stages(StagesArgs),
    /// Print the JSON schema of a format
    Schema(SchemaArgs),
}

/// What `tune` and `run` share.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// The packet path, as TOML
    #[arg(value_name = "PATH.toml")]
    pub(crate) path: PathBuf,
    /// Measure this long, e.g. 500ms or 2s (default: the file's)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) time: Option<f64>,
    /// Processors to use, e.g. 0,2-3 (default: all this process may use, one per core first)
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    pub(crate) cpus: Option<CpuList>,
    /// Offer packets at this rate: max, line, capture, 1.5Mpps, 5Gb/s (default: the file's)
    #[arg(long, value_parser = rate)]
    pub(crate) rate: Option<Rate>,
    /// Call this variant of checksum and copy, or "selected" for the best (default: the file's)
    #[arg(long, value_name = "NAME")]
    pub(crate) kernels: Option<String>,
    /// Exit with status 1 when the path handles less than this: line, or a rate like 1.5Mpps
    #[arg(long, value_name = "RATE", value_parser = goal)]
    pub(crate) goal: Option<Goal>,
    /// Print the record as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the record to this file as well
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// No progress, no warnings
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// `linerate tune`.
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// What `tune` and `run` share.
    #[command(flatten)]
    pub(crate) common: Common,
    /// Write the path with its best mapping to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// `linerate run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What `tune` and `run` share.
    #[command(flatten)]
    pub(crate) common: Common,
    /// Only check the file and its capture
    #[arg(long)]
    pub(crate) check: bool,
    /// Allow more strands than processors: they take turns, so times mean little
    #[arg(long)]
    pub(crate) oversubscribe: bool,
    /// Recount the octets after every stage
    #[arg(long)]
    pub(crate) audit: bool,
}

/// `linerate stages`.
#[derive(Debug, Args)]
pub(crate) struct StagesArgs {
    /// Only this kind
    pub(crate) kind: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `linerate schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Which format
    #[arg(value_enum)]
    pub(crate) format: Format,
}

/// A format with a published schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// What every command writes with --json and --record
    Record,
    /// What `run` and `tune` read
    Path,
}

/// Logical processors, in the order given, without repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuList(pub(crate) Vec<u32>);

/// What the path must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// The line rate of the file.
    Line,
    /// Packets per second.
    PacketsPerSecond(f64),
}

fn duration(text: &str) -> Result<f64, String> {
    let seconds = linerate_path::parse::seconds(text)?;
    if seconds < 0.05 { Err("shorter than 50ms".to_owned()) } else { Ok(seconds) }
}

fn rate(text: &str) -> Result<Rate, String> {
    linerate_path::parse::rate(text)
}

fn goal(text: &str) -> Result<Goal, String> {
    match rate(text)? {
        Rate::Line => Ok(Goal::Line),
        Rate::PacketsPerSecond(packets) => Ok(Goal::PacketsPerSecond(packets)),
        _ => Err("a goal is 'line' or packets per second, like 1.5Mpps".to_owned()),
    }
}

fn cpu_list(text: &str) -> Result<CpuList, String> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let number = |digits: &str| {
            let parsed = digits.trim().parse::<u32>();
            parsed.map_err(|_| format!("'{digits}' is no processor number; write e.g. 0,2-3"))
        };
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last || last - first > 4_096 {
            return Err(format!("'{part}' is no range of processors"));
        }
        cpus.extend((first..=last).filter(|cpu| !cpus.contains(cpu)).collect::<Vec<_>>());
    }
    Ok(CpuList(cpus))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn processor_lists() {
        assert_eq!(cpu_list("0,2-4,3"), Ok(CpuList(vec![0, 2, 3, 4])));
        for bad in ["", "x", "3-1", "1,,2", "-1", "0-99999"] {
            assert!(cpu_list(bad).is_err(), "{bad}");
        }
    }
}
