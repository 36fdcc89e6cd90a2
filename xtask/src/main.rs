// SPDX-License-Identifier: MIT OR Apache-2.0
//! Developer commands in addition to cargo's: CI checks and generated files.
//!
//! Rules for the source tree (arrows between crates, tidiness, links) are tests in this package,
//! under `tests/house`, so that plain `cargo test` applies them.
#![forbid(unsafe_code)]

mod accuracy;
mod attack;
mod book;
mod ci;
mod command;
mod compare;
mod counts;
mod dist;
mod fetch;
mod fixtures;
mod isa;
mod lab;
mod lwip;
mod machines;
mod native;
mod outcome;
mod overhead;
mod pmu;
mod polling;
mod ports;
mod schema;
mod splice;
mod why;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND
  ci [--fast] [--again] [NAME...]
                everything CI checks, or the steps whose names have one of those in them; --fast
                leaves out what takes minutes; --again runs steps even if their inputs have not
                changed since they passed; --list only names the steps
  accuracy [--full] [NAME...]
                run the accuracy suite, or the programs named, at the size of CI; --full at the size
                of the published figures
  attack [--full] [--seed N] [CLASS...]
                call the program in hostile ways, a few of each class or of those named; --full all
                and many more
  book          build the book from docs/ into target/book with mdBook, and check its links
  book rewrite  the preprocessor that mdBook starts for it
  compare FILE [--grouped]
                print the ratios of stored pairs, figure by figure, or group by group
  compare FILE [PAIRS FIGURE,... BEFORE AFTER]
                run two commands in pairs of random order, and store their figures whose names end
                so: of a record that they print, or of a table, then the number of its column;
                {seed} in a command is the number of the pair
  dist          build static programs for x86-64 and AArch64 with checksums, completions, manual
                pages, a Debian and an RPM package into target/dist, and try them in bare root
                directories
  schema        write docs/schema from the program
  fixtures [KIND...]
                measure the stored records of the tests again, one of each kind, or those named
  events        write native/pmu/events from the event tables
  registers     compare the accesses to registers in native/pmu with the encodings of the manuals
  counts        count the instructions of the kernels on emulated architectures, judge them, and
                print the tables of docs/results/kernels/instructions.md
  counts vector-context
                count what taking the vector registers costs on emulated processors, and print the
                table of docs/results/vector-context-costs.md
  isa [--full] [NAME...]
                check the kernels on emulated processors of every architecture, or on those named;
                --full with every case
  lab GUEST [COMMAND]
                check the counters in guest-arm64 or guest-armhf, or run a command there
  lab linux-7455
                build Linux for the MPC7455 and check the kernels' port in it
  lab pmu [--brief|--print]
                read counters by their registers, on boards without an operating system and in
                guests by the modules of kmod; --brief with fewer repeats; --print what they show,
                for docs/results/pmu.md
  lab vector-context [--brief]
                compare schemes for vector registers on a bare MPC7455, and print the tables of
                docs/results/vector-context.md; --brief checks and prints none
  overhead [--rounds N] [--seed S] [--linerate FILE]
                measure what `linerate why`, perf and bpftrace cost a program that they watch, and
                print a table of it
  polling [--seconds N] [--linerate FILE]
                compare `linerate profile` of polling threads with their own measurements and with
                `perf record`, as root, and print a table
  splice [--check] [--limit MINUTES] FILE...
                run the commands of pages and put what they print in the place of their blocks;
                --check compares instead; a command may take 60 minutes, or the limit
  why [--repeats N] [--seed S] [--root | --user] [--settings] [--linerate FILE] [--keep FOLDER]
      [SEED...]
                try `linerate why` on bottlenecks of known cause in real programs, and print how
                often it was right; --settings also changes settings of the whole system, and puts
                them back; --keep keeps the runs
  why --kept FOLDER
                print how often it was right in runs that were kept
  fetch lwip    bring the source of lwIP, whose checksum `linerate kernels` then measures too, into
                which native/ports puts ours, and which `linerate tcp` then runs
";

/// A command; the error is the reason why it failed.
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

/// Parses the arguments of a command; the error says what is wrong with them. Has no effect yet.
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
        ["book"] => Box::new(book::run),
        ["book", "rewrite"] => Box::new(book::rewrite),
        ["book", "rewrite", "supports", _] => Box::new(|| Ok(())),
        ["compare", rest @ ..] => {
            let choice = compare::choose(rest)?;
            Box::new(move || compare::run(&choice))
        }
        ["dist"] => Box::new(dist::run),
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
        ["why", "--scene", rest @ ..] => why::choose_scene(rest)?,
        ["why", rest @ ..] => {
            let choice = why::choose(rest)?;
            Box::new(move || why::run(&choice))
        }
        ["overhead", rest @ ..] => {
            let choice = overhead::choose(rest)?;
            Box::new(move || overhead::run(&choice))
        }
        ["polling", rest @ ..] => {
            let choice = polling::choose(rest)?;
            Box::new(move || polling::run(&choice))
        }
        ["fetch", "lwip"] => Box::new(|| fetch::lwip().and_then(|()| lwip::build(&[]))),
        ["help"] => Box::new(help),
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

    /// The first words of each command in the usage text: those before optional ones.
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
            ("ci nothing", "no step's name has `nothing`"),
            ("ci --slow", "no step's name has `--slow`"),
            ("accuracy nothing", "no accuracy program is named `nothing`; known: levels, engine"),
            ("attack nothing", "no class is named `nothing`; known: values, structures"),
            ("attack --seed x", "--seed takes a number"),
            ("isa nothing", "no row is called `nothing`; choose of arm926"),
            ("isa --full nothing", "no row is called `nothing`; choose of arm926"),
            ("lab", "which guest?"),
            ("lab nothing", "unknown `nothing`; the lab has guest-arm64"),
            ("lab linux-7455 ls", "linux-7455 takes nothing"),
            ("lab pmu --short", "pmu takes --brief, --print or nothing"),
            ("lab vector-context --short", "vector-context takes --brief or nothing"),
            ("lab guest-arm64 ls /", "one word"),
            ("counts nothing", "unknown command `counts nothing`"),
            ("why nothing", "unknown seed `nothing`"),
            ("why --slow", "why: no option `--slow`"),
            ("splice", "splice: which pages?"),
            ("splice --slow a.md", "no option `--slow`"),
            ("splice --limit x a.md", "--limit takes a number of minutes"),
        ];
        for (line, expected) in cases {
            let why = task(&words(line)).err().unwrap_or_default();
            assert!(why.contains(expected), "{line}: {why}");
        }
    }
}
