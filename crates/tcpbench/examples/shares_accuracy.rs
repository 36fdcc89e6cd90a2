// SPDX-License-Identifier: MIT OR Apache-2.0
//! How right the shares of checksum and copy are, for `cargo xtask accuracy`.
//!
//! `cargo run --release -p linerate-tcpbench --example shares_accuracy [-- MEASUREMENTS]`

use std::process::ExitCode;

/// Measurements of each stack under each pattern, unless told otherwise.
const MEASUREMENTS: usize = 9;

fn main() -> ExitCode {
    let measurements = std::env::args().nth(1).and_then(|text| text.parse().ok());
    match linerate_tcpbench::accuracy::checks(measurements.unwrap_or(MEASUREMENTS)) {
        Ok(checks) => {
            checks.iter().for_each(|check| println!("{check}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
