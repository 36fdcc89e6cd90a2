// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sink of a worker that sends packets on network interfaces.
//!
//! The frames of a burst that leave through the same port are passed to the kernel together, in
//! order. If the interface's queue is full, the sink retries up to [`RETRIES`] times per burst,
//! unless the path is set to drop packets at full rings. Frames that the kernel still does not
//! accept are dropped and counted by cause.

use super::Sender;
use crate::burst::MAX_BURST;
use crate::packet::Packet;
use linerate_linux::port::{SEND_MAX, SendRefusal};
use linerate_linux::yield_now;
use linerate_path::model::FullRing;
use linerate_record::run::Tally;
use std::collections::BTreeMap;

const _: () = assert!(MAX_BURST <= SEND_MAX);

/// Maximum number of retries per burst if the interface's queue is full. Together, they take a few
/// tens of microseconds, in which the receiver of a virtual interface can run on this CPU.
const RETRIES: u32 = 64;

/// Drop causes, in the order of `LiveSink::drops`.
const CAUSES: [&str; 5] = ["tx_full", "tx_too_long", "tx_down", "tx_gone", "tx_refused"];

fn cause(refusal: SendRefusal) -> usize {
    match refusal {
        SendRefusal::Full => 0,
        SendRefusal::TooLong => 1,
        SendRefusal::Down => 2,
        SendRefusal::Gone => 3,
        SendRefusal::Other(_) => 4,
    }
}

/// A moment in a sink's wait for an interface whose queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    /// The interface has just refused a frame, after it had accepted some.
    Begins,
    /// The sink has waited, or tried again without result, since the last call.
    Lasts,
}

/// A port on which a sink sends.
#[derive(Debug)]
pub(crate) struct PortSink {
    sender: Sender,
    /// Frames that the kernel accepted.
    pub(crate) accepted: u64,
    /// Whether the interface was down when a frame was sent.
    pub(crate) was_down: bool,
}

/// A sink that sends packets on network interfaces, owned by one worker.
#[derive(Debug)]
pub(crate) struct LiveSink {
    pub(crate) ports: Vec<PortSink>,
    full: FullRing,
    drops: [Tally; CAUSES.len()],
    /// Indices in the burst of the frames that leave through the current port.
    order: Vec<u16>,
}

impl LiveSink {
    /// Creates a sink that sends on `senders`, one per port. With two ports, a packet leaves
    /// through the port on which it did not arrive.
    pub(crate) fn new(senders: Vec<Sender>, full: FullRing) -> Self {
        let port = |sender| PortSink { sender, accepted: 0, was_down: false };
        let ports = senders.into_iter().map(port).collect();
        let order = Vec::with_capacity(MAX_BURST);
        Self { ports, full, drops: [Tally::default(); CAUSES.len()], order }
    }

    /// Sends a burst. Returns the number of dropped packets and bytes. Sets `born_ticks` of the
    /// dropped packets to 0, which excludes them from the latency. Calls `stall` while it waits for
    /// a full interface, unless the path is set to drop packets at full rings.
    #[inline]
    pub(crate) fn send(
        &mut self,
        packets: &mut [Packet<'_>],
        mut stall: impl FnMut(Stall),
    ) -> Tally {
        let Self { ports, full, drops, order } = self;
        let waits = *full == FullRing::Wait;
        let mut retries = if waits { RETRIES } else { 0 };
        let mut lost = Tally::default();
        let count = ports.len();
        for (index, port) in ports.iter_mut().enumerate() {
            let leaves = |packet: &Packet<'_>| {
                count == 1 || usize::from(packet.meta().port) % count != index
            };
            order.clear();
            let all = packets.iter().enumerate().filter(|(_, packet)| leaves(packet));
            order.extend(all.map(|(at, _)| at as u16));
            let mut rest = order.as_slice();
            let mut is_stalled = false;
            while let Some(&next) = rest.first() {
                let sent =
                    port.sender.send(rest.iter().map(|&at| packets[usize::from(at)].bytes()));
                port.accepted += sent.frames as u64;
                rest = &rest[sent.frames..];
                // An attempt that sends frames is work; one without result is part of the wait.
                is_stalled &= sent.frames == 0;
                let Some(refusal) = sent.refused else { continue };
                let is_full = waits && refusal == SendRefusal::Full;
                if is_full {
                    stall(if is_stalled { Stall::Lasts } else { Stall::Begins });
                }
                is_stalled = is_full;
                if is_full && retries > 0 {
                    retries -= 1;
                    yield_now();
                    stall(Stall::Lasts);
                    continue;
                }
                let refused = rest.first().copied().unwrap_or(next);
                let refused = &mut packets[usize::from(refused)];
                refused.meta_mut().born_ticks = 0;
                let bytes = refused.length() as u64;
                drops[cause(refusal)].add(1, bytes);
                lost.add(1, bytes);
                port.was_down |= refusal == SendRefusal::Down;
                rest = &rest[1.min(rest.len())..];
            }
        }
        lost
    }

    /// Makes the kernel send frames that it has left in a ring. Returns whether none are left.
    #[inline]
    pub(crate) fn flush(&mut self) -> bool {
        let mut is_done = true;
        for port in &mut self.ports {
            is_done &= port.sender.flush();
        }
        is_done
    }

    /// Makes the kernel send all frames that it has left in a ring, or gives up if the interface
    /// stays full. The interface's counters show how many were not sent.
    pub(crate) fn close(&mut self) {
        for _ in 0..RETRIES {
            if self.flush() {
                break;
            }
            yield_now();
        }
    }

    /// Returns the dropped packets, keyed by cause.
    pub(crate) fn drops(&self) -> BTreeMap<String, Tally> {
        let drops = CAUSES.iter().zip(self.drops).filter(|(_, tally)| tally.packets > 0);
        drops.map(|(cause, tally)| ((*cause).to_owned(), tally)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use linerate_linux::network::Network;
    use linerate_linux::port::{PacketSender, open_tap};
    use std::net::Ipv4Addr;

    /// Sends bursts until the interface, whose frames no program takes, has refused some. Returns
    /// the drops and the stalls.
    fn fill(full: FullRing) -> Result<(Tally, Vec<Stall>), linerate_linux::Error> {
        let name = "lrfull0";
        // The interface belongs to this thread's namespace, which ends with the thread.
        linerate_linux::enter_new_network()?;
        let _queues = open_tap(name, 1)?;
        Network::own()?.bring_up(name, Ipv4Addr::new(10, 9, 8, 1), 24)?;
        let sender = Sender::Packet(PacketSender::open(name)?);
        let mut sink = LiveSink::new(vec![sender], full);
        let mut pool = Pool::new(32, 2048);
        let mut packets = pool.packets(0);
        packets.iter_mut().for_each(|packet| packet.renew(60).expect("room").fill(0xff));
        let mut stalls = Vec::new();
        for _ in 0..1_000 {
            let lost = sink.send(&mut packets, |stall| stalls.push(stall));
            if lost.packets > 0 {
                assert_eq!(sink.drops().keys().collect::<Vec<_>>(), ["tx_full"]);
                return Ok((lost, stalls));
            }
        }
        panic!("the interface accepts all frames");
    }

    #[test]
    fn waiting_for_a_full_interface_is_reported() {
        let stalls = match std::thread::spawn(|| fill(FullRing::Wait)).join().expect("no panic") {
            Ok((_, stalls)) => stalls,
            Err(error) => return println!("SKIP: {error}"),
        };
        // The sink asks more than 64 times before it gives a burst up.
        assert!(stalls.len() > 64, "{stalls:?}");
        assert_eq!(stalls[0], Stall::Begins);
        assert!(stalls[1..].contains(&Stall::Lasts), "{stalls:?}");
        let dropping = std::thread::spawn(|| fill(FullRing::Drop)).join().expect("no panic");
        assert_eq!(dropping.expect("as before").1, []);
    }
}
