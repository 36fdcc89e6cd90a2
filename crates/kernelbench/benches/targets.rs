// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the kernels against their performance targets and prints the results as a table.
//!
//! All routines in a case run in the same rounds in random order on one CPU; ratios are computed
//! within a round. A missed target is reported but does not fail the run.
//!
//! `cargo bench -p linerate-kernelbench`
#![forbid(unsafe_code)]

use linerate_kernelbench::cases::Scope;
use linerate_kernelbench::targets::{cases, table, targets};
use linerate_kernelbench::{Request, Watch, sweep};
use linerate_linux::allowed_cpus;
use linerate_machine::topology::pick_cpus;

fn main() {
    let test = std::env::args().any(|argument| argument == "--test");
    let allowed = allowed_cpus().expect("the kernel reports the CPUs");
    let targets = targets();
    let scope = Scope { quick: test, ..Scope::full() };
    let request =
        Request { cases: cases(&targets), ..Request::new(&scope, pick_cpus(1, &allowed)[0]) };
    let outcome = sweep(&request, &Watch::unattended())
        .expect("there are cases, and the processor may be used");
    print!("{}", table(&targets, &outcome.measured));
    let windows = outcome.report.windows;
    println!(
        "\n{} windows, of which {} lost to preemption and {} dropped as slow",
        windows.total, windows.preempted, windows.dropped_as_slow
    );
    for wrong in &outcome.report.wrong {
        println!("WRONG: {} {}: {}", wrong.kernel, wrong.variant, wrong.difference);
    }
}
