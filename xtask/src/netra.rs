// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Netra document's results as the simulator gives them, written to `docs/results/netra`: fits,
//! predictions, neighbours, placements.
//!
//! But for the speed, nothing is measured, and everything comes out the same each time. Takes some
//! minutes: it is not part of CI.

mod fit;
mod model;
mod tables;

use crate::command::root;
use linerate_plan::cmt::{Application, Chip};
use linerate_plan::processor::Processor;
use model::Model;
use std::fs;

const FOLDER: &str = "docs/results/netra";

/// Fits, simulates and writes.
pub(crate) fn write() -> Result<(), String> {
    let application = Application::named("rlp").ok_or("the application rlp is missing")?;
    let (t1, t2) = (chip("t1")?, chip("t2")?);
    let model = Model { application, chip: t1 };
    let folder = root().join(FOLDER);
    fs::create_dir_all(&folder).map_err(|error| format!("{FOLDER}: {error}"))?;
    let (text, plots) = tables::document(&model, t2)?;
    let plots = plots.into_iter().map(|plot| (format!("{}.svg", plot.name), plot.svg));
    for (name, text) in plots.chain([("simulator.md".to_owned(), text)]) {
        fs::write(folder.join(&name), text).map_err(|error| format!("{FOLDER}/{name}: {error}"))?;
        println!("{FOLDER}/{name}");
    }
    Ok(())
}

fn chip(word: &str) -> Result<Chip, String> {
    let processor = Processor::named(word).ok_or_else(|| format!("no processor {word}"))?;
    Chip::new(&processor).map_err(|error| error.to_string())
}
