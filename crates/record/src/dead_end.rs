// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stage at which all packets of a path were dropped or consumed.

use crate::units::grouped;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The stage at which all packets of a path ended because it dropped or consumed them, or the sink
/// if interfaces refused them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeadEnd {
    /// Name of the stage; `sink` if interfaces refused the packets.
    pub stage: String,
    /// Packets that reached the stage, over all workers.
    pub packets: u64,
    /// The stage's drop causes, most frequent first; empty if it consumed most packets by design.
    pub causes: Vec<String>,
    /// Packets that this stage let through and that later stages dropped or consumed. Omitted if
    /// there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub passed: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl DeadEnd {
    /// Advice for packets with addresses that no router forwards.
    pub const NO_ROUTER: &str = "use traffic between addresses that routers forward (not \
                                 loopback, link-local or reserved; if it was captured on `lo`, \
                                 capture on another interface), or remove the stage";

    /// Value of `stage` if interfaces at the end of the path refused the packets.
    pub const SINK: &str = "sink";

    /// Returns whether interfaces refused the packets; if not, a stage dropped or consumed them.
    pub fn is_refusal(&self) -> bool {
        self.stage == Self::SINK && self.causes.iter().all(|cause| cause.starts_with("tx_"))
    }

    /// Returns a clause that states the outcome: interfaces sent no packet, or none reached the
    /// sink.
    pub fn outcome(&self) -> &'static str {
        match self.is_refusal() {
            true => "no packet was sent",
            false => "no packet reached the sink",
        }
    }

    /// Returns whether the stage dropped packets rather than consumed them by design.
    pub fn is_drop(&self) -> bool {
        !self.causes.is_empty()
    }

    /// Returns advice on how to get packets through the stage.
    pub fn remedy(&self) -> &'static str {
        let first = self.causes.first().map_or("", String::as_str);
        if first.contains("checksum") {
            "remove `verify`, or capture where checksums are complete: on the receiver, or on the \
             sender after `ethtool -K IF tx off`"
        } else if first == "martian" {
            Self::NO_ROUTER
        } else if self.is_refusal() {
            match first {
                "tx_down" => "bring up the interface (ip link set IF up) and connect its peer",
                "tx_too_long" => {
                    "raise the interface's MTU (ip link set IF mtu N), or send smaller packets"
                }
                "tx_gone" => "use an interface that exists for the whole run",
                "tx_full" => "send on a faster interface, or offer packets at a lower rate",
                _ => "look at the interface and its driver (ip -s link show IF; dmesg)",
            }
        } else {
            "`linerate stages KIND` lists what a stage accepts and its drop reasons; use stages \
             that match the packets, or a source that matches the stages"
        }
    }
}

impl fmt::Display for DeadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, packets, causes, passed } = self;
        let all = match (packets, passed) {
            (1, _) => "the 1 packet".to_owned(),
            (_, 0) => format!("all {} packets", grouped(*packets)),
            (_, passed) => {
                format!("all but {} of the {} packets", grouped(*passed), grouped(*packets))
            }
        };
        match causes.as_slice() {
            causes if self.is_refusal() => {
                write!(f, "the interfaces refused {all} ({})", causes.join(", "))
            }
            [] => write!(f, "`{stage}` consumed {all}"),
            _ => {
                let causes = causes.join(", ");
                write!(f, "`{stage}` dropped {all} it received ({causes})")
            }
        }
    }
}
