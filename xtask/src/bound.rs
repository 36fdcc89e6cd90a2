// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bound`: tests whether `linerate profile` identifies the bottleneck of kernels whose
//! bottleneck is known.
//!
//! Each kernel runs with random parameters and checks its own result. An answer is right if it is
//! the known bottleneck, and wrong if it is another one; `cannot_tell` is neither. Kernels run in
//! random order, with and without the simulation.

use crate::command::{Scratch, output, program, root};
use crate::outcome::Outcome;
use linerate_record::random::{Random, mix};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Directory with the kernels' sources and the list of their bottlenecks.
const FOLDER: &str = "lab/bound";
const SOURCES: [&str; 5] = ["kernels", "compute", "memory", "code", "waiting"];
/// The answer of `linerate profile` that names no bottleneck.
const CANNOT_TELL: &str = "cannot_tell";
/// Time limit for one run of `linerate profile`, in seconds.
const LIMIT_S: u32 = 120;
/// Time for which a kernel keeps running after the profiling window, in seconds.
const MORE_S: u32 = 3;

/// Kernels to profile, and how.
pub(crate) struct Choice {
    repeats: u32,
    random: u64,
    seconds: u32,
    linerate: Option<PathBuf>,
    /// Tiers of evidence to try: `sw`, `sw + sim`.
    tiers: Vec<Tier>,
    names: Vec<String>,
}

/// Tiers of evidence that an answer may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    Sw,
    SwAndSim,
}

impl Tier {
    fn word(self) -> &'static str {
        match self {
            Self::Sw => "sw",
            Self::SwAndSim => "sw + sim",
        }
    }
}

/// A kernel whose bottleneck is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kernel {
    name: String,
    about: String,
    /// Answers that are right for this kernel.
    truth: Vec<String>,
}

/// The answer of `linerate profile` about a kernel.
struct Answer {
    bound_by: String,
    sentence: String,
    /// What the profile says about the hottest function.
    function: String,
}

/// A kernel with its answers.
struct Tried {
    kernel: Kernel,
    tier: Tier,
    answers: Vec<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    Wrong,
    CannotTell,
    Right,
}

impl Kernel {
    fn waits(&self) -> bool {
        self.truth.iter().any(|truth| truth == "waiting")
    }

    fn worth(&self, answer: &str) -> Worth {
        match answer {
            answer if self.truth.iter().any(|truth| truth == answer) => Worth::Right,
            CANNOT_TELL => Worth::CannotTell,
            _ => Worth::Wrong,
        }
    }
}

/// Parses the arguments of `bound`.
pub(crate) fn choose(words: &[&str]) -> Result<Choice, String> {
    let mut choice = Choice {
        repeats: 1,
        random: 1,
        seconds: 4,
        linerate: None,
        tiers: vec![Tier::Sw, Tier::SwAndSim],
        names: Vec::new(),
    };
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("bound: {word} takes a value"));
        let number =
            |text: &str| text.parse().map_err(|_| format!("bound: invalid number `{text}`"));
        match word {
            "--repeats" => choice.repeats = number(value()?)?,
            "--seed" => choice.random = number(value()?)?.into(),
            "--seconds" => choice.seconds = number(value()?)?.clamp(1, 20),
            "--linerate" => choice.linerate = Some(value()?.into()),
            "--sw" => choice.tiers = vec![Tier::Sw],
            option if option.starts_with('-') => {
                return Err(format!("bound: unknown option `{option}`"));
            }
            name => choice.names.push(name.to_owned()),
        }
    }
    let known = kernels()?;
    match choice.names.iter().find(|name| known.iter().all(|one| one.name != **name)) {
        Some(name) => Err(format!("bound: unknown kernel `{name}`")),
        None => Ok(choice),
    }
}

/// Runs the selection and prints the table.
pub(crate) fn run(choice: &Choice) -> Result<(), String> {
    print!("{}", page(&try_all(choice)?));
    Ok(())
}

/// Kernels whose answers need neither a second CPU nor an idle machine.
const BRIEFLY: [&str; 5] =
    ["multiply-chain", "divide-integer", "nanosleep", "small-reads", "page-faults"];

/// Profiles a few kernels, and checks that no answer is confidently wrong.
pub(crate) fn check() -> Outcome {
    let names = BRIEFLY.map(str::to_owned).to_vec();
    let tiers = vec![Tier::Sw];
    let choice = Choice { repeats: 1, random: 1, seconds: 2, linerate: None, tiers, names };
    match try_all(&choice) {
        Err(why) => Outcome::Failed(why),
        Ok(tried) => match wrong(&tried).as_slice() {
            [] => Outcome::Passed(Vec::new()),
            wrong => Outcome::Failed(format!("confidently wrong: {}", wrong.join("; "))),
        },
    }
}

fn wrong(tried: &[Tried]) -> Vec<String> {
    let of = |one: &Tried| {
        let wrong = one.answers.iter().find(|a| one.kernel.worth(&a.bound_by) == Worth::Wrong);
        wrong.map(|answer| format!("{}: {}", one.kernel.name, answer.sentence))
    };
    tried.iter().filter_map(of).collect()
}

fn try_all(choice: &Choice) -> Result<Vec<Tried>, String> {
    let linerate = match &choice.linerate {
        Some(file) => file.clone(),
        None => crate::why::build()?,
    };
    let place = Scratch::new("bound")?;
    build(place.path()).and_then(|compiled| try_with(choice, &linerate, &compiled))
}

fn build(place: &Path) -> Result<PathBuf, String> {
    let compiled = place.join("kernels");
    let sources: Vec<String> = SOURCES.iter().map(|name| format!("{FOLDER}/{name}.c")).collect();
    let options = ["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"];
    let compiled_name = compiled.display().to_string();
    let words: Vec<&str> = options
        .into_iter()
        .chain([&*compiled_name])
        .chain(sources.iter().map(String::as_str))
        .chain(["-lm"])
        .collect();
    let mut compiler = program("cc", &words);
    compiler.current_dir(root());
    output(compiler)?;
    Ok(compiled)
}

fn try_with(choice: &Choice, linerate: &Path, compiled: &Path) -> Result<Vec<Tried>, String> {
    let all = kernels()?;
    let is_chosen = |one: &&Kernel| choice.names.is_empty() || choice.names.contains(&one.name);
    let mut tried: Vec<Tried> = Vec::new();
    for kernel in all.iter().filter(is_chosen) {
        for &tier in &choice.tiers {
            tried.push(Tried { kernel: kernel.clone(), tier, answers: Vec::new() });
        }
    }
    for repeat in 0..choice.repeats {
        let mut order: Vec<usize> = (0..tried.len()).collect();
        Random::new(mix(choice.random ^ mix(u64::from(repeat)))).shuffle(&mut order);
        for at in order {
            let one = &mut tried[at];
            let seed = mix(choice.random ^ mix(u64::from(repeat) + 7)) % 1_000_000;
            let answer = answer(linerate, compiled, one, seed, choice.seconds)?;
            let (name, tier) = (&one.kernel.name, one.tier.word());
            let worth = one.kernel.worth(&answer.bound_by);
            eprintln!("{name:16} {tier:8} {worth:?}: {} | {}", answer.bound_by, answer.sentence);
            one.answers.push(answer);
        }
    }
    Ok(tried)
}

/// Profiles a kernel once, after it has prepared its data.
fn answer(
    linerate: &Path,
    compiled: &Path,
    tried: &Tried,
    seed: u64,
    seconds: u32,
) -> Result<Answer, String> {
    let name = &tried.kernel.name;
    let (window, seed) = (format!("{seconds}s"), seed.to_string());
    let (linerate, compiled) = (linerate.display().to_string(), compiled.display().to_string());
    let length = (seconds + MORE_S).to_string();
    let limit = LIMIT_S.to_string();
    let mut kernel = program("timeout", &[&*limit, &compiled, name, &seed, &length]);
    let mut kernel = kernel.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let mut ready = String::new();
    let said = kernel.stdout.as_mut().map(|out| BufReader::new(out).read_line(&mut ready));
    // The process started above is timeout(1); the kernel is its only child.
    let children = format!("/proc/{0}/task/{0}/children", kernel.id());
    let pid = std::fs::read_to_string(children).unwrap_or_default().trim().to_owned();
    let is_simulated = tried.tier == Tier::SwAndSim;
    let mut words =
        vec![&*limit, &linerate, "profile", "--json", "--quiet", "-o", "-", "-t", &window, &pid];
    if is_simulated {
        words.extend(["--sim", "--", &compiled, name, &seed, "1"]);
    }
    let text = match said {
        Some(Ok(_)) if ready == "ready\n" => output(program("timeout", &words)),
        _ => Err(format!("{name} did not start")),
    };
    let ended = kernel.wait().map_err(|error| error.to_string())?;
    if !ended.success() {
        return Err(format!("{name} with seed {seed} ended with {ended}"));
    }
    let text = match text {
        // A kernel that waits hardly runs and may have no samples, in which case `profile` exits
        // with 2.
        Err(why) if tried.kernel.waits() && why.contains("exit status: 2") => {
            return Ok(Answer {
                bound_by: CANNOT_TELL.to_owned(),
                sentence: "no samples".to_owned(),
                function: "-".to_owned(),
            });
        }
        text => String::from_utf8_lossy(&text?).into_owned(),
    };
    let json = text.find('{').map_or("", |start| &text[start..]);
    let record: Value = serde_json::from_str(json).map_err(|error| format!("{name}: {error}"))?;
    let bounds = record["bounds"].as_array().ok_or_else(|| format!("{name}: no bounds"))?;
    let word = |finding: Option<&Value>, key: &str| {
        finding.and_then(|one| one[key].as_str()).unwrap_or("-").to_owned()
    };
    Ok(Answer {
        bound_by: word(bounds.first(), "bound_by"),
        sentence: word(bounds.first(), "sentence"),
        function: word(bounds.get(1), "bound_by"),
    })
}

/// Reads the list of kernels.
fn kernels() -> Result<Vec<Kernel>, String> {
    let file = root().join(FOLDER).join("kernels.toml");
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let table: toml::Table = text.parse().map_err(|e| format!("{}: {e}", file.display()))?;
    let kernel = |(name, value): (&String, &toml::Value)| {
        let truth = value.get("truth").and_then(toml::Value::as_array);
        let truth = truth.map(|list| list.iter().filter_map(toml::Value::as_str));
        let about = value.get("about").and_then(toml::Value::as_str);
        let (truth, about) =
            truth.zip(about).ok_or_else(|| format!("kernel `{name}` lacks `truth` or `about`"))?;
        Ok(Kernel {
            name: name.clone(),
            about: about.to_owned(),
            truth: truth.map(str::to_owned).collect(),
        })
    };
    table.iter().map(kernel).collect()
}

/// Formats the results page: the scores, followed by the kernels, wrong answers first.
fn page(tried: &[Tried]) -> String {
    let mut page =
        "| evidence | kernels right | answers right | cannot tell | confidently wrong |\n\
                    |---|---|---|---|---|\n"
            .to_owned();
    for tier in [Tier::Sw, Tier::SwAndSim] {
        let of: Vec<&Tried> = tried.iter().filter(|one| one.tier == tier).collect();
        if of.is_empty() {
            continue;
        }
        let worths: Vec<Worth> = of.iter().flat_map(|one| one.worths()).collect();
        let count = |worth| worths.iter().filter(|one| **one == worth).count();
        let right = of.iter().filter(|one| one.is_right()).count();
        let _ = writeln!(
            page,
            "| {} | {right} of {} | {} of {} | {} | {} |",
            tier.word(),
            of.len(),
            count(Worth::Right),
            worths.len(),
            count(Worth::CannotTell),
            count(Worth::Wrong),
        );
    }
    for (worth, heading) in [
        (Worth::Wrong, "Confidently wrong"),
        (Worth::CannotTell, "Cannot tell"),
        (Worth::Right, "Right"),
    ] {
        let mut rows: Vec<&Tried> = tried.iter().filter(|one| one.worst() == worth).collect();
        rows.sort_by(|a, b| a.kernel.name.cmp(&b.kernel.name).then(a.tier.cmp(&b.tier)));
        let _ = writeln!(page, "\n**{heading}**\n");
        if rows.is_empty() {
            page.push_str("none\n");
            continue;
        }
        page.push_str(
            "| kernel | evidence | known bottleneck | answer for the program | answer for the \
             hottest function | sentence |\n",
        );
        page.push_str("|---|---|---|---|---|---|\n");
        for row in rows {
            let _ = writeln!(page, "{}", row.row());
        }
    }
    page
}

impl Tried {
    fn worths(&self) -> Vec<Worth> {
        self.answers.iter().map(|one| self.kernel.worth(&one.bound_by)).collect()
    }

    /// Whether more than half of the answers are right.
    fn is_right(&self) -> bool {
        let worths = self.worths();
        2 * worths.iter().filter(|worth| **worth == Worth::Right).count() > worths.len()
    }

    fn worst(&self) -> Worth {
        self.worths().into_iter().min().unwrap_or(Worth::CannotTell)
    }

    fn row(&self) -> String {
        let answers = |of: fn(&Answer) -> &String| {
            let mut counts = BTreeMap::<&str, u32>::new();
            self.answers.iter().for_each(|one| *counts.entry(of(one)).or_default() += 1);
            let several = self.answers.len() > 1;
            let part = |(word, count): (&str, u32)| match several {
                true => format!("{count} x {word}"),
                false => word.to_owned(),
            };
            counts.into_iter().map(part).collect::<Vec<String>>().join(", ")
        };
        let worst = |one: &&Answer| self.kernel.worth(&one.bound_by) == self.worst();
        let sentence = self.answers.iter().find(worst).map_or("-", |one| &one.sentence);
        format!(
            "| {}: {} | {} | {} | {} | {} | {} |",
            self.kernel.name,
            self.kernel.about,
            self.tier.word(),
            self.kernel.truth.join(" or "),
            answers(|one| &one.bound_by),
            answers(|one| &one.function),
            sentence.replace('|', "/"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_a_truth() {
        let kernels = kernels().unwrap();
        assert!(kernels.len() >= 20);
        for one in &kernels {
            assert!(!one.truth.is_empty() && !one.truth.iter().any(|t| t == CANNOT_TELL));
        }
        let is_known = |name: &&str| kernels.iter().any(|one| one.name == **name);
        assert!(BRIEFLY.iter().all(is_known));
    }

    #[test]
    fn failures_come_first_and_only_wrong_claims_are_failures() {
        let kernel = |name: &str| Kernel {
            name: name.to_owned(),
            about: "x".to_owned(),
            truth: vec!["compute".to_owned()],
        };
        let tried = |name: &str, bound_by: &str| Tried {
            kernel: kernel(name),
            tier: Tier::Sw,
            answers: vec![Answer {
                bound_by: bound_by.to_owned(),
                sentence: "s".to_owned(),
                function: "-".to_owned(),
            }],
        };
        let all = [tried("a", "compute"), tried("b", "locks"), tried("c", "cannot_tell")];
        let page = page(&all);
        let at = |text: &str| page.find(text).unwrap();
        assert!(page.contains("| sw | 1 of 3 | 1 of 3 | 1 | 1 |"), "{page}");
        assert!(at("| b: x") < at("| c: x") && at("| c: x") < at("| a: x"));
        assert_eq!(wrong(&all), ["b: s"]);
    }
}
