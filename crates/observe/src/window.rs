// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs an observation over its window.

use crate::assemble::{Window, assemble};
use crate::command::Running;
use crate::target::{check, named};
use crate::watching::{Watching, Windows};
use crate::{ObserveError, Request, Target};
use linerate_linux::{monotonic_ns, thread_cpu_time_ns};
use linerate_machine::Root;
use linerate_record::why::Observation;
use linerate_trial::Watch;
use std::time::Duration;

/// Number of slices per window. There are fewer if slices would otherwise be shorter than
/// [`SLICE_MIN`], and more if they would be longer than a second, the limit of the sample rings.
const SLICES: u128 = 50;

/// Minimum slice length. Times in /proc/stat have a resolution of 10 ms, and those of a running
/// thread are updated only at timer interrupts, a few milliseconds apart.
const SLICE_MIN: Duration = Duration::from_millis(20);

/// Sampling interval for sleeping threads. 200 samples in 5 s give shares to within about ±3
/// percentage points.
const TICK: Duration = Duration::from_millis(25);

/// Margin for late reads: once twice the window's nominal length plus this time has elapsed, the
/// remaining slices are skipped.
const LATE: Duration = Duration::from_secs(1);

/// Observes the request's target over the whole window.
///
/// # Errors
///
/// Returns the same errors as [`crate::observe`].
pub(crate) fn observe(
    root: &Root,
    request: &Request,
    watch: &Watch<'_>,
) -> Result<Observation, ObserveError> {
    let mut running = match &request.target {
        Target::Command(command) => Some(Running::start(command)?),
        _ => None,
    };
    // Tracing takes several files per CPU and thread. A command does not inherit the limit.
    linerate_linux::raise_open_files();
    let (pids, name) = processes(root, &request.target, running.as_mut())?;
    let interface = interface_of(&request.target);
    let mut watching = Watching::start(root, &pids, name, interface, Windows::One)?;
    let (began_ns, cpu_ns) = (monotonic_ns(), thread_cpu_time_ns());
    let latest_ns = began_ns + (2 * request.window + LATE).as_nanos() as u64;
    let slices = slices(request.window);
    for slice in 0..slices {
        let ends_ns = began_ns + (request.window * (slice + 1) / slices).as_nanos() as u64;
        while !watch.is_stopped() && monotonic_ns() < ends_ns {
            let left = Duration::from_nanos(ends_ns.saturating_sub(monotonic_ns()));
            linerate_linux::child::sleep(left.min(TICK));
            watching.tick(root);
        }
        watching.read(root, slice);
        watch.progress("watching", f64::from(slice + 1) / f64::from(slices));
        if watching.has_ended(root, running.as_mut()) {
            if let (0, Target::Command(command), Some(how)) =
                (slice, &request.target, &watching.ended)
            {
                return Err(ended_at_once(command, how));
            }
            break;
        }
        // If reads keep returning late, end the window early; half of the slices are enough.
        if watch.is_stopped() || monotonic_ns() > latest_ns {
            break;
        }
    }
    watching.finish(root);
    let elapsed_s = (monotonic_ns() - began_ns) as f64 / 1e9;
    let own_s = (thread_cpu_time_ns() - cpu_ns) as f64 / 1e9;
    let window = Window { elapsed_s, own: own_s / elapsed_s, interrupted: watch.is_stopped() };
    Ok(assemble(root, request, &mut watching, &window))
}

fn slices(window: Duration) -> u32 {
    let most = SLICES.max(window.as_millis().div_ceil(1000));
    (window.as_nanos() / SLICE_MIN.as_nanos()).clamp(1, most) as u32
}

fn ended_at_once(command: &[std::ffi::OsString], how: &str) -> ObserveError {
    let command: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    ObserveError::EndedAtOnce { command: command.join(" "), how: how.to_owned() }
}

pub(crate) fn interface_of(target: &Target) -> Option<String> {
    match target {
        Target::Interface(name) => Some(name.clone()),
        _ => None,
    }
}

/// Checks that all target processes can be observed. Returns them, and the name of the first.
pub(crate) fn processes(
    root: &Root,
    target: &Target,
    running: Option<&mut Running>,
) -> Result<(Vec<u32>, String), ObserveError> {
    let pids = match (target, &running) {
        (_, Some(running)) => vec![running.pid()],
        (Target::Pids(pids), None) if pids.is_empty() => return Err(ObserveError::NoProcess),
        (Target::Pids(pids), None) => pids.clone(),
        (Target::Name(name), None) => named(root, name)?,
        (Target::Interface(_) | Target::Command(_), None) => Vec::new(),
    };
    let mut names = Vec::new();
    for &pid in &pids {
        match (check(root, pid), target) {
            (Ok(stat), _) => names.push(stat.name),
            // The command was only just started and has already ended.
            (Err(ObserveError::Gone(_) | ObserveError::Zombie(_)), Target::Command(command)) => {
                let how = running.and_then(Running::wait_a_moment);
                return Err(ended_at_once(command, how.as_deref().unwrap_or("unknown status")));
            }
            (Err(error), _) => return Err(error),
        }
    }
    Ok((pids, names.into_iter().next().unwrap_or_default()))
}
