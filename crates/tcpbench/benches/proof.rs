// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs every pattern between every pair of stacks over a wire that drops, reorders, duplicates and
//! corrupts segments. Checks that data arrives unchanged and that, with checksums disabled, the
//! comparison detects the corruption.
//!
//! Results do not depend on timing: equal seeds give equal tables except for the last column. The
//! exit status is 1 if a byte is wrong, a connection makes no progress, or corruption goes
//! undetected.
//!
//! `cargo bench -p linerate-tcpbench --bench proof [-- BYTES]`: sends BYTES stream bytes, and runs
//! a thousandth as many exchanges and connections.

use linerate_tcpbench::pattern::Pattern;
use linerate_tcpbench::proof::{ROUGH, prove};
use linerate_tcpbench::routines::{OFF, SELECTED, Set};
use linerate_tcpbench::run::Stacks;
use linerate_tcpbench::session::Setup;
use linerate_tcpbench::{Error, Stack};
use std::process::ExitCode;
use std::time::Instant;

const BYTES: u64 = 10_000_000_000;
/// Number of stream bytes with `--test`, which CI passes to all benches.
const BYTES_BRIEF: u64 = 100_000_000;
/// Number of stream bytes per exchange or connection when sizing a run: one exchange or connection
/// costs about as much as sending this many bytes.
const BYTES_PER_EXCHANGE: u64 = 1000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let bytes = match words.as_slice() {
        [] => BYTES,
        [word] if word == "--test" => BYTES_BRIEF,
        [word] => match word.parse::<f64>() {
            Ok(number) if number >= 1.0 => number as u64,
            _ => return usage(word),
        },
        _ => return usage(&words.join(" ")),
    };
    match tables(bytes) {
        Ok(faults) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(faults) => {
            faults.iter().for_each(|fault| println!("FAIL {fault}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("proof: {error}");
            ExitCode::from(2)
        }
    }
}

fn usage(word: &str) -> ExitCode {
    eprintln!("proof: invalid number of bytes `{word}`; use for example 1e9");
    ExitCode::from(2)
}

/// Prints both tables and returns a description of each failure.
fn tables(bytes: u64) -> Result<Vec<String>, Error> {
    let stacks = Stacks::named(&[])?;
    for skipped in &stacks.skipped {
        println!("SKIP: {}: {}", skipped.what, skipped.reason);
    }
    let mut faults = Vec::new();
    println!(
        "{:20}{:12}{:>13}{:>11}{:>11}{:>9}{:>10}{:>9}{:>9}{:>8}{:>9}",
        "client to server",
        "pattern",
        "bytes",
        "exchanges",
        "frames",
        "lost",
        "reordered",
        "doubled",
        "damaged",
        "masked",
        "seconds"
    );
    for client in &stacks.present {
        for server in &stacks.present {
            for pattern in Pattern::ALL {
                faults.extend(row([client.as_ref(), server.as_ref()], pattern, bytes)?);
            }
        }
    }
    println!("\nwithout checksums, corruption found by comparing the data:");
    for stack in &stacks.present {
        faults.extend(control(stack.as_ref())?);
    }
    Ok(faults)
}

/// Runs one pattern between two stacks and returns the failures. A pair of different stacks gets a
/// tenth of the work, because each stack also runs the full amount against itself.
fn row(stacks: [&dyn Stack; 2], pattern: Pattern, bytes: u64) -> Result<Option<String>, Error> {
    let [client, server] = stacks.map(Stack::name);
    let bytes = if client == server { bytes } else { bytes / 10 };
    let amount = match pattern {
        Pattern::Interactive | Pattern::Response => bytes / BYTES_PER_EXCHANGE,
        Pattern::Bulk | Pattern::Jumbo | Pattern::Mixed => bytes,
    };
    let setup = Setup { impairments: ROUGH, ..Setup::for_pattern(pattern) };
    let start = Instant::now();
    let proof = match prove(&setup, stacks, &Set::find(SELECTED)?, amount.max(1)) {
        Ok(proof) => proof,
        Err(error) => {
            return Ok(Some(format!("{client} to {server}, {}: {error}", pattern.name())));
        }
    };
    println!(
        "{:20}{:12}{:>13}{:>11}{:>11}{:>9}{:>10}{:>9}{:>9}{:>8}{:>9.1}",
        format!("{client} to {server}"),
        pattern.name(),
        proof.bytes,
        proof.exchanges,
        proof.segments,
        proof.lost,
        proof.reordered,
        proof.duplicated,
        proof.corrupted,
        proof.masked,
        start.elapsed().as_secs_f64()
    );
    Ok(None)
}

/// A negative control: corrupts segments while checksums are disabled. If comparing the data does
/// not detect the corruption, the tables above prove nothing.
fn control(stack: &dyn Stack) -> Result<Option<String>, Error> {
    let setup = Setup { impairments: ROUGH, ..Setup::for_pattern(Pattern::Bulk) };
    let name = stack.name();
    match prove(&setup, [stack, stack], &Set::find(OFF)?, BYTES_BRIEF) {
        Err(seen @ Error::Corrupt { .. }) => {
            println!("{name}: {seen}");
            Ok(None)
        }
        other => Ok(Some(format!("{name}: without checksums, corruption not reported: {other:?}"))),
    }
}
