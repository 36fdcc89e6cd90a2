// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the page-local, random and sequential curves and prints them as JSON, one per line in
//! record format, for inspection and for testing detectors. Prints the first curve as a table on
//! stderr.
//!
//! `cargo run --release -p linerate-memory --example curves -- MIB SECONDS [base|huge] [SEED]`

use linerate_memory::arena::Arena;
use linerate_memory::curve::{Request, measure};
use linerate_memory::window::Windows;
use linerate_memory::{MemoryError, Watch};
use linerate_record::memory::{Order, PageKind};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

fn curves(mib: usize, seconds: f64, kind: PageKind, seed: u64) -> Result<(), MemoryError> {
    let stop = AtomicBool::new(false);
    let watch = Watch::new(&stop, &|_, _| {});
    let total = Duration::from_secs_f64(seconds);
    let windows = Windows::new(&watch, total);
    let begin = Instant::now();
    let mut arena = Arena::new(mib << 20, kind, &stop)?;
    eprintln!("arena {:.3} s, granted {:?}", begin.elapsed().as_secs_f64(), arena.granted());
    for (order, share, per_octave) in
        [(Order::PageLocal, 0.7, 4), (Order::Random, 0.2, 2), (Order::Sequential, 0.1, 1)]
    {
        let (begin, cpu) = (Instant::now(), linerate_linux::thread_cpu_time_ns());
        let request = Request {
            order,
            line: 64,
            passes: 5,
            per_octave,
            refine: if order == Order::PageLocal { 3 } else { 0 },
            seed,
            deadline: begin + total.mul_f64(share),
        };
        let curve = measure(&windows, &mut arena, &request);
        let cpu = (linerate_linux::thread_cpu_time_ns() - cpu) as f64 / 1e9;
        let seconds = begin.elapsed().as_secs_f64();
        eprintln!("{order:?} {seconds:.3} s, {cpu:.3} s of CPU, windows {:?}", windows.counts());
        for point in &curve.points {
            let ns: Vec<String> = point.passes_ns.iter().map(|ns| format!("{ns:.3}")).collect();
            let cycles = point.cycles.as_number().unwrap_or(f64::NAN);
            eprintln!("{:>9} KiB {cycles:8.3} cycles  {}", point.bytes >> 10, ns.join(" "));
        }
        println!("{}", serde_json::to_string(&curve).expect("numbers are finite"));
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let mut number = |default: f64| args.next().and_then(|arg| arg.parse().ok()).unwrap_or(default);
    let (mib, seconds) = (number(64.0), number(5.0));
    let kind = match args.next().as_deref() {
        Some("huge") => PageKind::Huge,
        _ => PageKind::Base,
    };
    let seed = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(1);
    match curves(mib as usize, seconds, kind, seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("curves: {error}");
            ExitCode::FAILURE
        }
    }
}
