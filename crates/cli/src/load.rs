// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a path file and prepares its traffic.

use crate::args::Common;
use crate::failure::Failure;
use crate::files::Files;
use crate::input;
use crate::kinds::{kind, kinds, source, specs};
use crate::objects::{load_objects, next_to, path_text};
use crate::parse::Goal;
use linerate_dataplane::generator::Generator;
use linerate_dataplane::pool::MAX_BUFFER_BYTES;
use linerate_dataplane::traffic::{Traffic, TrafficError};
use linerate_dataplane::{RunError, steering};
use linerate_kernels::Kernels;
use linerate_path::check::{Described, read};
use linerate_path::model::{Path, Rate, RunLength, SELECTED, Source, WIRE_OVERHEAD_BYTES};
use linerate_path::plugins::plugins;
use linerate_path::problem::Problem;
use linerate_record::units::Kpps;
use linerate_tune::kernels;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path as FilePath;

/// A path that is ready to run.
pub(crate) struct Loaded {
    /// Text of the path file.
    pub(crate) text: String,
    /// The path, with overrides from the command line.
    pub(crate) path: Path,
    /// The kernels named by the path.
    pub(crate) kernels: Kernels,
    /// Packets to replay or generate.
    pub(crate) traffic: Traffic,
    /// Rate goal, in kpps.
    pub(crate) goal_kpps: Option<f64>,
}

impl Loaded {
    /// Returns the input files of the path file `path`: the file itself, and the plugins and the
    /// capture that it names.
    pub(crate) fn files(&self, path: &FilePath) -> Files {
        let capture = self.path.source.file().map(|file| next_to(path, file));
        let files = Files::default().reads("the packet path", path);
        let objects = plugins(&self.text).into_iter().map(|named| next_to(path, &named.file));
        objects
            .fold(files, |files, object| files.reads("the path's plugin", object))
            .may_read("the path's capture", capture)
    }
}

/// Reads and checks the path in `file` and its capture, and applies the options in `common`.
pub(crate) fn load(file: &FilePath, common: &Common) -> Result<Loaded, Failure> {
    let shown = file.display().to_string();
    let text = path_text(file)?;
    let stem = file.file_stem().map_or("path".into(), |stem| stem.to_string_lossy());
    load_objects(file, &text)?;
    let described =
        read(&text, &stem, specs()).map_err(|problems| Failure::new(problems.display(&shown)))?;
    let at = |problem: Problem| Failure::new(problem.display(&shown));
    let steers = steering(&described.path, kinds()).map_err(|error| match error {
        RunError::Stage { stage, error } => {
            at(described.problem_at(stage, error.param, error.index, &error.message))
        }
        other => Failure::new(other),
    })?;
    check_stages(&described).map_err(at)?;
    let kernels = match &common.kernels {
        Some(name) => kernels(name)
            .map_err(|error| Failure::new(format!("--kernels: {error}, or {SELECTED}")))?,
        None => kernels(&described.path.kernels).map_err(|error| {
            at(described.problem_at_key("", "kernels", &format!("{error}, or {SELECTED}")))
        })?,
    };
    let traffic = match &described.path.source {
        Source::Capture { file: capture, buffer_bytes, rules } => {
            let made = |open: &Open<'_>| Traffic::from_input(open, *buffer_bytes, *rules, &steers);
            captured(file, capture, made)
                .map_err(|why| at(described.problem_at_key("source", "file", &why)))?
        }
        Source::Registered(used) => {
            let made = |open: &Open<'_>| {
                let inner = Traffic::from_input(open, MAX_BUFFER_BYTES as u32, used.rules, &[])?;
                let kind = source(&used.kind).expect("the checker accepts only known source kinds");
                (kind.traffic)(used, &inner, &steers)
            };
            captured(file, &used.file, made)
                .map_err(|why| at(described.problem_at_key("source", "file", &why)))?
        }
        // The packets arrive during the run.
        Source::Interface(_) => Traffic::default(),
        Source::Generator { sizes, flows, seed, buffer_bytes } => {
            let generator = Generator { sizes, flows: *flows, seed: *seed };
            Traffic::generate(generator, *buffer_bytes, &steers).map_err(|error| {
                at(described.problem_at_key("source", "kind", &error.to_string()))
            })?
        }
    };
    let mut path = described.path;
    path.kernels = kernels.name().to_owned();
    override_options(&mut path, common)?;
    let goal_kpps = goal_kpps(&path, common, traffic.mean_sent_bytes())?;
    refuse_hopeless(goal_kpps, offered_kpps(&path, traffic.mean_sent_bytes()))?;
    Ok(Loaded { text, path, kernels, traffic, goal_kpps })
}

/// Returns whether a path receives its packets from network interfaces.
pub(crate) fn is_live(path: &Path) -> bool {
    !path.source.ports().is_empty()
}

/// A function that opens a capture at its beginning; can be called repeatedly.
type Open<'c> = dyn Fn() -> io::Result<Box<dyn Read + 'c>> + 'c;

/// Read size for captures, in bytes.
const READ_BYTES: usize = 1 << 20;

/// Applies `make` to the capture named `capture` in the path file `path`. `make` may open a regular
/// file several times. Any other file can be read only once, so it is first read into memory. This
/// includes kernel files such as /proc/kmsg, which claim to be regular, have no length, and may
/// never end.
fn captured(
    path: &FilePath,
    capture: &str,
    make: impl Fn(&Open<'_>) -> Result<Traffic, TrafficError>,
) -> Result<Traffic, String> {
    let place = next_to(path, capture);
    let cannot = |why: String| format!("cannot read {}: {why}", place.display());
    let is_regular = place.metadata().is_ok_and(|found| found.is_file() && found.len() > 0);
    let made = if is_regular {
        let file = || File::open(&place).map(|file| BufReader::with_capacity(READ_BYTES, file));
        file().map_err(|error| cannot(error.to_string()))?;
        make(&|| Ok(Box::new(file()?)))
    } else {
        let bytes = input::bytes(&place, input::ANY).map_err(cannot)?;
        make(&|| Ok(Box::new(&bytes[..])))
    };
    made.map_err(|error| format!("{}: {error}", place.display()))
}

fn goal_kpps(path: &Path, common: &Common, mean_bytes: f64) -> Result<Option<f64>, Failure> {
    match (common.goal, path.line) {
        (None, _) => Ok(None),
        (Some(Goal::PacketsPerSecond(packets)), _) => Ok(Some(packets / 1e3)),
        (Some(Goal::Line), _) if is_live(path) => Err(Failure::new(
            "--goal line needs the packet size, which is unknown until live packets arrive: give \
             the goal as a rate, such as --goal 1Mpps",
        )),
        (Some(Goal::Line), Some(line)) => Ok(Some(line.packets_per_second(mean_bytes) / 1e3)),
        (Some(Goal::Line), None) => Err(Failure::new(
            "--goal line needs a line rate: add [line] rate = \"10Gb/s\" to the path",
        )),
    }
}

/// Returns the path's offered rate in kpps; `None` if the source has no fixed rate.
fn offered_kpps(path: &Path, mean_bytes: f64) -> Option<f64> {
    let wire_bits = 8.0 * (mean_bytes + WIRE_OVERHEAD_BYTES as f64);
    match path.run.rate {
        Rate::PacketsPerSecond(packets) => Some(packets / 1e3),
        Rate::BitsPerSecond(bits) => Some(bits / wire_bits / 1e3),
        Rate::Max | Rate::Line | Rate::Capture => None,
    }
}

/// Rejects an offered rate below the goal, because a run at this rate could not show whether the
/// goal is met.
fn refuse_hopeless(goal_kpps: Option<f64>, offered_kpps: Option<f64>) -> Result<(), Failure> {
    match (goal_kpps, offered_kpps) {
        (Some(goal), Some(offered)) if offered < goal => Err(Failure::new(format!(
            "cannot tell whether the goal is met: the offered load, {}, is below the goal, {}; \
             raise --rate",
            Kpps(offered),
            Kpps(goal)
        ))),
        _ => Ok(()),
    }
}

/// Builds every stage once, so that invalid parameters are reported with their location in the
/// file.
fn check_stages(described: &Described) -> Result<(), Problem> {
    let context = linerate_dataplane::BuildContext { replica: 0, replicas: 1 };
    for (index, used) in described.path.stages.iter().enumerate() {
        let Some(kind) = kind(&used.kind) else {
            continue;
        };
        (kind.build)(&used.params, &context).map_err(|error| {
            described.problem_at(index, error.param, error.index, &error.message)
        })?;
    }
    Ok(())
}

fn override_options(path: &mut Path, common: &Common) -> Result<(), Failure> {
    if let Some(seconds) = common.time {
        path.run.length = RunLength::Seconds(seconds);
    }
    if let Some(rate) = common.rate {
        if is_live(path) {
            return Err(Failure::new(
                "--rate applies only to packets that linerate sends from memory; the sender sets \
                 the rate of live traffic",
            ));
        }
        path.run.rate = rate;
    }
    match (path.run.rate, path.line, &path.source) {
        (Rate::Line, None, _) => Err(Failure::new(
            "--rate line needs a line rate: add [line] rate = \"10Gb/s\" to the path",
        )),
        (Rate::Capture, _, Source::Generator { .. }) => Err(Failure::new(
            "--rate capture needs a capture as the source; a generator has no timestamps",
        )),
        _ => Ok(()),
    }
}
