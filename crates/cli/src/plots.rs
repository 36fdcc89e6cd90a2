// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the plots of a record to a directory, as SVG files named after their content.

use crate::emit;
use crate::failure::{Failure, also};
use crate::files;
use clap::Args;
use linerate_report::svg::Plot;
use std::convert::Infallible;
use std::path::{Path, PathBuf};

// Options common to all commands that plot.
#[derive(Debug, Args)]
pub(crate) struct Plots {
    /// Write plots of the record to this directory, as SVG
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

/// A plot, or why it could not be drawn.
pub(crate) type Drawn = Result<Plot, &'static str>;

/// A command's plots before they are written.
pub(crate) struct Drawing<'a> {
    folder: Option<&'a Path>,
    drawn: Vec<Drawn>,
}

impl Plots {
    /// Creates the directory for plots, before measuring.
    pub(crate) fn make_folder(&self) -> Result<(), Failure> {
        let Some(folder) = &self.svg else { return Ok(()) };
        // Before `--svg` took a directory, it took a file name in some commands.
        if folder.extension().is_some_and(|extension| extension == "svg") && !folder.is_dir() {
            return Err(Failure::new(format!(
                "--svg takes a directory, but {} looks like a file name; linerate chooses the file \
                 names",
                folder.display()
            )));
        }
        files::create_folder("--svg", folder)
    }

    /// Draws the plots, if requested.
    pub(crate) fn draw(&self, draw: impl FnOnce() -> Vec<Drawn>) -> Drawing<'_> {
        let folder = self.svg.as_deref();
        Drawing { folder, drawn: folder.map_or_else(Vec::new, |_| draw()) }
    }
}

impl Drawing<'_> {
    /// Writes all plots. Unless `quiet`, reports why a plot is missing.
    pub(crate) fn write(self, quiet: bool) -> Result<(), Failure> {
        let Some(folder) = self.folder else { return Ok(()) };
        let mut written = Ok(());
        for drawn in self.drawn {
            match drawn {
                Ok(plot) => {
                    let file = folder.join(&plot.name).with_extension("svg");
                    written = also(written, files::write(&file, &plot.svg));
                }
                Err(why) if !quiet => emit::say(&format!("warning:    --svg: {why}\n")),
                Err(_) => {}
            }
        }
        written
    }
}

/// Converts plots to a list of [`Drawn`]. If there are no plots, the list contains `why_none`.
pub(crate) fn any(plots: Vec<Plot>, why_none: &'static str) -> Vec<Drawn> {
    match plots.is_empty() {
        true => vec![Err(why_none)],
        false => plots.into_iter().map(Ok).collect(),
    }
}

/// Rejects an option that was replaced by `--svg`.
pub(crate) fn replaced(_: &str) -> Result<Infallible, String> {
    Err("this option was removed; --svg DIR writes all plots".to_owned())
}
