// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stage at which all packets of a path were dropped or consumed.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The stage at which all packets of a path were dropped or consumed; none reached the sink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeadEnd {
    /// Name of the stage.
    pub stage: String,
    /// Packets that reached the stage, over all workers.
    pub packets: u64,
    /// The stage's drop causes, most frequent first; empty if it consumed packets by design.
    pub causes: Vec<String>,
}

impl DeadEnd {
    /// Returns advice on how to get packets through the stage.
    pub fn remedy(&self) -> &'static str {
        match self.causes.iter().any(|cause| cause.contains("checksum")) {
            true => {
                "remove `verify`, or capture where checksums are complete: on the receiver, or on \
                 the sender after `ethtool -K IF tx off`"
            }
            false => {
                "`linerate stages KIND` lists what a stage accepts and its drop reasons; use \
                 stages that match the packets, or a source that matches the stages"
            }
        }
    }
}

impl fmt::Display for DeadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, packets, causes } = self;
        let all = match packets {
            1 => "the 1 packet".to_owned(),
            _ => format!("all {packets} packets"),
        };
        match causes.as_slice() {
            [] => write!(f, "`{stage}` consumed {all}"),
            _ => {
                let causes = causes.join(", ");
                write!(f, "`{stage}` dropped {all} it received ({causes})")
            }
        }
    }
}
