// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the interfaces' own counters with the packets that a live path received and sent.
//!
//! ```text
//! begin:  read the counters; all workers start their sockets; read the counters
//! retire (each queue): read the counters; stop the socket; read the counters
//! finish: once the kernel has handed over the last blocks, read the sockets' counters
//! ```
//!
//! The number of packets that an interface counted while a socket was receiving has two bounds. It
//! is at least the difference between the inner readings (after the start, before the stop), and at
//! most the difference between the outer ones (before the start, after the stop).

use crate::ended::Ended;
use crate::live::receive::PortQueue;
use crate::live::segments::Coalesced;
use crate::live::start::Line;
use crate::live::{Interface, Ports, Receiver, XDP_TOO_LONG, XdpEnd, is_far_end, received_packets};
use crate::queue::Origin;
use crate::worker::{Head, Tail, Worker};
use linerate_linux as linux;
use linerate_linux::network::Link;
use linerate_linux::port::XdpCounts;
use linerate_path::model::Port;
use linerate_record::run::{Bounds, InterfaceChanges, InterfaceReport, ReceivedReport, SentReport};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum time until the kernel hands over a partially filled block of a receive ring, with a
/// margin for kernels whose timers have a resolution of 4 ms.
const BLOCK_HANDED_OVER: Duration = Duration::from_millis(12);

/// Readings of the interfaces' counters just before and just after the start of reception, each
/// keyed by interface index.
pub(crate) struct Begun([BTreeMap<u32, Link>; 2]);

/// Starts reception when all workers are ready, and reads the counters before and after.
pub(crate) fn begin(ports: &Ports, line: Line<'_>) -> Begun {
    Begun(line.open(|| ports.links()))
}

/// Starts reception on the sockets of a worker's source queue, if it has any.
///
/// # Errors
/// Returns an error if the kernel forbids it.
pub(crate) fn start(worker: &mut Worker<'_, '_>) -> Result<(), linux::Error> {
    if let Head::Source(queue) = &mut worker.head
        && let Origin::Live(live) = &mut queue.origin
    {
        live.ports.iter_mut().try_for_each(|port| port.receiver.start())?;
    }
    Ok(())
}

/// Totals over the receive queues of one interface.
#[derive(Default)]
struct Received {
    report: ReceivedReport,
    went_down: u64,
    coalesced: Coalesced,
    /// Frames that did not fit in an AF_XDP socket's memory.
    too_long: u64,
    /// Readings of the interface's counter: the lowest just before one of its queues stopped, and
    /// the highest just after one of them stopped.
    stopped: Option<[u64; 2]>,
}

/// Totals over the transmit queues of one interface.
#[derive(Default)]
struct Sent {
    accepted: u64,
    was_down: bool,
}

impl Sent {
    /// Compares the accepted frames with the interface's counters.
    ///
    /// Some drivers count a frame in `tx_dropped` each time that they refuse it, others never. The
    /// path sends a refused frame later, or counts it as its own drop. The interface's drops are
    /// therefore limited to the number of accepted frames that it did not send.
    fn report(
        &self,
        interface: Option<Bounds>,
        mut interface_drops: BTreeMap<String, u64>,
    ) -> SentReport {
        let accepted = self.accepted;
        if let (Some(sent), Some(dropped)) = (interface, interface_drops.get_mut(TX_DROPPED)) {
            *dropped = accepted.saturating_sub(sent.most).min(*dropped);
        }
        interface_drops.retain(|_, packets| *packets > 0);
        SentReport { interface, interface_drops, accepted }
    }
}

/// Returns the report on each interface. Adds frames that the kernel dropped at full rings to the
/// drops of the queues. Call after the workers have ended.
pub(crate) fn finish(
    ports: &Ports,
    begun: &Begun,
    ended: &mut [Ended<'_>],
) -> Vec<InterfaceReport> {
    if ports.interfaces.iter().any(|interface| interface.receives > 0) {
        std::thread::sleep(BLOCK_HANDED_OVER);
    }
    let end = ports.links();
    let source_ports = ports.interfaces.iter().filter(|i| i.receives > 0).count();
    let mut received: Vec<Received> = (0..source_ports).map(|_| Received::default()).collect();
    let mut sent: BTreeMap<usize, Sent> = BTreeMap::new();
    for ended in ended {
        if let Head::Source(queue) = &mut ended.worker.head
            && let Origin::Live(live) = &mut queue.origin
        {
            let live = &mut **live;
            for (port, sum) in live.ports.iter_mut().zip(&mut received) {
                live.counts.add_kernel_drops(sum.add(port));
            }
        }
        if let Tail::Sink(sink) = &ended.worker.tail {
            for (index, port) in sink.live.iter().flat_map(|live| &live.ports).enumerate() {
                let sum = sent.entry(index).or_default();
                sum.accepted += port.accepted;
                sum.was_down |= port.was_down;
            }
        }
    }
    let mut received = received.into_iter();
    let mut sent = sent.into_values();
    let reports = ports.interfaces.iter().map(|interface| {
        let received = (interface.receives > 0).then(|| received.next()).flatten();
        let sent = (interface.sends > 0).then(|| sent.next()).flatten();
        report(interface, begun, &end, received, sent)
    });
    reports.collect()
}

impl Received {
    /// Adds what one queue received from a port. Returns the frames that the kernel dropped.
    fn add(&mut self, port: &mut PortQueue) -> XdpCounts {
        self.report.taken += port.taken;
        self.coalesced.frames += port.coalesced.frames;
        self.coalesced.packets += port.coalesced.packets;
        self.coalesced.has_unknown |= port.coalesced.has_unknown;
        self.went_down = self.went_down.max(port.went_down);
        if let [Some(before), Some(after)] = port.stopped {
            let [least, most] = self.stopped.unwrap_or([before, after]);
            self.stopped = Some([least.min(before), most.max(after)]);
        }
        let frames = self.report.frames.unwrap_or(0);
        let lost = match (&mut port.receiver, port.end) {
            (Receiver::Packet(queue), _) => {
                let counts = queue.counts();
                self.report.frames = Some(frames + counts.frames);
                self.report.waiting += queue.waiting();
                XdpCounts { ring_full: counts.drops, too_long: 0 }
            }
            (Receiver::Xdp(_), Some(XdpEnd { waiting, lost })) => {
                // The kernel counts only the frames that it lost, not those that it delivered.
                self.report.frames = Some(frames + lost.ring_full + port.taken + waiting);
                self.report.waiting += waiting;
                lost
            }
            (Receiver::Xdp(_) | Receiver::Tap(_), _) => XdpCounts::default(),
        };
        self.report.ring_full += lost.ring_full;
        self.too_long += lost.too_long;
        lost
    }
}

fn report(
    interface: &Interface,
    begun: &Begun,
    end: &BTreeMap<u32, Link>,
    received: Option<Received>,
    sent: Option<Sent>,
) -> InterfaceReport {
    let [outer, inner] = &begun.0;
    let links = [outer, inner, end].map(|links| links.get(&interface.index));
    let went_down = received.as_ref().map_or(0, |received| received.went_down);
    let was_down = sent.as_ref().is_some_and(|sent| sent.was_down);
    let received = received.map(|Received { mut report, stopped, too_long, coalesced, .. }| {
        if let ([Some(outer), Some(inner), _], Some([least, most])) = (links, stopped) {
            report.interface = Some(Bounds {
                least: least.saturating_sub(received_packets(inner, &interface.port)),
                most: most.saturating_sub(received_packets(outer, &interface.port)),
            });
        }
        let Coalesced { frames, packets, has_unknown } = coalesced;
        (report.coalesced_frames, report.coalesced_packets) =
            (frames, (!has_unknown).then_some(packets));
        report.interface_drops = grown(links, receive_drops(&interface.port));
        // These frames reached no socket, so for the path, the interface has dropped them.
        let too_long = (too_long > 0).then(|| (XDP_TOO_LONG.to_owned(), too_long));
        report.interface_drops.extend(too_long);
        report
    });
    let sent = sent.map(|sent| {
        let counted = match links {
            [Some(first), _, Some(last)] => {
                let count = |link| sent_packets(link, &interface.port);
                let packets = count(last).saturating_sub(count(first));
                Some(Bounds { least: packets, most: packets })
            }
            _ => None,
        };
        sent.report(counted, grown(links, transmit_drops(&interface.port)))
    });
    let changed = |[first, _, last]: [Option<&Link>; 3]| Some((first?.clone(), last?.clone()));
    let changed = changed(links);
    let mtus = changed.as_ref().and_then(|(first, last)| Some([first.mtu?, last.mtu?]));
    InterfaceReport {
        port: interface.port.name.clone(),
        interface: interface.port.interface.clone(),
        io: interface.port.io.word().to_owned(),
        promiscuous: interface.port.promiscuous,
        queues: interface.receives.max(interface.sends),
        receiving_queues: interface.receives,
        rx_queues: interface.rx_queues,
        received,
        sent,
        changes: InterfaceChanges {
            went_down: went_down.max(was_down.into()),
            is_gone: !end.is_empty() && links[2].is_none(),
            renamed_to: changed
                .filter(|(first, last)| first.name != last.name)
                .map(|(_, last)| last.name),
            mtu: mtus.filter(|[from, to]| from != to),
        },
    }
}

/// The name of an interface counter, and the function that reads it.
type Counter = (&'static str, fn(&Link) -> u64);

const RECEIVE_DROPS: [Counter; 3] = [
    ("rx_dropped", |link| link.rx_dropped),
    ("rx_errors", |link| link.rx_errors),
    ("rx_missed", |link| link.rx_missed),
];

/// Name of the counter of packets that an interface dropped or refused to send.
const TX_DROPPED: &str = "tx_dropped";

const TRANSMIT_DROPS: [Counter; 2] =
    [(TX_DROPPED, |link| link.tx_dropped), ("tx_errors", |link| link.tx_errors)];

fn sent_packets(link: &Link, port: &Port) -> u64 {
    if is_far_end(port) { link.rx_packets } else { link.tx_packets }
}

fn receive_drops(port: &Port) -> &'static [Counter] {
    if is_far_end(port) { &TRANSMIT_DROPS } else { &RECEIVE_DROPS }
}

fn transmit_drops(port: &Port) -> &'static [Counter] {
    if is_far_end(port) { &RECEIVE_DROPS } else { &TRANSMIT_DROPS }
}

/// Returns by how much each counter increased between the first and the last reading, keyed by
/// counter name. Omits counters that did not increase.
fn grown(links: [Option<&Link>; 3], counters: &[Counter]) -> BTreeMap<String, u64> {
    let [Some(first), _, Some(last)] = links else { return BTreeMap::new() };
    let grown = counters
        .iter()
        .map(|(name, read)| ((*name).to_owned(), read(last).saturating_sub(read(first))));
    grown.filter(|(_, packets)| *packets > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An AF_XDP queue whose worker only sends leaves its packets to the kernel.
    #[test]
    fn a_queue_that_only_sends_does_not_receive() {
        let (name, io) = ("eth0".to_owned(), linerate_path::model::Io::AfXdp);
        let port = Port { name: name.clone(), interface: name, io, promiscuous: false };
        let interface = Interface { port, index: 7, receives: 1, sends: 4, rx_queues: Some(4) };
        let begun = Begun([BTreeMap::new(), BTreeMap::new()]);
        let report = report(&interface, &begun, &BTreeMap::new(), None, None);
        assert_eq!((report.queues, report.receiving_queues), (4, 1));
        assert_eq!(report.unserved_queues(), 3);
    }

    /// Returns the drops in the report on a path from which the kernel accepted 1000 frames.
    fn drops(sent: u64, dropped: u64) -> (BTreeMap<String, u64>, Option<i64>) {
        let counters = [(TX_DROPPED, dropped), ("tx_errors", 2)];
        let counters = counters.map(|(name, packets)| (name.to_owned(), packets)).into();
        let bounds = Some(Bounds { least: sent, most: sent });
        let report = Sent { accepted: 1000, was_down: false }.report(bounds, counters);
        let difference = report.interface_difference();
        (report.interface_drops, difference)
    }

    #[test]
    fn frames_that_were_offered_again_are_not_drops_of_the_interface() {
        let only_errors = || BTreeMap::from([("tx_errors".to_owned(), 2)]);
        let with = |dropped| {
            let mut all = only_errors();
            all.insert(TX_DROPPED.to_owned(), dropped);
            all
        };
        assert_eq!(drops(1000, 64), (only_errors(), Some(0)), "all refused, none lost");
        assert_eq!(drops(1500, 64), (only_errors(), Some(0)), "other programs send, too");
        assert_eq!(drops(993, 64), (with(7), Some(0)), "refusals and losses");
    }

    /// A driver that refuses frames without counting them still counts the accepted ones it drops.
    #[test]
    fn drops_of_accepted_frames_are_kept_whatever_was_refused() {
        let (kept, difference) = drops(900, 60);
        assert_eq!((kept[TX_DROPPED], difference), (60, Some(38)));
        let drops = BTreeMap::from([(TX_DROPPED.to_owned(), 5)]);
        let unknown = Sent::default().report(None, drops.clone());
        assert_eq!(unknown.interface_drops, drops);
    }
}
