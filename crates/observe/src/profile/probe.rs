// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses how much of the stack to copy with each sample, by sampling a running program for a
//! moment with the largest copies (docs/decisions/0531).

use super::depths::COPIES;
use super::events::{Events, SampleRate};
use super::stacks::Stacks;
use super::{ProfileRequest, ProfileTarget, STACK_TICK};
use linerate_linux::monotonic_ns;
use linerate_machine::Root;

/// Divisors of the sampling rate, one for each of [`COPIES`]: larger copies are made less often, so
/// that the total cost of copying hardly increases.
const RARER: [u64; 4] = [1, 1, 2, 4];
const LEAST_RATE: u64 = 97;
/// Sampling rate and length of the probe. The rate is not a multiple of timer rates.
const RATE: u64 = 397;
const NS: u64 = 100_000_000;

/// Returns the number of stack bytes to copy and the sampling rate. A command has not started yet
/// and cannot be probed, so `stack_bytes` and the requested rate are returned unchanged.
pub(super) fn probed(
    root: &Root,
    request: &ProfileRequest,
    pids: &[u32],
    stack_bytes: u32,
) -> (u32, SampleRate) {
    let unchanged = (stack_bytes, request.rate);
    let is_command = matches!(request.target, ProfileTarget::Command(_));
    if stack_bytes != COPIES[0] || is_command {
        return unchanged;
    }
    let largest = COPIES[COPIES.len() - 1];
    let opened = Events::open(root, pids, SampleRate::PerSecond(RATE), largest);
    // If the probe is refused, so is the profile, which then gives the reason.
    let Ok(mut events) = opened else { return unchanged };
    let mut stacks = Stacks::new(request, pids, true, events.is_by_cpu());
    let ends_ns = monotonic_ns() + NS;
    while monotonic_ns() < ends_ns {
        linerate_linux::child::sleep(STACK_TICK);
        events.drain(|item| stacks.take(item));
    }
    match stacks.depths().choice() {
        0 => unchanged,
        place => {
            let rate = 1_000_000_000 / request.rate.period_ns().max(1);
            let rarer = (rate / RARER[place]).max(LEAST_RATE.min(rate));
            (COPIES[place], SampleRate::PerSecond(rarer))
        }
    }
}
