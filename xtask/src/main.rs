// SPDX-License-Identifier: MIT OR Apache-2.0
//! Developer commands in addition to cargo's: CI checks and generated files.
//!
//! Rules for the source tree (dependencies between crates, tidiness, links) are tests in this
//! package, under `tests/house`, so that a plain `cargo test` enforces them.
#![forbid(unsafe_code)]

mod accuracy;
mod attack;
mod book;
mod bound;
mod chase;
mod ci;
mod command;
mod compare;
mod counts;
mod dist;
mod fetch;
mod fixtures;
mod isa;
mod lab;
mod live;
mod lwip;
mod machines;
mod native;
mod outcome;
mod overhead;
mod own_stages;
mod pmu;
mod polling;
mod ports;
mod schema;
mod splice;
mod stream;
mod why;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND
  ci [--fast] [--again] [--list] [NAME...]
                run all checks of CI, or the steps whose names contain one of NAME; --fast skips
                steps that take minutes; --again runs steps even if their inputs have not changed
                since they passed; --list only lists the steps
  accuracy [--full] [NAME...]
                run the accuracy suite, or the named programs, at the size for CI; --full uses the
                size of the published figures
  attack [--full] [--seed N] [CLASS...]
                run `linerate` on hostile inputs and in hostile environments: a few calls of each
                class, or of the named classes; --full runs all calls and many random ones
  bound [--repeats N] [--seed S] [--seconds N] [--sw] [--linerate FILE] [KERNEL...]
                test how `linerate profile` classifies kernels with known bottlenecks, from samples
                alone and with simulation, and print how often it was right; --sw skips the
                simulation
  book          build the book from docs/ into target/book with mdBook, and check its links
  book rewrite  the preprocessor that mdBook runs
  compare FILE [--grouped]
                print the median ratios (after / before) of stored pairs, for each figure or for
                each group of figures
  compare FILE [PAIRS FIGURE,... BEFORE AFTER]
                run the commands BEFORE and AFTER in PAIRS pairs, each in random order, and store
                their figures. FIGURE is the end of a figure's name if the commands print a record,
                or a column number if they print a table; {seed} in a command is replaced by the
                number of the pair
  dist          build static programs for x86-64 and AArch64 with checksums, completions, manual
                pages, a Debian and an RPM package in target/packages, and test them in bare
                root directories; needs rustup targets and cross compilers, and names those that
                are missing before it builds
  schema        generate docs/schema from the program
  fixtures [KIND...]
                measure the tests' stored records again: one of each kind, or the named ones
  events        generate native/pmu/events from the event tables
  registers     compare the register accesses in native/pmu with the encodings in the manuals
  counts        count the kernels' instructions on emulated architectures, compare the counts with
                their bounds, and print the tables of docs/results/kernels/instructions.md
  counts vector-context
                count the instructions for acquiring the vector registers on emulated processors,
                and print the table of docs/results/vector-context-costs.md
  isa [--full] [NAME...]
                check the kernels on emulated processors of every architecture, or on the named
                ones; --full runs every case
  lab GUEST [COMMAND]
                check the counters in guest-arm64 or guest-armhf, or run a command there
  lab linux-7455
                build Linux for the MPC7455 and check the Linux port of our C kernels in it
  lab pmu [--brief|--print]
                read counters from PMU registers, on boards without an operating system and in
                guests with the modules of kmod; --brief repeats less often; --print prints the
                results for docs/results/pmu.md
  lab vector-context [--brief]
                compare schemes for sharing vector registers on an emulated MPC7455 without an
                operating system, and print the tables of docs/results/vector-context.md; --brief
                checks only and prints no tables
  live [--rounds N] [--seed S] [--linerate FILE]
                compare the forwarding rate of a live path with that of DPDK's testpmd, on the same
                veth pairs, as root, and print a table
  chase --lat-mem-rd FILE --multichase FILE [--rounds N] [--linerate FILE]
                compare the latencies of `linerate memory` with those of lmbench and multichase, on
                an idle and on a busy machine, and print a table
  overhead [--of why|profile] [--rounds N] [--seed S] [--linerate FILE]
                measure the overhead of `linerate why`, perf and bpftrace on the programs that they
                monitor, or of `linerate profile`, perf record and `linerate top`, and print a table
  polling [--seconds N] [--linerate FILE]
                compare `linerate profile` of polling threads with their own measurements and with
                `perf record`, as root, and print a table
  stream [--rounds N] [--linerate FILE]
                compare `linerate stream` with iperf3, netperf and /proc, score its findings on
                bottlenecks with known causes in network namespaces, as root, and print the tables
  splice [--check] [--limit MINUTES] FILE...
                run the commands shown on pages and replace the blocks below them with their output;
                --check compares instead; --limit is the time limit per command (default 60)
  why [--repeats N] [--seed S] [--root | --user] [--settings] [--linerate FILE] [--keep FOLDER]
      [SEED...]
                test `linerate why` on real programs with planted bottlenecks, and print how often
                it was right. SEED is the ID of a bottleneck in lab/why/seeds.toml; --seed S sets
                the random parameters; --settings includes bottlenecks that change system-wide
                settings, which are restored; --keep stores the runs
  why --kept FOLDER
                print how often `linerate why` was right in stored runs, by its current rules
  fetch lwip    download lwIP's source for native/ports and for `linerate kernels`, which then
                measures lwIP's checksum too, and build it for `linerate tcp`
";

/// A command. The error says why it failed.
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

/// Parses a command's arguments without running it. The error describes the mistake.
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
        ["attack", rest @ ..] => {
            let choice = attack::choose(rest)?;
            Box::new(move || attack::run(&choice))
        }
        ["bound", rest @ ..] => {
            let choice = bound::choose(rest)?;
            Box::new(move || bound::run(&choice))
        }
        ["book"] => Box::new(book::run),
        ["book", "rewrite"] => Box::new(book::rewrite),
        ["book", "rewrite", "supports", _] => Box::new(|| Ok(())),
        ["compare", rest @ ..] => {
            let choice = compare::choose(rest)?;
            Box::new(move || compare::run(&choice))
        }
        ["dist"] => Box::new(|| dist::run().map(drop)),
        ["schema"] => Box::new(schema::write),
        ["fixtures", kinds @ ..] => {
            let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
            Box::new(move || fixtures::write(&kinds))
        }
        ["events"] => Box::new(pmu::events::write),
        ["registers"] => Box::new(pmu::registers),
        ["counts"] => Box::new(counts::print),
        ["counts", "vector-context"] => Box::new(counts::context::print),
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
        ["splice", rest @ ..] => {
            let choice = splice::choose(rest)?;
            Box::new(move || splice::run(&choice))
        }
        ["fetch", "lwip"] => Box::new(|| fetch::lwip().and_then(|()| lwip::build(&[]))),
        ["help"] => Box::new(help),
        _ => return bench(words),
    };
    Ok(task)
}

/// Returns a task that takes measurements and prints a page with the results.
fn bench(words: &[&str]) -> Result<Task, String> {
    let task: Task = match words {
        ["why", "--scene", rest @ ..] => why::choose_scene(rest)?,
        ["why", rest @ ..] => {
            let choice = why::choose(rest)?;
            Box::new(move || why::run(&choice))
        }
        ["chase", rest @ ..] => {
            let choice = chase::choose(rest)?;
            Box::new(move || chase::run(&choice))
        }
        ["overhead", rest @ ..] => {
            let choice = overhead::choose(rest)?;
            Box::new(move || overhead::run(&choice))
        }
        ["live", rest @ ..] => {
            let choice = live::choose(rest)?;
            Box::new(move || live::run(&choice))
        }
        ["polling", rest @ ..] => {
            let choice = polling::choose(rest)?;
            Box::new(move || polling::run(&choice))
        }
        ["stream", rest @ ..] => {
            let choice = stream::choose(rest)?;
            Box::new(move || stream::run(&choice))
        }
        _ => return Err(unknown(words)),
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
    format!("unknown command `{}`\n{USAGE}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::{USAGE, task};

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    /// Parses every command in the usage text, without its optional arguments.
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
            let command = if command == "splice " { "splice FILE".to_owned() } else { command };
            found += 1;
            assert_eq!(task(&words(&command)).err(), None, "{command}");
        }
        assert!(found > 12, "{found} commands");
    }

    #[test]
    fn what_is_not_known_is_refused_before_anything_is_done() {
        let cases = [
            ("", "no command"),
            ("nothing", "unknown command `nothing`"),
            ("schema more", "unknown command `schema more`"),
            ("fetch nothing", "unknown command `fetch nothing`"),
            ("ci nothing", "no step name contains `nothing`"),
            ("ci --slow", "no step name contains `--slow`"),
            ("accuracy nothing", "unknown accuracy program `nothing`; known: levels, engine"),
            ("attack nothing", "unknown class `nothing`; known: values, structures"),
            ("attack --seed x", "--seed takes a number"),
            ("isa nothing", "unknown row `nothing`; the rows are arm926"),
            ("isa --full nothing", "unknown row `nothing`; the rows are arm926"),
            ("lab", "no guest given"),
            ("lab nothing", "unknown `nothing`; the lab has guest-arm64"),
            ("lab linux-7455 ls", "linux-7455 accepts no arguments"),
            ("lab pmu --short", "pmu accepts only --brief and --print"),
            ("lab vector-context --short", "vector-context accepts only --brief"),
            ("lab guest-arm64 ls /", "one argument"),
            ("counts nothing", "unknown command `counts nothing`"),
            ("why nothing", "unknown seed `nothing`"),
            ("why --slow", "why: unknown option `--slow`"),
            ("splice", "splice: no pages given"),
            ("splice --slow a.md", "unknown option `--slow`"),
            ("splice --limit x a.md", "--limit takes a number of minutes"),
        ];
        for (line, expected) in cases {
            let why = task(&words(line)).err().unwrap_or_default();
            assert!(why.contains(expected), "{line}: {why}");
        }
    }
}
