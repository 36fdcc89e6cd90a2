// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares summing several buffers in one call with summing each individually, and prints a table.
//!
//! Both run in the same rounds in random order on one CPU; ratios are computed within a round. A
//! missed target is reported but does not fail the run.
//!
//! `cargo bench -p linerate-kernelbench --bench bursts`
#![forbid(unsafe_code)]

use linerate_kernelbench::bursts::{bursts, table};
use linerate_kernels::{Kernel, Kernels};
use linerate_linux::allowed_cpus;
use linerate_machine::topology::pick_cpus;

fn main() {
    let test = std::env::args().any(|argument| argument == "--test");
    let allowed = allowed_cpus().expect("the kernel reports the CPUs");
    let rows = bursts(pick_cpus(1, &allowed)[0], test, 1).expect("the processor may be used");
    println!("selected: {}\n", Kernels::selected().origin(Kernel::Checksum));
    print!("{}", table(&rows));
}
