// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `linerate memory`.

use crate::emit::Output;
use crate::parse::cpu;
use crate::plots::Plots;
use clap::Args;
use linerate_memory::limits::LEAST_BYTES;
use linerate_record::memory::{Effort, PageKind};
use linerate_record::units::{memory_size, parse_memory_size};

const AFTER: &str = "\
Chains of loads, each of which needs the one before, through more and more memory, in windows of
2 ms or less; windows in which something else ran are dropped, so that a busy machine makes
intervals wider, not wrong. What cannot be determined is left out, with the reason.

A level's size is what this program gets of it now, and its latency that of a load that waits for
the one before: an upper bound where loads overlap. Memory is taken only as far as neither the
machine nor a group of processes would have to swap.

The record is kept in $XDG_STATE_HOME/linerate (~/.local/state/linerate) as the profile of this
machine, unless a private cache was not found or passes were too few: stat --tier sim then
simulates the caches as they were found, and run and tune report the cost of packets that do not fit
them. Examples:

  linerate memory
  linerate memory --quick --max 64M
  linerate memory --full --all --svg curves
  linerate memory --json | jq '.summary.levels[] | {name, size_bytes, latency_ns}'

Exit status 2: there is too little memory, or it was interrupted; what was measured is printed.";

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct MemoryArgs {
    /// Levels, translation and costs only, in about 2 s instead of 10
    #[arg(long)]
    quick: bool,
    /// Everything with narrower intervals, in about 60 s
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Memory limit, e.g. 64M or 2G (default: as much as is useful)
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    pub(crate) max: Option<u64>,
    /// Measure on this CPU (default: the first that `run` would take)
    #[arg(long, value_name = "N", value_parser = cpu, allow_negative_numbers = true)]
    pub(crate) cpu: Option<u32>,
    /// Measure the curves on these pages: base or huge (default: huge where there are any)
    #[arg(long, value_name = "PAGES", value_parser = pages)]
    pub(crate) pages: Option<PageKind>,
    /// Print everything: every size, the histograms, the events
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) plots: Plots,
    /// Do not keep the record as the profile of this machine
    #[arg(long)]
    pub(crate) no_store: bool,
    /// Random seed, of the orders of loads and sizes
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl MemoryArgs {
    /// How long to measure.
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
    Err(format!("{text} is too small to measure in; the minimum is {least} ({LEAST_BYTES} bytes)"))
}

fn pages(text: &str) -> Result<PageKind, String> {
    match text {
        "base" => Ok(PageKind::Base),
        "huge" => Ok(PageKind::Huge),
        _ => Err("choose from base, huge".to_owned()),
    }
}
