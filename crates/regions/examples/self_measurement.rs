// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that measures itself: a matrix product or a pointer chase, with one region around the
//! whole program and one around the actual work. Under `linerate stat`, the same work is counted
//! both from inside and from outside.
//!
//! `cargo run --release -p linerate-regions --example self_measurement -- matmul 300`
//!
//! The arguments select the work: `matmul N` (matrices of N x N 32-bit floats, textbook loops),
//! `chase N` (N steps through 8 MiB in random order) or `nothing 0`. Environment variables
//! set the name of the record and the events to count; see `Options::from_environment`.

use linerate_record::random::Random;
use linerate_regions::{Options, Regions, Thread};
use std::hint::black_box;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let size = words.get(1).and_then(|size| size.parse().ok());
    let regions = Regions::new(&Options::from_environment());
    let thread = regions.thread();
    let all = thread.enter(regions.region("program"));
    match (words.first().map(String::as_str), size) {
        (Some("matmul"), Some(size)) => matmul(&regions, &thread, size),
        (Some("chase"), Some(steps)) => chase(&regions, &thread, steps),
        (Some("nothing"), Some(_)) => {}
        _ => {
            eprintln!("usage: self_measurement matmul|chase|nothing N");
            return ExitCode::from(2);
        }
    }
    drop(all);
    match regions.finish() {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("self_measurement: {error}");
            ExitCode::FAILURE
        }
    }
}

fn matmul(regions: &Regions, thread: &Thread, size: usize) {
    let a: Vec<f32> = (0..size * size).map(|i| (i % 7) as f32).collect();
    let b: Vec<f32> = (0..size * size).map(|i| (i % 5) as f32).collect();
    let mut product = vec![0.0; size * size];
    let inside = thread.enter(regions.region("work"));
    multiply(black_box(&a), black_box(&b), &mut product, size);
    inside.add_units((size * size * size) as u64);
    black_box(&product);
}

/// Multiplies two matrices in textbook order: the innermost loop walks down a column of `b`.
#[inline(never)]
fn multiply(a: &[f32], b: &[f32], product: &mut [f32], size: usize) {
    for i in 0..size {
        for j in 0..size {
            let terms = (0..size).map(|k| a[i * size + k] * b[k * size + j]);
            product[i * size + j] = terms.sum();
        }
    }
}

fn chase(regions: &Regions, thread: &Thread, steps: usize) {
    const PLACES: usize = 1 << 21;
    let mut next: Vec<u32> = (0..PLACES as u32).collect();
    // Sattolo's shuffle produces a single cycle through all slots.
    let mut random = Random::new(1);
    for last in (1..PLACES).rev() {
        next.swap(last, random.below(last));
    }
    let inside = thread.enter(regions.region("work"));
    black_box(follow(black_box(&next), steps));
    inside.add_units(steps as u64);
}

#[inline(never)]
fn follow(next: &[u32], steps: usize) -> u32 {
    (0..steps).fold(0, |place, _| next[place as usize])
}
