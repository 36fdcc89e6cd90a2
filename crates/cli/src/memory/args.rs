// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `linerate memory`.

use super::events::Chase;
use crate::emit::Output;
use crate::help_text::{examples, paragraphs};
use crate::parse::cpu;
use crate::plots::Plots;
use clap::Args;
use linerate_memory::limits::LEAST_BYTES;
use linerate_record::memory::{Effort, PageKind};
use linerate_record::units::{memory_size, parse_memory_size};

const AFTER: &str = "\
Chases pointers through growing working sets, in windows of 2 ms or less. Preempted windows are
dropped, so on a busy machine the intervals get wider, not wrong. If a result cannot be determined,
the report gives the reason.

The size of a cache level is the part that this program can use now. Latency is measured with
dependent loads, so it is an upper bound for loads that overlap. Memory use stays below the point
where the machine or the cgroup would swap.

The record is stored as this machine's profile in $XDG_STATE_HOME/linerate
(~/.local/state/linerate), unless a private cache was not found or there were too few passes. stat
--tier sim simulates the caches of the profile, and run and tune use it to report the cost of
packets that do not fit in the caches. Examples:

  linerate memory
  linerate memory --quick --max 64M
  linerate memory --full --all --svg curves
  linerate memory --quick --events --caches arm1176
  linerate memory --json | jq '.summary.levels[] | {name, size_bytes, latency_ns}'

Exit status 2: not enough memory, or interrupted; partial results are printed.";

#[derive(Debug, Args)]
#[command(after_help = examples(AFTER), after_long_help = paragraphs(AFTER))]
pub(crate) struct MemoryArgs {
    /// Measure only levels, TLB and costs; takes about 2 s instead of 10
    #[arg(long)]
    quick: bool,
    /// Measure everything, with narrower intervals; takes about 60 s
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Memory limit, e.g. 64M or 2G (default: as needed)
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    pub(crate) max: Option<u64>,
    /// Measure on this CPU (default: the first one that `run` would use)
    #[arg(long, value_name = "N", value_parser = cpu, allow_negative_numbers = true)]
    pub(crate) cpu: Option<u32>,
    /// Page size for the latency curves: base or huge (default: huge if available)
    #[arg(long, value_name = "PAGES", value_parser = pages)]
    pub(crate) pages: Option<PageKind>,
    /// Print everything: every size, the histograms, the events
    #[arg(long)]
    pub(crate) all: bool,
    /// Also print events per load for every size
    ///
    /// The events are simulated if they cannot be counted here, or if --caches is given.
    #[arg(long)]
    pub(crate) events: bool,
    /// Caches to simulate, as in stat --tier sim
    ///
    /// --machine is an alias.
    #[arg(long, value_name = "NAME", alias = "machine")]
    pub(crate) caches: Option<String>,
    /// Walk a chain and exit (run by --events under the simulator)
    #[arg(long, value_name = "BYTES:LINE:LOADS", hide = true)]
    pub(crate) chase: Option<Chase>,
    #[command(flatten)]
    pub(crate) plots: Plots,
    /// Do not store the record as this machine's profile
    #[arg(long)]
    pub(crate) no_store: bool,
    /// Random seed for the order of loads and sizes
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl MemoryArgs {
    /// Returns the measurement effort requested by --quick or --full.
    pub(crate) fn effort(&self) -> Effort {
        match (self.quick, self.full) {
            (true, _) => Effort::Quick,
            (_, true) => Effort::Full,
            _ => Effort::Default,
        }
    }
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = parse_memory_size(text).map_err(|error| error.to_string())?.0;
    if bytes >= LEAST_BYTES {
        return Ok(bytes);
    }
    let least = memory_size(LEAST_BYTES as f64);
    Err(format!(
        "{text} is not enough memory for a measurement; the minimum is {least} ({LEAST_BYTES} \
                 bytes)"
    ))
}

fn pages(text: &str) -> Result<PageKind, String> {
    match text {
        "base" => Ok(PageKind::Base),
        "huge" => Ok(PageKind::Huge),
        _ => Err("expected base or huge".to_owned()),
    }
}
