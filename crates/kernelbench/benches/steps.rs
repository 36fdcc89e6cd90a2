// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out which step of the inner loop limits the checksum of long buffers, and prints a table.
//!
//! `cargo bench -p linerate-kernelbench --bench steps`
#![forbid(unsafe_code)]

use linerate_kernelbench::steps::{steps, table};
use linerate_linux::allowed_cpus;
use linerate_machine::topology::pick_cpus;

fn main() {
    let test = std::env::args().any(|argument| argument == "--test");
    let allowed = allowed_cpus().expect("the kernel reports the CPUs");
    let rows = steps(pick_cpus(1, &allowed)[0], test, 1).expect("the processor may be used");
    print!("{}", table(&rows));
}
