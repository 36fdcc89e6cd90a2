// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interface counters of a live path, compared with the packets that the path received and sent.
//!
//! Interface and socket counters are read one after the other while packets arrive, so only a lower
//! and an upper bound are known for the number of packets that an interface counted during a run. A
//! difference is the number of packets beyond these bounds that no drop counter accounts for.

use crate::units::counted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One interface of a live path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceReport {
    /// Name of the port in the path: the interface's name, unless the path sets a different one.
    pub port: String,
    /// Name of the interface at the start of the run.
    pub interface: String,
    /// How frames were exchanged with the kernel: `af_packet`, `af_xdp` or `tap`.
    pub io: String,
    /// Whether frames addressed to other stations were received as well.
    pub promiscuous: bool,
    /// Number of queues: the number of receiving or of sending workers, whichever is larger.
    pub queues: u32,
    /// Number of receiving workers, each with a queue of its own; 0 if the path does not receive on
    /// this interface, and in records before version 2.6.
    #[serde(default)]
    pub receiving_queues: u32,
    /// Number of receive queues that the interface used at the start of the run; `null` if the path
    /// did not receive from it with `af_xdp`, if the number is unknown, and in records before
    /// version 2.6.
    #[serde(default)]
    pub rx_queues: Option<u32>,
    /// Received packets; `null` if the path does not receive on this interface.
    pub received: Option<ReceivedReport>,
    /// Sent packets; `null` if the path does not send on this interface.
    pub sent: Option<SentReport>,
    /// Changes to the interface during the run.
    pub changes: InterfaceChanges,
}

/// Changes to an interface during a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceChanges {
    /// Number of times that a worker found the interface down.
    pub went_down: u64,
    /// Whether the interface no longer existed when the run ended.
    pub is_gone: bool,
    /// Name of the interface when the run ended, if it was renamed; otherwise `null`.
    pub renamed_to: Option<String>,
    /// MTU in bytes at the start and at the end, if it changed; otherwise `null`.
    pub mtu: Option<[u32; 2]>,
}

/// Bounds on a count that was read while it was changing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bounds {
    /// Smallest possible value.
    pub least: u64,
    /// Largest possible value.
    pub most: u64,
}

/// Packets that arrived on an interface during a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReceivedReport {
    /// Packets that the interface counted; `null` if its counters could not be read.
    pub interface: Option<Bounds>,
    /// Packets that the interface dropped, by counter. Whether `interface` includes them depends on
    /// the driver.
    pub interface_drops: BTreeMap<String, u64>,
    /// Frames that arrived at the path's sockets, including dropped ones; `null` if the kernel does
    /// not count them.
    pub frames: Option<u64>,
    /// Frames that the kernel dropped because a receive ring was full.
    pub ring_full: u64,
    /// Frames that the workers read from the receive rings.
    pub taken: u64,
    /// Frames that were in the receive rings when the run ended.
    pub waiting: u64,
    /// Frames among `taken` that GRO, or segmentation offload of a sender on this machine, had
    /// coalesced from several packets; 0 in records before version 2.6.
    #[serde(default)]
    pub coalesced_frames: u64,
    /// Packets from which the frames in `coalesced_frames` were coalesced; `null` if the number is
    /// unknown for any of these frames, and in records before version 2.6.
    #[serde(default)]
    pub coalesced_packets: Option<u64>,
}

impl ReceivedReport {
    /// Returns the number of frames that the sockets counted but that were neither read by a
    /// worker, nor dropped because a ring was full, nor left in a ring. Negative if more frames
    /// were found than counted; `None` if the sockets did not count frames.
    pub fn socket_difference(&self) -> Option<i64> {
        let found = self.ring_full + self.taken + self.waiting;
        self.frames.map(|frames| frames as i64 - found as i64)
    }

    /// Returns the number of packets that the interface counted and did not drop, but that did not
    /// reach the sockets. Negative if more packets reached the sockets than the interface counted;
    /// `None` if either count is missing, or if more packets were counted but may have been
    /// coalesced into frames that no worker has seen.
    ///
    /// An interface counts packets before GRO; a socket counts frames after GRO. A frame that a
    /// sender on this machine coalesced counts as one packet at the interface, too.
    pub fn interface_difference(&self) -> Option<i64> {
        let (interface, frames) = (self.interface?, self.frames? as i64);
        let dropped: u64 = self.interface_drops.values().sum();
        let least = interface.least.saturating_sub(dropped) as i64;
        let unseen = (interface.most as i64 - frames).min(0);
        if least <= frames || self.coalesced_frames == 0 {
            return Some((least - frames).max(0) + unseen);
        }
        let packets = self.coalesced_packets.filter(|_| self.ring_full + self.waiting == 0)?;
        let merged = packets.saturating_sub(self.coalesced_frames) as i64;
        Some((least - frames - merged).max(0))
    }
}

/// Packets sent on an interface during a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SentReport {
    /// Packets that the interface counted, including those of other programs; `null` if its
    /// counters could not be read.
    pub interface: Option<Bounds>,
    /// Packets that the interface dropped, by counter. `tx_dropped` may also count frames that were
    /// refused and offered again, so it is capped at the number of accepted frames that were not
    /// sent.
    pub interface_drops: BTreeMap<String, u64>,
    /// Frames that the kernel accepted from the path.
    pub accepted: u64,
}

impl SentReport {
    /// Returns the number of frames that the kernel accepted but the interface neither sent nor
    /// dropped. 0 if the interface counted more, since other programs may send too; `None` if its
    /// counters could not be read.
    pub fn interface_difference(&self) -> Option<i64> {
        let dropped: u64 = self.interface_drops.values().sum();
        let most = self.interface?.most.saturating_add(dropped);
        Some(self.accepted.saturating_sub(most) as i64)
    }
}

impl InterfaceReport {
    /// Returns the number of packets, in both directions, that no counter accounts for.
    pub fn unexplained(&self) -> u64 {
        let received = self
            .received
            .iter()
            .flat_map(|received| [received.socket_difference(), received.interface_difference()]);
        let sent = self.sent.iter().map(SentReport::interface_difference);
        received.chain(sent).flatten().map(i64::unsigned_abs).sum()
    }

    /// Returns the number of receive queues of the interface from which the path did not receive. 0
    /// if unknown, or if the path did not receive with AF_XDP.
    pub fn unserved_queues(&self) -> u32 {
        self.rx_queues.map_or(0, |queues| queues.saturating_sub(self.receiving_queues))
    }
}

/// Reason to doubt the figures of a live path: an interface changed, has receive queues that the
/// path did not read, or has packets that no counter accounts for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceDoubt {
    /// Name of the interface at the start of the run.
    pub interface: String,
    /// Packets that no counter accounts for.
    pub unexplained: u64,
    /// Receive queues of the interface from which the path did not receive.
    #[serde(default)]
    pub unserved_queues: u32,
    /// Changes to the interface during the run.
    pub changes: InterfaceChanges,
}

impl InterfaceDoubt {
    /// Returns the reason to doubt an interface's figures; `None` if the interface did not change,
    /// the path read all receive queues, and all packets are accounted for.
    pub fn of(report: &InterfaceReport) -> Option<Self> {
        let (interface, changes) = (report.interface.clone(), report.changes.clone());
        let unexplained = report.unexplained();
        let unserved_queues = report.unserved_queues();
        let is_clear =
            unexplained == 0 && unserved_queues == 0 && changes == InterfaceChanges::default();
        (!is_clear).then_some(Self { interface, unexplained, unserved_queues, changes })
    }

    /// Returns advice on how to resolve the doubt.
    pub fn remedy(&self) -> &'static str {
        match &self.changes {
            InterfaceChanges { is_gone: true, .. } => {
                "no packets arrived afterwards; recreate the interface and repeat the run"
            }
            InterfaceChanges { went_down: 1.., .. } => {
                "packets were lost while it was down; repeat the run with the interface up"
            }
            InterfaceChanges { mtu: Some(_), .. } => {
                "frames longer than the MTU are dropped when sent; set `buffer_bytes` for the \
                 larger MTU"
            }
            InterfaceChanges { renamed_to: Some(_), .. } => {
                "the path continued with the same interface; use the new name in the path file"
            }
            _ if self.unserved_queues > 0 => {
                "packets on those queues go to the kernel instead of the path: set `replicas` of \
                 the first worker to the number of queues, or use fewer queues (ethtool -L)"
            }
            _ => {
                "another program may have taken packets or reset counters, packets may have been \
                 in flight when the counters were read, or the driver may update its counters only \
                 about once per second"
            }
        }
    }
}

impl fmt::Display for InterfaceDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InterfaceChanges { went_down, is_gone, renamed_to, mtu } = &self.changes;
        let mut parts = Vec::new();
        match (is_gone, went_down) {
            (true, _) => parts.push("disappeared during the run".to_owned()),
            (false, 0) => {}
            (false, 1) => parts.push("went down during the run".to_owned()),
            (false, times) => parts.push(format!("went down {times} times during the run")),
        }
        parts.extend(renamed_to.iter().map(|name| format!("was renamed to {name}")));
        parts.extend(mtu.map(|[from, to]| format!("changed its MTU from {from} to {to}")));
        if self.unserved_queues > 0 {
            let queues = counted(self.unserved_queues.into(), "receive queue");
            parts.push(format!("has {queues} that the path does not receive from"));
        }
        if self.unexplained > 0 {
            let packets = counted(self.unexplained, "packet");
            parts.push(format!("has {packets} that no counter accounts for"));
        }
        write!(f, "{} {}", self.interface, parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received() -> ReceivedReport {
        ReceivedReport {
            interface: Some(Bounds { least: 1_000, most: 1_010 }),
            interface_drops: BTreeMap::new(),
            frames: Some(1_004),
            ring_full: 100,
            taken: 900,
            waiting: 4,
            coalesced_frames: 0,
            coalesced_packets: Some(0),
        }
    }

    #[test]
    fn packets_that_were_coalesced_are_not_missing() {
        let whole = ReceivedReport {
            frames: Some(900),
            ring_full: 0,
            taken: 900,
            waiting: 0,
            coalesced_frames: 10,
            coalesced_packets: Some(110),
            ..received()
        };
        assert_eq!(whole.interface_difference(), Some(0));
        let lost = ReceivedReport { coalesced_packets: Some(95), ..whole.clone() };
        assert_eq!(
            lost.interface_difference(),
            Some(15),
            "a loss that coalescing does not explain"
        );
        let unknown = ReceivedReport { coalesced_packets: None, ..whole.clone() };
        assert_eq!(unknown.interface_difference(), None);
        let unseen = ReceivedReport { ring_full: 1, taken: 899, ..whole.clone() };
        assert_eq!(
            unseen.interface_difference(),
            None,
            "the dropped frame may have been coalesced"
        );
        let local = Some(Bounds { least: 900, most: 900 });
        let local = ReceivedReport { interface: local, ..whole };
        assert_eq!(local.interface_difference(), Some(0), "one packet for the interface, too");
    }

    #[test]
    fn counts_within_the_bounds_leave_no_difference() {
        let whole = received();
        assert_eq!(whole.socket_difference(), Some(0));
        assert_eq!(whole.interface_difference(), Some(0));
    }

    #[test]
    fn a_frame_that_nothing_counted_is_a_difference() {
        let lost = ReceivedReport { taken: 899, ..received() };
        assert_eq!(lost.socket_difference(), Some(1));
        let unseen = ReceivedReport { frames: Some(990), taken: 886, ..received() };
        assert_eq!(unseen.interface_difference(), Some(10));
        let drops = BTreeMap::from([("rx_dropped".to_owned(), 10)]);
        let named = ReceivedReport { interface_drops: drops, ..unseen };
        assert_eq!(named.interface_difference(), Some(0), "the interface names the loss");
        let extra = ReceivedReport { frames: Some(1_013), ..received() };
        assert_eq!(extra.interface_difference(), Some(-3));
        let unknown = ReceivedReport { frames: None, ..received() };
        assert_eq!((unknown.socket_difference(), unknown.interface_difference()), (None, None));
    }

    #[test]
    fn a_doubt_names_what_happened() {
        let changes = InterfaceChanges { went_down: 2, ..InterfaceChanges::default() };
        let mut report = InterfaceReport {
            port: "in".to_owned(),
            interface: "veth0".to_owned(),
            io: "af_packet".to_owned(),
            promiscuous: false,
            queues: 1,
            receiving_queues: 1,
            rx_queues: None,
            received: Some(received()),
            sent: None,
            changes: InterfaceChanges::default(),
        };
        assert_eq!(InterfaceDoubt::of(&report), None);
        let partial = InterfaceReport { rx_queues: Some(8), ..report.clone() };
        let doubt = InterfaceDoubt::of(&partial).unwrap();
        let text = "veth0 has 7 receive queues that the path does not receive from";
        assert_eq!(doubt.to_string(), text);
        assert!(doubt.remedy().contains("`replicas`"), "{}", doubt.remedy());
        let senders = InterfaceReport { queues: 4, rx_queues: Some(4), ..report.clone() };
        assert_eq!(senders.unserved_queues(), 3, "a queue that only sends receives nothing");
        report.changes = changes;
        report.received = Some(ReceivedReport { taken: 899, ..received() });
        let doubt = InterfaceDoubt::of(&report).unwrap();
        let text =
            "veth0 went down 2 times during the run, has 1 packet that no counter accounts for";
        assert_eq!(doubt.to_string(), text);
    }

    #[test]
    fn packets_of_others_are_not_missing() {
        let interface = Some(Bounds { least: 40, most: 50 });
        let sent = SentReport { interface, accepted: 50, ..SentReport::default() };
        assert_eq!(sent.interface_difference(), Some(0));
        assert_eq!(SentReport { accepted: 57, ..sent.clone() }.interface_difference(), Some(7));
        assert_eq!(SentReport { accepted: 3, ..sent }.interface_difference(), Some(0));
    }
}
