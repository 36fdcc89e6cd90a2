// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests a CPU's PMU registers with a known workload.

use super::Registers;
use super::module::CYCLE_COUNTER;
use super::processor::Processor;
use crate::reading::Counts;
use linerate_linux::pin_current_thread;
use std::hint::black_box;
use std::thread::ScopedJoinHandle;

/// Number of iterations of the counted loop.
const ITERATIONS: u64 = 20_000;
/// Minimum accepted cycle count: a quarter of the count at only one cycle per iteration.
const LEAST: u64 = ITERATIONS / 4;

/// Counts the cycles of a known workload on `cpu`, whose PMU registers the module made accessible.
/// The workload runs on a separate thread, so that the calling thread is not pinned.
///
/// # Errors
/// Returns an error that states why cycles could not be counted, or that too few were counted.
pub fn count_cycles(cpu: u32) -> Result<u64, String> {
    let counted = std::thread::scope(|scope| {
        let started = std::thread::Builder::new().spawn_scoped(scope, move || counted(cpu));
        started.map(ScopedJoinHandle::join)
    });
    let counted = counted.map_err(|error| format!("cannot start a test thread: {error}"))?;
    let cycles = counted.unwrap_or_else(|_| Err("the test thread panicked".to_owned()))?;
    match cycles < LEAST {
        true => {
            Err(format!("only {cycles} cycles were counted, although at least {LEAST} elapsed"))
        }
        false => Ok(cycles),
    }
}

fn counted(cpu: u32) -> Result<u64, String> {
    pin_current_thread(cpu).map_err(|error| error.to_string())?;
    let registers = Registers::new(Processor::new()?, &[(0, CYCLE_COUNTER)]);
    let registers = registers.ok_or("the registers are not accessible")?;
    let (mut first, mut second) = (Counts::default(), Counts::default());
    let before = registers.first(&mut first);
    (0..ITERATIONS).for_each(|iteration| {
        black_box(iteration);
    });
    before.and(registers.second(&mut second)).ok_or("access was disabled in the meantime")?;
    Ok(second[0].wrapping_sub(first[0]))
}
