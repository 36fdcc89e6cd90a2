// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same comparison in an emulated machine of the lab, where the processor's own events are
//! counted, exactly, and repeat.

use super::{Run, WORKLOADS, whole};
use crate::evidence::machine;
use crate::lab::{self, Answer, Obstacle, Question};
use linerate_record::Record;
use std::fmt::Write;

const GUEST: &str = "guest-arm64";

/// The emulator counts no other event of a processor (`lab/README.md`).
const EVENTS: &str = "instructions,cycles,page_faults,context_switches";

/// A program that enters and leaves its region and does nothing else.
const NOTHING: [&str; 2] = ["nothing", "0"];

/// An event, or how often it occurs per so many instructions.
struct Metric {
    name: &'static str,
    event: &'static str,
    instructions: Option<f64>,
}

const fn count(event: &'static str) -> Metric {
    Metric { name: event, event, instructions: None }
}

const fn rate(name: &'static str, event: &'static str, instructions: f64) -> Metric {
    Metric { name, event, instructions: Some(instructions) }
}

const METRICS: [Metric; 7] = [
    count("instructions"),
    count("cycles"),
    count("page_faults"),
    count("context_switches"),
    rate("cycles per instruction", "cycles", 1.0),
    rate("page faults per million instructions", "page_faults", 1e6),
    rate("context switches per million instructions", "context_switches", 1e6),
];

impl Metric {
    fn of(&self, count: impl Fn(&str) -> Result<f64, String>) -> Result<f64, String> {
        match self.instructions {
            None => count(self.event),
            Some(instructions) => match count("instructions")? {
                0.0 => Err("no instructions were counted".to_owned()),
                all => Ok(count(self.event)? / all * instructions),
            },
        }
    }

    fn shown(&self, value: &Result<f64, String>) -> String {
        match (value, self.instructions) {
            (Ok(value), None) => whole(Some(*value)),
            (Ok(value), Some(_)) => format!("{value:.4}"),
            (Err(_), _) => "-".to_owned(),
        }
    }
}

/// The part of the page about the guest; where there is none here, why.
pub(super) fn section() -> Result<String, String> {
    let title = "# The same with the processor's counters: an emulated arm64\n\n";
    let workloads = || WORKLOADS.iter().map(|(workload, _)| *workload).chain([NOTHING]);
    match lab::ask(GUEST, &workloads().flat_map(questions).collect::<Vec<_>>()) {
        Err(Obstacle::Missing(why)) => Ok(format!("{title}Not counted here: {why}\n\n")),
        Err(Obstacle::Failed(why)) => Err(why),
        Ok(answers) => {
            let runs: Vec<Run> = answers.chunks(2).map(run).collect::<Result<_, String>>()?;
            let (nothing, runs) = runs.split_last().ok_or("the guest gave no answer")?;
            let mut text = title.to_owned() + &machine(&nothing.record) + EXPLANATION;
            for (workload, run) in workloads().zip(runs) {
                text += &table(workload, run, nothing);
            }
            Ok(text)
        }
    }
}

const EXPLANATION: &str = "\
In the lab's `guest-arm64` ([lab/README.md](../../lab/README.md)) the kernel counts instructions and
cycles with the processor's counters, the program as above and `linerate-probe stat` beside it; one
run each, for the guest does the same in the next. Its times mean nothing: its clock advances by
1 ns per instruction, and a cycle is an instruction. So no row is a time, and there is no row of
caches, TLBs or branches, which the emulator does not count. Program and probe are built for size
by the guest's older compiler; their counts are not those of the program above.

*Difference* is `stat` against the region `program`, in per cent. Two things make it. The larger is
what `stat` counts before the region is entered and after it is left: the kernel starting the
program, the program opening its counters and measuring what measuring costs, and writing its
record. `nothing 0` does all of that and no work, so the last two columns take what `stat` counts
of it from what it counts of the workload. What then remains is not told apart further: a record of
one region more, interrupts of the kernel's clock. The smaller is the cost of entering and leaving,
which the region subtracts from its own counts and `stat` cannot know: two reads per visit, of two
visits. Context switches are so few that one more makes a large share.

";

/// What the guest is asked about a workload: counts from outside, then those from inside.
fn questions(workload: [&str; 2]) -> [Question; 2] {
    let [name, _] = workload;
    let file = format!("/tmp/{name}.json");
    let stat = format!(
        "env LINERATE_REGIONS={file} LINERATE_REGIONS_EVENTS={EVENTS} \
         linerate-probe stat --json -e {EVENTS} -- self_measurement {}",
        workload.join(" ")
    );
    let question =
        |side: &str, command: String| Question { name: format!("{name}_{side}"), command };
    [question("outside", stat), question("inside", format!("cat {file}"))]
}

/// A run from the two answers about it.
fn run(answers: &[Answer]) -> Result<Run, String> {
    let record = |answer: &Answer| match answer.status {
        0 => Record::from_json(&answer.output).map_err(|error| format!("{}: {error}", answer.name)),
        status => Err(format!("{}: status {status}: {}", answer.name, answer.errors.trim())),
    };
    match answers {
        [outside, inside] => Run::of(record(outside)?, record(inside)?),
        _ => Err("the guest was asked for two records and gave one".to_owned()),
    }
}

fn table(workload: [&str; 2], run: &Run, nothing: &Run) -> String {
    let mut text = format!(
        "## `self_measurement {}` in `{GUEST}`\n\n| metric | region `program/work` | \
         region `program` | `stat` | difference | `stat` less `nothing 0` | difference |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
        workload.join(" ")
    );
    let mut reasons = Vec::new();
    for metric in &METRICS {
        let work = metric.of(|event| run.inside("program/work", event));
        let program = metric.of(|event| run.inside("program", event));
        let stat = metric.of(|event| run.outside(event));
        let less = metric.of(|event| Ok(run.outside(event)? - nothing.outside(event)?));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            metric.name,
            metric.shown(&work),
            metric.shown(&program),
            metric.shown(&stat),
            difference(&program, &stat),
            metric.shown(&less),
            difference(&program, &less),
        );
        let reason = [work, program, stat, less].into_iter().find_map(Result::err);
        reasons.extend(reason.filter(|reason| !reasons.contains(reason)));
    }
    for reason in reasons {
        let _ = writeln!(text, "\n`-`: {reason}");
    }
    text + "\n"
}

/// By how much the second is more than the first.
fn difference(first: &Result<f64, String>, second: &Result<f64, String>) -> String {
    match (first, second) {
        (Ok(first), Ok(second)) if *first > 0.0 => {
            // Nothing that is rounded to 0 has a sign.
            let percent = format!("{:+.2}", (second / first - 1.0) * 100.0);
            format!("{} %", if percent == "-0.00" { "+0.00" } else { &percent })
        }
        (Ok(_), Ok(_)) => "- (0 inside)".to_owned(),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{METRICS, difference, questions};

    #[test]
    fn a_rate_is_of_counts_of_the_same_side() {
        let count = |event: &str| match event {
            "instructions" => Ok(4e6),
            "cycles" => Ok(6e6),
            "page_faults" => Ok(8.0),
            _ => Err("not counted".to_owned()),
        };
        let shown = METRICS.map(|metric| metric.shown(&metric.of(count)));
        assert_eq!(shown, ["4,000,000", "6,000,000", "8", "-", "1.5000", "2.0000", "-"]);
        let none = METRICS.map(|metric| metric.of(|_| Ok(0.0)).is_ok());
        assert_eq!(none, [true, true, true, true, false, false, false]);
    }

    #[test]
    fn differences_are_of_the_first() {
        let difference = |first, second| difference(&Ok(first), &Ok(second));
        assert_eq!(difference(200.0, 201.0), "+0.50 %");
        assert_eq!(difference(200.0, 150.0), "-25.00 %");
        assert_eq!(difference(1e9, 1e9 - 1.0), "+0.00 %");
        assert_eq!(difference(0.0, 1.0), "- (0 inside)");
        assert_eq!(super::difference(&Err(String::new()), &Ok(1.0)), "-");
    }

    #[test]
    fn both_sides_speak_of_the_same_run() {
        let [outside, inside] = questions(["chase", "9"]);
        assert!(outside.command.starts_with("env LINERATE_REGIONS=/tmp/chase.json "));
        assert!(outside.command.ends_with(" -- self_measurement chase 9"));
        assert_eq!(inside.command, "cat /tmp/chase.json");
    }
}
