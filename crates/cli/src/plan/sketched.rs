// SPDX-License-Identifier: MIT OR Apache-2.0
//! A path generated from another program's record.

use crate::failure::Failure;
use crate::kinds::specs;
use clap::Args;
use linerate_path::check::{Described, read_to_plan};
use linerate_path::costs::GivenCosts;
use linerate_path::spec::State;
use linerate_plan::sketch::{Known, Sketch, sketch, text};
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
    /// Line rate for another program, e.g. 10Gb/s
    ///
    /// Finds the fewest CPUs that sustain this rate.
    #[arg(long, value_name = "RATE", value_parser = crate::budget::line, requires = "from")]
    line: Option<f64>,
    /// The program's frame size in bytes, FCS included (default: as measured, or 64)
    #[arg(long, value_name = "BYTES", value_parser = crate::budget::frame, requires = "from")]
    frame: Option<u32>,
    /// State that stages keep: none, flow or global
    ///
    /// Default: flow for stages seen on several threads, otherwise global, which forbids replicas.
    #[arg(long, value_name = "STATE", value_parser = state, requires = "from")]
    state: Option<State>,
    /// Packets the program handled, if its record does not count them
    #[arg(long, value_name = "N", value_parser = crate::import::packets, requires = "from")]
    packets: Option<f64>,
    /// The program's tick rate in GHz, if its record does not have it
    #[arg(long, value_name = "GHZ", value_parser = crate::budget::clock, requires = "from")]
    clock: Option<f64>,
}

fn state(text: &str) -> Result<State, String> {
    State::of_word(text).ok_or_else(|| format!("choose from {}", State::WORDS.join(", ")))
}

impl Sketching {
    /// Rejects options that have no effect with a path file, or with a record from `run` or `tune`.
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
                "{option} applies only to records of other programs (regions, import, why); a \
                 PATH.toml already sets it"
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

    /// The path parsed from the generated path file, and the text of that file.
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

/// The path in a file, with its costs replaced by those in the record.
pub(super) fn recosted(
    mut described: Described,
    drawn: &Sketch,
    file: &Path,
) -> Result<Described, Failure> {
    let name = file.display();
    let Some(costs) = &mut described.costs else {
        return Err(Failure::new(format!(
            "--from {name}: the path has no [costs] section for its figures; create a path that \
             has one: linerate plan --from {name} --out FILE"
        )));
    };
    let GivenCosts { from, stages, .. } = costs;
    for stage in stages {
        let measured = drawn.stages.iter().find(|one| one.name == stage.name).ok_or_else(|| {
            Failure::new(format!(
                "--from {name}: no measurement of `{}`; it has {}",
                stage.name,
                drawn.stages.iter().map(|one| &*one.name).collect::<Vec<_>>().join(", ")
            ))
        })?;
        (stage.ns, stage.reach) = (Some(measured.ns), measured.reach);
        stage.assumed.clear();
    }
    from.clone_from(&drawn.from);
    Ok(described)
}
