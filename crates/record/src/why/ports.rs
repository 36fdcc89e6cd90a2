// SPDX-License-Identifier: MIT OR Apache-2.0
//! Local ports, which limit the number of connections to one server.

use serde::{Deserialize, Serialize};

/// Range of local ports for connections from the program's network namespace, and how many closed
/// connections may still hold one of these ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LocalPorts {
    /// First and last port of the range (`net.ipv4.ip_local_port_range`).
    pub range: [u16; 2],
    /// TCP connections in TIME_WAIT at the end of the window, including those that other programs
    /// closed.
    pub time_wait: u64,
    /// Value of `net.ipv4.tcp_tw_reuse`: with 1, the ports of connections in TIME_WAIT are reused
    /// after a second; with 2, only those of connections over the loopback interface are; `null`
    /// if unreadable.
    pub reuse: Option<u8>,
}

impl LocalPorts {
    /// Returns the number of ports in the range.
    pub fn number(&self) -> u64 {
        let [first, last] = self.range.map(u64::from);
        (last + 1).saturating_sub(first)
    }
}
