// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out which step of the inner loop limits the checksum of long buffers. Times loops that
//! contain more and more of these steps, interleaved with the selected variant.
//!
//! If the time per vector grows by the same amount with every vector instruction from the second
//! on, but not with scalar ones, the vector execution ports are the bottleneck.

use crate::Error;
use crate::peers::steps as loops;
use linerate_kernels::Kernel;
use linerate_kernels::bench::Routine;
use linerate_linux::pin_current_thread;
use linerate_record::stats::{CONFIDENCE, Estimate, interval_name};
use linerate_trial::{Length, Machine, Rules, Watch, Window};
use std::convert::Infallible;
use std::fmt::Write;
use std::hint::black_box;

const ROUNDS: u32 = 201;
const ROUNDS_QUICK: u32 = 9;

/// Calls per window.
const CALLS: u32 = 256;

/// Lengths in bytes: multiples of 512 that fit in L1.
const LENGTHS: [usize; 3] = [4096, 8192, 16384];

/// A loop, or the selected variant, at one length.
#[derive(Clone, Debug)]
pub struct Row {
    name: &'static str,
    bytes: usize,
    /// Ticks per vector of 64 bytes.
    ticks: f64,
    /// Time relative to the loop that only loads.
    ratio: Option<Estimate>,
}

/// Measures all loops on the calling thread, which is pinned to `cpu` and stays pinned. Returns no
/// rows on machines without the instructions. `seed` determines contents and order.
///
/// # Errors
/// Returns an error if the thread cannot be pinned.
pub fn steps(cpu: u32, quick: bool, seed: u64) -> Result<Vec<Row>, Error> {
    pin_current_thread(cpu).map_err(Error::Pin)?;
    let mut routines = loops();
    if routines.is_empty() {
        return Ok(Vec::new());
    }
    routines.push(Routine::selected(Kernel::Checksum));
    let longest = LENGTHS[LENGTHS.len() - 1];
    let mut memory = vec![0; longest + 64];
    fastrand::Rng::with_seed(seed).fill(&mut memory);
    let first = memory.as_ptr().align_offset(64);
    let memory = &memory[first..first + longest];
    let rounds = if quick { ROUNDS_QUICK } else { ROUNDS };
    Ok(LENGTHS.iter().flat_map(|&bytes| race(&routines, &memory[..bytes], rounds, seed)).collect())
}

fn race(routines: &[Routine], memory: &[u8], rounds: u32, seed: u64) -> Vec<Row> {
    let names: Vec<&str> = routines.iter().map(Routine::name).collect();
    let (clock, length) = (Machine::counter(), Length::Rounds(rounds));
    let rules = Rules { what: "steps", contestants: &names, placements: 1, length, seed };
    let Ok(mut samples) = linerate_trial::rounds(&rules, &clock, &Watch::unattended(), |turn| {
        let pass = |calls| {
            for _ in 0..calls {
                black_box(routines[turn.contestant].checksum(memory, 0));
            }
        };
        let mut window = Window::open(&clock);
        pass(CALLS / 4);
        window.start();
        pass(CALLS);
        let window = window.close();
        let vectors = f64::from(CALLS) * memory.len() as f64 / 64.0;
        Ok::<_, Infallible>(window.keep(window.ticks as f64 / vectors))
    });
    samples.drop_far_slower();
    let row = |which: usize| Row {
        name: routines[which].name(),
        bytes: memory.len(),
        ticks: samples.median(which).unwrap_or(f64::NAN),
        ratio: samples.ratio(which, 0, CONFIDENCE),
    };
    (0..routines.len()).map(row).collect()
}

/// Formats the rows as a table: ticks per vector, and the ratio to loads alone with its interval.
pub fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "this machine lacks AVX-512 VNNI, or the loops were not compiled\n".to_owned();
    }
    let interval = interval_name();
    let mut text = format!(
        "{:6} {:30} {:>12} {:>8} {interval:>17}\n",
        "bytes", "per vector of 64 bytes", "ticks/vector", "to load"
    );
    for row in rows {
        let ratio = row.ratio.map_or_else(
            || "-".to_owned(),
            |ratio| {
                let interval = format!("{:.3} to {:.3}", ratio.low, ratio.high);
                format!("{:8.3} {interval:>17}", ratio.value)
            },
        );
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<6} {:30} {:12.3} {ratio}", row.bytes, row.name, row.ticks);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_per_row_or_says_why_not() {
        let ratio = Some(Estimate::of_ends(2.0, Some(1.9), Some(2.1), 9));
        let rows = [Row { name: "load", bytes: 4096, ticks: 0.5, ratio }];
        let table = table(&rows);
        assert!(table.ends_with("0.500    2.000    1.900 to 2.100\n"), "{table}");
        assert!(super::table(&[]).contains("AVX-512"));
    }
}
