// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate tcp`: measures TCP stacks under five traffic patterns, once per set of checksum and
//! copy routines.

use crate::emit::{self, Answer, Forms, Output};
use crate::failure::{Failure, also};
use crate::files::Files;
use crate::help_text::{examples, paragraphs};
use crate::interrupt::{INTERRUPTED, stop_on_interrupt};
use crate::parse::{TIME_SYNONYMS, cpu, duration};
use crate::plots::{self, Plots};
use crate::processors::processor;
use crate::progress::Progress;
use crate::provenance;
use clap::{Args, ValueEnum};
use linerate_record::kernels::Skipped;
use linerate_record::{Body, Provenance, Record};
use linerate_tcpbench::Watch;
use linerate_tcpbench::endpoint::Stack;
use linerate_tcpbench::endpoint::WireMode;
use linerate_tcpbench::pattern::{Mix, Pattern};
use linerate_tcpbench::routines::Set;
use linerate_tcpbench::run::{Request, Stacks, run};
use serde_json::{Value, json};
use std::fmt::Write;

const AFTER: &str = "\
Client and server run in one thread over an in-memory wire with a virtual clock, so that only the
CPU limits throughput. Rates are per second of CPU time; the bound is the same run without
checksums. Examples:

  linerate tcp --pattern bulk --time 5s
  linerate tcp --stack smoltcp --set selected --record tcp.json
  linerate tcp --law";

#[derive(Debug, Args)]
#[command(after_help = examples(AFTER), after_long_help = paragraphs(AFTER))]
pub(crate) struct TcpArgs {
    /// Only these stacks, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    stack: Vec<String>,
    /// Only these patterns, separated by commas: bulk, interactive, jumbo, mixed, response
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pattern: Vec<String>,
    /// Only these sets of routines from --list, separated by commas
    ///
    /// The bound is always measured.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    set: Vec<String>,
    /// How frames reach the receiver
    #[arg(long, value_enum, default_value_t = Wire::Copy)]
    wire: Wire,
    /// Size of each send and receive buffer in bytes
    ///
    /// Determines the window; 16384 to 4194304.
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 10,
        value_parser = clap::value_parser!(u32).range(16_384..=4_194_304))]
    buffer: u32,
    /// Message lengths of the mixed pattern
    ///
    /// A name from --list, or lengths with weights: 40:7,576:4,1500:1.
    #[arg(long, value_name = "MIX", default_value = "imix")]
    mix: String,
    /// Total measurement time, e.g. 500ms or 20s; checks and connection setup take extra time
    #[arg(
        long, value_name = "TIME", value_parser = duration, default_value = "15s",
        aliases = TIME_SYNONYMS
    )]
    time: f64,
    /// Run on this CPU (default: the first one that `run` would use)
    #[arg(long, value_name = "N", value_parser = cpu, allow_negative_numbers = true)]
    cpu: Option<u32>,
    /// Random seed for bytes, lengths, losses and the order of sets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only fit the Mathis equation, C * MSS / (RTT * sqrt(loss))
    #[arg(long, conflicts_with_all = ["pattern", "set", "wire", "buffer", "mix", "time"])]
    law: bool,
    /// Only list stacks, patterns, sets and mixes, as JSON with --json
    #[arg(
        long,
        conflicts_with_all = [
            "record", "svg", "stack", "pattern", "set", "wire", "buffer", "mix", "time", "cpu",
            "seed", "law",
        ]
    )]
    list: bool,
    /// Also print the lengths and alignments of kernel calls
    #[arg(long, conflicts_with_all = ["law", "list"])]
    histograms: bool,
    #[command(flatten)]
    plots: Plots,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Wire {
    /// Copied, as by a driver with its own buffers
    Copy,
    /// Passed by reference where the stack supports it
    Reference,
}

const WHY_NONE: &str = "nothing to plot, so no file was written";

/// Measures the stacks and prints the report.
pub(crate) fn tcp(args: &TcpArgs) -> Result<Answer, Failure> {
    if args.list {
        args.output.check_plain("--list")?;
        return emit::print(&list(args.output.json())?);
    }
    let request = request(args)?;
    Files::default().writes("--record", args.output.record.as_ref()).check()?;
    args.plots.make_folder()?;
    let provenance = provenance::provenance();
    let stop = stop_on_interrupt()?;
    let progress = Progress::new(args.output.quiet());
    progress.step("tcp");
    let allowed = linerate_linux::allowed_cpus().map_err(Failure::new)?;
    let provenance = Provenance { others: provenance::others(&allowed), ..provenance };
    let show = |part: &str, share: f64| {
        progress.step(part);
        progress.at(share);
    };
    let hung = |what: &str| progress.warn(what);
    let outcome = run(request, &Watch::new(stop, &show).reporting(&hung));
    progress.clear();
    let report = outcome.map_err(Failure::new)?;
    let drawing = args.plots.draw(|| plots::any(linerate_report::svg::tcp(&report), WHY_NONE));
    let interrupted = report.interrupted;
    let forms = Forms::from(&args.output);
    let forms = if args.histograms { forms.in_full() } else { forms };
    let printed = emit::emit(forms, &Record { provenance, body: Body::Tcp(Box::new(report)) });
    also(printed, drawing.write(args.output.quiet()))?;
    match interrupted {
        true => Err(Failure::new(INTERRUPTED)),
        false => Ok(Answer::Done),
    }
}

fn request(args: &TcpArgs) -> Result<Request, Failure> {
    let patterns = match args.pattern.as_slice() {
        [] => Pattern::ALL.to_vec(),
        names => once(names)
            .map(|name| Pattern::find(name))
            .collect::<Result<_, _>>()
            .map_err(Failure::new)?,
    };
    let sets = match args.set.as_slice() {
        [] => Set::all(),
        names => once(names)
            .map(|name| Set::find(name))
            .collect::<Result<_, _>>()
            .map_err(Failure::new)?,
    };
    Ok(Request {
        stacks: Stacks::named(&args.stack).map_err(Failure::new)?,
        patterns,
        sets,
        wire: match args.wire {
            Wire::Copy => WireMode::Copy,
            Wire::Reference => WireMode::Reference,
        },
        buffer: args.buffer as usize,
        mix: Mix::find(&args.mix).map_err(Failure::new)?,
        seconds: args.time,
        seed: args.seed,
        cpu: processor(args.cpu)?,
        law: args.law,
    })
}

/// Iterates over the names in order, without duplicates.
fn once(names: &[String]) -> impl Iterator<Item = &String> {
    let is_first = |(index, name): &(usize, &String)| !names[..*index].contains(name);
    names.iter().enumerate().filter(is_first).map(|(_, name)| name)
}

/// Lists stacks, patterns, sets and mixes.
fn list(is_json: bool) -> Result<String, Failure> {
    let Stacks { present, skipped } = Stacks::named(&[]).map_err(Failure::new)?;
    if is_json {
        return Ok(as_json(&present, &skipped));
    }
    let mut text = String::new();
    let names = |names: Vec<&str>| names.join(", ");
    let stacks: Vec<String> =
        present.iter().map(|stack| format!("{} {}", stack.name(), stack.version())).collect();
    let sets = Set::all();
    let lines = [
        ("stacks", stacks.join(", ")),
        ("patterns", names(Pattern::ALL.iter().map(|pattern| pattern.name()).collect())),
        ("sets", names(sets.iter().map(|set| set.name()).collect())),
    ];
    for (what, names) in lines {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{what:9} {names}");
    }
    for mix in Mix::presets() {
        let _ = writeln!(text, "mix       {}: {}", mix.name(), mix.source());
    }
    for skipped in skipped {
        let _ = writeln!(text, "left out  {}: {}", skipped.what, skipped.reason);
    }
    Ok(text)
}

/// Lists stacks, patterns, sets and mixes as JSON.
fn as_json(present: &[Box<dyn Stack>], skipped: &[Skipped]) -> String {
    let stack = |stack: &dyn Stack| json!({ "name": stack.name(), "version": stack.version() });
    let mix = |mix: Mix| json!({ "name": mix.name(), "source": mix.source() });
    let left_out = |one: &Skipped| json!({ "what": one.what, "reason": one.reason });
    let all = json!({
        "stacks": present.iter().map(|one| stack(one.as_ref())).collect::<Vec<_>>(),
        "patterns": Pattern::ALL.iter().map(|pattern| pattern.name()).collect::<Vec<_>>(),
        "sets": Set::all().iter().map(|set| Value::from(set.name())).collect::<Vec<_>>(),
        "mixes": Mix::presets().map(mix).collect::<Vec<_>>(),
        "left_out": skipped.iter().map(left_out).collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}
