// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate explain`: answers common questions about missed line rate from a record.

use crate::emit::{self, Answer, Output};
use crate::failure::Failure;
use crate::files::Files;
use crate::help_text::{examples, paragraphs};
use crate::{export, machine, provenance};
use clap::Args;
use linerate_cmt::processor::Processor;
use linerate_explain::cpi::EventCosts;
use linerate_explain::questions::{Inquiry, QUESTIONS, Question, ask};
use linerate_explain::regions::as_strands;
use linerate_record::answers::AnswerVerdict;
use linerate_record::run::RunReport;
use linerate_record::shell::quoted;
use linerate_record::{Body, Provenance, Record};
use serde_json::{Value, json};
use std::path::PathBuf;

const AFTER: &str = "\
Answers cite figures from the record. If a figure is missing, the answer is `cannot tell`, with the
command that measures it. Examples:

  linerate run edge.toml --record run.json
  linerate explain run.json
  linerate explain run.json --ask line-rate-64 --line 10Gb/s
  linerate explain two-ports.json --ask scaling --against one-port.json

Exit status 2: the record answers none of the questions asked.";

#[derive(Debug, Args)]
#[command(after_help = examples(AFTER), after_long_help = paragraphs(AFTER))]
pub(crate) struct ExplainArgs {
    /// Record from run, tune, import, regions or why; - reads it from stdin
    #[arg(value_name = "RECORD.json", required_unless_present = "list")]
    file: Option<PathBuf>,
    /// Answer only this question; --list prints the names
    #[arg(long, value_name = "QUESTION")]
    ask: Option<String>,
    /// List the questions, as JSON with --json
    #[arg(
        long, conflicts_with_all = ["file", "ask", "against", "line", "machine", "record"]
    )]
    list: bool,
    /// A record of the same application with fewer ports or workers
    #[arg(long, value_name = "RECORD.json")]
    against: Option<PathBuf>,
    /// Line rate, e.g. 10Gb/s (default: the path's)
    #[arg(long, value_name = "RATE", value_parser = crate::budget::line)]
    line: Option<f64>,
    /// Processor: t1, t2, or a TOML file (default: the record's)
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Answers questions about a record.
pub(crate) fn explain(args: &ExplainArgs) -> Result<Answer, Failure> {
    let Some(file) = args.file.as_ref().filter(|_| !args.list) else {
        args.output.check_plain("--list")?;
        return emit::print(&list(args.output.json()));
    };
    Files::default()
        .reads("the record", file)
        .may_read("the --against record", args.against.as_ref())
        .may_read("the --machine file", args.machine.as_deref().and_then(machine::file))
        .writes("--record", args.output.record.as_ref())
        .check()?;
    let record = readable(export::read(file)?);
    use Body::{Run, Strands, Tune, Why};
    if !matches!(record.body, Run(_) | Tune(_) | Strands(_) | Why(_)) {
        return Err(Failure::new(format!(
            "{}: questions can be answered only from run, tune, import, regions and why records; \
             create one with `linerate run --record FILE`",
            file.display()
        )));
    }
    let against = args.against.as_ref().map(|file| export::read(file).map(readable)).transpose()?;
    let processor = processor(args, &record)?;
    let provenance = provenance::provenance();
    let costs = costs(args, &record, &provenance);
    let name = quoted(file);
    let asked = Inquiry {
        record: &record,
        file: &name,
        against: against.as_ref(),
        processor: processor.as_ref(),
        line_bits_per_s: args.line,
        costs: costs.as_ref(),
    };
    let report = ask(&asked, args.ask.as_deref())
        .map_err(|error| Failure::new(format!("--ask: {error}")))?;
    let is_told = report.answers.iter().any(|one| one.verdict != AnswerVerdict::CannotTell);
    let body = Body::Answers(Box::new(report));
    let done = emit::emit(&args.output, &Record { provenance, body })?;
    if is_told { Ok(done) } else { Ok(Answer::Status(crate::failure::STATUS_OF_FAILURE)) }
}

/// Converts a regions record to a record of threads and functions, as `import` writes it. Returns
/// any other record unchanged.
fn readable(record: Record) -> Record {
    match &record.body {
        Body::Regions(regions) => {
            let ticks_per_s = record.provenance.ticks_per_s;
            let body = Body::Strands(Box::new(as_strands(regions, ticks_per_s)));
            Record { body, ..record }
        }
        _ => record,
    }
}

fn list(is_json: bool) -> String {
    if is_json {
        let all = QUESTIONS.iter().map(
            |Question { id, text, needs, .. }| json!({ "id": id, "text": text, "needs": needs }),
        );
        return format!("{:#}\n", Value::Array(all.collect()));
    }
    let lines = QUESTIONS.map(|question| {
        let needs = format!("needs {}", question.needs);
        let needs = linerate_report::paragraph(&needs, 16, &emit::style());
        format!("{:<16}{}\n{needs}", question.id, question.text)
    });
    lines.concat()
}

/// Returns the processor given on the command line or, by default, the record's processor.
fn processor(args: &ExplainArgs, record: &Record) -> Result<Option<Processor>, Failure> {
    if let Some(name) = &args.machine {
        return machine::named(name).map(Some);
    }
    let Body::Strands(report) = &record.body else { return Ok(None) };
    let Some(name) = report.machine.as_ref().map(|machine| &machine.name) else { return Ok(None) };
    let mut built_in = Processor::names().filter_map(Processor::named);
    Ok(built_in.find(|processor| processor.name == *name))
}

/// Returns this machine's cache miss costs, if the record is from a machine with the same CPU
/// model.
fn costs(args: &ExplainArgs, record: &Record, here: &Provenance) -> Option<EventCosts> {
    if record.provenance.cpu.is_none() || record.provenance.cpu != here.cpu {
        return None;
    }
    let cpus = |run: &RunReport| run.workers.iter().map(|worker| worker.cpu).collect::<Vec<u32>>();
    let workers = match &record.body {
        Body::Run(run) => Some(cpus(run)),
        Body::Tune(tune) => Some(cpus(&tune.tuned)),
        _ => None,
    };
    match machine::costs_here(workers.as_deref()) {
        Ok(costs) => costs,
        Err(why) => {
            if !args.output.quiet() {
                emit::say(&format!("warning:    {why}\n"));
            }
            None
        }
    }
}
