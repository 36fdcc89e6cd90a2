// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate import`: converts the output of other profilers to records.

use crate::emit::{self, Answer, Output};
use crate::failure::Failure;
use crate::files::Files;
use crate::help_text::{examples, paragraphs};
use crate::{input, machine, provenance};
use clap::{Args, ValueEnum};
use linerate_cmt::processor::Processor;
use linerate_counters::catalog::generic;
use linerate_exchange::{NothingRead, detect, perf_samples, perf_stat, profile_dump, vpp};
use linerate_explain::cpi::{EventCosts, costs_of, of_strand};
use linerate_machine::identity::{Identity, identity};
use linerate_record::strands::{ForeignFormat, Machine, StrandsReport};
use linerate_record::{Body, Record};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const AFTER: &str = "\
Unless --machine names another processor, dumps are decoded with the clock, event codes and
latencies of t1, whose codes are published. The codes of t2 are unpublished, so its dumps yield only
rates and counts by code. To name these events, pass --machine FILE, a TOML file like those in
crates/cmt/data/processors with an [[event]] for each code. Damaged lines are skipped with a
warning. Examples:

  linerate import console.log --machine t1 --record strands.json
  perf stat -j -o p.json -e task-clock,cycles,instructions,cache-misses,L1-dcache-load-misses ./app
  linerate import p.json --machine this --packets 1000000
  vppctl show runtime | linerate import - --clock 2.4
  perf script -i perf.data | linerate import - --record profile.json

Exit status 2: no usable data in the input.";

#[derive(Debug, Args)]
#[command(
    after_help = examples(AFTER),
    after_long_help = paragraphs(AFTER),
    mut_arg("form", |form| form.long("output-format"))
)]
pub(crate) struct ImportArgs {
    /// The file to read; - is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Format of the input (default: detected)
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "auto")]
    format: Format,
    /// Processor the input was measured on: t1, t2, this, or a TOML file
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Tick rate in GHz (default: the machine's clock)
    #[arg(long, value_name = "GHZ", value_parser = crate::budget::clock)]
    clock: Option<f64>,
    /// Packets handled during the measurement; perf does not count them
    #[arg(long, value_name = "N", value_parser = packets)]
    packets: Option<f64>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Input format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Detected from the content
    Auto,
    /// PROFILE_DUMP ver 2.0 of the Netra DPS profiler
    ProfileDump,
    /// perf stat: -j, -x, or its plain text
    PerfStat,
    /// Samples in the output of perf script
    PerfScript,
    /// VPP show runtime
    Vpp,
}

/// Converts another program's measurements to a record and prints its report.
pub(crate) fn import(args: &ImportArgs) -> Result<Answer, Failure> {
    Files::default()
        .reads("the input", &args.file)
        .may_read("the --machine file", args.machine.as_deref().and_then(machine::file))
        .writes("--record", args.output.record.as_ref())
        .check()?;
    let text = read(&args.file)?;
    let name = args.file.display();
    if args.format == Format::PerfScript
        || args.format == Format::Auto && detect::has_samples(&text)
    {
        return samples(args, &text);
    }
    let format = format(args, &text)?;
    let known = Known::of(args, format)?;
    let read = |read: Result<StrandsReport, NothingRead>| {
        read.map_err(|error| Failure::new(format!("{name}: {error}")))
    };
    if args.packets.is_some() && format != ForeignFormat::PerfStat {
        return Err(Failure::new(format!(
            "--packets is not needed: {} already counts packets",
            format.name()
        )));
    }
    let mut report = read(match format {
        ForeignFormat::ProfileDump => profile_dump::read(&text, &known.exchanged(args)),
        ForeignFormat::PerfStat => {
            perf_stat::read(&text, args.packets, known.cache_misses(&identity()))
        }
        ForeignFormat::Vpp => vpp::read(&text),
        ForeignFormat::Regions => {
            return Err(Failure::new(format!(
                "{name}: a regions file is already a linerate record; no import is needed"
            )));
        }
    })?;
    if known.is_assumed && report.strands.iter().all(|s| s.ipc.as_number().is_none()) {
        let events = report.strands.iter().flat_map(|strand| &strand.events);
        let unknown = events.filter(|event| event.name == format!("code_{}", event.native));
        let codes: BTreeSet<&str> = unknown.map(|event| event.native.as_str()).collect();
        if !codes.is_empty() {
            let codes = codes.into_iter().collect::<Vec<_>>().join(", ");
            return Err(Failure::new(format!(
                "{name}: no slice counts instructions under {OF_DUMPS}'s event code, and the dump \
                 contains codes that {OF_DUMPS} does not define ({codes}); name the dump's \
                 processor with --machine, or pass --machine {OF_DUMPS} to decode it anyway"
            )));
        }
    }
    report.machine = known.machine(args);
    if let Some(costs) = &known.costs {
        for strand in &mut report.strands {
            strand.cpi_by_cause = of_strand(strand, costs);
        }
    }
    if args.output.json() && !args.output.quiet() {
        warn(&report);
    }
    let provenance = provenance::provenance();
    emit::emit(&args.output, &Record { provenance, body: Body::Strands(Box::new(report)) })
}

/// Converts samples to a profile and prints its report.
fn samples(args: &ImportArgs, text: &str) -> Result<Answer, Failure> {
    let name = args.file.display();
    let given = [args.machine.is_some(), args.clock.is_some(), args.packets.is_some()];
    let options = ["--machine", "--clock", "--packets"].into_iter().zip(given);
    if let Some((option, _)) = options.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::new(format!(
            "{option} does not apply to samples in the output of perf script"
        )));
    }
    let report = perf_samples::read(text, linerate_explain::classes::class_of);
    let report = report.map_err(|error| Failure::new(format!("{name}: {error}")))?;
    let body = Body::Profile(Box::new(report));
    emit::emit(&args.output, &Record { provenance: provenance::provenance(), body })
}

/// Parses a packet count.
pub(crate) fn packets(text: &str) -> Result<f64, String> {
    let packets = text.parse().ok().filter(|packets| (1.0..=1e18).contains(packets));
    packets.ok_or_else(|| "expected a packet count of 1 or more".to_owned())
}

/// Reads a file as text. Replaces invalid UTF-8, such as noise on a serial console, so that only
/// the affected line is rejected.
fn read(file: &Path) -> Result<String, Failure> {
    let bytes = input::bytes(file, input::PRINTED)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", file.display())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn format(args: &ImportArgs, text: &str) -> Result<ForeignFormat, Failure> {
    match args.format {
        Format::ProfileDump => Ok(ForeignFormat::ProfileDump),
        Format::PerfStat => Ok(ForeignFormat::PerfStat),
        Format::Vpp => Ok(ForeignFormat::Vpp),
        Format::Auto | Format::PerfScript => detect::format(text).ok_or_else(|| {
            Failure::new(format!(
                "{}: not the output of PROFILE_DUMP, `perf stat`, `perf script` or VPP's `show \
                 runtime`; if the file is damaged, name its format with --format",
                args.file.display()
            ))
        }),
    }
}

/// What is known about the machine on which the input was recorded.
struct Known {
    processor: Option<Processor>,
    /// Tick rate of this machine in GHz, if the user says that the input was recorded here.
    here_ghz: Option<f64>,
    /// Whether the default processor is used, because the user did not name one.
    is_assumed: bool,
    costs: Option<EventCosts>,
}

/// Processor assumed for dumps if the user does not name one.
const OF_DUMPS: &str = "t1";

impl Known {
    fn of(args: &ImportArgs, format: ForeignFormat) -> Result<Self, Failure> {
        let is_dump = format == ForeignFormat::ProfileDump;
        let (name, is_assumed) = match (&args.machine, is_dump) {
            (Some(name), _) => (Some(name.as_str()), false),
            (None, true) => (Some(OF_DUMPS), true),
            (None, false) => (None, false),
        };
        if name == Some("this") {
            let unmeasured = || {
                "this machine's cache miss cost is unknown; measure it with linerate memory"
                    .to_owned()
            };
            let costs = machine::costs_here(None).and_then(|costs| costs.ok_or_else(unmeasured));
            if let Err(why) = &costs
                && !args.output.quiet()
            {
                emit::say(&format!("warning:    {why}\n"));
            }
            let costs = costs.ok();
            let here_ghz = Some(linerate_machine::ticks::ticks_per_s() / 1e9);
            return Ok(Self { processor: None, here_ghz, is_assumed: false, costs });
        }
        let processor = name.map(machine::named).transpose()?;
        let costs = processor.as_ref().and_then(costs_of);
        Ok(Self { processor, here_ghz: None, is_assumed, costs })
    }

    fn clock_ghz(&self, args: &ImportArgs) -> Option<f64> {
        let of_processor = self.processor.as_ref().map(|processor| processor.clock_ghz);
        args.clock.or(of_processor).or(self.here_ghz)
    }

    /// Returns the event that perf's generic `cache-misses` counts on this machine, if the input
    /// was recorded here: `identity` is this machine's processor.
    fn cache_misses(&self, identity: &Identity) -> Option<&'static str> {
        self.here_ghz.and_then(|_| generic::cache_misses(identity))
    }

    fn exchanged(&self, args: &ImportArgs) -> linerate_exchange::Processor {
        let processor = self.processor.as_ref();
        linerate_exchange::Processor {
            clock_ghz: self.clock_ghz(args),
            // Instructions per tick are bounded only if ticks are core clock cycles.
            instructions_per_tick: processor
                .filter(|_| args.clock.is_none())
                .and_then(|processor| processor.instructions_per_cycle),
            codes: processor.map_or_else(Vec::new, |p| machine::codes(p, false)),
        }
    }

    fn machine(&self, args: &ImportArgs) -> Option<Machine> {
        let clock_ghz = self.clock_ghz(args)?;
        let clock = if args.clock.is_some() { "; clock from --clock" } else { "" };
        let Some(processor) = &self.processor else {
            return Some(Machine {
                name: match args.machine {
                    Some(_) => "this machine".to_owned(),
                    None => "an unknown machine".to_owned(),
                },
                source: match args.clock {
                    Some(_) => "clock from --clock".to_owned(),
                    None => "tick rate measured on this machine".to_owned(),
                },
                clock_ghz,
                strands_per_core: None,
            });
        };
        let assumed =
            if self.is_assumed { "; assumed because --machine was not given" } else { "" };
        Some(Machine {
            name: processor.name.clone(),
            source: format!("{}{clock}{assumed}", processor.source),
            clock_ghz,
            strands_per_core: Some(processor.pipes_per_core * processor.strands_per_pipe),
        })
    }
}

/// Reports damaged input on stderr; JSON output does not include the table that lists it.
fn warn(report: &StrandsReport) {
    if let Some(fault) = report.faults.first() {
        let more = match report.faults.len() - 1 {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        emit::say(&format!("warning:    {fault}{more}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_this_processor_are_those_of_inputs_recorded_here() {
        let intel = Identity::X86 { vendor: "GenuineIntel".into(), family: 6, model: 1 };
        let known = |here_ghz| Known { processor: None, here_ghz, is_assumed: false, costs: None };
        assert_eq!(known(Some(2.0)).cache_misses(&intel), Some("ll_misses"));
        assert_eq!(known(None).cache_misses(&intel), None);
    }
}
