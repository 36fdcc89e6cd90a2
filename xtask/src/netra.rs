// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Netra document's results as the program gives them, written to `docs/results/netra`: what
//! its commands print of budgets, the dump and the tables of misses, and what the simulator says:
//! fits, predictions, neighbours, placements.
//!
//! But for the speed, nothing is measured, and everything comes out the same each time. Takes some
//! minutes: it is not part of CI.

mod misses;
mod reach;
mod shown;
mod tables;

use crate::command::root;
use crate::evidence::build;
use linerate_cmt::fit::Model;
use linerate_cmt::processor::Processor;
use linerate_cmt::{Application, Chip};
use std::fs;

const FOLDER: &str = "docs/results/netra";

/// Fits, simulates and writes.
pub(crate) fn write() -> Result<(), String> {
    let application = Application::named("rlp").ok_or("the application rlp is missing")?;
    let (t1, t2) = (chip("t1")?, chip("t2")?);
    let model = Model { application, chip: t1 };
    let folder = root().join(FOLDER);
    fs::create_dir_all(&folder).map_err(|error| format!("{FOLDER}: {error}"))?;
    let binary = build()?;
    let shown = shown::write(&shown::Program(&binary))?;
    let simulated = tables::document(&model, t2).map_err(|error| error.to_string())?;
    let rows: Vec<_> = shown.rows.into_iter().chain(simulated.rows).collect();
    let plots = simulated.plots.into_iter().map(|plot| (format!("{}.svg", plot.name), plot.svg));
    let pages = shown.files.into_iter().map(|(name, text)| (name.to_owned(), text));
    let own = [("simulator.md", simulated.text), ("README.md", reach::page(&rows))]
        .map(|(name, text)| (name.to_owned(), text));
    for (name, text) in plots.chain(pages).chain(own) {
        fs::write(folder.join(&name), text).map_err(|error| format!("{FOLDER}/{name}: {error}"))?;
        println!("{FOLDER}/{name}");
    }
    Ok(())
}

fn chip(word: &str) -> Result<Chip, String> {
    let processor = Processor::named(word).ok_or_else(|| format!("no processor {word}"))?;
    Chip::new(&processor).map_err(|error| error.to_string())
}
