// SPDX-License-Identifier: MIT OR Apache-2.0
//! The window: what is read when.

use crate::command::Running;
use crate::target::{Family, check, named};
use crate::{ObserveError, Request, Target};
use linerate_linux::{monotonic_ns, thread_cpu_time_ns};
use linerate_machine::Root;
use linerate_record::why::{Observation, Watched};
use linerate_record::{Figure, Tier};
use linerate_trial::Watch;
use std::collections::BTreeMap;
use std::time::Duration;

/// Slices of a window; fewer where one would be shorter than [`SLICE_MIN`].
const SLICES: u32 = 50;

/// Times of /proc/stat are in hundredths of a second, those of a running thread are brought up to
/// date at each timer interrupt, some milliseconds apart.
const SLICE_MIN: Duration = Duration::from_millis(20);

/// Watches, from start to end.
///
/// # Errors
/// As [`crate::observe`].
pub(crate) fn observe(
    root: &Root,
    request: &Request,
    watch: &Watch<'_>,
) -> Result<Observation, ObserveError> {
    let mut running = match &request.target {
        Target::Command(command) => Some(Running::start(command)?),
        _ => None,
    };
    let pids = match (&request.target, &running) {
        (_, Some(running)) => vec![running.pid()],
        (Target::Pids(pids), None) => pids.clone(),
        (Target::Name(name), None) => named(root, name)?,
        _ => Vec::new(),
    };
    let mut name = String::new();
    for &pid in &pids {
        name = check(root, pid)?.name;
    }
    let mut family = Family::new(root, &pids);
    let (began_ns, cpu_ns) = (monotonic_ns(), thread_cpu_time_ns());
    let slices = (request.window.as_nanos() / SLICE_MIN.as_nanos()).clamp(1, SLICES.into()) as u32;
    for slice in 0..slices {
        std::thread::sleep(request.window / slices);
        family.look(root);
        watch.progress("watching", f64::from(slice + 1) / f64::from(slices));
    }
    let elapsed_s = (monotonic_ns() - began_ns) as f64 / 1e9;
    let cpu_s = (thread_cpu_time_ns() - cpu_ns) as f64 / 1e9;
    Ok(Observation {
        watched: Watched {
            name,
            pids: family.pids,
            interface: None,
            line_bits_per_s: request.line_bits_per_s,
            is_command: running.is_some(),
            ended: running.as_mut().and_then(Running::ended),
            interrupted: watch.is_stopped(),
        },
        elapsed_s,
        slices,
        threads: Vec::new(),
        threads_left_out: 0,
        quotas: Vec::new(),
        cpus: Vec::new(),
        interfaces: Vec::new(),
        protocols: BTreeMap::new(),
        sockets: Vec::new(),
        program: None,
        events: Vec::new(),
        packets: None,
        packets_per_s: Vec::new(),
        observer: Figure::exact(
            "CPUs",
            cpu_s / elapsed_s,
            Tier::Sw,
            "own CPU time over the window",
        ),
        unread: Vec::new(),
    })
}
