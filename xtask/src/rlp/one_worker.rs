// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `linerate tune` makes of configuration 1, over the same stages on one worker.
//!
//! ```text
//! tuned       <- the file that `linerate tune --out` writes
//! one worker  <- the same file with all stages in one entry of [mapping]
//! pairs       <- PAIRS times: a run of each, which goes first changing each time
//! ratio       =  the median over pairs of tuned / one worker, with its interval
//! ```
//!
//! Both of a pair meet the same neighbours, which two tunings minutes apart do not. A pair without
//! a rate on either side is left out and counted. The goal speaks of two free processors: where
//! others took part of them, a ratio below it proves nothing, and the page says so.

use super::record;
use linerate_record::stats::{CONFIDENCE, Estimate, median, paired_ratio};
use linerate_record::{Record, Warning};
use std::fmt::Write;
use std::fs;
use std::path::Path;

const PAIRS: usize = 12;
const SECONDS: &str = "500ms";
/// What a tuned path is to reach, over one worker, on two free processors.
const GOAL: f64 = 1.7;
const HEADING: &str = "## Configuration 1 tuned, over one worker\n\n";

/// Rates of a pair, thousand packets per second: one worker, tuned.
type Pair = [Option<f64>; 2];

/// What was measured.
#[derive(Debug, Default)]
pub(super) struct Compared {
    mapping: String,
    workers: usize,
    pairs: Vec<Pair>,
    /// Shares of the processors that others took just before a run, of the runs that met any.
    others: Vec<f64>,
}

/// Runs the pairs. `tuned` is a path that `tune --out` wrote from `examples/NAME.toml`.
pub(super) fn compare(binary: &Path, tuned: &Path) -> Result<Compared, String> {
    let text = fs::read_to_string(tuned).map_err(|e| format!("{}: {e}", tuned.display()))?;
    let merged = tuned.with_extension("one-worker.toml");
    let one_worker = on_one_worker(&text).ok_or("the tuned path has no stages or no mapping")?;
    fs::write(&merged, one_worker).map_err(|e| format!("{}: {e}", merged.display()))?;
    let mut compared = Compared::default();
    for pair in 0..PAIRS {
        eprintln!("pair {} of {PAIRS}: one worker, tuned", pair + 1);
        let mut rates = [None; 2];
        for which in [pair % 2, 1 - pair % 2] {
            let file = [merged.as_path(), tuned][which].display().to_string();
            let run = record(binary, &["run", "--time", SECONDS, &file])?;
            rates[which] = run.figures().get("processed_kpps").and_then(|kpps| kpps.as_number());
            compared.note(&run, which == 1);
        }
        compared.pairs.push(rates);
    }
    fs::remove_file(&merged).map_err(|error| format!("{}: {error}", merged.display()))?;
    Ok(compared)
}

/// The path with all stages of its mapping on one worker; `None` where it has no such lists.
fn on_one_worker(text: &str) -> Option<String> {
    let (before, rest) = text.split_once("[mapping]")?;
    let (mapping, behind) = rest.split_once("\n[")?;
    let lists = mapping.split("stages = [").skip(1).map(|list| list.split(']').next());
    let stages: Option<Vec<&str>> = lists.collect();
    let stages = stages.filter(|lists| !lists.is_empty())?.join(", ");
    Some(format!("{before}[mapping]\nworkers = [\n  {{ stages = [{stages}] }},\n]\n\n[{behind}"))
}

impl Compared {
    fn note(&mut self, run: &Record, is_tuned: bool) {
        self.others.extend(run.warnings().into_iter().filter_map(|warning| match warning {
            Warning::NotIdle { share } => Some(share),
            _ => None,
        }));
        if let Some(report) = super::run_of(run).filter(|_| is_tuned) {
            self.mapping.clone_from(&report.mapping);
            self.workers = report.workers.len();
        }
    }

    /// Rates of the pairs that have both.
    fn rates(&self) -> (Vec<f64>, Vec<f64>) {
        let both = self.pairs.iter().filter_map(|[one, tuned]| Some(((*one)?, (*tuned)?)));
        both.filter(|(one, tuned)| *one > 0.0 && *tuned > 0.0).unzip()
    }

    /// The section of the page.
    pub(super) fn section(&self) -> String {
        let mut text = format!(
            "{HEADING}The path that `tune` made of \
             configuration 1 and the same stages on one worker ran in turns, {} pairs of {SECONDS} \
             each; the ratio is the median over pairs, with its 95 % interval.\n\n",
            self.pairs.len()
        );
        let (one, tuned) = self.rates();
        let ratio = paired_ratio(&one, &tuned, CONFIDENCE);
        let shown = |all: &[f64]| super::number(median(all), 0);
        let _ = write!(
            text,
            "| tuned | one worker, kpps | tuned, kpps | ratio | interval | pairs |\n\
             |---|---:|---:|---:|---|---:|\n| {} | {} | {} | {} | {} | {} of {} |\n\n",
            self.mapping.replace('|', "\\|"),
            shown(&one),
            shown(&tuned),
            super::number(Some(ratio.value).filter(|ratio| ratio.is_finite()), 2),
            interval(&ratio),
            one.len(),
            self.pairs.len(),
        );
        let _ = writeln!(text, "{}\n", self.verdict(&ratio));
        text
    }

    /// Whether the goal is met, in a sentence, with what stood in the way.
    fn verdict(&self, ratio: &Estimate) -> String {
        let goal = format!("Goal: at least {GOAL} on two free processors");
        let beside = match median(&self.others) {
            Some(share) => format!(
                "other programs took {:.0} % of the processors before {} of {} runs",
                100.0 * share,
                self.others.len(),
                2 * self.pairs.len()
            ),
            None => "no other program took a tenth of a processor".to_owned(),
        };
        let said = if ratio.low.is_finite() && ratio.low >= GOAL {
            "met".to_owned()
        } else if !(ratio.low.is_finite() && ratio.high.is_finite()) {
            "cannot tell: too few pairs have a rate without preemption".to_owned()
        } else if self.workers < 2 {
            "cannot tell: the tuned path has one worker".to_owned()
        } else if !self.others.is_empty() {
            "cannot tell: the processors were not free".to_owned()
        } else if ratio.high < GOAL {
            "**missed**".to_owned()
        } else {
            "cannot tell: the interval holds it".to_owned()
        };
        format!("{goal}: {said}; {beside}.")
    }
}

/// The section where there is nothing to compare.
pub(super) fn none() -> String {
    format!(
        "{HEADING}No tuning of configuration 1 could tell what to keep, beside what else ran: the \
         goal of at least {GOAL} on two free processors was not tried.\n\n"
    )
}

fn interval(ratio: &Estimate) -> String {
    match ratio.low.is_finite() && ratio.high.is_finite() {
        true => format!("{:.2} to {:.2}", ratio.low, ratio.high),
        false => "-".to_owned(),
    }
}

/// Where `tune` may put its path, for the time of the tool.
pub(super) fn place() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("linerate-rlp-{}.toml", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::root;

    fn compared(pairs: &[Pair], workers: usize, others: &[f64]) -> Compared {
        let (pairs, others) = (pairs.to_vec(), others.to_vec());
        Compared { mapping: "a | b x2".to_owned(), workers, pairs, others }
    }

    #[test]
    fn all_stages_come_to_one_worker_and_all_else_stays() {
        for name in ["rlp-config1", "rlp-config2", "rlp-replicated"] {
            let file = root().join(super::super::example(name));
            let text = fs::read_to_string(file).expect("the example is there");
            let merged = on_one_worker(&text).expect("it has a mapping");
            let mapping: toml::Table = toml::from_str(&merged).expect("TOML");
            let given: toml::Table = toml::from_str(&text).expect("TOML");
            let workers = |path: &toml::Table| {
                let workers = path["mapping"]["workers"].as_array().expect("a list").clone();
                let stages =
                    workers.iter().map(|s| s["stages"].as_array().expect("a list").clone());
                (workers.len(), stages.flatten().collect::<Vec<_>>())
            };
            assert_eq!(workers(&mapping).0, 1, "{name}");
            assert_eq!(workers(&mapping).1, workers(&given).1, "{name}");
            let rest = |path: &toml::Table| {
                let mut path = path.clone();
                path.remove("mapping");
                path
            };
            assert_eq!(rest(&mapping), rest(&given), "{name}");
        }
        assert_eq!(on_one_worker("[mapping]\nworkers = []\n[run]\n"), None);
    }

    #[test]
    fn the_goal_is_judged_only_on_free_processors_and_with_enough_pairs() {
        let pairs = |ratio: f64| [[Some(1000.0), Some(1000.0 * ratio)]; 6];
        let said =
            |pairs: &[Pair], workers, others: &[f64]| compared(pairs, workers, others).section();
        let met = said(&pairs(1.8), 2, &[]);
        assert!(met.contains("| 1.80 | 1.80 to 1.80 | 6 of 6 |"), "{met}");
        assert!(met.contains("a \\| b x2") && met.contains("processors: met; no other"), "{met}");
        assert!(said(&pairs(1.6), 2, &[]).contains(": **missed**; no other"));
        let busy = said(&pairs(1.6), 2, &[0.5]);
        assert!(busy.contains("cannot tell: the processors were not free"), "{busy}");
        assert!(busy.contains("took 50 % of the processors before 1 of 12 runs"), "{busy}");
        assert!(said(&pairs(1.8), 2, &[0.5]).contains(": met; other programs took 50 %"));
        assert!(said(&pairs(1.0), 1, &[]).contains("the tuned path has one worker"));
        assert!(said(&pairs(1.8)[..3], 2, &[]).contains("cannot tell: too few pairs"));
        let none = said(&[[None, Some(1.0)]; 8], 2, &[]);
        assert!(none.contains("cannot tell: too few pairs") && none.contains("0 of 8"), "{none}");
    }
}
