// SPDX-License-Identifier: MIT OR Apache-2.0
//! Live packets: network interfaces as source and sink of a path.
//!
//! [`Ports::open`] opens all queues of all interfaces, which requires privileges. A run then takes
//! these queues. After the run, `reconcile` compares the interfaces' counters with the path's
//! counts of received and sent packets. Each worker at either end of the path has its own queue on
//! each interface, so workers share nothing. The kernel distributes arriving packets over the
//! queues by flow.

pub(crate) mod limit;
pub(crate) mod receive;
pub(crate) mod segments;
pub(crate) mod start;
pub(crate) mod transmit;

use linerate_linux as linux;
use linerate_linux::network::{Link, Network};
use linerate_linux::port::{
    PacketReceiver, PacketSender, PortState, ReceiveRules, Received, Sent, TapReceiver, TapSender,
    XdpCounts, XdpReceiver, XdpSender, interface_index, open_tap, open_xdp,
};
use linerate_path::model::{Io, Mapping, Path, Port};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

/// Drop cause: the kernel dropped the frame because it did not fit in an AF_XDP socket's memory.
pub(crate) const XDP_TOO_LONG: &str = "xdp_too_long";

/// A receive queue of an interface.
#[derive(Debug)]
pub(crate) enum Receiver {
    Packet(PacketReceiver),
    Xdp(XdpReceiver),
    Tap(TapReceiver),
}

/// Counts of an AF_XDP socket at the moment when its queue stopped taking frames from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XdpEnd {
    /// Frames that were still in the receive ring.
    pub(crate) waiting: u64,
    pub(crate) lost: XdpCounts,
}

/// A transmit queue of an interface.
#[derive(Debug)]
pub(crate) enum Sender {
    Packet(PacketSender),
    Xdp(XdpSender),
    Tap(TapSender),
}

impl Receiver {
    #[inline]
    fn receive(&mut self) -> Option<Received<'_>> {
        match self {
            Self::Packet(queue) => queue.receive(),
            Self::Xdp(queue) => queue.receive(),
            Self::Tap(queue) => queue.receive(),
        }
    }

    fn state(&self) -> PortState {
        match self {
            Self::Packet(queue) => queue.state(),
            Self::Xdp(queue) => queue.state(),
            Self::Tap(queue) => queue.state(),
        }
    }

    /// Returns the file descriptor that becomes readable when frames are waiting.
    fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Packet(queue) => queue.as_fd(),
            Self::Xdp(queue) => queue.as_fd(),
            Self::Tap(queue) => queue.as_fd(),
        }
    }

    /// Returns whether a frame's checksum may be incomplete without any indication, because the
    /// sender left it to the interface.
    #[inline]
    fn hides_offloads(&self) -> bool {
        matches!(self, Self::Xdp(_))
    }

    /// Starts reception. Frames that an AF_XDP socket has received before this call are discarded.
    pub(crate) fn start(&mut self) -> Result<(), linux::Error> {
        match self {
            Self::Packet(queue) => queue.start()?,
            Self::Xdp(queue) => queue.start(),
            Self::Tap(_) => {}
        }
        Ok(())
    }

    /// Stops an AF_PACKET socket. If this fails, frames that still arrive are counted as waiting.
    /// An AF_XDP socket cannot be stopped, so its counts at this moment are returned instead.
    fn stop(&self) -> Option<XdpEnd> {
        match self {
            Self::Packet(queue) => {
                let _ = queue.stop();
                None
            }
            Self::Xdp(queue) => Some(XdpEnd { waiting: queue.waiting(), lost: queue.counts() }),
            Self::Tap(_) => None,
        }
    }
}

impl Sender {
    #[inline]
    fn send<'f>(&mut self, frames: impl Iterator<Item = &'f [u8]>) -> Sent {
        match self {
            Self::Packet(queue) => queue.send(frames),
            Self::Xdp(queue) => queue.send(frames),
            Self::Tap(queue) => queue.send(frames),
        }
    }

    /// Makes the kernel send frames that it has accepted, but left in an AF_XDP socket's ring.
    /// Returns whether none are left.
    #[inline]
    fn flush(&mut self) -> bool {
        match self {
            Self::Xdp(queue) => queue.flush(),
            Self::Packet(_) | Self::Tap(_) => true,
        }
    }
}

/// An interface of the path.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) port: Port,
    pub(crate) index: u32,
    /// Number of receive queues; 0 if the path does not receive on this interface.
    pub(crate) receives: u32,
    /// Number of transmit queues; 0 if the path does not send on this interface.
    pub(crate) sends: u32,
    /// Number of the interface's receive queues, if the path receives by AF_XDP and the driver
    /// reports it.
    pub(crate) rx_queues: Option<u32>,
}

/// The queues of all interfaces: receive queues by worker of the first segment, then by port;
/// transmit queues by worker of the last segment, then by port.
#[derive(Debug, Default)]
struct Queues {
    receivers: Vec<Vec<Receiver>>,
    senders: Vec<Vec<Sender>>,
}

/// The open interfaces of a path, for one run.
#[derive(Debug)]
pub struct Ports {
    pub(crate) interfaces: Vec<Interface>,
    /// Queues that no worker has taken yet; empty after a run.
    queues: Mutex<Queues>,
}

impl Ports {
    /// Opens the interfaces of `path`, with a queue for each worker of `mapping` that receives or
    /// sends; `None` if the path has no interfaces. Reception starts only with the run.
    ///
    /// # Errors
    /// Returns an error if an interface does not exist or is in use, or if the caller lacks the
    /// privilege to open it.
    pub fn open(path: &Path, mapping: &Mapping) -> Result<Option<Self>, linux::Error> {
        let (sources, sinks) = (path.source.ports(), path.sink.ports());
        if sources.is_empty() && sinks.is_empty() {
            return Ok(None);
        }
        let replicas = |segment: Option<&linerate_path::model::Segment>| {
            segment.map_or(1, |segment| segment.replicas as usize)
        };
        let (first, last) = (replicas(mapping.segments.first()), replicas(mapping.segments.last()));
        let mut interfaces: Vec<Interface> = Vec::new();
        for port in sources.iter().chain(sinks) {
            if !interfaces.iter().any(|known| known.port.interface == port.interface) {
                interfaces.push(Interface {
                    port: port.clone(),
                    index: 0,
                    receives: if sources.contains(port) { first as u32 } else { 0 },
                    sends: 0,
                    rx_queues: None,
                });
            }
        }
        for interface in &mut interfaces {
            let sends = sinks.iter().any(|port| port.interface == interface.port.interface);
            interface.sends = if sends { last as u32 } else { 0 };
        }
        let mut pairs = pairs(&interfaces)?;
        let mut queues = Queues::default();
        queues.receivers.resize_with(first, Vec::new);
        queues.senders.resize_with(last, Vec::new);
        for port in sources {
            for (queue, receiver) in receivers(port, first, &mut pairs)?.into_iter().enumerate() {
                queues.receivers[queue].push(receiver);
            }
        }
        for port in sinks {
            for (queue, senders) in queues.senders.iter_mut().enumerate() {
                senders.push(sender(port, queue, &mut pairs)?);
            }
        }
        for interface in &mut interfaces {
            interface.index = interface_index(&interface.port.interface)?;
            // Packet sockets and TAP queues share all packets among them. An AF_XDP socket receives
            // only from the interface's queue of the same number.
            if interface.port.io == Io::AfXdp && interface.receives > 0 {
                let network = Network::own();
                interface.rx_queues =
                    network.and_then(|own| own.receive_queues(&interface.port.interface)).ok();
            }
        }
        Ok(Some(Self { interfaces, queues: Mutex::new(queues) }))
    }

    /// Creates an instance without interfaces.
    #[cfg(test)]
    fn none() -> Result<Self, linux::Error> {
        let queues = Mutex::new(Queues::default());
        Ok(Self { interfaces: Vec::new(), queues })
    }

    /// Returns the names of the interfaces in promiscuous mode.
    pub fn promiscuous(&self) -> impl Iterator<Item = &str> {
        let all = self.interfaces.iter().filter(|interface| interface.port.promiscuous);
        all.map(|interface| interface.port.interface.as_str())
    }

    /// Takes the receive queues of the worker with index `queue` in the first segment; empty if
    /// they have been taken.
    pub(crate) fn take_receivers(&self, queue: usize) -> Vec<Receiver> {
        let mut queues = self.queues.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        queues.receivers.get_mut(queue).map(std::mem::take).unwrap_or_default()
    }

    /// Takes the transmit queues of the worker with index `queue` in the last segment; empty if
    /// they have been taken.
    pub(crate) fn take_senders(&self, queue: usize) -> Vec<Sender> {
        let mut queues = self.queues.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        queues.senders.get_mut(queue).map(std::mem::take).unwrap_or_default()
    }

    /// Reads the counters of all interfaces in the network namespace, keyed by interface index;
    /// empty if they cannot be read. Each call opens a socket of its own: all workers of a segment
    /// stop at the same time, and none may wait for another while its rings fill up.
    pub(crate) fn links(&self) -> BTreeMap<u32, Link> {
        let links = Network::own().and_then(|network| network.links()).unwrap_or_default();
        links.into_iter().map(|link| (link.index, link)).collect()
    }

    /// Reads, for the first `count` receiving interfaces, the counter of packets that have arrived.
    /// Queries only these interfaces, because the rings fill up meanwhile.
    fn received(&self, count: usize) -> Vec<Option<u64>> {
        let network = Network::own().ok();
        let receiving = self.interfaces.iter().filter(|interface| interface.receives > 0);
        let read = |interface: &Interface| {
            let link = network.as_ref()?.link(interface.index).ok()?;
            Some(received_packets(&link, &interface.port))
        };
        receiving.take(count).map(read).collect()
    }
}

/// Returns whether this program is at the other end of the interface's link, as with TAP. If so,
/// the path receives the packets that the kernel sends on the interface.
pub(crate) fn is_far_end(port: &Port) -> bool {
    port.io == Io::Tap
}

/// Returns how many packets have arrived for the path, according to the interface's counters.
pub(crate) fn received_packets(link: &Link, port: &Port) -> u64 {
    if is_far_end(port) { link.tx_packets } else { link.rx_packets }
}

/// Queues of the interfaces whose queues both receive and send (AF_XDP and TAP), by interface name,
/// then by queue.
#[derive(Default)]
struct Pairs {
    receivers: BTreeMap<String, Vec<Receiver>>,
    senders: BTreeMap<String, Vec<Option<Sender>>>,
}

/// Opens the queues of the AF_XDP and TAP interfaces, whose queues both receive and send.
fn pairs(interfaces: &[Interface]) -> Result<Pairs, linux::Error> {
    let mut pairs = Pairs::default();
    for interface in interfaces {
        let name = &interface.port.interface;
        let (receives, sends) = (interface.receives as usize, interface.sends as usize);
        let (receivers, senders): (Vec<_>, Vec<_>) = match interface.port.io {
            Io::AfPacket => continue,
            Io::AfXdp => {
                let queues = open_xdp(name, receives.max(sends), receives)?.into_iter();
                queues.map(|(from, to)| (Receiver::Xdp(from), Some(Sender::Xdp(to)))).unzip()
            }
            Io::Tap => {
                let queues = open_tap(name, receives.max(1))?.into_iter();
                let (receivers, senders): (Vec<_>, Vec<_>) = queues.unzip();
                let shared = (0..sends).map(|queue| {
                    let sender: &TapSender = &senders[queue % senders.len()];
                    Some(Sender::Tap(sender.share()))
                });
                (receivers.into_iter().map(Receiver::Tap).collect(), shared.collect())
            }
        };
        pairs.receivers.insert(name.clone(), receivers);
        pairs.senders.insert(name.clone(), senders);
    }
    Ok(pairs)
}

fn receivers(port: &Port, queues: usize, pairs: &mut Pairs) -> Result<Vec<Receiver>, linux::Error> {
    match pairs.receivers.remove(&port.interface) {
        Some(opened) => Ok(opened.into_iter().take(queues).collect()),
        None => {
            let rules = ReceiveRules { promiscuous: port.promiscuous };
            let opened = PacketReceiver::open(&port.interface, rules, queues)?;
            Ok(opened.into_iter().map(Receiver::Packet).collect())
        }
    }
}

fn sender(port: &Port, queue: usize, pairs: &mut Pairs) -> Result<Sender, linux::Error> {
    let opened = pairs.senders.get_mut(&port.interface);
    match opened.and_then(|opened| opened.get_mut(queue)?.take()) {
        Some(sender) => Ok(sender),
        None => PacketSender::open(&port.interface).map(Sender::Packet),
    }
}
