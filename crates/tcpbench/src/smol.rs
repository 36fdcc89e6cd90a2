// SPDX-License-Identifier: MIT OR Apache-2.0
//! smoltcp as a stack under test.
//!
//! smoltcp has no hook for copies or checksums. But devices can declare that they compute
//! checksums, and smoltcp lends its ring buffers to closures. Checksums are therefore computed in
//! the device layer here, where frames are copied anyway, and copies between application and ring
//! use the set's routines as well:
//!
//! ```text
//! application --copy--> ring --smoltcp's own copy--> buffer of the device
//!     buffer of the device --copy + sum--> frame --copy + sum--> buffer of the other device
//!         buffer of the other device --smoltcp's own copy--> ring --copy--> application
//! ```
//!
//! With [`WireMode::Reference`], the frame itself serves as the buffer of both devices: the two
//! copies disappear, and the checksums are separate. Headers are copied and summed inline in every
//! set, as in lwIP: they were just written in pieces, so wider loads would defeat store forwarding.

use crate::endpoint::{
    Checksums, Config, Congestion, Counters, Endpoint, HEADER_BYTES, Micros, SERVER_PORT, Side,
    Stack, State, WireMode,
};
use crate::packet::{self, IP_HEADER, header_bytes, pseudo};
use crate::routines::{Reading, Seam, Tallies};
use crate::wire::{Frame, Pool, Port};
use linerate_kernels::Sum;
use smoltcp::iface::{Config as InterfaceConfig, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{self, ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

/// Offset of the checksum in the IPv4 header.
const IP_CHECKSUM: usize = 10;
/// Offset of the checksum in the TCP header.
const TCP_CHECKSUM: usize = 16;

/// The smoltcp stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smoltcp;

impl Stack for Smoltcp {
    fn name(&self) -> &'static str {
        "smoltcp"
    }

    fn version(&self) -> String {
        "0.14".to_owned()
    }

    fn copies_by_routines(&self) -> bool {
        false
    }

    fn endpoint(&self, config: &Config) -> Result<Box<dyn Endpoint>, String> {
        Ok(Box::new(Smol::new(config)))
    }
}

/// Device layer that computes checksums, and copies packets between smoltcp and the wire.
struct Layer {
    seam: Seam,
    checksums: Checksums,
    copies: bool,
    frame_bytes: usize,
    /// smoltcp's output before it is copied to a frame.
    outgoing: Vec<u8>,
    counters: Counters,
}

impl Layer {
    /// Copies a packet from smoltcp into a frame, and computes its checksums if requested.
    fn send(&mut self, bytes: usize, port: &mut Port<'_>) {
        let mut frame = port.pool.take(bytes);
        let from = &self.outgoing[..bytes];
        if self.checksums == Checksums::Routines {
            copy_summed(&mut self.seam, frame.bytes_mut(), from);
        } else {
            packet::copy(&mut self.seam, frame.bytes_mut(), from);
        }
        self.sent(frame, port);
    }

    /// Computes the checksums of a packet that smoltcp wrote directly into the frame.
    fn send_in_place(&mut self, mut frame: Frame, port: &mut Port<'_>) {
        if self.checksums == Checksums::Routines {
            let packet = frame.bytes_mut();
            let sum = sum(&mut self.seam, packet);
            finish(packet, [self.seam.header(&packet[..IP_HEADER], Sum::ZERO), sum]);
        }
        self.sent(frame, port);
    }

    fn sent(&mut self, frame: Frame, port: &mut Port<'_>) {
        self.counters.sent += 1;
        port.sent.push_back(frame);
    }

    /// Copies a received packet. Returns whether its checksums match.
    fn receive(&mut self, packet: &[u8], to: &mut [u8]) -> bool {
        if self.checksums == Checksums::Routines {
            return packet::copy_verified(&mut self.seam, to, packet);
        }
        packet::copy(&mut self.seam, to, packet);
        true
    }

    /// Verifies a packet's checksums without copying. Returns whether they match.
    fn verify(&mut self, packet: &[u8]) -> bool {
        self.checksums != Checksums::Routines
            || packet::is_formed(packet)
                && packet::matches(self.seam.header(&packet[..IP_HEADER], Sum::ZERO))
                && packet::matches(sum(&mut self.seam, packet))
    }
}

/// Computes the sum of a segment and its pseudo-header without copying.
fn sum(seam: &mut Seam, packet: &[u8]) -> Sum {
    let (head, payload) = packet.split_at(header_bytes(packet));
    let sum = seam.header(&head[IP_HEADER..], pseudo(head, packet.len() - IP_HEADER));
    match payload {
        [] => sum,
        _ => Sum::from_raw(seam.checksum(payload, sum.raw())),
    }
}

/// Copies a packet whose two checksum fields smoltcp has left at zero, and fills them in with the
/// checksums computed during the copy.
fn copy_summed(seam: &mut Seam, to: &mut [u8], packet: &[u8]) {
    let (head, payload) = packet.split_at(header_bytes(packet));
    let (to_head, to_payload) = to.split_at_mut(head.len());
    let (to_ip, to_tcp) = to_head.split_at_mut(IP_HEADER);
    let ip = seam.copy_header(to_ip, &head[..IP_HEADER], Sum::ZERO);
    let pseudo = pseudo(head, packet.len() - IP_HEADER);
    let mut segment = seam.copy_header(to_tcp, &head[IP_HEADER..], pseudo);
    if !payload.is_empty() {
        segment = Sum::from_raw(seam.copy_checksum(to_payload, payload, segment.raw()));
    }
    finish(to_head, [ip, segment]);
}

/// A received packet that smoltcp is about to read.
struct Inbox {
    /// Buffer for a copy of the packet; only the first `bytes` bytes are valid.
    copy: Vec<u8>,
    bytes: usize,
    /// The frame itself, if the packet is read in place.
    lent: Option<Frame>,
}

impl Inbox {
    /// Takes the next packet with matching checksums from the wire. Returns whether there was one.
    fn fill(&mut self, layer: &mut Layer, port: &mut Port<'_>) -> bool {
        if let Some(read) = self.lent.take() {
            port.pool.put(read);
        }
        while let Some(frame) = port.arrived.pop_front() {
            layer.counters.received += 1;
            let lends = !layer.copies;
            if lends && layer.verify(frame.bytes()) {
                self.lent = Some(frame);
                return true;
            }
            self.bytes = frame.length();
            let matches = !lends && layer.receive(frame.bytes(), &mut self.copy[..self.bytes]);
            port.pool.put(frame);
            if matches {
                return true;
            }
            layer.counters.bad_checksums += 1;
        }
        false
    }

    fn packet(&self) -> &[u8] {
        self.lent.as_ref().map_or(&self.copy[..self.bytes], Frame::bytes)
    }
}

/// Writes the IP and TCP checksums. Both fields were zero when the sums were computed.
fn finish(head: &mut [u8], [ip, tcp]: [Sum; 2]) {
    head[IP_CHECKSUM..][..2].copy_from_slice(&ip.finish().to_be_bytes());
    head[IP_HEADER + TCP_CHECKSUM..][..2].copy_from_slice(&tcp.finish().to_be_bytes());
}

/// The device layer and the wire, which smoltcp borrows for one poll.
struct Device<'a, 'p> {
    layer: &'a mut Layer,
    inbox: &'a mut Inbox,
    port: &'a mut Port<'p>,
}

struct Incoming<'a>(&'a [u8]);

struct Outgoing<'a, 'p> {
    layer: &'a mut Layer,
    port: &'a mut Port<'p>,
}

impl phy::RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl phy::TxToken for Outgoing<'_, '_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, write: F) -> R {
        if self.layer.copies {
            let result = write(&mut self.layer.outgoing[..bytes]);
            self.layer.send(bytes, self.port);
            return result;
        }
        let mut frame = self.port.pool.take(bytes);
        let result = write(frame.bytes_mut());
        self.layer.send_in_place(frame, self.port);
        result
    }
}

impl<'p> phy::Device for Device<'_, 'p> {
    type RxToken<'t>
        = Incoming<'t>
    where
        Self: 't;
    type TxToken<'t>
        = Outgoing<'t, 'p>
    where
        Self: 't;

    fn receive(&mut self, _: Instant) -> Option<(Incoming<'_>, Outgoing<'_, 'p>)> {
        if !self.inbox.fill(self.layer, self.port) {
            return None;
        }
        let reply = Outgoing { layer: self.layer, port: self.port };
        Some((Incoming(self.inbox.packet()), reply))
    }

    fn transmit(&mut self, _: Instant) -> Option<Outgoing<'_, 'p>> {
        Some(Outgoing { layer: self.layer, port: self.port })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.layer.frame_bytes;
        if self.layer.checksums != Checksums::Stack {
            capabilities.checksum = ChecksumCapabilities::ignored();
        }
        capabilities
    }
}

/// A smoltcp socket with its own interface.
struct Smol {
    side: Side,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    layer: Layer,
    inbox: Inbox,
    /// Local port for the next connection.
    port: u16,
}

/// First port that a client uses: the start of the dynamic ports (RFC 6335, 6).
const FIRST_PORT: u16 = 49152;

impl Smol {
    fn new(config: &Config) -> Self {
        let frame_bytes = config.segment + HEADER_BYTES;
        let mut layer = Layer {
            seam: Seam::new(config.routines),
            checksums: config.checksums,
            copies: config.wire == WireMode::Copy,
            frame_bytes,
            outgoing: vec![0; frame_bytes],
            counters: Counters::default(),
        };
        let mut inbox = Inbox { copy: vec![0; frame_bytes], bytes: 0, lent: None };
        let interface = interface(config, &mut layer, &mut inbox);
        let buffer = || tcp::SocketBuffer::new(vec![0; config.buffer]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(config.nagle);
        socket
            .set_ack_delay((config.ack_delay > 0).then(|| Duration::from_micros(config.ack_delay)));
        socket.set_congestion_control(match config.congestion {
            Congestion::None => tcp::CongestionControl::None,
            Congestion::Reno => tcp::CongestionControl::Reno,
        });
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        let port = FIRST_PORT + (config.seed % u64::from(u16::MAX - FIRST_PORT)) as u16;
        Self { side: config.side, interface, sockets, handle, layer, inbox, port }
    }

    fn socket(&self) -> &tcp::Socket<'static> {
        self.sockets.get(self.handle)
    }
}

fn interface(config: &Config, layer: &mut Layer, inbox: &mut Inbox) -> Interface {
    let (mut arrived, mut sent) = Default::default();
    let mut pool = Pool::new(0);
    let port = &mut Port { arrived: &mut arrived, sent: &mut sent, pool: &mut pool };
    let mut own = InterfaceConfig::new(HardwareAddress::Ip);
    own.random_seed = config.seed ^ u64::from(config.side.address().to_bits());
    let mut interface = Interface::new(own, &mut Device { layer, inbox, port }, Instant::ZERO);
    interface.update_ip_addrs(|addresses| {
        let own = IpCidr::new(IpAddress::Ipv4(config.side.address()), 24);
        addresses.push(own).expect("there is room for one address");
    });
    interface
}

impl Endpoint for Smol {
    fn open(&mut self, _: Micros) -> Result<(), String> {
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(self.handle);
        if self.side == Side::Server {
            return socket.listen(SERVER_PORT).map_err(|error| error.to_string());
        }
        let server = (IpAddress::Ipv4(self.side.peer().address()), SERVER_PORT);
        self.port = self.port.checked_add(1).unwrap_or(FIRST_PORT);
        let context = self.interface.context();
        socket.connect(context, server, self.port).map_err(|error| error.to_string())
    }

    fn state(&self) -> State {
        use tcp::State as Tcp;
        match self.socket().state() {
            Tcp::Closed | Tcp::TimeWait => State::Closed,
            Tcp::Listen | Tcp::SynSent | Tcp::SynReceived => State::Opening,
            Tcp::Established => State::Open,
            Tcp::CloseWait if self.socket().can_recv() => State::Open,
            Tcp::CloseWait => State::PeerClosed,
            Tcp::FinWait1 | Tcp::FinWait2 | Tcp::Closing | Tcp::LastAck => State::Closing,
        }
    }

    fn send_room(&self) -> usize {
        let socket = self.socket();
        if socket.may_send() { socket.send_capacity() - socket.send_queue() } else { 0 }
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(self.handle);
        let mut taken = 0;
        // The free space consists of two pieces if it wraps around the end of the ring.
        while socket.can_send() && taken < bytes.len() {
            let rest = &bytes[taken..];
            let copied = socket.send(|ring| {
                let count = rest.len().min(ring.len());
                self.layer.seam.copy(&mut ring[..count], &rest[..count]);
                (count, count)
            });
            taken += copied.expect("the socket can send");
        }
        taken
    }

    fn receive(&mut self, into: &mut [u8]) -> usize {
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(self.handle);
        let mut given = 0;
        while socket.can_recv() && given < into.len() {
            let room = &mut into[given..];
            let copied = socket.recv(|ring| {
                let count = room.len().min(ring.len());
                self.layer.seam.copy(&mut room[..count], &ring[..count]);
                (count, count)
            });
            given += copied.expect("the socket can receive");
        }
        given
    }

    fn close(&mut self) {
        self.sockets.get_mut::<tcp::Socket<'_>>(self.handle).close();
    }

    fn poll(&mut self, now: Micros, port: &mut Port<'_>) {
        let now = Instant::from_micros(now as i64);
        let device = &mut Device { layer: &mut self.layer, inbox: &mut self.inbox, port };
        let mut polled = self.interface.poll(now, device, &mut self.sockets);
        // A poll sends one segment.
        while polled == PollResult::SocketStateChanged {
            polled = self.interface.poll_egress(now, device, &mut self.sockets);
        }
    }

    fn poll_at(&mut self, now: Micros) -> Option<Micros> {
        let at = self.interface.poll_at(Instant::from_micros(now as i64), &self.sockets)?;
        Some(at.total_micros().max(0) as Micros)
    }

    fn counters(&self) -> Counters {
        self.layer.counters.clone()
    }

    fn watch(&mut self, reading: Option<Reading>) {
        self.layer.seam.watch(reading);
    }

    fn mark(&mut self, activity: Option<&Arc<AtomicU8>>) {
        self.layer.seam.mark(activity);
    }

    fn tallies(&self) -> Tallies {
        self.layer.seam.tallies()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routines::Routines;
    use std::collections::VecDeque;

    fn end(side: Side, wire: WireMode) -> Box<dyn Endpoint> {
        let config = Config {
            side,
            segment: 1460,
            buffer: 64 * 1460,
            routines: Routines::selected(),
            checksums: Checksums::Routines,
            wire,
            nagle: false,
            ack_delay: 0,
            congestion: Congestion::None,
            seed: 1,
        };
        Smoltcp.endpoint(&config).expect("smoltcp takes any size")
    }

    /// Uses two plain queues without impairments, so that any failure must come from the stack.
    #[test]
    fn a_stream_arrives_whole_over_either_wire() {
        for wire in [WireMode::Copy, WireMode::Reference] {
            let (mut client, mut server) = (end(Side::Client, wire), end(Side::Server, wire));
            let (mut up, mut down) = (VecDeque::new(), VecDeque::new());
            let mut pool = Pool::new(1500);
            server.open(0).expect("it listens");
            client.open(0).expect("it connects");
            let stream: Vec<u8> =
                (0..1_000_000_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
            let (mut sent, mut received) = (0, Vec::new());
            let mut into = [0; 4000];
            for now in 1..10_000 {
                sent += client.send(&stream[sent..]);
                let port = &mut Port { arrived: &mut down, sent: &mut up, pool: &mut pool };
                client.poll(now, port);
                let port = &mut Port { arrived: &mut up, sent: &mut down, pool: &mut pool };
                server.poll(now, port);
                let count = server.receive(&mut into);
                received.extend_from_slice(&into[..count]);
            }
            assert!(received == stream, "{} of {}", received.len(), stream.len());
            assert_eq!(server.counters().bad_checksums, 0);
        }
    }
}
