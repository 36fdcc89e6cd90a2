// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records how neighbours affect load latency. `lab/caches` uses the data to give its synthetic
//! machines realistic noise.
//!
//! ```text
//! cargo run --release -p linerate-memory --example record_noise -- 400 16K 256K 3M 128M >FILE
//! ```
//!
//! Each row holds one window for each of four page-local chains, sized to fit L1, L2, L3 and no
//! cache. A value is the window's time per load divided by the quiet time, which is the recording's
//! minimum. Four more arguments set the quiet times, in ns, to those of an earlier, quieter
//! recording (see its header). Windows in which the thread was preempted are repeated, as for a
//! curve.

use linerate_memory::Watch;
use linerate_memory::arena::Arena;
use linerate_memory::chase::{Chain, Cursor, Layout};
use linerate_memory::window::{Plan, Windows};
use linerate_record::memory::{Order, PageKind};
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const CLASSES: usize = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((rows, sizes, quiet_ns)) = parse(&arguments) else {
        eprintln!("usage: record_noise ROWS SIZE SIZE SIZE SIZE [NS NS NS NS]");
        return ExitCode::from(2);
    };
    match record(rows, &sizes) {
        Ok(times) => {
            print(&sizes, &times, quiet_ns);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("record_noise: {error}");
            ExitCode::from(2)
        }
    }
}

type Row = [f64; CLASSES];

fn parse(arguments: &[String]) -> Option<(usize, [usize; CLASSES], Option<Row>)> {
    let (rows, rest) = arguments.split_first()?;
    let (sizes, quiet_ns) = rest.split_at_checked(CLASSES)?;
    let sizes: Option<Vec<usize>> = sizes.iter().map(|size| bytes(size)).collect();
    let quiet_ns: Option<Vec<f64>> = quiet_ns.iter().map(|ns| ns.parse().ok()).collect();
    let quiet_ns = match quiet_ns?.as_slice() {
        [] => None,
        all => Some(Row::try_from(all).ok()?),
    };
    Some((rows.parse().ok()?, sizes?.try_into().ok()?, quiet_ns))
}

fn bytes(size: &str) -> Option<usize> {
    let unit = match size.chars().last()? {
        'K' => 10,
        'M' => 20,
        _ => 0,
    };
    let digits = size.trim_end_matches(['K', 'M']);
    digits.parse::<usize>().ok()?.checked_shl(unit).filter(|bytes| *bytes >= 64)
}

/// Records `rows` rows.
///
/// # Errors
/// Returns an error if the chains cannot be allocated or no window is clean within 10 s.
fn record(rows: usize, sizes: &[usize; CLASSES]) -> Result<Vec<Row>, Box<dyn Error>> {
    let stop = AtomicBool::new(false);
    let watch = Watch::new(&stop, &|_, _| {});
    let windows = Windows::new(&watch, Duration::from_secs(1));
    let arenas = sizes.iter().map(|size| Arena::new(*size, PageKind::Base, &stop));
    let mut arenas: Vec<Arena> = arenas.collect::<Result<_, _>>()?;
    let layout = Layout::dense(Order::PageLocal, 64);
    let chain = |arena| {
        let mut chain = Chain::new(arena, layout, 1);
        chain.resize(chain.capacity());
        (chain, Cursor::default())
    };
    let mut chains: Vec<(Chain<'_>, Cursor)> = arenas.iter_mut().map(chain).collect();
    let mut times = Vec::with_capacity(rows);
    for _ in 0..rows {
        let mut row = [0.0; CLASSES];
        for (ns, (chain, cursor)) in row.iter_mut().zip(&mut chains) {
            let lines = chain.len();
            *ns = one_window(&windows, chain, cursor)
                .ok_or_else(|| format!("no clean window in 10 s, chain of {lines} lines"))?;
        }
        times.push(row);
    }
    Ok(times)
}

/// Returns ns per load in a clean window. Walks the whole chain first if it fits a cache.
fn one_window(windows: &Windows<'_>, chain: &Chain<'_>, cursor: &mut Cursor) -> Option<f64> {
    let lines = chain.len() as u64;
    if lines <= 1 << 17 {
        chain.run(cursor, lines);
    }
    let window_ns = if lines <= 1 << 15 { 300_000.0 } else { 1_000_000.0 };
    let plan = Plan { window_ns, wanted: 1, deadline: Instant::now() + Duration::from_secs(10) };
    Some(windows.best_of(&plan, |loads| chain.run(cursor, loads))?.ns)
}

fn print(sizes: &[usize; CLASSES], times: &[Row], quiet_ns: Option<Row>) {
    let least = |class: usize| times.iter().map(|row| row[class]).fold(f64::INFINITY, f64::min);
    let quiet_ns = quiet_ns.unwrap_or_else(|| std::array::from_fn(least));
    let join = |row: &mut dyn Iterator<Item = String>| row.collect::<Vec<_>>().join(" ");
    println!("# bytes: {}", join(&mut sizes.iter().map(usize::to_string)));
    println!("# quiet ns: {}", join(&mut quiet_ns.iter().map(|ns| format!("{ns:.3}"))));
    for row in times {
        let ratios = row.iter().zip(quiet_ns).map(|(ns, quiet)| format!("{:.3}", ns / quiet));
        println!("{}", join(&mut ratios.into_iter()));
    }
}
