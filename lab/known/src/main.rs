// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program with a known number of instructions, for checking counters.
//!
//! `known loop N` runs N iterations of a two-instruction loop and exits. `known mixed N M` runs N
//! phases of that loop and of up to M long system calls, of varying lengths, identical in every
//! run. `known counts` counts the loop with one event at a time, then with a group, and prints the
//! kernel's counts, one per line. `known reads` does so by reading the counter from user mode,
//! between two reads by the kernel. `known regions [CPU]` does so with regions, on that CPU; `known
//! closing CPU COMMAND` with a command run inside one of the regions. `cargo xtask lab` checks the
//! numbers. Multiplexing and scaling are not covered.
#![forbid(unsafe_code)]

use linerate_counters::known_loops::{INSTRUCTIONS_PER_ITERATION, LOOPS};
use linerate_counters::user::{UserCounter, with_user_access};
use linerate_linux::perf::{self, Event, HARDWARE, OpenError, RAW, Request, Selector, Target};
use linerate_linux::pin_current_thread;
use linerate_regions::{Inside, Options, Regions, Thread};
use std::fs::File;
use std::io::{self, Read};
use std::process::{Command, ExitCode};

/// Runs a loop of exactly [`INSTRUCTIONS_PER_ITERATION`] instructions, one of them a branch,
/// `count` times. `count` must not be 0.
fn turns(count: usize) {
    LOOPS[0](count);
}

/// Hardware events, with the selectors used in kernel requests.
const EVENTS: [(&str, Selector); 4] = [
    ("instructions", Selector::new(HARDWARE, 1)),
    ("cycles", Selector::new(HARDWARE, 0)),
    ("raw_08", Selector::new(RAW, 0x08)),
    ("raw_11", Selector::new(RAW, 0x11)),
];

/// Numbers of iterations, from a single one to a loop that is interrupted by many timer ticks.
const TURNS: [usize; 3] = [1, 1000, 10_000_000];

/// Repetitions, to check that a count is reproducible.
const REPETITIONS: usize = 3;

fn open(selector: Selector, leader: Option<&Event>) -> Result<Event, OpenError> {
    let request =
        Request { exclude_kernel: true, disabled: leader.is_none(), ..Request::new(selector) };
    perf::open(&request, Target::CurrentThread, leader)
}

/// Prints an event's counts for loops of several lengths: `count EVENT TURNS COUNT`.
fn count(name: &str, selector: Selector) -> io::Result<()> {
    for turns_now in TURNS {
        for _ in 0..REPETITIONS {
            let event = match open(selector, None) {
                Ok(event) => event,
                Err(error) => {
                    println!("refused {name} {}", error.errno);
                    return Ok(());
                }
            };
            event.enable()?;
            turns(turns_now);
            event.disable()?;
            println!("count {name} {turns_now} {}", event.read()?.values()[0]);
        }
    }
    Ok(())
}

/// Prints the counts of an instructions-and-cycles group: `group TURNS INSTRUCTIONS CYCLES ENABLED
/// RUNNING`.
fn count_group() -> io::Result<()> {
    let [(_, instructions), (_, cycles), ..] = EVENTS;
    for turns_now in TURNS {
        let opened = open(instructions, None).and_then(|leader| {
            let member = open(cycles, Some(&leader))?;
            Ok((leader, member))
        });
        let Ok((leader, _member)) = opened else {
            println!("refused group {}", opened.unwrap_err().errno);
            return Ok(());
        };
        leader.enable()?;
        turns(turns_now);
        leader.disable()?;
        let reading = leader.read()?;
        let [instructions, cycles] = reading.values() else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let (enabled, running) = (reading.enabled_ns, reading.running_ns);
        println!("group {turns_now} {instructions} {cycles} {enabled} {running}");
    }
    Ok(())
}

/// Prints user-mode counts for loops of several lengths, like [`count`]; then the number of cases
/// in which a user-mode read is between two reads by the kernel: `between CASES OF`.
fn reads() -> io::Result<()> {
    const OF: usize = 1000;
    println!("turn {INSTRUCTIONS_PER_ITERATION}");
    for (name, selector) in &EVENTS[..2] {
        let name = format!("{name}_by_user");
        let request = Request { exclude_kernel: true, ..Request::new(*selector) };
        let event = match perf::open(&with_user_access(request), Target::CurrentThread, None) {
            Ok(event) => event,
            Err(error) => {
                println!("refused {name} {}", error.errno);
                continue;
            }
        };
        let counter = UserCounter::map(&event)?;
        event.enable()?;
        for turns_now in TURNS.into_iter().flat_map(|turns| [turns; REPETITIONS]) {
            let before = counter.count();
            turns(turns_now);
            let after = counter.count();
            match (before, after) {
                (Some(before), Some(after)) => {
                    println!("count {name} {turns_now} {}", after.wrapping_sub(before));
                }
                _ => println!("unread {name} {turns_now}"),
            }
        }
        let mut between = 0;
        for _ in 0..OF {
            let before = event.read()?.values()[0];
            let by_user = counter.count();
            let after = event.read()?.values()[0];
            between += usize::from(by_user.is_some_and(|count| (before..=after).contains(&count)));
        }
        println!("between {name} {between} {OF}");
    }
    Ok(())
}

/// Iterations in a region. The longest loop is so short that no other process becomes runnable
/// meanwhile.
const REGION_ITERATIONS: [usize; 3] = [1, 1000, 1_000_000];

/// Returns options that count instructions and cycles in user mode only.
fn events_of_user() -> Options {
    Options { user_only: true, ..Options::default() }
}

/// Enters a region for `turns` iterations. The region's name is allocated and freed outside of it.
fn enter<'a>(regions: &Regions, thread: &'a Thread, turns: usize, repetition: usize) -> Inside<'a> {
    let region = regions.region(&format!("{turns} turns, {repetition}"));
    thread.enter(region)
}

/// Prints results for regions around loops of several lengths: the read method, then lines as
/// printed by [`count`], or `absent EVENT TURNS REASON`.
fn regions(cpu: Option<u32>) -> io::Result<()> {
    if let Some(cpu) = cpu {
        pin_current_thread(cpu).map_err(io::Error::other)?;
    }
    let regions = Regions::new(&events_of_user());
    let thread = regions.thread();
    for turns_now in REGION_ITERATIONS {
        for repetition in 0..REPETITIONS {
            let inside = enter(&regions, &thread, turns_now, repetition);
            turns(turns_now);
            drop(inside);
        }
    }
    print_regions(&regions);
    Ok(())
}

/// Like [`regions`], but also runs a command inside one region, which may disable the counters.
fn closing(cpu: u32, command: &[&str]) -> io::Result<()> {
    pin_current_thread(cpu).map_err(io::Error::other)?;
    let regions = Regions::new(&events_of_user());
    let thread = regions.thread();
    let [_, turns_now, _] = REGION_ITERATIONS;
    for repetition in 0..REPETITIONS {
        let inside = enter(&regions, &thread, turns_now, repetition);
        turns(turns_now);
        if repetition == 1 {
            let status = Command::new(command[0]).args(&command[1..]).status()?;
            println!("ended {}", status.code().unwrap_or(-1));
        }
        drop(inside);
    }
    print_regions(&regions);
    Ok(())
}

fn print_regions(regions: &Regions) {
    let report = regions.report();
    println!("turn {INSTRUCTIONS_PER_ITERATION}");
    println!("reading {}", report.reading);
    for region in &report.regions {
        let turns = region.name.split(' ').next().unwrap_or_default();
        for event in &region.events {
            let (name, count) = (&event.name, &event.count);
            match (count.as_number(), &count.reason) {
                (Some(value), _) => println!("count {name} {turns} {value}"),
                (None, reason) => {
                    println!("absent {name} {turns} {}", reason.as_deref().unwrap_or_default());
                }
            }
        }
    }
    if let Some(event) = report.regions.first().and_then(|region| region.events.first()) {
        println!("figure {:?} {}", event.count.tier, event.count.method);
    }
}

/// Runs phases of the loop, up to 0.2 ms in the lab, and of up to `most_calls` system calls, so
/// that the rate of user-mode events changes all the time.
///
/// The calls are long ones, because in an emulator entering the kernel takes far longer than the
/// work that the kernel does for a short call.
fn mixed(phases: u32, most_calls: u32) -> io::Result<()> {
    const MOST_TURNS: u32 = 100_000;
    let mut zeros = File::open("/dev/zero")?;
    let mut filled = [0; 1 << 16];
    let mut state = 1u32;
    let mut draw = |most: u32| {
        // Marsaglia's xorshift generator with a period of 2^32 - 1 (Journal of Statistical Software
        // 8, 14).
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state % most + 1
    };
    for _ in 0..phases {
        turns(draw(MOST_TURNS) as usize);
        for _ in 0..draw(most_calls) {
            zeros.read_exact(&mut filled)?;
        }
    }
    Ok(())
}

fn counts() -> io::Result<()> {
    println!("turn {INSTRUCTIONS_PER_ITERATION}");
    for (name, selector) in EVENTS {
        count(name, selector)?;
    }
    count_group()
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["counts"] => counts(),
        ["reads"] => reads(),
        ["regions"] => regions(None),
        ["regions", cpu] => match cpu.parse() {
            Ok(cpu) => regions(Some(cpu)),
            _ => return usage(),
        },
        ["closing", cpu, command @ ..] if !command.is_empty() => match cpu.parse() {
            Ok(cpu) => closing(cpu, command),
            _ => return usage(),
        },
        ["loop", count] => match count.parse() {
            Ok(count @ 1..) => {
                turns(count);
                Ok(())
            }
            _ => return usage(),
        },
        ["mixed", phases, calls] => match (phases.parse(), calls.parse()) {
            (Ok(phases), Ok(calls @ 1..)) => mixed(phases, calls),
            _ => return usage(),
        },
        _ => return usage(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("known: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: known counts | reads | regions [CPU] | closing CPU COMMAND... | loop TURNS | mixed \
         PHASES CALLS"
    );
    ExitCode::from(2)
}
