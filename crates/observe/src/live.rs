// SPDX-License-Identifier: MIT OR Apache-2.0
//! Consecutive windows of one observation, for a live view.
//!
//! Each window begins with the last readings of the one before, so that nothing is missed between
//! them and nothing is opened twice. Readings that are too expensive to take twice per second are
//! left out: tracepoints, the system calls in which threads sleep, and processes at the other ends
//! of connections. Function profiles use the last 10 slices, and the separation of work from
//! polling uses the last 120, as one window has too few samples for either.

use crate::assemble::{Window, assemble};
use crate::watching::{Watching, Windows};
use crate::window::{interface_of, processes};
use crate::{ObserveError, Request, Target};
use linerate_linux::{monotonic_ns, thread_cpu_time_ns};
use linerate_machine::Root;
use linerate_record::why::Observation;
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

/// Maximum slice length: a sample ring holds no more than one second of samples.
const SLICE_MAX: Duration = Duration::from_secs(1);
/// Number of windows over which the observer's own CPU time is averaged.
const OWN_WINDOWS: usize = 10;

/// A running observation.
pub struct Live {
    root: Root,
    request: Request,
    watching: Watching,
    /// Wall and CPU time at the ends of the most recent windows, in ns. The last entry is the start
    /// of the current window.
    ends: VecDeque<(u64, u64)>,
}

impl Live {
    /// Starts to watch an existing target.
    ///
    /// # Errors
    /// Returns an error if there is nothing to watch, or if watching is not permitted.
    /// [`Target::Command`] is not supported.
    pub fn start(target: &Target) -> Result<Self, ObserveError> {
        if matches!(target, Target::Command(_)) {
            return Err(ObserveError::NoProcess);
        }
        linerate_linux::raise_open_files();
        let root = Root::new(Path::new("/"));
        let (pids, name) = processes(&root, target, None)?;
        let watching = Watching::start(&root, &pids, name, interface_of(target), Windows::Many)?;
        // The counts of the first window begin now.
        let ends = VecDeque::from([(monotonic_ns(), thread_cpu_time_ns())]);
        let window = Duration::ZERO;
        let request = Request { target: target.clone(), window, line_bits_per_s: None };
        Ok(Self { root, request, watching, ends })
    }

    /// Watches for `window`, or until the last process has ended
    /// ([`Watched::ended`](linerate_record::why::Watched)), and returns the observation. `wait`
    /// blocks for at most the given time; if it returns `false`, the window ends. Call from one
    /// thread only.
    pub fn next(
        &mut self,
        window: Duration,
        wait: &mut dyn FnMut(Duration) -> bool,
    ) -> Observation {
        let began_ns = self.ends.back().map_or(0, |(wall_ns, _)| *wall_ns);
        let slices = window.as_nanos().div_ceil(SLICE_MAX.as_nanos()).max(1) as u32;
        let mut interrupted = false;
        for slice in 0..slices {
            let ends_ns = began_ns + (window * (slice + 1) / slices).as_nanos() as u64;
            while !interrupted && monotonic_ns() < ends_ns {
                let left = Duration::from_nanos(ends_ns.saturating_sub(monotonic_ns()));
                interrupted = !wait(left);
            }
            self.watching.read(&self.root, slice);
            if self.watching.has_ended(&self.root, None) || interrupted {
                break;
            }
        }
        self.watching.finish_live(&self.root);
        let now = (monotonic_ns(), thread_cpu_time_ns());
        let first = self.ends.front().copied().unwrap_or(now);
        self.ends.push_back(now);
        if self.ends.len() > OWN_WINDOWS {
            self.ends.pop_front();
        }
        let window = Window {
            elapsed_s: (now.0 - began_ns).max(1) as f64 / 1e9,
            own: (now.1 - first.1) as f64 / (now.0 - first.0).max(1) as f64,
            interrupted,
        };
        assemble(&self.root, &self.request, &mut self.watching, &window)
    }
}
