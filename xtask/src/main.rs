// SPDX-License-Identifier: MIT OR Apache-2.0
//! What developers run beside cargo: the checks of CI and the files made from the program.
//!
//! Rules about the source tree (arrows between crates, tidiness, links) are tests of this package,
//! under `tests/house`, so that plain `cargo test` applies them.
#![forbid(unsafe_code)]

mod ci;
mod command;
mod corpus;
mod counts;
mod evidence;
mod examples;
mod fetch;
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
  ci [--fast]   everything CI checks; --fast leaves out what takes minutes
  schema        write docs/schema from the program
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
                try the detector of tiers on made-up hierarchies, and write
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
                run `linerate tcp`, send N octets in each pattern over a wire that loses and
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

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ci"] => ci::run(ci::Extent::Full),
        ["ci", "--fast"] => ci::run(ci::Extent::Fast),
        ["schema"] => schema::write(),
        ["events"] => report(pmu::events::write()),
        ["registers"] => report(pmu::registers()),
        ["evidence"] => report(evidence::write(None)),
        ["evidence", "kernels"] => report(kernels::write()),
        ["evidence", "counts"] => report(counts::write()),
        ["evidence", "regions"] => report(regions::write()),
        ["evidence", "memory"] => report(memory::write(None)),
        ["evidence", "memory", repeats] => report(memory::write(Some(repeats))),
        ["evidence", "tcp"] => report(tcp::write(None)),
        ["evidence", "tcp", octets] => report(tcp::write(Some(octets))),
        ["evidence", "pmu"] => report(lab::write_pmu_page()),
        ["evidence", "corpus"] => report(corpus::write()),
        ["evidence", "netra"] => report(netra::write()),
        ["evidence", "rlp-loss"] => report(protocol::loss()),
        ["evidence", "rlp-stages"] => report(protocol::stages()),
        ["evidence", "fuzz"] => report(protocol::fuzz()),
        ["evidence", "vector-costs"] => report(counts::context::write()),
        ["evidence", "vector-models"] => report(vector_models::write()),
        ["evidence", "rlp"] => report(rlp::write()),
        ["isa", "--full", names @ ..] => report(isa::run(names, true)),
        ["isa", names @ ..] => report(isa::run(names, false)),
        ["lab", "pmu"] => report(lab::run_pmu(lab::Extent::Full)),
        ["lab", "pmu", "--brief"] => report(lab::run_pmu(lab::Extent::Brief)),
        ["lab", guest] => report(lab::run(guest, None)),
        ["lab", guest, command] => report(lab::run(guest, Some(command))),
        ["tutorials"] => report(tutorials::write()),
        ["fetch", "lwip"] => report(fetch::lwip().and_then(|()| lwip::build(&[]))),
        ["evidence", tunings] => report(evidence::write(Some(tunings))),
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn report(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
