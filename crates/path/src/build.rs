// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds a path from individually valid fields, and checks the constraints between them.
//!
//! A function in this module returns `None` only if a mistake has been recorded: either by the
//! function itself, or earlier, when a field that it needs was read.

mod headers;

use crate::costs::{FOREIGN, GivenCosts, Named, costs};
use crate::fields::Fields;
use crate::keys::MAX_STAGES;
use crate::mapping::Refusal;
use crate::model::{
    CaptureRules, FullRing, IdlePolicy, IdleRules, Line, Mapping, PacketClass, Path, Rate,
    RunLength, RunOptions, Segment, Sink, Source, SourceUse, StageUse,
};
use crate::ports;
use crate::problem::{Mistake, shown};
use crate::spec::{Kinds, Misfit, PLUGIN, SourceSpec, StageSpec};
use crate::suggest;
use std::collections::BTreeSet;
use std::ops::Range;

/// Everything that a path file defines.
pub(crate) struct Built {
    pub(crate) path: Path,
    pub(crate) costs: Option<GivenCosts>,
    /// Specification of each stage, in path order.
    pub(crate) specs: Vec<StageSpec>,
}

/// Builds the path and, if the file has costs, the costs. `stem` is the path's name if the file
/// does not give one.
pub(crate) fn path(
    file: &Fields,
    stem: &str,
    kinds: Kinds<'_>,
    mistakes: &mut Vec<Mistake>,
) -> Option<Built> {
    let mut stages = file.sections("stage").map(|sections| stages(sections, kinds, mistakes));
    let costs = match (file.section("costs"), &mut stages) {
        (Some(section), Some(stages)) => Some(given_costs(section, stages, kinds.stages, mistakes)),
        _ => None,
    };
    let mapping = stages.as_ref().and_then(|stages| mapping(file, stages, mistakes));
    let source =
        file.section("source").and_then(|section| source(section, file, kinds.sources, mistakes));
    ports::check(file, mistakes);
    let run = file.section("run").and_then(|section| run(section, file, mistakes));
    let stages = stages?;
    let specs = stages.iter().map(|stage| stage.spec).collect::<Option<_>>()?;
    let path = Path {
        name: file.text("name").unwrap_or(stem).to_owned(),
        kernels: file.text("kernels")?.to_owned(),
        line: file.section("line").and_then(line),
        source: source?,
        stages: stages.into_iter().map(|stage| stage.made).collect::<Option<_>>()?,
        sink: file.section("sink").and_then(|section| sink(section, file))?,
        mapping: mapping?,
        run: run?,
        idle: idle(file)?,
    };
    // If the costs could not be read, a mistake has been recorded already.
    let costs = if file.is_given("costs") { Some(costs??) } else { None };
    Some(Built { path, costs, specs })
}

/// Builds the costs from the section `[costs]`, copying states given there to the stages'
/// specifications.
fn given_costs(
    section: &Fields,
    stages: &mut [Stage],
    kinds: &[StageSpec],
    mistakes: &mut Vec<Mistake>,
) -> Option<GivenCosts> {
    let named = |stage: &Stage| Named {
        name: stage.name.clone(),
        foreign: stage.foreign_kind(),
        at: stage.kind_at.clone(),
    };
    let named: Vec<Named> = stages.iter().map(named).collect();
    let Some(costs) = costs(section, &named, kinds, mistakes) else {
        // The costs are invalid, so the states that they give to foreign stages are unknown.
        for stage in stages.iter_mut().filter(|stage| stage.foreign_kind().is_some()) {
            stage.spec = None;
        }
        return None;
    };
    for (stage, cost) in stages.iter_mut().zip(&costs.stages) {
        if let (Some(spec), Some(state)) = (&mut stage.spec, cost.state) {
            spec.state = state;
        }
    }
    Some(costs)
}

fn line(fields: &Fields) -> Option<Line> {
    Some(Line { bits_per_s: fields.number("rate")?, ports: fields.integer("ports")? })
}

fn source(
    fields: &Fields,
    file: &Fields,
    kinds: &[SourceSpec],
    mistakes: &mut Vec<Mistake>,
) -> Option<Source> {
    match fields.variant? {
        _ if ports::is_live(fields) => ports::source(fields, file),
        "capture" => Some(Source::Capture {
            file: fields.text("file")?.to_owned(),
            buffer_bytes: fields.integer("buffer_bytes")?,
            rules: rules(fields)?,
        }),
        "generator" => generator(fields, mistakes),
        kind => {
            let spec = kinds.iter().find(|spec| spec.kind == kind)?;
            registered(fields, spec, mistakes)
        }
    }
}

/// Builds a source of a registered kind from its section.
fn registered(fields: &Fields, spec: &SourceSpec, mistakes: &mut Vec<Mistake>) -> Option<Source> {
    let params = fields.params(spec.params)?;
    let buffer_bytes = fields.integer("buffer_bytes")?;
    mistakes.extend(
        (spec.check)(&params, buffer_bytes).into_iter().map(|misfit| {
            Mistake::new(&fields.place(misfit.param), misfit.message).help(misfit.help)
        }),
    );
    let file = fields.text("file")?.to_owned();
    let (kind, rules) = (spec.kind.to_owned(), rules(fields)?);
    Some(Source::Registered(SourceUse { kind, file, buffer_bytes, rules, params }))
}

/// Builds the capture rules from the keys shared by all sources that read a capture.
fn rules(fields: &Fields) -> Option<CaptureRules> {
    Some(CaptureRules {
        cut_segments: fields.text("segment")? == "cut",
        pad: fields.bool("pad")?,
        allow_left_out: fields.bool("allow_left_out")?,
        skip: fields.integer("skip")?,
        first: fields.integer("first").unwrap_or(u64::MAX),
        sample: fields.integer("sample")?,
    })
}

fn generator(fields: &Fields, mistakes: &mut Vec<Mistake>) -> Option<Source> {
    let sizes: Vec<u32> = fields.integers("sizes")?;
    let buffer_bytes: u32 = fields.integer("buffer_bytes")?;
    let long = sizes.iter().enumerate().filter(|&(_, &size)| size > buffer_bytes);
    for (index, size) in long {
        let at = if fields.is_given("sizes") {
            fields.item_place("sizes", index)
        } else {
            fields.place("buffer_bytes")
        };
        let misfit = Misfit::too_long("sizes", *size, buffer_bytes);
        mistakes.push(Mistake::new(&at, misfit.message).help(misfit.help));
    }
    Some(Source::Generator {
        sizes,
        flows: fields.integer("flows")?,
        seed: fields.integer("seed")?,
        buffer_bytes,
    })
}

fn sink(fields: &Fields, file: &Fields) -> Option<Sink> {
    match fields.variant? {
        "interface" | "ports" => ports::sink(fields, file),
        "capture" => Some(Sink::Capture {
            file: fields.text("file")?.to_owned(),
            packets: fields.integer("packets")?,
        }),
        _ => Some(Sink::Null),
    }
}

/// A stage as read; fields that could not be read are `None`.
pub(crate) struct Stage {
    pub(crate) at: Range<usize>,
    kind_at: Range<usize>,
    /// Position of `only` in the file or, if omitted, of the stage's `name` or `kind`.
    pub(crate) only_at: Range<usize>,
    name: Option<String>,
    pub(crate) only: Option<PacketClass>,
    pub(crate) spec: Option<StageSpec>,
    pub(crate) made: Option<StageUse>,
}

impl Stage {
    /// Returns the stage's kind if it is foreign, that is, not in this build.
    fn foreign_kind(&self) -> Option<String> {
        let is_foreign = self.spec.is_some_and(|spec| spec.kind == FOREIGN.kind);
        self.made.as_ref().filter(|_| is_foreign).map(|made| made.kind.clone())
    }
}

fn stages(sections: &[Fields], kinds: Kinds<'_>, mistakes: &mut Vec<Mistake>) -> Vec<Stage> {
    let stages: Vec<_> = sections.iter().map(|fields| stage(fields, kinds)).collect();
    if let Some(first_over) = stages.get(MAX_STAGES) {
        let message = format!("{} stages; the limit is {MAX_STAGES}", stages.len());
        mistakes.push(Mistake::new(&first_over.at, message));
    }
    for (index, stage) in stages.iter().enumerate() {
        unique_name(stage, &stages[..index], mistakes);
    }
    headers::check(&stages, mistakes);
    stages
}

fn stage(fields: &Fields, kinds: Kinds<'_>) -> Stage {
    let is_plugin = fields.variant == Some(PLUGIN);
    let plugin = fields.text("file").filter(|_| is_plugin).and_then(|file| kinds.plugin(file));
    let kind = plugin.map(|plugin| plugin.spec.kind).or(fields.text("kind"));
    let name = fields.text("name").or(plugin.map(|plugin| plugin.name)).or(kind);
    let all = kinds.stages.iter().chain([&FOREIGN]);
    let known = || all.copied().find(|spec| Some(spec.kind) == fields.variant);
    let spec = plugin.map(|plugin| plugin.spec).or_else(known);
    let only = fields.text("only").and_then(PacketClass::of_word);
    let made = spec.zip(name.zip(kind)).and_then(|(spec, (name, kind))| {
        let (name, kind) = (name.to_owned(), kind.to_owned());
        Some(StageUse { name, kind, only: only?, params: fields.params(spec.params)? })
    });
    let at = if fields.is_given("name") { fields.place("name") } else { fields.place("kind") };
    let only_at = if fields.is_given("only") { fields.place("only") } else { at.clone() };
    let (kind_at, name) = (fields.place("kind"), name.map(str::to_owned));
    Stage { at, kind_at, only_at, name, only, spec, made }
}

fn unique_name(stage: &Stage, before: &[Stage], mistakes: &mut Vec<Mistake>) {
    let Some(name) = &stage.name else { return };
    if before.iter().any(|other| other.name.as_ref() == Some(name)) {
        let message = format!("two stages are named {}", shown(name));
        let help = format!("give one a different name, such as name = \"{name}-2\"");
        mistakes.push(Mistake::new(&stage.at, message).help(help));
    }
}

fn mapping(file: &Fields, stages: &[Stage], mistakes: &mut Vec<Mistake>) -> Option<Mapping> {
    let Some(section) = file.section("mapping") else {
        return Some(Mapping::merged(stages.len()));
    };
    let workers = section.sections("workers")?;
    if !names_in_order(section, workers, stages, mistakes)? {
        return None;
    }
    let mut segments = Vec::with_capacity(workers.len());
    let mut end = 0;
    for worker in workers {
        let start = end;
        end += worker.texts("stages")?.len();
        let cpus = if worker.is_given("cpus") { worker.integers("cpus")? } else { Vec::new() };
        segments.push(Segment { stages: start..end, replicas: worker.integer("replicas")?, cpus });
    }
    let mapping = Mapping { segments };
    let specs: Vec<_> = stages.iter().map(|stage| stage.spec).collect::<Option<_>>()?;
    let mut refusals = mapping.check(&specs).err().unwrap_or_default();
    if file.section("source").is_some_and(ports::is_live) {
        refusals.extend(ports::refusal(&mapping, &specs));
    }
    mistakes.extend(refusals.iter().map(|refusal| {
        let at = refusal_place(refusal, section, workers);
        match refusal {
            Refusal::GlobalState { stage, .. } | Refusal::LiveFlowState { stage, .. } => {
                let name = stages[*stage].name.as_deref().unwrap_or_default();
                Mistake::new(&at, format!("stage {}: {refusal}", shown(name)))
            }
            _ => Mistake::new(&at, refusal.to_string()),
        }
    }));
    Some(mapping)
}

/// Returns whether the workers list every stage exactly once and in path order; `None` if this
/// cannot be determined because a name could not be read or is not unique.
///
/// If so, each worker's stages are consecutive: a strictly increasing sequence that contains every
/// stage lists them one after another.
fn names_in_order(
    section: &Fields,
    workers: &[Fields],
    stages: &[Stage],
    mistakes: &mut Vec<Mistake>,
) -> Option<bool> {
    let known: Vec<&str> =
        stages.iter().map(|stage| stage.name.as_deref()).collect::<Option<_>>()?;
    if (1..known.len()).any(|i| known[..i].contains(&known[i])) {
        return None;
    }
    let mut order = Order { known: &known, seen: BTreeSet::new() };
    let mistakes_before = mistakes.len();
    for worker in workers {
        for (index, name) in worker.texts("stages")?.iter().enumerate() {
            if let Err((message, help)) = order.accept(name) {
                let at = worker.item_place("stages", index);
                mistakes.push(Mistake::new(&at, message).help(help));
            }
        }
    }
    for (_, name) in known.iter().enumerate().filter(|(stage, _)| !order.seen.contains(stage)) {
        let message = format!("stage {} is not assigned to a worker", shown(name));
        let mistake = Mistake::new(&section.place("workers"), message);
        mistakes.push(mistake.help("assign every stage to a worker"));
    }
    Some(mistakes.len() == mistakes_before)
}

/// The stages that workers have listed so far, as indices into `known`, the names in path order.
struct Order<'k> {
    known: &'k [&'k str],
    seen: BTreeSet<usize>,
}

impl Order<'_> {
    /// Records the next stage name in a worker's list. If it is out of order, repeated or unknown,
    /// returns the error and a fix.
    fn accept(&mut self, name: &str) -> Result<(), (String, String)> {
        let index_of = |name| self.known.iter().position(|stage| *stage == name);
        let Some(stage) = index_of(name) else {
            // A name with a suggestion counts as listed. Otherwise, the suggested stage would be
            // reported as missing too.
            let meant = suggest::nearest(name, self.known.iter().copied()).and_then(index_of);
            self.seen.extend(meant);
            let help = suggest::help(name, self.known.iter().copied());
            return Err((format!("unknown stage {}", shown(name)), help));
        };
        let last = self.seen.last().copied();
        if !self.seen.insert(stage) {
            let message = format!("stage {} is already assigned to a worker", shown(name));
            return Err((
                message,
                "to run it on several workers, set replicas in one entry".to_owned(),
            ));
        }
        match last.filter(|&last| last > stage) {
            Some(last) => {
                let (name, last) = (shown(name), shown(self.known[last]));
                let message = format!("stage {name} comes before {last} in the path");
                Err((message, "assign stages to workers in path order".to_owned()))
            }
            None => Ok(()),
        }
    }
}

/// Returns the byte range of the key that causes a mapping to be rejected.
fn refusal_place(refusal: &Refusal, section: &Fields, workers: &[Fields]) -> Range<usize> {
    let (segment, key, index) = match *refusal {
        Refusal::NotConsecutive { segment } => (segment, "stages", None),
        Refusal::NotCovered { .. } => return section.place("workers"),
        Refusal::NoReplica { segment }
        | Refusal::GlobalState { segment, .. }
        | Refusal::LiveFlowState { segment, .. }
        | Refusal::TooManyWorkers { segment, .. } => (segment, "replicas", None),
        Refusal::CpuCount { segment, .. } => (segment, "cpus", None),
        Refusal::CpuTwice { segment, index, .. } => (segment, "cpus", Some(index)),
    };
    match (workers.get(segment), index) {
        (Some(worker), Some(index)) => worker.item_place(key, index),
        (Some(worker), None) => worker.place(key),
        (None, _) => section.place("workers"),
    }
}

/// Builds the idle policies: that of the section `[idle]`, and those of individual workers.
fn idle(file: &Fields) -> Option<IdleRules> {
    let section = file.section("idle")?;
    let own = |worker: &Fields| worker.text("idle").and_then(IdlePolicy::of_word);
    let workers = file.section("mapping").and_then(|mapping| mapping.sections("workers"));
    let workers: Vec<_> = workers.unwrap_or_default().iter().map(own).collect();
    let has_own = workers.iter().any(Option::is_some);
    let policy = IdlePolicy::of_word(section.text("policy")?)?;
    Some(IdleRules {
        policy,
        park_after_s: section.number("park_after"),
        workers: if has_own { workers } else { Vec::new() },
    })
}

fn run(fields: &Fields, file: &Fields, mistakes: &mut Vec<Mistake>) -> Option<RunOptions> {
    if fields.is_given("time") && fields.is_given("packets") {
        let message = "'time' and 'packets' are mutually exclusive";
        let later = |a: Range<usize>, b: Range<usize>| if a.start > b.start { a } else { b };
        let at = later(fields.place("time"), fields.place("packets"));
        mistakes.push(Mistake::new(&at, message).help("keep one of them"));
    }
    let rate = fields.rate("rate")?;
    let at = fields.place("rate");
    if rate == Rate::Line && file.section("line").is_none() {
        let help = "add [line] with rate = \"10Gb/s\", or give a rate here";
        mistakes.push(Mistake::new(&at, "rate = \"line\" needs [line]").help(help));
    }
    let generated = file.section("source").is_some_and(|s| s.variant == Some("generator"));
    if rate == Rate::Capture && generated {
        let help = "a generator has no recorded timestamps; use \"max\", \"line\" or a rate";
        mistakes.push(Mistake::new(&at, "rate = \"capture\" needs a capture").help(help));
    }
    ports::check_rate(rate, fields, file, mistakes);
    Some(RunOptions {
        length: match fields.integer("packets") {
            Some(packets) => RunLength::Packets(packets),
            None => RunLength::Seconds(fields.number("time")?),
        },
        rate,
        burst: fields.integer("burst")?,
        ring: fields.integer("ring")?,
        full_ring: if fields.text("full_ring")? == "drop" {
            FullRing::Drop
        } else {
            FullRing::Wait
        },
    })
}
