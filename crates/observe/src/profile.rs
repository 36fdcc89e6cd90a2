// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles a program: samples all its threads, processes and their descendants, with call chains,
//! over one window.
//!
//! The kernel lets new threads and processes inherit the events, so that even short-lived ones are
//! sampled, and it reports their mappings, so that functions are named after a program has exited.

mod events;
mod result;
mod stacks;

use crate::ObserveError;
use crate::command::{Running, Waiting};
use crate::procfs::net::parse_dev;
use crate::target::{Family, check, named, stat_of};
use events::Events;
use linerate_linux::{monotonic_ns, thread_cpu_time_ns};
use linerate_machine::Root;
use linerate_record::profile::{CostClass, ProfileReport};
use linerate_record::why::PacketCount;
use linerate_trial::Watch;
use stacks::Stacks;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

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
/// Maximum interval between reads of the rings.
const TICK: Duration = Duration::from_millis(25);

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
    let mut program = Program::new(root, request, &pids)?;
    let mut events = Events::open(root, &program.family.pids, request.rate)?;
    let mut stacks = Stacks::new(&program.family.pids);
    let mut running = waiting.map(Waiting::start).transpose()?;
    let (began_ns, own_ns) = (monotonic_ns(), thread_cpu_time_ns());
    let slices = (request.window.as_nanos() / SLICE_MIN.as_nanos()).clamp(1, SLICES) as u32;
    for slice in 1..=slices {
        let ends_ns = began_ns + (request.window * slice / slices).as_nanos() as u64;
        while !watch.is_stopped() && monotonic_ns() < ends_ns {
            let left = Duration::from_nanos(ends_ns.saturating_sub(monotonic_ns()));
            linerate_linux::child::sleep(left.min(TICK));
            events.drain(|item| stacks.take(item));
        }
        stacks.end_slice(&mut events);
        program.count(root, stacks.name(program.family.pids[0]));
        watch.progress("sampling", f64::from(slice) / f64::from(slices));
        if program.has_ended(root, &stacks, running.as_mut()) || watch.is_stopped() {
            break;
        }
    }
    events.drain(|item| stacks.take(item));
    program.interrupted = watch.is_stopped();
    let window = result::Window {
        elapsed_s: (monotonic_ns() - began_ns) as f64 / 1e9,
        own_s: (thread_cpu_time_ns() - own_ns) as f64 / 1e9,
    };
    drop(running);
    result::report(request, &program, &mut events, stacks, &window)
}

/// State of the sampled program.
pub(crate) struct Program {
    name: String,
    family: Family,
    is_command: bool,
    interface: Option<String>,
    /// Packet counts of the interface at the start and now.
    packets: Option<[Counted; 2]>,
    ended: Option<String>,
    interrupted: bool,
}

/// Packets and bytes that an interface received and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    received: (u64, u64),
    sent: (u64, u64),
}

impl Program {
    fn new(root: &Root, request: &ProfileRequest, pids: &[u32]) -> Result<Self, ObserveError> {
        let is_command = matches!(request.target, ProfileTarget::Command(_));
        let interface = request.interface.clone();
        let mut program = Self {
            name: stat_of(root, pids[0]).map(|stat| stat.name).unwrap_or_default(),
            family: if is_command { Family::of_one(pids[0]) } else { Family::new(root, pids) },
            is_command,
            interface,
            packets: None,
            ended: None,
            interrupted: false,
        };
        if program.interface.is_some() {
            let first = program.counted(root)?;
            program.packets = Some([first, first]);
        }
        Ok(program)
    }

    /// Packet counts of the interface in the network namespace of the first process.
    fn counted(&self, root: &Root) -> Result<Counted, ObserveError> {
        let wanted = self.interface.as_deref().unwrap_or_default();
        let text = root.text(&format!("proc/{}/net/dev", self.family.pids[0])).unwrap_or_default();
        let links = parse_dev(&text);
        let link = links.iter().find(|link| link.name == wanted);
        let link = link.ok_or_else(|| ObserveError::NoSuchInterface {
            name: wanted.to_owned(),
            known: links.iter().map(|link| link.name.clone()).collect(),
        })?;
        Ok(Counted {
            received: (link.rx_packets, link.rx_bytes),
            sent: (link.tx_packets, link.tx_bytes),
        })
    }

    /// Reads data that are available only while the program exists: its name and its packet counts.
    fn count(&mut self, root: &Root, name: Option<&str>) {
        if let Some(name) = name.filter(|_| self.is_command) {
            name.clone_into(&mut self.name);
        }
        if let (Ok(now), Some([_, last])) = (self.counted(root), self.packets.as_mut()) {
            *last = now;
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

    /// Packets in the window: received or sent, whichever is more.
    fn packets(&self) -> Option<PacketCount> {
        let [first, last] = self.packets?;
        let grown = |of: fn(&Counted) -> (u64, u64)| {
            let (first, last) = (of(&first), of(&last));
            (last.0.saturating_sub(first.0), last.1.saturating_sub(first.1))
        };
        let (received, sent) = (grown(|c| c.received), grown(|c| c.sent));
        let ((packets, bytes), counter) = match received.0 >= sent.0 {
            true => (received, "rx_packets"),
            false => (sent, "tx_packets"),
        };
        let interface = self.interface.as_deref().unwrap_or_default();
        Some(PacketCount { packets, bytes: Some(bytes), counter: format!("{interface} {counter}") })
    }
}
