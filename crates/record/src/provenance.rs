// SPDX-License-Identifier: MIT OR Apache-2.0
//! Origin of a record.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

// The default is empty: for synthetic records.
/// The machine, the program and the moment a record was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Provenance {
    /// The program and its version.
    pub program: String,
    /// The commit the program was built from; `null` when it was not built from a repository.
    pub commit: Option<String>,
    /// The compiler that built the program.
    pub compiler: String,
    /// The command line, quoted for a shell.
    pub command: String,
    /// When the record was made, seconds since 1970-01-01 UTC.
    pub unix_s: u64,
    /// `x86_64`, `aarch64`, ...
    pub architecture: String,
    /// The processor's name.
    pub cpu: Option<String>,
    /// The logical processors the program may use.
    pub cpus: Vec<u32>,
    /// The operating system and its release.
    pub kernel: Option<String>,
    /// The hypervisor, if there is one and it identifies itself.
    pub hypervisor: Option<String>,
    /// Whether the instructions are emulated: then counts are exact and times are meaningless.
    /// `null` if unknown.
    pub emulated: Option<bool>,
    /// Load average over one minute when the program started.
    pub load_1min: Option<f64>,
    /// Ticks of the timestamp counter per second.
    pub ticks_per_s: Option<f64>,
    /// Whether the timestamp counter has one rate whatever the core's clock does; `null` where no
    /// ticks were read, and in records before version 1.4.
    #[serde(default)]
    pub ticks_invariant: Option<bool>,
    /// The share of the time of the processors that other programs took just before the
    /// measurement, 0 to 1; `null` where that was not watched, and in records before version 1.4.
    #[serde(default)]
    pub others: Option<Figure>,
    /// Which of `cpus` are hardware threads of one core: each core with more than one of them;
    /// `null` where that was not read, and in records before version 1.4.
    #[serde(default)]
    pub siblings: Option<Vec<Vec<u32>>>,
    /// CPUs' worth of time that the control groups of the program grant it; `null` without a
    /// limit, and in records before version 2.0.
    #[serde(default)]
    pub cpu_quota: Option<f64>,
}
