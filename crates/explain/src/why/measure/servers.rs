// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures of the program's connections to other servers, relative to those of its clients.

use super::super::facts::Facts;
use super::super::requests;
use super::super::roles::{clients, servers};
use super::Measure;
use linerate_record::stats::Estimate;
use linerate_record::why::{SocketCounts, TcpCounts};

impl Measure {
    pub(super) fn of_servers(self, facts: &Facts<'_>) -> Option<Estimate> {
        match self {
            Self::ClientsPerServer => {
                let (clients, servers) = (clients(facts).count(), servers(facts).count());
                (servers > 0).then(|| Estimate::exactly(clients as f64 / servers as f64))
            }
            Self::AskedPerRequest => {
                let asked =
                    sum(servers(facts), |tcp| tcp.data_segments_out, |tcp| tcp.segments_out);
                let requests =
                    sum(clients(facts), |tcp| tcp.data_segments_in, |tcp| tcp.segments_in);
                (requests > 0).then(|| Estimate::exactly(asked as f64 / requests as f64))
            }
            Self::QueuedForServers => requests::queued_for_servers(facts),
            _ => None,
        }
    }
}

/// Sums segments with data over connections, or all segments if the former were not counted.
fn sum<'a>(
    sockets: impl Iterator<Item = &'a SocketCounts>,
    with_data: fn(&TcpCounts) -> Option<u64>,
    all: fn(&TcpCounts) -> u64,
) -> u64 {
    let tcps = sockets.filter_map(|socket| socket.tcp.as_ref());
    tcps.map(|tcp| with_data(tcp).unwrap_or_else(|| all(tcp))).sum()
}
