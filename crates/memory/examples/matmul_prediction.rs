// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicts how much slower textbook matrix multiplication is than loop-interchanged
//! multiplication, from a `linerate memory` record, and compares the prediction with a measurement.
//!
//! ```text
//! linerate memory --json > record.json
//! cargo run --release -p linerate-memory --example matmul_prediction -- record.json [N ...]
//! ```
//!
//! The model's inputs are the record, the matrix sizes, and the arithmetic time of both loops,
//! measured on rows of [`SMALL`] elements with all data in L1. The loops alternate on one row of
//! the product at a time, in stretches far shorter than a scheduler time slice; the fastest run of
//! each stretch counts. The exit status is 1 if the prediction is off by more than [`MOST_OFF`] at
//! more than one size in three.

use linerate_hierarchy::matmul::{Machine, Multiplication};
use linerate_linux::{monotonic_ns, pin_current_thread};
use linerate_memory::arena::Arena;
use linerate_record::memory::MemoryReport;
use linerate_record::{Body, Record};
use std::error::Error;
use std::hint::black_box;
use std::ops::{AddAssign, Mul};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Elements per row when timing the arithmetic; two rows of 8-byte elements fit in 16 KiB.
const SMALL: usize = 1000;

/// Default matrix dimensions, chosen not to be multiples of large powers of two.
const SIZES: [usize; 3] = [500, 1000, 2000];

const MOST_OFF: f64 = 0.2;

/// Multiply-adds per timed stretch: 20 to 200 us.
const STRETCH: usize = 40_000;

/// Minimum measuring time and minimum number of product rows.
const SPAN: Duration = Duration::from_millis(1000);
const LEAST_ROWS: u32 = 6;

trait Element: Copy + Mul<Output = Self> + AddAssign + From<u8> {}
impl Element for f32 {}
impl Element for f64 {}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: matmul_prediction RECORD.json [N ...]")?;
    let sizes: Vec<usize> = arguments.map(|n| n.parse()).collect::<Result<_, _>>()?;
    let sizes = if sizes.is_empty() { SIZES.to_vec() } else { sizes };
    let record = Record::from_json(&std::fs::read_to_string(path)?)?;
    let Body::Memory(report) = record.body else {
        return Err("not a record of `linerate memory`".into());
    };
    let machine = Machine::new(&report)?;
    pin_current_thread(report.conditions.cpu)?;
    println!("          ns per multiply-add, measured and predicted            slowdown");
    println!("      n   textbook         interchanged     measured  predicted    off");
    let single = compare::<f32>("f32", &machine, &report, &sizes)?;
    let double = compare::<f64>("f64", &machine, &report, &sizes)?;
    let is_good = [single, double].iter().all(|&good| 3 * good >= 2 * sizes.len());
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints one row per size and returns how many sizes were predicted correctly.
fn compare<T: Element>(
    name: &str,
    machine: &Machine,
    report: &MemoryReport,
    sizes: &[usize],
) -> Result<usize, Box<dyn Error>> {
    let element_bytes = size_of::<T>() as u64;
    let [textbook_ns, interchanged_ns] = measure::<T>(SMALL, None, report)?;
    println!("{name}: arithmetic alone {textbook_ns:.3} and {interchanged_ns:.3}");
    let mut good = 0;
    for &n in sizes {
        let n_bytes = n as u64;
        let multiplication =
            Multiplication { n: n_bytes, element_bytes, textbook_ns, interchanged_ns };
        let predicted = machine.predict(&multiplication);
        let [textbook, interchanged] = measure::<T>(n, Some(n), report)?;
        let (slowdown, expected) = (textbook / interchanged, predicted.slowdown());
        let off = expected / slowdown - 1.0;
        good += usize::from(off.abs() <= MOST_OFF);
        println!(
            "{n:7}   {textbook:6.3} {:6.3}    {interchanged:6.3} {:6.3}   {slowdown:8.2}   \
             {expected:8.2}   {:+4.0} %",
            predicted.textbook_ns,
            predicted.interchanged_ns,
            100.0 * off,
        );
    }
    println!("{name}: within {:.0} % at {good} of {} sizes", 100.0 * MOST_OFF, sizes.len());
    Ok(good)
}

/// Measures ns per multiply-add of both loops with rows of `n` elements. `rows` is the number of
/// rows of matrix `b`. If it is `None`, the loops reuse one row and adjacent columns, so that all
/// data stays in L1.
fn measure<T: Element>(
    n: usize,
    rows: Option<usize>,
    report: &MemoryReport,
) -> Result<[f64; 2], Box<dyn Error>> {
    let in_b = rows.map_or(2 * n, |rows| rows * n);
    let bytes = (2 * n + in_b) * size_of::<T>();
    let mut arena = Arena::new(bytes, report.pages.used, &AtomicBool::new(false))?;
    // SAFETY: every bit pattern is valid for these types, and they need no stricter alignment.
    let (_, elements, _) = unsafe { arena.words().align_to_mut::<T>() };
    elements.fill(T::from(1));
    let (a, rest) = elements.split_at_mut(n);
    let (c, b) = rest.split_at_mut(n);
    let (column_stride, row_stride) = if rows.is_some() { (n, n) } else { (1, 0) };
    // Keeps columns that share a line together.
    let width = (STRETCH / n).next_multiple_of(64 / size_of::<T>()).min(n);
    let stretches: Vec<(usize, usize)> =
        (0..n).step_by(width).map(|from| (from, (from + width).min(n))).collect();
    let mut fastest = vec![[f64::INFINITY; 2]; stretches.len()];
    let (end, mut done) = (Instant::now() + SPAN, 0);
    while done < LEAST_ROWS || Instant::now() < end {
        for (&(from, to), fastest) in stretches.iter().zip(&mut fastest) {
            let first = if rows.is_some() { from } else { from % n.min(64) };
            let b = black_box(&b[first..]);
            let ns = time(|| textbook(black_box(a), b, column_stride, &mut c[from..to]));
            fastest[0] = fastest[0].min(ns);
        }
        for (&(from, to), fastest) in stretches.iter().zip(&mut fastest) {
            let b = black_box(&b[from * row_stride..]);
            let ns = time(|| interchanged(black_box(&a[from..to]), b, row_stride, black_box(c)));
            fastest[1] = fastest[1].min(ns);
        }
        done += 1;
    }
    let sum = |which: usize| fastest.iter().map(|ns| ns[which]).sum::<f64>();
    let multiply_adds = (n * n) as f64;
    Ok([sum(0) / multiply_adds, sum(1) / multiply_adds])
}

fn time(work: impl FnOnce()) -> f64 {
    let start = monotonic_ns();
    work();
    (monotonic_ns() - start) as f64
}

/// Computes part of one product row from row `a` and columns of `b`. Successive elements of a
/// column are `stride` apart.
#[inline(never)]
fn textbook<T: Element>(a: &[T], b: &[T], stride: usize, c: &mut [T]) {
    for (column, c) in c.iter_mut().enumerate() {
        let mut sum = T::from(0);
        for (&a, &b) in a.iter().zip(b[column..].iter().step_by(stride)) {
            sum += a * b;
        }
        *c = sum;
    }
}

/// Adds the products of some elements of `a` and the corresponding rows of `b`, which are `stride`
/// apart, to a row of the result.
#[inline(never)]
fn interchanged<T: Element>(a: &[T], b: &[T], stride: usize, c: &mut [T]) {
    for (row, &a) in a.iter().enumerate() {
        let b = &b[row * stride..][..c.len()];
        for (c, &b) in c.iter_mut().zip(b) {
            *c += a * b;
        }
    }
}
