// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets of a capture as the sessions of a radio access network carry them.
//!
//! Each IP packet is framed as PPP and appended to the stream of a session, which the pair of its
//! addresses chooses: what a terminal sends and is sent stays together. A stream travels forward in
//! A10 packets, or in reverse in RLP frames, of one size if asked for; what is left of it at the
//! end of the capture is filled up with flags, which PPP allows between frames. NAK lists of the
//! terminals stand between the packets where a seed puts them; each asks for octets that a sender
//! with frames of any size has sent, and a ring of 4 KiB still has.
//!
//! When the capture is repeated, sequence numbers go on: per pass, those of GRE by the packets of
//! the session, those of octets by its octets.
//!
//! Leaves out: packets that are not IP, or have VLAN tags, and those that do not fit; they are
//! counted. Loss, which is the terminal emulator's.

use crate::envelope::{self, ETHERNET_OCTETS, Ends};
use crate::frame::{self, MAX_FRAME_OCTETS, NakList, OctetRange, Writer};
use crate::ppp;
use linerate_dataplane::Steer;
use linerate_dataplane::bucket::{address_hash, mix};
use linerate_dataplane::traffic::{Running, Traffic, TrafficBuilder, TrafficError};
use linerate_path::model::{A10, Direction};
use std::sync::Arc;

/// Smallest frame without its check sequence.
const MIN_OCTETS: usize = 60;

/// From the packet data serving node to the packet control function, with addresses for
/// documentation (RFC 5737).
const ENDS: Ends = Ends {
    ethernet: [2, 0, 0, 0, 0, 0x0a, 2, 0, 0, 0, 0, 0x0b],
    ipv4: [192, 0, 2, 1, 192, 0, 2, 2],
};

/// From a terminal's side to ours.
const ACCESS_ETHERNET: [u8; 12] = [2, 0, 0, 0, 0, 0x0a, 2, 0, 0, 0, 0, 0x0c];

/// What a NAK list asks for lies so far back at least: what has not filled a frame yet has not been
/// sent.
const UNSENT_MAX: u64 = MAX_FRAME_OCTETS as u64;
/// Octets a NAK list asks for at most.
const ASKED_MAX: u64 = 256;
/// How much further back it may lie.
const REACH: u64 = 2_048;

/// The traffic of `a10`, made of the packets `inner`; the frames of a session go where `steers`
/// say.
///
/// # Errors
/// When nothing of the capture can be offered.
pub fn traffic(
    inner: &Traffic,
    a10: &A10,
    steers: &[Arc<dyn Steer>],
) -> Result<Traffic, TrafficError> {
    let mut builder = TrafficBuilder::new(steers);
    inner.rejected().iter().for_each(|(cause, packets)| builder.reject(cause, *packets));
    let mut drafts = Drafts::new(a10);
    for (index, captured) in inner.frames().iter().enumerate() {
        let octets = inner.frame(index);
        let fits = ip_packet(octets).ok_or("not_ip").and_then(|(protocol, packet)| {
            let session = address_hash(octets) % u64::from(a10.sessions);
            drafts.packet(session as usize, protocol, packet, captured.time_ns)
        });
        if let Err(cause) = fits {
            builder.reject(cause, 1);
        }
    }
    let end_ns = inner.frames().last().map_or(0, |frame| frame.time_ns);
    drafts.fill_up(end_ns);
    drafts.hand_over(&mut builder);
    builder.finish()
}

/// The IP packet in an Ethernet frame without its padding, and its PPP protocol.
fn ip_packet(frame: &[u8]) -> Option<(u16, &[u8])> {
    let (ethernet, ip) = frame.split_first_chunk::<ETHERNET_OCTETS>()?;
    let length = |at| Some(usize::from(u16::from_be_bytes(*ip.get(at..)?.first_chunk()?)));
    let (protocol, octets) = match ethernet[12..] {
        [0x08, 0x00] => (ppp::PROTOCOL_IPV4, length(2)?),
        [0x86, 0xdd] => (ppp::PROTOCOL_IPV6, length(4)? + 40),
        _ => return None,
    };
    Some((protocol, ip.get(..octets)?))
}

/// A session in the making.
struct Stream {
    key: u32,
    /// What no frame has yet.
    pending: Vec<u8>,
    /// A10 packets of a pass.
    packets: u32,
    /// Octets of a pass.
    octets: u64,
}

/// What makes a number run on.
#[derive(Clone, Copy)]
enum Unit {
    Packets,
    Octets,
}

/// A frame whose numbers do not know yet how far they run on in a pass.
struct Draft {
    end: usize,
    time_ns: u64,
    session: usize,
    /// Offset, first value and unit of each.
    running: Vec<(usize, u32, Unit)>,
}

/// All frames.
struct Drafts<'a> {
    a10: &'a A10,
    streams: Vec<Stream>,
    octets: Vec<u8>,
    drafts: Vec<Draft>,
    random: u64,
    /// NAK lists that the frames so far call for.
    naks_due: f64,
}

impl<'a> Drafts<'a> {
    fn new(a10: &'a A10) -> Self {
        let stream = |key| Stream { key, pending: Vec::new(), packets: 0, octets: 0 };
        let keys = (0..a10.sessions).map(|session| a10.first_key.wrapping_add(session));
        Self {
            a10,
            streams: keys.map(stream).collect(),
            octets: Vec::new(),
            drafts: Vec::new(),
            random: a10.seed,
            naks_due: 0.0,
        }
    }

    /// Octets of a stream that go into a frame of `octets` octets.
    fn payload(&self, octets: usize) -> usize {
        match self.a10.direction {
            Direction::Forward => octets - envelope::HEADER_OCTETS,
            Direction::Reverse => {
                let room = octets - frame::PACKET_HEADER_OCTETS;
                let frames = room.div_ceil(frame::FRAME_HEADER_OCTETS + MAX_FRAME_OCTETS);
                room - frames * frame::FRAME_HEADER_OCTETS
            }
        }
    }

    /// Appends a packet to a session, and makes the frames it completes.
    fn packet(
        &mut self,
        session: usize,
        protocol: u16,
        packet: &[u8],
        time_ns: u64,
    ) -> Result<(), &'static str> {
        let mut pending = std::mem::take(&mut self.streams[session].pending);
        let before = pending.len();
        ppp::push_frame(protocol, packet, &mut pending);
        let payload = match self.a10.octets {
            Some(octets) => self.payload(octets as usize),
            None => pending.len(),
        };
        let fits = payload <= self.payload(self.a10.buffer_octets as usize);
        if !fits {
            pending.truncate(before);
        }
        while fits && !pending.is_empty() && pending.len() >= payload {
            let rest = pending.split_off(payload);
            self.data(session, &pending, time_ns);
            pending = rest;
        }
        self.streams[session].pending = pending;
        if fits { Ok(()) } else { Err("too_long") }
    }

    /// Sends what is left, flags behind it.
    fn fill_up(&mut self, time_ns: u64) {
        let Some(octets) = self.a10.octets else { return };
        let payload = self.payload(octets as usize);
        for session in 0..self.streams.len() {
            let mut pending = std::mem::take(&mut self.streams[session].pending);
            if !pending.is_empty() {
                pending.resize(payload, ppp::FLAG);
                self.data(session, &pending, time_ns);
            }
        }
    }

    /// A frame with these octets of a session, and the NAK list that is due behind it.
    fn data(&mut self, session: usize, octets: &[u8], time_ns: u64) {
        let frame = match self.a10.direction {
            Direction::Forward => self.forward(session, octets),
            Direction::Reverse => self.reverse(session, octets),
        };
        self.push(frame, session, time_ns);
        let stream = &mut self.streams[session];
        stream.packets += 1;
        stream.octets += octets.len() as u64;
        self.naks_due += self.a10.naks / (1.0 - self.a10.naks);
        if self.naks_due >= 1.0 && self.nak(time_ns) {
            self.naks_due -= 1.0;
        }
    }

    fn push(&mut self, frame: Written, session: usize, time_ns: u64) {
        self.octets.extend_from_slice(&frame.octets);
        let start = self.octets.len() - frame.octets.len();
        self.octets.resize(start + frame.octets.len().max(MIN_OCTETS), 0);
        let (end, running) = (self.octets.len(), frame.running);
        self.drafts.push(Draft { end, time_ns, session, running });
    }

    fn forward(&self, session: usize, octets: &[u8]) -> Written {
        let stream = &self.streams[session];
        let mut header = [0; envelope::HEADER_OCTETS];
        let sequence = stream.packets;
        let fits = envelope::write_header(&mut header, &ENDS, stream.key, sequence, octets.len());
        assert!(fits, "buffers are shorter than IPv4 packets may be");
        // The sequence number is the last field of the header.
        let running = vec![(envelope::HEADER_OCTETS - 4, sequence, Unit::Packets)];
        Written { octets: [&header, octets].concat(), running }
    }

    fn reverse(&self, session: usize, octets: &[u8]) -> Written {
        let stream = &self.streams[session];
        let frames = octets.len().div_ceil(MAX_FRAME_OCTETS);
        let room = frame::PACKET_HEADER_OCTETS + frames * frame::FRAME_HEADER_OCTETS + octets.len();
        let mut packet = vec![0; room];
        let mut writer = Writer::new(&mut packet).expect("there is room for the header");
        let (mut running, mut at) = (Vec::new(), frame::PACKET_HEADER_OCTETS);
        let mut number = stream.octets as u32;
        for piece in octets.chunks(MAX_FRAME_OCTETS) {
            assert!(writer.data(number, [piece, &[]], false), "there is room for all frames");
            // The number is the last field of a frame's header.
            running.push((at + frame::FRAME_HEADER_OCTETS - 4, number, Unit::Octets));
            number = number.wrapping_add(piece.len() as u32);
            at += frame::FRAME_HEADER_OCTETS + piece.len();
        }
        writer.finish(&ACCESS_ETHERNET, stream.key);
        Written { octets: packet, running }
    }

    /// A NAK list of some session, if that has sent enough to ask for.
    fn nak(&mut self, time_ns: u64) -> bool {
        let session = (self.draw() % self.streams.len() as u64) as usize;
        let (back, asked) = (self.draw() % REACH, 1 + self.draw() % ASKED_MAX);
        let stream = &self.streams[session];
        let Some(first) = stream.octets.checked_sub(UNSENT_MAX + ASKED_MAX + back) else {
            return false;
        };
        let mut list = NakList::default();
        let first = first as u32;
        let is_kept = list.push(OctetRange { first, octets: asked as u32 });
        let mut packet = vec![0; self.a10.octets.map_or(MIN_OCTETS, |octets| octets as usize)];
        let mut writer = Writer::new(&mut packet).expect("there is room for the header");
        assert!(is_kept && writer.nak(&list), "a list of one range is sound and short");
        writer.finish(&ACCESS_ETHERNET, stream.key);
        let at = frame::PACKET_HEADER_OCTETS + frame::FRAME_HEADER_OCTETS;
        let running = vec![(at, first, Unit::Octets)];
        self.push(Written { octets: packet, running }, session, time_ns);
        true
    }

    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(1);
        mix(self.random)
    }

    /// Hands all frames over, now that it is known how far each number runs on in a pass.
    fn hand_over(&self, builder: &mut TrafficBuilder<'_>) {
        let mut start = 0;
        for draft in &self.drafts {
            let stream = &self.streams[draft.session];
            let running = draft.running.iter().map(|&(at, first, unit)| {
                let step = match unit {
                    Unit::Packets => stream.packets,
                    Unit::Octets => stream.octets as u32,
                };
                Running { at: at as u16, octets: 4, first, step }
            });
            let running: Vec<Running> = running.collect();
            builder.push(&self.octets[start..draft.end], draft.time_ns, &running);
            start = draft.end;
        }
    }
}

/// A frame and its running numbers.
struct Written {
    octets: Vec<u8>,
    running: Vec<(usize, u32, Unit)>,
}
