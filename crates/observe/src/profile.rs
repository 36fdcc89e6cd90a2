// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles a program: samples call chains of all its threads, processes and descendants over one
//! window.
//!
//! New threads and processes inherit the events, so even short-lived ones are sampled. The kernel
//! reports their mappings, so functions can be named after a program has exited.

#[cfg(target_arch = "x86_64")]
mod annotate;
mod call_graph;
mod depths;
mod events;
mod evidence;
#[cfg(target_arch = "x86_64")]
mod instructions;
#[cfg(not(target_arch = "x86_64"))]
#[path = "profile/not_decoded.rs"]
mod instructions;
mod limits;
mod losses;
mod meter;
mod operands;
mod polling;
mod probe;
mod regions;
mod result;
mod sleepers;
mod stacks;
mod streams;
mod switching;
mod timeline;
#[cfg(target_arch = "x86_64")]
mod unwind;
#[cfg(not(target_arch = "x86_64"))]
#[path = "profile/not_unwound.rs"]
mod unwind;
mod waited;

#[cfg(not(target_arch = "x86_64"))]
#[path = "profile/not_annotated.rs"]
mod annotate;

use crate::ObserveError;
use crate::command::{Running, Waiting};
use crate::procfs::task::STATUS_UNKNOWN;
use crate::sampler::cost::sample_cost_ns;
use crate::target::{Family, check, named, stat_of};
use events::Events;
use limits::limits;
use linerate_linux::{monotonic_ns, thread_cpu_time_ns};
use linerate_machine::Root;
use linerate_record::profile::{CostClass, ProfileReport};
use linerate_trial::Watch;
use meter::Meter;
use regions::Regions;
use sleepers::Asleep;
use stacks::Stacks;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

pub use call_graph::{CallGraph, STACK_BYTES};
pub use events::SampleRate;

/// What to sample, how long, and how often.
#[derive(Clone, Debug)]
pub struct ProfileRequest {
    /// The program.
    pub target: ProfileTarget,
    /// Window length.
    pub window: Duration,
    /// Sampling rate while a thread is running.
    pub rate: SampleRate,
    /// How to find callers.
    pub call_graph: CallGraph,
    /// Interface whose packets are the denominator of per-packet costs.
    pub interface: Option<String>,
    /// Returns the class of a function, given its name and file.
    pub class_of: fn(&str, &str) -> CostClass,
    /// Function whose instructions are recorded.
    pub annotated: Annotated,
    /// Whether to record the time of each sample.
    pub has_timeline: bool,
}

/// Function whose instructions are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Annotated {
    /// None.
    #[default]
    None,
    /// The function with the most samples among those whose code is in a file.
    Hottest,
    /// The hottest function with this name or, if there is none, whose name contains it.
    Named(String),
}

/// What to sample.
#[derive(Clone, Debug)]
pub enum ProfileTarget {
    /// These processes and their descendants.
    Pids(Vec<u32>),
    /// All processes with this name or executable name, and their descendants.
    Name(String),
    /// A command, started in its own process group and sampled from its first instruction.
    /// Terminated after the window.
    Command(Vec<OsString>),
}

/// Number of slices per window.
const SLICES: u128 = 100;
/// Minimum slice length.
const SLICE_MIN: Duration = Duration::from_millis(10);
/// Maximum interval between reads of the rings if stacks are not copied.
const TICK: Duration = Duration::from_millis(25);
/// Maximum interval between reads of the rings if stacks are copied.
const STACK_TICK: Duration = Duration::from_millis(10);

/// Samples `request.target` for `request.window`, or until `watch` stops it or all processes have
/// exited.
///
/// # Errors
///
/// Returns an error if there is nothing to sample, if sampling is not permitted, or if there were
/// no samples.
pub fn profile(request: &ProfileRequest, watch: &Watch<'_>) -> Result<ProfileReport, ObserveError> {
    let root = &Root::new(Path::new("/"));
    let cost_ns = sample_cost_ns();
    let is_free = matches!(request.rate, SampleRate::AtMost(_));
    let request = &ProfileRequest { rate: request.rate.fixed(cost_ns), ..request.clone() };
    let waiting = match &request.target {
        ProfileTarget::Command(command) => Some(Waiting::new(command)?),
        ProfileTarget::Pids(_) | ProfileTarget::Name(_) => None,
    };
    let pids = pids(root, request, waiting.as_ref())?;
    let mut program = Program::new(root, request, &pids);
    let mut meter = Meter::new(root, &program.family.pids, request.interface.as_deref())?;
    if request.has_timeline {
        meter.count_losses(program.family.pids[0], request.interface.as_deref());
    }
    let (stack_bytes, rate) = copies(root, request, &program.family.pids, is_free)?;
    let request = &ProfileRequest { rate, ..request.clone() };
    let tick = if stack_bytes > 0 { STACK_TICK } else { TICK };
    let mut events = Events::open(root, &program.family.pids, request.rate, stack_bytes)?;
    let has_copies = stack_bytes > 0;
    let mut stacks = Stacks::new(request, &program.family.pids, has_copies, events.is_by_cpu());
    let (mut asleep, mut regions) = (Asleep::default(), Regions::default());
    meter.read(root);
    let (began_ns, own_ns) = (monotonic_ns(), thread_cpu_time_ns());
    events.begin(|item| stacks.take(item));
    let mut running = waiting.map(Waiting::start).transpose()?;
    asleep.read(root, stacks.pids());
    let slices = (request.window.as_nanos() / SLICE_MIN.as_nanos()).clamp(1, SLICES) as u32;
    for slice in 1..=slices {
        let ends_ns = began_ns + (request.window * slice / slices).as_nanos() as u64;
        while !watch.is_stopped() && monotonic_ns() < ends_ns {
            let left = Duration::from_nanos(ends_ns.saturating_sub(monotonic_ns()));
            linerate_linux::child::sleep(left.min(tick));
            events.drain(|item| stacks.take(item));
            asleep.tick(root);
        }
        meter.read(root);
        stacks.end_slice(&mut events);
        meter.end_slice(events.drained_ns());
        meter.watch(root, stacks.thread_ids());
        asleep.read(root, stacks.pids());
        regions.read(slice, stacks.pids());
        program.rename(stacks.name(program.family.pids[0]));
        watch.progress("sampling", f64::from(slice) / f64::from(slices));
        if program.has_ended(root, &stacks, running.as_mut()) || watch.is_stopped() {
            break;
        }
    }
    stacks.end_window(&mut events);
    let elapsed_s = events.drained_ns().saturating_sub(began_ns) as f64 / 1e9;
    let cpu_s = events.run_ns() as f64 / 1e9;
    asleep.finish(root);
    program.interrupted = watch.is_stopped();
    meter.finish(root);
    let own_s = (thread_cpu_time_ns() - own_ns) as f64 / 1e9;
    let window = result::Window { began_ns, elapsed_s, cpu_s, own_s, cost_ns };
    drop(running);
    let mut report = result::report(request, &program, (&mut events, stacks, &mut meter), &window)?;
    evidence::add(&mut report.0, &report.1, (&asleep, &regions));
    report.0.limits = limits(root);
    Ok(report.0)
}

/// Returns the processes to sample.
fn pids(
    root: &Root,
    request: &ProfileRequest,
    waiting: Option<&Waiting>,
) -> Result<Vec<u32>, ObserveError> {
    let pids = match (&request.target, waiting) {
        (_, Some(waiting)) => vec![waiting.pid()],
        (ProfileTarget::Name(name), None) => named(root, name)?,
        (ProfileTarget::Pids(pids), None) => pids.clone(),
        (ProfileTarget::Command(_), None) => Vec::new(),
    };
    if pids.is_empty() {
        return Err(ObserveError::NoProcess);
    }
    for &pid in &pids {
        check(root, pid)?;
    }
    Ok(pids)
}

/// Returns the number of stack bytes to copy and the sampling rate. They are adapted to the program
/// only if `is_free`, that is, if the user did not choose a rate.
fn copies(
    root: &Root,
    request: &ProfileRequest,
    pids: &[u32],
    is_free: bool,
) -> Result<(u32, SampleRate), ObserveError> {
    let stack_bytes = request.call_graph.stack_bytes(request, pids)?;
    match is_free && request.call_graph == CallGraph::Auto {
        true => Ok(probe::probed(root, request, pids, stack_bytes)),
        false => Ok((stack_bytes, request.rate)),
    }
}

/// State of the sampled program.
pub(crate) struct Program {
    name: String,
    family: Family,
    is_command: bool,
    ended: Option<String>,
    interrupted: bool,
}

impl Program {
    fn new(root: &Root, request: &ProfileRequest, pids: &[u32]) -> Self {
        let is_command = matches!(request.target, ProfileTarget::Command(_));
        Self {
            name: stat_of(root, pids[0]).map(|stat| stat.name).unwrap_or_default(),
            family: if is_command { Family::of_one(pids[0]) } else { Family::new(root, pids) },
            is_command,
            ended: None,
            interrupted: false,
        }
    }

    /// Updates the name of a command from its first process, which initially has linerate's name.
    fn rename(&mut self, name: Option<&str>) {
        if let Some(name) = name.filter(|_| self.is_command) {
            name.clone_into(&mut self.name);
        }
    }

    /// Returns whether nothing is left to sample, setting `ended` to the reason.
    fn has_ended(&mut self, root: &Root, stacks: &Stacks, running: Option<&mut Running>) -> bool {
        let is_there = |pid: u32| stat_of(root, pid).is_some_and(|stat| !stat.has_process_ended());
        if self.family.pids.iter().copied().chain(stacks.pids()).any(is_there) {
            return false;
        }
        let ended = running.and_then(Running::wait_a_moment);
        self.ended = Some(ended.unwrap_or_else(|| STATUS_UNKNOWN.to_owned()));
        true
    }
}
