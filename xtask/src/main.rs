// SPDX-License-Identifier: MIT OR Apache-2.0
//! What developers run beside cargo: the checks of CI and the files made from the program.
//!
//! Rules about the source tree (arrows between crates, tidiness, links) are tests of this package,
//! under `tests/house`, so that plain `cargo test` applies them.
#![forbid(unsafe_code)]

mod accuracy;
mod ci;
mod command;
mod corpus;
mod counts;
mod evidence;
mod examples;
mod fetch;
mod fixtures;
mod isa;
mod kernels;
mod lab;
mod lwip;
mod machines;
mod memory;
mod native;
mod netra;
mod pmu;
mod ports;
mod protocol;
mod regions;
mod rlp;
mod schema;
mod tcp;
mod tutorials;
mod vector_models;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND
  ci [--fast] [NAME...]
                everything CI checks, or the steps whose names have one of those in them; --fast
                leaves out what takes minutes; --list only names the steps
  accuracy [--full] [NAME...]
                run the accuracy suite, or the programs named, at the size of CI; --full at the size
                of the published figures
  schema        write docs/schema from the program
  fixtures      measure the stored records of the tests again, one of each kind
  events        write native/pmu/events from the event tables
  registers     compare the accesses to registers in native/pmu with the encodings of the manuals
  evidence [N]  measure what the README claims, with N tunings, and write docs/results
  evidence kernels
                measure the kernels and write docs/results/kernels.md and its plots
  evidence counts
                count the instructions of the kernels on emulated architectures, and write
                docs/results/kernels/instructions.md
  evidence regions
                count programs from inside and outside, and write docs/results/self-measurement.md
  evidence memory [N]
                repeat `linerate memory` N times alone and N times beside busy processes, and write
                docs/results/memory.md and its plot
  evidence pmu  as `lab pmu`, and write docs/results/pmu.md
  evidence corpus
                try the detector of levels on made-up hierarchies, and write
                docs/results/memory-corpus.md
  evidence netra
                fit the simulator of strands to the Netra document, and write docs/results/netra
  evidence rlp-loss
                send streams over links that lose, and write docs/results/rlp-loss.md
  evidence rlp-stages
                measure the stages of the RLP application beside copying, and write
                docs/results/rlp-stages.md
  evidence fuzz
                fuzz the parsers of the Radio Link Protocol, write docs/results/fuzz.md and what was
                found
  evidence rlp  run and tune the paths of the Radio Link Protocol, and write docs/results/rlp
  evidence tcp [N]
                run `linerate tcp`, send N bytes in each pattern over a wire that loses and
                damages (1e10 unless told otherwise), and write docs/results/tcp.md
  evidence vector-models
                explore the schemes that share vector registers, and write
                docs/results/vector-models.md
  evidence vector-costs
                count what taking the vector registers costs on emulated processors, and write
                docs/results/vector-context-costs.md
  isa [--full] [NAME...]
                check the kernels on emulated processors of every architecture, or on those named;
                --full with every case
  lab GUEST [COMMAND]
                check the counters in guest-arm64 or guest-armhf, or run a command there
  lab linux-7455
                build Linux for the MPC7455 and check the kernels' port in it
  lab pmu [--brief]
                read counters by their registers, on boards without an operating system and in
                guests by the modules of kmod; --brief with fewer repeats
  lab vector-context [--brief]
                compare schemes for vector registers on a bare MPC7455, and write
                docs/results/vector-context.md; --brief checks and writes nothing
  tutorials     run the commands of docs/tutorials and write what they print
  fetch lwip    bring the source of lwIP, whose checksum `linerate kernels` then measures too, into
                which native/ports puts ours, and which `linerate tcp` then runs
";

/// What a command does; the error says why it could not.
type Task = Box<dyn FnOnce() -> Result<(), String>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let (why, status) = match task(&words).map(|task| task()) {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(why)) => (why, 1),
        Err(why) => (why, 2),
    };
    eprintln!("xtask: {why}");
    ExitCode::from(status)
}

/// What the words ask for; the error says what is wrong with them. Does nothing yet.
fn task(words: &[&str]) -> Result<Task, String> {
    let task: Task = match words {
        _ if words.iter().any(|word| ["--help", "-h"].contains(word)) => Box::new(help),
        ["ci", rest @ ..] => {
            let choice = ci::choose(rest)?;
            Box::new(|| ci::run(choice))
        }
        ["accuracy", rest @ ..] => {
            let choice = accuracy::choose(rest)?;
            Box::new(move || accuracy::run(&choice))
        }
        ["schema"] => Box::new(schema::write),
        ["fixtures"] => Box::new(fixtures::write),
        ["events"] => Box::new(pmu::events::write),
        ["registers"] => Box::new(pmu::registers),
        ["evidence", rest @ ..] => evidence(rest)?,
        ["isa", "--full", names @ ..] => {
            let rows = isa::rows(names)?;
            Box::new(move || isa::run(&rows, true))
        }
        ["isa", names @ ..] => {
            let rows = isa::rows(names)?;
            Box::new(move || isa::run(&rows, false))
        }
        ["lab", rest @ ..] => {
            let task = lab::choose(rest)?;
            Box::new(|| lab::run(task))
        }
        ["tutorials"] => Box::new(tutorials::write),
        ["fetch", "lwip"] => Box::new(|| fetch::lwip().and_then(|()| lwip::build(&[]))),
        ["help"] => Box::new(help),
        _ => return Err(unknown(words)),
    };
    Ok(task)
}

fn evidence(words: &[&str]) -> Result<Task, String> {
    let task: Task = match words {
        [] => Box::new(|| evidence::write(None)),
        ["kernels"] => Box::new(kernels::write),
        ["counts"] => Box::new(counts::write),
        ["regions"] => Box::new(regions::write),
        ["memory"] => Box::new(|| memory::write(None)),
        ["memory", repeats] => {
            let repeats = number(repeats, "repeats")?;
            Box::new(move || memory::write(Some(repeats)))
        }
        ["pmu"] => Box::new(lab::write_pmu_page),
        ["corpus"] => Box::new(corpus::write),
        ["netra"] => Box::new(netra::write),
        ["rlp-loss"] => Box::new(protocol::loss),
        ["rlp-stages"] => Box::new(protocol::stages),
        ["fuzz"] => Box::new(protocol::fuzz),
        ["rlp"] => Box::new(rlp::write),
        ["tcp"] => Box::new(|| tcp::write(None)),
        ["tcp", bytes] => {
            let bytes = tcp::bytes(bytes)?;
            Box::new(move || tcp::write(Some(&bytes)))
        }
        ["vector-models"] => Box::new(vector_models::write),
        ["vector-costs"] => Box::new(counts::context::write),
        [tunings] => {
            let tunings = number(tunings, "tunings, and no evidence that is known here")?;
            Box::new(move || evidence::write(Some(tunings)))
        }
        _ => return Err(unknown(&[&["evidence"], words].concat())),
    };
    Ok(task)
}

fn help() -> Result<(), String> {
    print!("{USAGE}");
    Ok(())
}

fn unknown(words: &[&str]) -> String {
    if words.is_empty() {
        return format!("no command\n{USAGE}");
    }
    format!("there is no `{}`\n{USAGE}", words.join(" "))
}

/// A number of something, 1 or more.
fn number(text: &str, of: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("`{text}` is no number of {of}\n{USAGE}"))
}

#[cfg(test)]
mod tests {
    use super::{USAGE, task};

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    /// The first words of a command as the usage has them: those before what may be left out.
    #[test]
    fn every_command_of_the_usage_is_known() {
        let mut found = 0;
        for line in USAGE.lines() {
            let Some(command) = line.strip_prefix("  ").filter(|l| !l.starts_with(' ')) else {
                continue;
            };
            let command = command.split("  ").next().unwrap_or(command);
            let command = command.split('[').next().unwrap_or(command);
            let command = command.replace("GUEST", "guest-arm64");
            found += 1;
            assert_eq!(task(&words(&command)).err(), None, "{command}");
        }
        assert!(found > 20, "{found} commands");
    }

    #[test]
    fn what_is_not_known_is_refused_before_anything_is_done() {
        let cases = [
            ("", "no command"),
            ("nothing", "there is no `nothing`"),
            ("schema more", "there is no `schema more`"),
            ("fetch nothing", "there is no `fetch nothing`"),
            ("ci nothing", "no step's name has `nothing`"),
            ("ci --slow", "no step's name has `--slow`"),
            ("accuracy nothing", "no accuracy program is named `nothing`; known: levels, engine"),
            ("isa nothing", "no row is called `nothing`; choose of arm926"),
            ("isa --full nothing", "no row is called `nothing`; choose of arm926"),
            ("lab", "which guest?"),
            ("lab nothing", "there is no `nothing`; the lab has guest-arm64"),
            ("lab linux-7455 ls", "linux-7455 takes nothing"),
            ("lab pmu --short", "pmu takes --brief or nothing"),
            ("lab vector-context --short", "vector-context takes --brief or nothing"),
            ("lab guest-arm64 ls /", "one word"),
            ("evidence nothing", "`nothing` is no number of tunings"),
            ("evidence 0", "`0` is no number of tunings"),
            ("evidence memory x", "`x` is no number of repeats"),
            ("evidence memory -1", "`-1` is no number of repeats"),
            ("evidence tcp x", "`x` is no number of bytes"),
            ("evidence tcp 0", "`0` is no number of bytes"),
            ("evidence tcp inf", "`inf` is no number of bytes"),
            ("evidence tcp 1 2", "there is no `evidence tcp 1 2`"),
        ];
        for (line, expected) in cases {
            let why = task(&words(line)).err().unwrap_or_default();
            assert!(why.contains(expected), "{line}: {why}");
        }
    }
}
