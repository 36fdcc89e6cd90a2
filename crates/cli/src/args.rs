// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

use crate::appearance::{Color, Form, PROFILE, STAT};
use crate::budget::BudgetArgs;
use crate::diff::DiffArgs;
use crate::doctor::DoctorArgs;
use crate::emit::{Destination, Output};
use crate::example::ExampleArgs;
use crate::explain::ExplainArgs;
use crate::export::ExportArgs;
use crate::failure::{Failure, STATUS_AS_ENV, STATUS_OF_FAILURE};
use crate::help_text::{examples, paragraphs};
use crate::import::ImportArgs;
use crate::memory::MemoryArgs;
use crate::new_stage::NewStageArgs;
use crate::parse::{
    CpuList, Goal, TIME_SYNONYMS, cpu, cpu_list, duration, goal, idle_policy, kernel, latency,
    rate, size, state,
};
use crate::plan::PlanArgs;
use crate::plots::Plots;
use crate::profile::ProfileArgs;
use crate::regions::RegionsArgs;
use crate::report::ReportArgs;
use crate::stat::StatArgs;
use crate::stream::StreamArgs;
use crate::tcp::TcpArgs;
use crate::top::TopArgs;
use crate::why::WhyArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
use linerate_path::model::{IdlePolicy, Rate};
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
    /// Subcommand.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER: &str = "\
Exit status: 0 on success, 1 if a goal was missed, 2 on error; stat returns its command's status.
Messages go to stderr. LINERATE_COLOR, LINERATE_FORMAT and LINERATE_DETAILS=1 set defaults.";

/// Subcommands.
///
/// A command's arguments are built on demand, because building the arguments of all commands takes
/// as long as starting a short program. The argument structs have no doc comments, because clap
/// would print them instead of the command's help.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Explain why a running program misses line rate: time, packets, cause, gain, fix
    Why(WhyArgs),
    /// Find the functions where a running program spends its time, with error bounds
    Profile(ProfileArgs),
    /// Show live where a running program's time and packets go
    Top(TopArgs),
    /// Compare two profiles: changes beyond sampling error
    Diff(DiffArgs),
    /// Find the bottleneck of a packet path, try better mappings, keep the best
    Tune(TuneArgs),
    /// Profile every worker and stage of a packet path
    Run(RunArgs),
    /// Predict a mapping before it runs, and rank possible changes
    Plan(PlanArgs),
    /// Print the per-packet budget at line rate: time, cycles, instructions by frame size
    Budget(BudgetArgs),
    /// Read other profilers: Netra DPS, perf stat and script, VPP
    Import(ImportArgs),
    /// Print a stored record: text, Markdown, JSON, CSV, profile views
    Report(ReportArgs),
    /// Export a record: CSV, Prometheus, pprof, flame graph, timeline
    Export(ExportArgs),
    /// Answer common questions about missed line rate from a record
    Explain(ExplainArgs),
    /// Measure checksum and copy variants against their bounds, warm and cold
    Kernels(KernelsArgs),
    /// Measure cache levels, TLB reach, miss cost, bandwidth and noise
    Memory(MemoryArgs),
    /// Count events of a command, a process or CPUs, like perf stat
    Stat(StatArgs),
    /// Measure TCP and UDP streams, and find what limits them
    Stream(StreamArgs),
    /// Measure how much of TCP processing is checksums and copies, in five traffic patterns
    Tcp(TcpArgs),
    /// Show what this machine can measure, and the commands that unlock the rest
    Doctor(DoctorArgs),
    /// Print the regions that an instrumented program recorded
    Regions(RegionsArgs),
    /// Write an example path and its capture, to try `run` and `tune`
    Example(ExampleArgs),
    /// Write a template for your own stage, in Rust or C
    NewStage(NewStageArgs),
    /// List the available stage kinds, with their parameters
    Stages(StagesArgs),
    /// Print the JSON schema of records or of path files
    Schema(SchemaArgs),
    /// Print shell completions
    Completions(CompletionsArgs),
    /// Write manual pages to a directory
    Man(ManArgs),
}

impl Command {
    /// Returns whether the command prints its result to stdout.
    pub(crate) fn prints(&self) -> bool {
        match self {
            Self::Stat(args) => args.destination() == Destination::Stdout,
            Self::Why(args) => args.destination() == Destination::Stdout,
            Self::Profile(args) => args.destination() == Destination::Stdout,
            _ => true,
        }
    }

    /// Checks before a measurement that the given format exists for the records of this command.
    /// `report` learns the kind of its record only by reading it.
    pub(crate) fn check_form(&self) -> Result<(), Failure> {
        let output = match self {
            Self::Profile(args) => return args.output.check_form(PROFILE),
            Self::Stat(args) => return args.output.check_form(STAT),
            Self::Why(args) => &args.output,
            Self::Diff(args) => &args.output,
            Self::Tune(args) => &args.common.output,
            Self::Run(args) => &args.common.output,
            Self::Plan(args) => &args.output,
            Self::Budget(args) => &args.output,
            Self::Import(args) => &args.output,
            Self::Explain(args) => &args.output,
            Self::Kernels(args) => &args.output,
            Self::Memory(args) => &args.output,
            Self::Stream(args) => &args.output,
            Self::Tcp(args) => &args.output,
            Self::Doctor(args) => &args.output,
            Self::Regions(args) => &args.output,
            Self::Top(_) | Self::Report(_) | Self::Export(_) | Self::Example(_) => return Ok(()),
            Self::NewStage(_) | Self::Stages(_) | Self::Schema(_) => return Ok(()),
            Self::Completions(_) | Self::Man(_) => return Ok(()),
        };
        output.check_form("")
    }

    /// Returns whether this command can print its result in this format.
    pub(crate) fn has(&self, form: Form) -> bool {
        match (self, form.kind()) {
            (Self::Stages(_), _) => matches!(form, Form::Text | Form::Json),
            (_, None) | (Self::Report(_), _) => true,
            (Self::Profile(_), Some(kind)) => kind == PROFILE,
            (Self::Stat(_), Some(kind)) => kind == STAT,
            _ => false,
        }
    }

    /// Returns this command's exit status on failure.
    pub(crate) fn status_of_failure(&self) -> u8 {
        match self {
            Self::Stat(_) => STATUS_AS_ENV,
            _ => STATUS_OF_FAILURE,
        }
    }
}

// Options common to `tune` and `run`.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Duration of the measurement, e.g. 500ms or 2s (default: the file's)
    #[arg(
        long, short = 't', value_name = "TIME", value_parser = duration, aliases = TIME_SYNONYMS
    )]
    pub(crate) time: Option<f64>,
    /// CPUs to use, e.g. 0,2-3 (default: all available, one per core first)
    #[arg(long, value_name = "LIST", value_parser = cpu_list, allow_negative_numbers = true)]
    pub(crate) cpus: Option<CpuList>,
    /// Offered load: max, line, capture, 1.5Mpps, 5Gb/s (default: the file's)
    #[arg(long, value_parser = rate)]
    pub(crate) rate: Option<Rate>,
    /// Checksum and copy variant (default: the file's)
    ///
    /// "selected" is the best variant of each kernel.
    #[arg(long, value_name = "NAME")]
    pub(crate) kernels: Option<String>,
    /// Exit with status 1 if the rate is below this, e.g. line or 1.5Mpps
    #[arg(long, value_name = "RATE", value_parser = goal)]
    pub(crate) goal: Option<Goal>,
    /// Exit with status 1 if p99 latency exceeds this, e.g. 50us
    ///
    /// `tune` rejects mappings that exceed it.
    #[arg(long, value_name = "TIME", value_parser = latency)]
    pub(crate) p99: Option<f64>,
    #[command(flatten)]
    pub(crate) output: Output,
}

const TUNE_AFTER: &str = "\
--from works on any machine and sends no packets: it explains the baseline of a recorded tuning run
and predicts rates from the calibration stored in that record. Examples:

  linerate tune edge.toml --record tune.json --out better.toml
  linerate tune --from tune.json";

#[derive(Debug, Args)]
#[command(after_help = examples(TUNE_AFTER), after_long_help = paragraphs(TUNE_AFTER))]
pub(crate) struct TuneArgs {
    /// The packet path, as TOML
    #[arg(value_name = "PATH.toml", required_unless_present = "from")]
    pub(crate) path: Option<PathBuf>,
    /// Predict from this `tune` record, without sending packets
    ///
    /// - reads the record from stdin.
    #[arg(
        long, value_name = "RECORD",
        conflicts_with_all = ["path", "time", "cpus", "rate", "kernels", "goal", "p99", "out"]
    )]
    pub(crate) from: Option<PathBuf>,
    /// Options common to `tune` and `run`.
    #[command(flatten)]
    pub(crate) common: Common,
    /// Write the path with its best mapping to this file
    ///
    /// - is stdout; the report then goes to stderr.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The packet path, as TOML
    #[arg(value_name = "PATH.toml")]
    pub(crate) path: PathBuf,
    /// Options common to `tune` and `run`.
    #[command(flatten)]
    pub(crate) common: Common,
    /// Only check the file and its capture; --json prints the result as JSON
    #[arg(long, conflicts_with_all = ["record", "time", "audit"])]
    pub(crate) check: bool,
    /// Allow more workers than CPUs; workers then share CPUs, so timings mean little
    #[arg(long)]
    pub(crate) oversubscribe: bool,
    /// Recount the bytes after every stage, to check its byte accounting
    #[arg(long)]
    pub(crate) audit: bool,
    /// Idle policy of all workers: spin, pause, slow, park or auto (default: the file's, otherwise
    /// pause)
    #[arg(long, value_name = "POLICY", value_parser = idle_policy)]
    pub(crate) idle: Option<IdlePolicy>,
}

const KERNELS_AFTER: &str = "\
Every routine is first checked against the specification. The routines for a case are then timed in
interleaved rounds. Ratios are relative to the bound: the fastest load loop for checksums, memcpy
for copies, and the fastest store loop or memset for fills. Tables and the summary's *_of_load
fields give speed relative to the bound (higher is better). The *_of_memcpy fields give time
relative to memcpy (lower is better). Examples:

  linerate kernels --quick
  linerate kernels --kernel checksum --size 64,1460 --state warm --variant portable,selected
  linerate kernels --json --record kernels.json --svg plots

Exit status 1: a routine returned wrong results and was not timed.";

#[derive(Debug, Args)]
#[command(after_help = examples(KERNELS_AFTER), after_long_help = paragraphs(KERNELS_AFTER))]
pub(crate) struct KernelsArgs {
    /// Run fewer cases and rounds; takes at most 5 s
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these kernels, separated by commas: checksum, copy, copy_checksum, fill
    #[arg(long, value_name = "KERNELS", value_delimiter = ',', value_parser = kernel)]
    pub(crate) kernel: Vec<Kernel>,
    /// Only these variants from --list, separated by commas
    ///
    /// The bounds are always measured; "selected" is what callers use by default.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) variant: Vec<String>,
    /// Only these sizes in bytes, 1 to 65536, separated by commas; skips the mixes
    #[arg(
        long, value_name = "BYTES", value_delimiter = ',', value_parser = size,
        allow_negative_numbers = true
    )]
    pub(crate) size: Vec<u32>,
    /// Only these states, separated by commas: warm, cold, just_written
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = state)]
    pub(crate) state: Vec<State>,
    /// Measure on this CPU (default: the first one that `run` would use)
    #[arg(long, value_name = "N", value_parser = cpu, allow_negative_numbers = true)]
    pub(crate) cpu: Option<u32>,
    /// List variants and peers, as JSON with --json
    #[arg(
        long,
        conflicts_with_all = [
            "record", "svg", "quick", "kernel", "variant", "size", "state", "cpu", "seed",
        ]
    )]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) plots: Plots,
    /// Random seed for measurement order, data bytes and mixes
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct StagesArgs {
    /// Only this kind, or the stage in this shared object, e.g. ./libttl.so
    #[arg(value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// Print the parameters of every kind
    #[arg(long)]
    pub(crate) details: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// What the schema describes
    #[arg(value_enum)]
    pub(crate) format: Format,
}

const COMPLETIONS_AFTER: &str = "\
Examples:
  mkdir -p ~/.local/share/bash-completion/completions
  linerate completions bash > ~/.local/share/bash-completion/completions/linerate";

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_AFTER)]
pub(crate) struct CompletionsArgs {
    /// Shell to generate completions for
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  linerate man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Output directory; created if missing
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// A format with a published schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// Schema of the records that --json and --record write
    Record,
    /// Schema of the path files that `run` and `tune` read
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
