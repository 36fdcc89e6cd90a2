// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask why`: tests `linerate why` on bottlenecks with known causes in real programs.
//!
//! Each seed (a planted cause) runs with its cause and without it, in random order and with random
//! parameters. The score shows whether the finding names the cause, whether `why` is silent in the
//! control run, and whether the predicted range of the gain contains the measured gain.

mod cpus;
mod kept;
mod scene;
mod score;
mod seeds;

use crate::Task;
use crate::command::{cargo, output, program, root};
use crate::outcome::Outcome;
use linerate_record::random::{Random, mix};
use scene::{Ran, Rights, Tools};
use score::{Tried, page};
use seeds::Seed;
use std::path::{Path, PathBuf};

/// The lab's compiled programs, relative to the root.
const PROGRAMS: &str = "target/why";
/// Names of the C sources of the lab's programs: a client that does not read its socket, a sender,
/// and threads that share a cache line.
const SOURCES: [&str; 3] = ["drain", "send", "share"];

/// Seeds to run, and options.
pub(crate) struct Choice {
    repeats: u32,
    random: u64,
    rights: Vec<Rights>,
    may_change_settings: bool,
    /// Seed IDs; empty for all.
    ids: Vec<String>,
    linerate: Option<PathBuf>,
    /// Directory to store each run's rate and record in; `None` to store nothing.
    keep: Option<PathBuf>,
    /// Directory with stored runs to use instead of new ones.
    kept: Option<PathBuf>,
}

/// Parses the arguments after `why`.
pub(crate) fn choose(words: &[&str]) -> Result<Choice, String> {
    let mut choice = Choice {
        repeats: 1,
        random: 1,
        rights: vec![Rights::Root, Rights::User],
        may_change_settings: false,
        ids: Vec::new(),
        linerate: None,
        keep: None,
        kept: None,
    };
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("why: {word} takes a value"));
        let number = |text: &str| text.parse().map_err(|_| format!("why: invalid number `{text}`"));
        match word {
            "--repeats" => choice.repeats = number(value()?)? as u32,
            "--seed" => choice.random = number(value()?)?,
            "--settings" => choice.may_change_settings = true,
            "--root" => choice.rights = vec![Rights::Root],
            "--user" => choice.rights = vec![Rights::User],
            "--linerate" => choice.linerate = Some(value()?.into()),
            "--keep" => choice.keep = Some(value()?.into()),
            "--kept" => choice.kept = Some(value()?.into()),
            option if option.starts_with('-') => {
                return Err(format!("why: unknown option `{option}`"));
            }
            id => choice.ids.push(id.to_owned()),
        }
    }
    let known = seeds::all()?;
    match choice.ids.iter().find(|id| known.iter().all(|seed| seed.id != **id)) {
        Some(id) => Err(format!("why: unknown seed `{id}`")),
        None => Ok(choice),
    }
}

/// Parses the arguments for the part of a run that is started inside its namespaces.
pub(crate) fn choose_scene(words: &[&str]) -> Result<Task, String> {
    let [id, seeded, random, linerate] = words else {
        return Err("why --scene is internal to `cargo xtask why`".to_owned());
    };
    let seeds = seeds::all()?;
    let seed = seeds.into_iter().find(|seed| seed.id == *id).ok_or("no such seed")?;
    let random = random.parse().map_err(|_| format!("invalid number `{random}`"))?;
    let (is_seeded, linerate) = (*seeded == "with", PathBuf::from(linerate));
    Ok(Box::new(move || scene::inside(&seed, is_seeded, random, &linerate)))
}

/// Runs the selection and prints the results page.
pub(crate) fn run(choice: &Choice) -> Result<(), String> {
    run_and_count(choice).map(drop)
}

/// Like [`run`], but returns the number of confidently wrong answers. A failed run is an error.
fn run_and_count(choice: &Choice) -> Result<u32, String> {
    if let Some(folder) = &choice.kept {
        let seeds = seeds::all()?;
        let tried = kept::read(folder, &seeds)?;
        println!("{}", page(&tried));
        return Ok(0);
    }
    let linerate = match &choice.linerate {
        Some(file) => file.clone(),
        None => build()?,
    };
    build_programs()?;
    cpus::warn_if_busy();
    let seeds = seeds::all()?;
    let seeds = seeds.iter().filter(|s| choice.ids.is_empty() || choice.ids.contains(&s.id));
    let mut tried: Vec<Tried<'_>> = Vec::new();
    let mut skipped = Vec::new();
    for (seed, rights) in seeds.flat_map(|s| choice.rights.iter().map(move |r| (s, *r))) {
        let lacks = match rights {
            Rights::Root if !scene::is_root() => Some("root is needed".to_owned()),
            _ => scene::lacks(seed, rights, choice.may_change_settings),
        };
        match lacks {
            Some(why) => skipped.push(format!("SKIP {} ({}): {why}", seed.id, rights.word())),
            None => tried.push(try_seed(seed, rights, choice, &linerate)),
        }
    }
    println!("{}", page(&tried));
    skipped.iter().for_each(|line| eprintln!("{line}"));
    eprintln!("{} tried, {} skipped", tried.len(), skipped.len());
    let wrong: u32 = choice.rights.iter().map(|r| score::score(&tried, *r).wrong).sum();
    let failed: usize = tried.iter().map(|tried| tried.failed.len()).sum();
    match failed {
        0 => Ok(wrong),
        _ => Err(format!("why: {failed} runs failed")),
    }
}

/// Seeds for CI, whose causes are least obscured by other work on the machine: a sender with
/// nothing to send, a rate limiter, waiting for a peer, and an idle server without a fault.
const BRIEFLY: [&str; 4] = ["11", "12", "13", "n1"];

/// Runs a few seeds once each, without privileges: checks that `why` detects causes that no other
/// work on the machine can hide.
pub(crate) fn check() -> Outcome {
    let known = match seeds::all() {
        Ok(known) => known,
        Err(why) => return Outcome::Failed(why),
    };
    let lacks = |seed: &&Seed| scene::lacks(seed, Rights::User, false);
    let chosen = known.iter().filter(|seed| BRIEFLY.contains(&seed.id.as_str()));
    let (there, lacking): (Vec<_>, Vec<_>) = chosen.partition(|seed| lacks(seed).is_none());
    if there.is_empty() {
        return Outcome::Skipped(lacking.iter().find_map(lacks).unwrap_or_default());
    }
    if let Err(why) = scene::try_namespaces(Rights::User) {
        return Outcome::Skipped(format!("no user namespaces: {why}"));
    }
    let choice = Choice {
        repeats: 1,
        random: 1,
        rights: vec![Rights::User],
        may_change_settings: false,
        ids: there.iter().map(|seed| seed.id.clone()).collect(),
        linerate: None,
        keep: None,
        kept: None,
    };
    let skipped = lacking.iter().filter_map(|seed| Some(format!("{}: {}", seed.id, lacks(seed)?)));
    match run_and_count(&choice) {
        Ok(0) => Outcome::Passed(skipped.collect()),
        Ok(wrong) => Outcome::Failed(format!("{wrong} answers are confidently wrong")),
        Err(why) => Outcome::Failed(why),
    }
}

fn try_seed<'a>(seed: &'a Seed, rights: Rights, choice: &Choice, linerate: &Path) -> Tried<'a> {
    let tools = Tools { linerate, keep: choice.keep.as_deref() };
    let mut tried = Tried { seed, rights, pairs: Vec::new(), failed: Vec::new() };
    for repeat in 0..choice.repeats {
        let random = mix(choice.random ^ mix(u64::from(repeat)) ^ hash(&seed.id));
        let one = |is_seeded| {
            let ran = scene::run(seed, is_seeded, rights, random, &tools);
            tell(seed, rights, is_seeded, &ran);
            ran
        };
        let (with, without) = match (seed.is_null, Random::new(random).below(2)) {
            (true, _) => (one(true), None),
            (false, 0) => (one(true), Some(one(false))),
            (false, _) => {
                let without = one(false);
                (one(true), Some(without))
            }
        };
        match (with, without.transpose()) {
            (Ok(with), Ok(without)) => tried.pairs.push((with, without)),
            (Err(why), _) | (_, Err(why)) => tried.failed.push(why),
        }
    }
    tried
}

fn tell(seed: &Seed, rights: Rights, is_seeded: bool, ran: &Result<Ran, String>) {
    let with = if is_seeded { "with" } else { "without" };
    let head = format!("{:>3} {:4} {with:7}", seed.id, rights.word());
    match ran {
        Ok(ran) => {
            let rate = ran.rate.map(|rate| format!(" rate {rate:.0}/s")).unwrap_or_default();
            eprintln!("{head} {} | {}{rate}", ran.finding, ran.sentence);
        }
        Err(why) => eprintln!("{head} failed: {why}"),
    }
}

fn hash(id: &str) -> u64 {
    id.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)))
}

/// Builds linerate and returns its path.
pub(crate) fn build() -> Result<PathBuf, String> {
    output(cargo(&["build", "--release", "--locked", "--quiet", "--package", "linerate"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root().join(target).join("release/linerate"))
}

fn build_programs() -> Result<(), String> {
    let folder = root().join(PROGRAMS);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for name in SOURCES {
        let (source, compiled) =
            (format!("{}/{name}.c", seeds::FOLDER), format!("{PROGRAMS}/{name}"));
        let options = ["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"];
        let words: Vec<&str> = options.into_iter().chain([&*compiled, &*source]).collect();
        output(program("cc", &words))?;
    }
    Ok(())
}
