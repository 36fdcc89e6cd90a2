// SPDX-License-Identifier: MIT OR Apache-2.0
//! Origin of a record.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

// The default value has empty fields; synthetic records use it.
/// The machine on which a record was made, the program that made it, and the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Provenance {
    /// The program that wrote the record, and its version.
    pub program: String,
    /// The commit the program was built from; `null` if it was built outside a repository.
    pub commit: Option<String>,
    /// The compiler that built the program.
    pub compiler: String,
    /// The command line, quoted for a shell.
    pub command: String,
    /// Time of the record, in seconds since 1970-01-01 UTC.
    pub unix_s: u64,
    /// Processor architecture: `x86_64`, `aarch64`, ...
    pub architecture: String,
    /// Name of the processor; `null` if unknown.
    pub cpu: Option<String>,
    /// Logical CPUs available to the program.
    pub cpus: Vec<u32>,
    /// The operating system and its release; `null` if unknown.
    pub kernel: Option<String>,
    /// The hypervisor; `null` if there is none or it does not identify itself.
    pub hypervisor: Option<String>,
    /// Whether the processor is emulated in software, in which case counts are exact and times are
    /// meaningless; `null` if unknown.
    pub emulated: Option<bool>,
    /// Load average over one minute when the program started.
    pub load_1min: Option<f64>,
    /// Number of ticks of the timestamp counter per second.
    pub ticks_per_s: Option<f64>,
    /// Whether the timestamp counter's rate is independent of the core clock; `null` if no ticks
    /// were read, and in records before version 1.4.
    #[serde(default)]
    pub ticks_invariant: Option<bool>,
    /// Share of CPU time used by other programs just before the measurement, 0 to 1; `null` if not
    /// measured, and in records before version 1.4.
    #[serde(default)]
    pub others: Option<Figure>,
    /// SMT siblings among `cpus`: the groups of hardware threads that share a core; `null` if not
    /// read, and in records before version 1.4.
    #[serde(default)]
    pub siblings: Option<Vec<Vec<u32>>>,
    /// CPU quota of the program's control groups, in CPUs; `null` without a quota, and in records
    /// before version 2.0.
    #[serde(default)]
    pub cpu_quota: Option<f64>,
}
