// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

use crate::appearance::Color;
use crate::budget::BudgetArgs;
use crate::doctor::DoctorArgs;
use crate::emit::{Destination, Output};
use crate::explain::ExplainArgs;
use crate::export::ExportArgs;
use crate::failure::{STATUS_AS_ENV, STATUS_OF_FAILURE};
use crate::import::ImportArgs;
use crate::memory::MemoryArgs;
use crate::parse::{
    CpuList, Goal, cpu, cpu_list, duration, goal, kernel, latency, rate, size, state,
};
use crate::plan::PlanArgs;
use crate::plots::Plots;
use crate::regions::RegionsArgs;
use crate::report::ReportArgs;
use crate::stat::StatArgs;
use crate::tcp::TcpArgs;
use crate::why::WhyArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
use linerate_path::model::Rate;
use linerate_record::kernels::{Kernel, State};
use std::path::PathBuf;

/// Finds out why packet software misses line rate, and fixes it.
#[derive(Debug, Parser)]
#[command(name = "linerate", version, arg_required_else_help = true, after_help = AFTER)]
pub(crate) struct Cli {
    /// Colour the output: auto, always or never
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        hide_possible_values = true,
        display_order = 900
    )]
    pub(crate) color: Option<Color>,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER: &str = "\
Results go to stdout, everything else to stderr. Exit status: 0 done, 1 the answer is no
(--goal missed), 2 could not do it. Commands that start another one have its status.
LINERATE_COLOR, LINERATE_FORMAT and LINERATE_DETAILS=1 set defaults of these options.";

/// What to do.
///
/// The arguments of a command are built when it is the one that was asked for, since those of all
/// take as long as starting a short program. Their structs have no doc comments: these would
/// replace the help of the command.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Explain why a running program is not at line rate: time, packets, cause, gain, fix
    Why(WhyArgs),
    /// Find the bottleneck of a packet path, try better mappings, keep the best
    Tune(TuneArgs),
    /// Profile every worker and stage of a packet path
    Run(RunArgs),
    /// Predict a mapping before it runs, and rank what to change
    Plan(PlanArgs),
    /// Per-packet budget at line rate: time, cycles, instructions by frame size
    Budget(BudgetArgs),
    /// Read the output of other profilers: Netra DPS PROFILE_DUMP, perf stat, VPP
    Import(ImportArgs),
    /// Print a record as the command did that made it, or as Markdown
    Report(ReportArgs),
    /// Write a record as CSV, Prometheus text, folded stacks or PROFILE_DUMP
    Export(ExportArgs),
    /// Answer the questions asked when line rate is missed, from a record
    Explain(ExplainArgs),
    /// Measure checksum and copy variants against their bounds, warm and cold
    Kernels(KernelsArgs),
    /// Find cache levels, TLB reach, the cost of a miss, bandwidth and noise
    Memory(MemoryArgs),
    /// Count events of a command, a process or CPUs, like perf stat
    Stat(StatArgs),
    /// Measure the share of checksum and copy in TCP stacks, under five patterns
    Tcp(TcpArgs),
    /// Show what this machine can measure, and the commands that unlock the rest
    Doctor(DoctorArgs),
    /// Print what a program recorded about its own regions
    Regions(RegionsArgs),
    /// List the stages a path can use, with their parameters
    Stages(StagesArgs),
    /// Print the JSON schema of records or of path files
    Schema(SchemaArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Write manual pages to a folder
    Man(ManArgs),
}

impl Command {
    /// Whether its result goes to stdout.
    pub(crate) fn prints(&self) -> bool {
        match self {
            Self::Stat(args) => args.destination() == Destination::Stdout,
            Self::Why(args) => args.destination() == Destination::Stdout,
            _ => true,
        }
    }

    /// The exit status if it cannot do its work.
    pub(crate) fn status_of_failure(&self) -> u8 {
        match self {
            Self::Stat(_) => STATUS_AS_ENV,
            _ => STATUS_OF_FAILURE,
        }
    }
}

// What `tune` and `run` share.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Measure this long, e.g. 500ms or 2s (default: the file's)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) time: Option<f64>,
    /// CPUs to use, e.g. 0,2-3 (default: all this process may use, one per core first)
    #[arg(long, value_name = "LIST", value_parser = cpu_list, allow_negative_numbers = true)]
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
    /// Exit with status 1 when the 99th percentile of latency exceeds this, e.g. 50us; `tune` keeps
    /// no mapping that does
    #[arg(long, value_name = "TIME", value_parser = latency)]
    pub(crate) p99: Option<f64>,
    #[command(flatten)]
    pub(crate) output: Output,
}

const TUNE_AFTER: &str = "\
--from starts where the packets have been sent: it explains the baseline of a record of tune and
predicts from its calibration, on any machine. Examples:

  linerate tune edge.toml --record tune.json --out better.toml
  linerate tune --from tune.json";

#[derive(Debug, Args)]
#[command(after_help = TUNE_AFTER)]
pub(crate) struct TuneArgs {
    /// The packet path, as TOML
    #[arg(value_name = "PATH.toml", required_unless_present = "from")]
    pub(crate) path: Option<PathBuf>,
    /// Explain and predict from this record of tune, sending no packets; - reads it from stdin
    #[arg(
        long, value_name = "RECORD",
        conflicts_with_all = ["path", "time", "cpus", "rate", "kernels", "goal", "p99", "out"]
    )]
    pub(crate) from: Option<PathBuf>,
    /// What `tune` and `run` share.
    #[command(flatten)]
    pub(crate) common: Common,
    /// Write the path with its best mapping to this file; - is stdout, the report goes to stderr
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The packet path, as TOML
    #[arg(value_name = "PATH.toml")]
    pub(crate) path: PathBuf,
    /// What `tune` and `run` share.
    #[command(flatten)]
    pub(crate) common: Common,
    /// Only check the file and its capture; what was found as JSON with --json
    #[arg(long, conflicts_with_all = ["record", "time", "audit"])]
    pub(crate) check: bool,
    /// Allow more workers than processors: they share CPUs, so times mean little
    #[arg(long)]
    pub(crate) oversubscribe: bool,
    /// Recount the bytes after every stage
    #[arg(long)]
    pub(crate) audit: bool,
}

const KERNELS_AFTER: &str = "\
Every routine is checked against the specification first, then timed in rounds with all others of
its case. Ratios are to the bound: the fastest load loop for checksums, memcpy for copies, the
fastest store loop or memset for fills. Tables print speed as a share of the bound's, and so do the
names *_of_load of the summary: more is better; *_of_memcpy is time over memcpy's: less is better.
Examples:

  linerate kernels --quick
  linerate kernels --kernel checksum --size 64,1460 --state warm --variant portable,selected
  linerate kernels --json --record kernels.json --svg plots

Exit status 1: a routine is wrong and was not timed.";

#[derive(Debug, Args)]
#[command(after_help = KERNELS_AFTER)]
pub(crate) struct KernelsArgs {
    /// Few cases and rounds, within 5 s
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these kernels, separated by commas: checksum, copy, copy_checksum, fill
    #[arg(long, value_name = "KERNELS", value_delimiter = ',', value_parser = kernel)]
    pub(crate) kernel: Vec<Kernel>,
    /// Only these variants, separated by commas, and the bounds; --list has their names,
    /// "selected" is what callers get who name none
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) variant: Vec<String>,
    /// Only these sizes in bytes, separated by commas, 1 to 65536, and no mixes of sizes
    #[arg(
        long, value_name = "BYTES", value_delimiter = ',', value_parser = size,
        allow_negative_numbers = true
    )]
    pub(crate) size: Vec<u32>,
    /// Only these states, separated by commas: warm, cold, just_written
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = state)]
    pub(crate) state: Vec<State>,
    /// Measure on this CPU (default: the first that `run` would take)
    #[arg(long, value_name = "N", value_parser = cpu, allow_negative_numbers = true)]
    pub(crate) cpu: Option<u32>,
    /// Only list the variants and the peers, and what is selected, as JSON with --json
    #[arg(
        long,
        conflicts_with_all = [
            "record", "svg", "quick", "kernel", "variant", "size", "state", "cpu", "seed",
        ]
    )]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) plots: Plots,
    /// Random seed, of the order of routines, the bytes and the mixes
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct StagesArgs {
    /// Only this kind
    pub(crate) kind: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Which format
    #[arg(value_enum)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "For example: linerate completions bash > \
~/.local/share/bash-completion/completions/linerate")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "For example: linerate man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The folder; created if missing
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// A format with a published schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// What every command that measures writes with --json and --record
    Record,
    /// What `run` and `tune` read
    Path,
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
    fn the_help_of_a_command_begins_as_the_list_of_commands_says() {
        let mut built = Cli::command();
        built.build();
        for listed in Cli::command().get_subcommands() {
            let command = built.find_subcommand(listed.get_name()).expect("it is listed");
            let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
            assert!(about(listed).is_some_and(|text| text.len() > 20), "{}", listed.get_name());
            assert_eq!(about(command), about(listed));
        }
    }
}
