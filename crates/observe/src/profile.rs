// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles a program: samples all its threads, processes and their descendants, with call chains,
//! over one window.
//!
//! The kernel lets new threads and processes inherit the events, so that even short-lived ones are
//! sampled, and it reports their mappings, so that functions are named after a program has exited.

mod call_graph;
mod events;
mod meter;
mod polling;
mod result;
mod stacks;
#[cfg(target_arch = "x86_64")]
mod unwind;
#[cfg(not(target_arch = "x86_64"))]
#[path = "profile/not_unwound.rs"]
mod unwind;

use crate::ObserveError;
use crate::command::{Running, Waiting};
use crate::target::{Family, check, named, stat_of};
use events::Events;
use linerate_linux::{monotonic_ns, thread_cpu_time_ns};
use linerate_machine::Root;
use linerate_record::profile::{CostClass, ProfileReport};
use linerate_trial::Watch;
use meter::Meter;
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
    /// Length of the window.
    pub window: Duration,
    /// Sampling rate of a running thread.
    pub rate: SampleRate,
    /// How to find callers.
    pub call_graph: CallGraph,
    /// Interface whose packet count the costs are divided by.
    pub interface: Option<String>,
    /// Classifies a function by its name and file.
    pub class_of: fn(&str, &str) -> CostClass,
}

/// The program to sample.
#[derive(Clone, Debug)]
pub enum ProfileTarget {
    /// These processes, with their descendants.
    Pids(Vec<u32>),
    /// All processes with this name or executable name, with their descendants.
    Name(String),
    /// A command started here in its own process group, sampled from its first instruction. It is
    /// terminated after the window.
    Command(Vec<OsString>),
}

/// Number of slices per window, and the minimum slice length.
const SLICES: u128 = 100;
const SLICE_MIN: Duration = Duration::from_millis(10);
/// Maximum interval between reads of the rings, without and with stack copies.
const TICK: Duration = Duration::from_millis(25);
const STACK_TICK: Duration = Duration::from_millis(10);

/// Samples `request.target` for `request.window`, or until `watch` stops it or all of its processes
/// have exited.
///
/// # Errors
///
/// There is nothing to sample, sampling is not permitted, or there were no samples.
pub fn profile(request: &ProfileRequest, watch: &Watch<'_>) -> Result<ProfileReport, ObserveError> {
    let root = &Root::new(Path::new("/"));
    let waiting = match &request.target {
        ProfileTarget::Command(command) => Some(Waiting::new(command)?),
        ProfileTarget::Pids(_) | ProfileTarget::Name(_) => None,
    };
    let pids = match (&request.target, &waiting) {
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
    let mut program = Program::new(root, request, &pids);
    let mut meter = Meter::new(root, &program.family.pids, request.interface.as_deref())?;
    let stack_bytes = request.call_graph.stack_bytes(request, &program.family.pids)?;
    let tick = if stack_bytes > 0 { STACK_TICK } else { TICK };
    let mut events = Events::open(root, &program.family.pids, request.rate, stack_bytes)?;
    let mut stacks = Stacks::new(&program.family.pids);
    let mut running = waiting.map(Waiting::start).transpose()?;
    // Opening the events may take longer than a slice: packets and samples are counted from here.
    meter.read(root);
    let (began_ns, own_ns) = (monotonic_ns(), thread_cpu_time_ns());
    let slices = (request.window.as_nanos() / SLICE_MIN.as_nanos()).clamp(1, SLICES) as u32;
    for slice in 1..=slices {
        let ends_ns = began_ns + (request.window * slice / slices).as_nanos() as u64;
        while !watch.is_stopped() && monotonic_ns() < ends_ns {
            let left = Duration::from_nanos(ends_ns.saturating_sub(monotonic_ns()));
            linerate_linux::child::sleep(left.min(tick));
            events.drain(|item| stacks.take(item));
        }
        meter.read(root);
        stacks.end_slice(&mut events);
        meter.end_slice();
        meter.watch(root, stacks.thread_ids());
        program.rename(stacks.name(program.family.pids[0]));
        watch.progress("sampling", f64::from(slice) / f64::from(slices));
        if program.has_ended(root, &stacks, running.as_mut()) || watch.is_stopped() {
            break;
        }
    }
    events.drain(|item| stacks.take(item));
    program.interrupted = watch.is_stopped();
    meter.finish(root);
    let window = result::Window {
        elapsed_s: (monotonic_ns() - began_ns) as f64 / 1e9,
        own_s: (thread_cpu_time_ns() - own_ns) as f64 / 1e9,
    };
    drop(running);
    result::report(request, &program, (&mut events, stacks, &mut meter), &window)
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

    /// Takes the name of a command from its first process, which initially has linerate's name.
    fn rename(&mut self, name: Option<&str>) {
        if let Some(name) = name.filter(|_| self.is_command) {
            name.clone_into(&mut self.name);
        }
    }

    /// Whether nothing is left to sample; sets `ended` to the reason.
    fn has_ended(&mut self, root: &Root, stacks: &Stacks, running: Option<&mut Running>) -> bool {
        let is_there = |pid: u32| stat_of(root, pid).is_some_and(|stat| !stat.has_ended());
        if self.family.pids.iter().copied().chain(stacks.pids()).any(is_there) {
            return false;
        }
        let ended = running.and_then(Running::wait_a_moment);
        self.ended =
            Some(ended.unwrap_or_else(|| "only its parent can read its exit status".to_owned()));
        true
    }
}
