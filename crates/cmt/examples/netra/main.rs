// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulates the Netra document's application on several processors, and prints the tables in
//! `docs/results/netra/simulator.md`: fits, predictions, neighbours and placements.
//!
//! ```text
//! netra parameters               the parameters, fitted to both configurations
//! netra both FILE.svg            both configurations, with the parameters in the file
//! netra alone 1|2                prediction for one configuration from a fit to the other
//! netra varied                   predictions with the undetermined parameters varied
//! netra causes                   CPI stack of each role
//! netra neighbours               parked, polling and spinning neighbours in configuration 2
//! netra t2                       the same application on the T2
//! netra placements FILE.svg      all placements on the T1, by rate
//! ```
//!
//! The output is the same on every machine, except for the run time of the ranking. Fits take
//! minutes.

mod fits;
mod placements;
mod settings;

use linerate_cmt::fit::Model;
use linerate_cmt::processor::Processor;
use linerate_cmt::{Application, Chip};
use std::error::Error;
use std::process::ExitCode;

/// An error from the simulator or a file.
type Fault = Box<dyn Error>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match text(&words) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("netra: {why}");
            ExitCode::FAILURE
        }
    }
}

fn text(words: &[&str]) -> Result<String, Fault> {
    let application = Application::named("rlp").ok_or("the application rlp is missing")?;
    let model = &Model { application, chip: chip("t1")? };
    match words {
        ["parameters"] => fits::parameters(model),
        ["both", file] => fits::both(model, file),
        ["alone", "1"] => fits::alone(model, &fits::OF_ONE),
        ["alone", "2"] => fits::alone(model, &fits::OF_TWO),
        ["varied"] => fits::varied(model),
        ["causes"] => settings::causes(model),
        ["neighbours"] => settings::neighbours(model),
        ["t2"] => settings::on_t2(model, chip("t2")?),
        ["placements", file] => placements::placements(model, file),
        _ => Err("usage: netra parameters | both FILE.svg | alone 1|2 | varied | causes | \
                  neighbours | t2 | placements FILE.svg"
            .into()),
    }
}

fn chip(word: &str) -> Result<Chip, Fault> {
    let processor = Processor::named(word).ok_or_else(|| format!("no processor {word}"))?;
    Ok(Chip::new(&processor)?)
}

/// Formats a fraction as a signed percentage.
fn percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}
