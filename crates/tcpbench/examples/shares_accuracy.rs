// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accuracy of the checksum and copy shares, for `cargo xtask accuracy`.
//!
//! `cargo run --release -p linerate-tcpbench --example shares_accuracy [-- MEASUREMENTS]`

use std::process::ExitCode;

/// Default number of measurements per stack and pattern.
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
