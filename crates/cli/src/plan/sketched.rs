// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates a path file from another program's record.

use crate::emit;
use crate::failure::Failure;
use crate::kinds::specs;
use clap::Args;
use linerate_path::check::{Described, read_to_plan};
use linerate_path::costs::GivenCosts;
use linerate_path::model::PacketClass;
use linerate_path::spec::State;
use linerate_plan::sketch::{Known, Sketch, assumptions, sketch, text};
use linerate_record::Record;
use std::path::{Path, PathBuf};

// Options that supply information missing from another program's record.
#[derive(Debug, Args)]
pub(super) struct Sketching {
    /// Write the path derived from another program's record to this file
    ///
    /// - is stdout.
    #[arg(long, value_name = "FILE", requires = "from")]
    pub(super) out: Option<PathBuf>,
    /// Line rate that another program should sustain, e.g. 10Gb/s
    ///
    /// Finds the smallest number of CPUs that sustains this rate.
    #[arg(long, value_name = "RATE", value_parser = crate::budget::line, requires = "from")]
    line: Option<f64>,
    /// The program's frame size in bytes, FCS included (default: as measured, or 64)
    #[arg(long, value_name = "BYTES", value_parser = crate::budget::frame, requires = "from")]
    frame: Option<u32>,
    /// State that stages keep between packets: none, flow or global
    ///
    /// Default: flow for stages seen on several threads, otherwise global, which forbids replicas.
    #[arg(long, value_name = "STATE", value_parser = state, requires = "from")]
    state: Option<State>,
    /// Packets the program handled, if its record has no packet count
    #[arg(long, value_name = "N", value_parser = crate::import::packets, requires = "from")]
    packets: Option<f64>,
    /// The program's tick rate in GHz, if its record lacks it
    #[arg(long, value_name = "GHZ", value_parser = crate::budget::clock, requires = "from")]
    clock: Option<f64>,
}

fn state(text: &str) -> Result<State, String> {
    State::of_word(text).ok_or_else(|| format!("choose from {}", State::WORDS.join(", ")))
}

impl Sketching {
    /// Rejects options that have no effect with a path file or with a record of `run` or `tune`.
    pub(super) fn refuse(&self, is_run: bool) -> Result<(), Failure> {
        let of_path = [
            ("--out", self.out.is_some()),
            ("--line", self.line.is_some()),
            ("--frame", self.frame.is_some()),
            ("--state", self.state.is_some()),
        ];
        let of_record = [("--packets", self.packets.is_some()), ("--clock", self.clock.is_some())];
        let of_record = of_record.into_iter().filter(|_| is_run);
        match of_path.into_iter().chain(of_record).find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::new(format!(
                "{option} has no effect with this PATH.toml and record: it applies only to a path \
                 derived from another program's record (regions, import, why)"
            ))),
            None => Ok(()),
        }
    }

    /// Derives a path from another program's record.
    pub(super) fn draw(&self, file: &Path, record: &Record) -> Result<Sketch, Failure> {
        let known = Known { clock_ghz: self.clock, packets: self.packets };
        let name = file.display().to_string();
        sketch(record, &name, known)
            .map_err(|lacking| Failure::new(format!("--from {name}: {lacking}")))
    }

    /// Prints what the generated path file assumes to stderr.
    pub(super) fn note_assumptions(&self, drawn: &Sketch) {
        for assumed in assumptions(drawn, self.state, self.frame) {
            emit::say(&format!("linerate: assumed: {assumed}\n"));
        }
    }

    /// Parses the generated path file. Returns the path and the text.
    pub(super) fn described(
        &self,
        drawn: &Sketch,
        file: &Path,
    ) -> Result<(Described, Option<String>), Failure> {
        let stem = file.file_stem().map_or("path".into(), |stem| stem.to_string_lossy());
        let text = text(drawn, &stem, self.state, self.line, self.frame);
        let described = read_to_plan(&text, &stem, specs()).map_err(|problems| {
            Failure::new(problems.display(&format!("the path of {}", file.display())))
        })?;
        Ok((described, Some(text)))
    }
}

/// Returns the path in a path file, with its costs replaced by costs from the record.
pub(super) fn recosted(
    mut described: Described,
    drawn: &Sketch,
    file: &Path,
) -> Result<Described, Failure> {
    let name = file.display();
    let classes = described.path.stages.iter().map(|stage| stage.only);
    let Some(costs) = &mut described.costs else {
        return Err(Failure::new(format!(
            "--from {name}: the path has no [costs] section to update; `linerate plan --from \
             {name} --out FILE` creates a path file that has one"
        )));
    };
    let GivenCosts { from, stages, .. } = costs;
    for (stage, only) in stages.iter_mut().zip(classes) {
        let measured = drawn.stages.iter().find(|one| one.name == stage.name).ok_or_else(|| {
            Failure::new(format!(
                "--from {name}: the record has no measurement of `{}`, only of {}",
                stage.name,
                drawn.stages.iter().map(|one| &*one.name).collect::<Vec<_>>().join(", ")
            ))
        })?;
        stage.ns = Some(measured.ns);
        match only {
            PacketClass::All => stage.reach = measured.reach,
            _ => stage.processed = (measured.reach / stage.reach).min(1.0),
        }
        stage.assumed.clear();
    }
    from.clone_from(&drawn.from);
    Ok(described)
}
