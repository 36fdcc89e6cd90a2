// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a record comes from.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

// `Default` leaves all fields empty, for use in synthetic records.
/// Where a record comes from: machine, program and time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Provenance {
    /// The program that wrote the record, and its version.
    pub program: String,
    /// Commit that the program was built from; `null` if it was built outside a repository.
    pub commit: Option<String>,
    /// The compiler that built the program.
    pub compiler: String,
    /// The command line, quoted for a shell.
    pub command: String,
    /// Time the record was made, in seconds since 1970-01-01 UTC.
    pub unix_s: u64,
    /// Processor architecture: `x86_64`, `aarch64`, ...
    pub architecture: String,
    /// Name of the processor; `null` if unknown.
    pub cpu: Option<String>,
    /// Logical CPUs that the program may use.
    pub cpus: Vec<u32>,
    /// Operating system and release; `null` if unknown.
    pub kernel: Option<String>,
    /// Hypervisor; `null` if there is none or it does not identify itself.
    pub hypervisor: Option<String>,
    /// Whether the processor is emulated, which makes counts exact and times meaningless; `null` if
    /// unknown.
    pub emulated: Option<bool>,
    /// One-minute load average when the program started; `null` if unreadable.
    pub load_1min: Option<f64>,
    /// Ticks of the timestamp counter per second; `null` if no ticks were read.
    pub ticks_per_s: Option<f64>,
    /// Whether the timestamp counter's rate is independent of the core clock; `null` if no ticks
    /// were read, and in records before version 1.4.
    #[serde(default)]
    pub ticks_invariant: Option<bool>,
    /// Share of CPU time used by other programs just before the measurement, 0 to 1; `null` if not
    /// measured, and in records before version 1.4.
    #[serde(default)]
    pub others: Option<Figure>,
    /// SMT siblings among `cpus`, grouped by core; `null` if not read, and in records before
    /// version 1.4.
    #[serde(default)]
    pub siblings: Option<Vec<Vec<u32>>>,
    /// CPU quota of the program's control groups, in CPUs; `null` without a quota, and in records
    /// before version 2.0.
    #[serde(default)]
    pub cpu_quota: Option<f64>,
}
