// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets of a capture as the sessions of a radio access network carry them.
//!
//! Each IP packet is framed as PPP and appended to the stream of a session, which the pair of its
//! addresses chooses: both directions of a terminal stay together. A stream travels forward in A10
//! packets, or in reverse in RLP frames, optionally of a fixed size; the rest at the end of the
//! capture is padded with flags, which PPP allows between frames. NAK lists of the terminals are
//! inserted between the packets at random by seed; each requests bytes that a sender with frames of
//! any size has sent, and a ring of 4 KiB still holds.
//!
//! When the capture is repeated, sequence numbers go on: per pass, those of GRE by the packets of
//! the session, those of bytes by its bytes.
//!
//! Leaves out: packets that are not IP, or have VLAN tags, and those that do not fit; they are
//! counted. Loss, which is the terminal emulator's.

use crate::envelope::{self, ETHERNET_BYTES, Ends};
use crate::frame::{self, ByteRange, MAX_FRAME_BYTES, NakList, Writer};
use crate::ppp;
use linerate_stage_api::params::{Params, Reader};
use linerate_stage_api::source::{
    Running, SourceKind, SourceUse, Tally, Traffic, TrafficBuilder, TrafficError, address_hash, mix,
};
use linerate_stage_api::spec::{
    Default, MAX_BUFFER_BYTES, MIN_FRAME_BYTES, Misfit, ParamKind, ParamSpec, SourceSpec,
};
use linerate_stage_api::{BuildError, Steer};
use std::sync::Arc;

/// Smallest frame without its check sequence.
const MIN_BYTES: usize = 60;

/// From the packet data serving node to the packet control function, with addresses for
/// documentation (RFC 5737).
const ENDS: Ends = Ends {
    ethernet: [2, 0, 0, 0, 0, 0x0a, 2, 0, 0, 0, 0, 0x0b],
    ipv4: [192, 0, 2, 1, 192, 0, 2, 2],
};

/// From a terminal's side to ours.
const ACCESS_ETHERNET: [u8; 12] = [2, 0, 0, 0, 0, 0x0a, 2, 0, 0, 0, 0, 0x0c];

/// Minimum distance of requested bytes: unsent partial frames are excluded.
const UNSENT_MAX: u64 = MAX_FRAME_BYTES as u64;
/// Bytes a NAK list asks for at most.
const ASKED_MAX: u64 = 256;
/// Additional random distance.
const REACH: u64 = 2_048;

/// The way of packets, in the words of the file.
const DIRECTIONS: [&str; 2] = ["forward", "reverse"];

const fn param(
    name: &'static str,
    kind: ParamKind,
    default: Default,
    help: &'static str,
) -> ParamSpec {
    ParamSpec { name, kind, default, help }
}

const PARAMS: &[ParamSpec] = &[
    param(
        "direction",
        ParamKind::Word(&DIRECTIONS),
        Default::Text(DIRECTIONS[0]),
        "To the terminals, in A10 envelopes, or from them, in RLP frames.",
    ),
    param(
        "bytes",
        ParamKind::Integer { min: MIN_FRAME_BYTES as i64, max: MAX_BUFFER_BYTES as i64 },
        Default::Absent("one frame for each packet of the capture"),
        "Bytes of every frame without check sequence.",
    ),
    param(
        "sessions",
        ParamKind::Integer { min: 1, max: 1 << 16 },
        Default::Integer(64),
        "Sessions that share the packets.",
    ),
    param(
        "first_key",
        ParamKind::Integer { min: 0, max: u32::MAX as i64 },
        Default::Integer(1),
        "Key of the first session; the others follow.",
    ),
    param(
        "naks",
        ParamKind::Number { max: 0.5 },
        Default::Absent("0"),
        "Share of the frames that are NAK lists of terminals.",
    ),
    param(
        "seed",
        ParamKind::Integer { min: 0, max: i64::MAX },
        Default::Integer(1),
        "Start of the random places of NAK lists.",
    ),
];

/// `kind = "a10"`: a capture whose packets travel in sessions of a radio access network.
pub const KIND: SourceKind = SourceKind {
    spec: SourceSpec {
        kind: "a10",
        help: "The packets of a capture in the sessions of a radio access network.",
        params: PARAMS,
        check,
        frame_bytes: |params| Reader(params).integer_if_given("bytes").ok().flatten(),
    },
    traffic: |used, inner, steers| traffic(inner, &A10::new(used)?, steers),
};

/// Error in parameters that are individually valid.
fn check(params: &Params, buffer_bytes: u32) -> Vec<Misfit> {
    let Ok(a10) = A10::of_params(params, buffer_bytes) else { return Vec::new() };
    let mut misfits = Vec::new();
    if let Some(bytes) = a10.bytes.filter(|bytes| *bytes > buffer_bytes) {
        misfits.push(Misfit::too_long("bytes", bytes, buffer_bytes));
    }
    let A10 { sessions, first_key, .. } = a10;
    if u32::checked_add(first_key, sessions - 1).is_none() {
        misfits.push(Misfit {
            param: "first_key",
            message: format!(
                "{sessions} sessions from key {first_key} on: keys end at {}",
                u32::MAX
            ),
            help: format!("first_key = {} is the largest for them", u32::MAX - (sessions - 1)),
        });
    }
    if a10.naks > 0.0 && a10.direction == Direction::Reverse {
        misfits.push(Misfit {
            param: "naks",
            message: "NAK lists come from the terminals: they are for the forward direction".into(),
            help: "leave out 'naks'".into(),
        });
    }
    misfits
}

/// Direction of a session's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// To the terminal: they arrive in A10 envelopes.
    Forward,
    /// From the terminal: they arrive in RLP frames.
    Reverse,
}

/// Encapsulation of captured packets in sessions.
#[derive(Clone, Debug, PartialEq)]
struct A10 {
    direction: Direction,
    /// Bytes of every frame without check sequence; `None` for a frame per packet.
    bytes: Option<u32>,
    sessions: u32,
    /// Key of the first session; the others follow.
    first_key: u32,
    /// Share of the frames that are NAK lists, 0 to 0.5.
    naks: f64,
    /// Seed of the positions of the NAK lists.
    seed: u64,
    buffer_bytes: u32,
}

impl A10 {
    fn new(used: &SourceUse) -> Result<Self, BuildError> {
        Self::of_params(&used.params, used.buffer_bytes)
    }

    fn of_params(params: &Params, buffer_bytes: u32) -> Result<Self, BuildError> {
        let params = Reader(params);
        let is_forward = params.text("direction")? == DIRECTIONS[0];
        Ok(Self {
            direction: if is_forward { Direction::Forward } else { Direction::Reverse },
            bytes: params.integer_if_given("bytes")?,
            sessions: params.integer("sessions")?,
            first_key: params.integer("first_key")?,
            naks: params.number_or_zero("naks")?,
            seed: params.integer("seed")?,
            buffer_bytes,
        })
    }
}

/// The traffic of `a10`, made of the packets `inner`; the frames of a session go where `steers`
/// say.
///
/// # Errors
/// If nothing of the capture can be offered.
fn traffic(inner: &Traffic, a10: &A10, steers: &[Arc<dyn Steer>]) -> Result<Traffic, TrafficError> {
    let mut builder = TrafficBuilder::new(steers);
    builder.made_of(inner);
    let mut drafts = Drafts::new(a10);
    for (index, captured) in inner.frames().iter().enumerate() {
        let bytes = inner.frame(index);
        let fits = ip_packet(bytes).ok_or("not_ip").and_then(|(protocol, packet)| {
            let session = address_hash(bytes) % u64::from(a10.sessions);
            drafts.packet(session as usize, protocol, packet, captured.time_ns)
        });
        if let Err(cause) = fits {
            builder.reject(cause, Tally { packets: 1, bytes: bytes.len() as u64 });
        }
    }
    let end_ns = inner.frames().last().map_or(0, |frame| frame.time_ns);
    drafts.fill_up(end_ns);
    drafts.hand_over(&mut builder);
    builder.finish()
}

/// The IP packet in an Ethernet frame without its padding, and its PPP protocol.
fn ip_packet(frame: &[u8]) -> Option<(u16, &[u8])> {
    let (ethernet, ip) = frame.split_first_chunk::<ETHERNET_BYTES>()?;
    let length = |at| Some(usize::from(u16::from_be_bytes(*ip.get(at..)?.first_chunk()?)));
    let (protocol, bytes) = match ethernet[12..] {
        [0x08, 0x00] => (ppp::PROTOCOL_IPV4, length(2)?),
        [0x86, 0xdd] => (ppp::PROTOCOL_IPV6, length(4)? + 40),
        _ => return None,
    };
    Some((protocol, ip.get(..bytes)?))
}

/// A session in the making.
struct Stream {
    key: u32,
    /// Bytes not yet in a frame.
    pending: Vec<u8>,
    /// A10 packets of a pass.
    packets: u32,
    /// Bytes of a pass.
    bytes: u64,
}

/// Marks a field as a running number.
#[derive(Clone, Copy)]
enum Unit {
    Packets,
    Bytes,
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
    bytes: Vec<u8>,
    drafts: Vec<Draft>,
    random: u64,
    /// NAK lists that the frames so far call for.
    naks_due: f64,
}

impl<'a> Drafts<'a> {
    fn new(a10: &'a A10) -> Self {
        let stream = |key| Stream { key, pending: Vec::new(), packets: 0, bytes: 0 };
        let keys = (0..a10.sessions).map(|session| a10.first_key.wrapping_add(session));
        Self {
            a10,
            streams: keys.map(stream).collect(),
            bytes: Vec::new(),
            drafts: Vec::new(),
            random: a10.seed,
            naks_due: 0.0,
        }
    }

    /// Bytes of a stream that go into a frame of `bytes` bytes.
    fn payload(&self, bytes: usize) -> usize {
        match self.a10.direction {
            Direction::Forward => bytes - envelope::HEADER_BYTES,
            Direction::Reverse => {
                let room = bytes - frame::PACKET_HEADER_BYTES;
                let frames = room.div_ceil(frame::FRAME_HEADER_BYTES + MAX_FRAME_BYTES);
                room - frames * frame::FRAME_HEADER_BYTES
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
        let payload = match self.a10.bytes {
            Some(bytes) => self.payload(bytes as usize),
            None => pending.len(),
        };
        let fits = payload <= self.payload(self.a10.buffer_bytes as usize);
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
        let Some(bytes) = self.a10.bytes else { return };
        let payload = self.payload(bytes as usize);
        for session in 0..self.streams.len() {
            let mut pending = std::mem::take(&mut self.streams[session].pending);
            if !pending.is_empty() {
                pending.resize(payload, ppp::FLAG);
                self.data(session, &pending, time_ns);
            }
        }
    }

    /// A frame with these bytes of a session, and the NAK list that is due behind it.
    fn data(&mut self, session: usize, bytes: &[u8], time_ns: u64) {
        let frame = match self.a10.direction {
            Direction::Forward => self.forward(session, bytes),
            Direction::Reverse => self.reverse(session, bytes),
        };
        self.push(frame, session, time_ns);
        let stream = &mut self.streams[session];
        stream.packets += 1;
        stream.bytes += bytes.len() as u64;
        self.naks_due += self.a10.naks / (1.0 - self.a10.naks);
        if self.naks_due >= 1.0 && self.nak(time_ns) {
            self.naks_due -= 1.0;
        }
    }

    fn push(&mut self, frame: Written, session: usize, time_ns: u64) {
        self.bytes.extend_from_slice(&frame.bytes);
        let start = self.bytes.len() - frame.bytes.len();
        self.bytes.resize(start + frame.bytes.len().max(MIN_BYTES), 0);
        let (end, running) = (self.bytes.len(), frame.running);
        self.drafts.push(Draft { end, time_ns, session, running });
    }

    fn forward(&self, session: usize, bytes: &[u8]) -> Written {
        let stream = &self.streams[session];
        let mut header = [0; envelope::HEADER_BYTES];
        let sequence = stream.packets;
        let fits = envelope::write_header(&mut header, &ENDS, stream.key, sequence, bytes.len());
        assert!(fits, "buffers are shorter than IPv4 packets may be");
        // The sequence number is the last field of the header.
        let running = vec![(envelope::HEADER_BYTES - 4, sequence, Unit::Packets)];
        Written { bytes: [&header, bytes].concat(), running }
    }

    fn reverse(&self, session: usize, bytes: &[u8]) -> Written {
        let stream = &self.streams[session];
        let frames = bytes.len().div_ceil(MAX_FRAME_BYTES);
        let room = frame::PACKET_HEADER_BYTES + frames * frame::FRAME_HEADER_BYTES + bytes.len();
        let mut packet = vec![0; room];
        let mut writer = Writer::new(&mut packet).expect("there is room for the header");
        let (mut running, mut at) = (Vec::new(), frame::PACKET_HEADER_BYTES);
        let mut number = stream.bytes as u32;
        for piece in bytes.chunks(MAX_FRAME_BYTES) {
            assert!(writer.data(number, [piece, &[]], false), "there is room for all frames");
            // The number is the last field of a frame's header.
            running.push((at + frame::FRAME_HEADER_BYTES - 4, number, Unit::Bytes));
            number = number.wrapping_add(piece.len() as u32);
            at += frame::FRAME_HEADER_BYTES + piece.len();
        }
        writer.finish(&ACCESS_ETHERNET, stream.key);
        Written { bytes: packet, running }
    }

    /// A NAK list of some session, if that has sent enough to ask for.
    fn nak(&mut self, time_ns: u64) -> bool {
        let session = (self.draw() % self.streams.len() as u64) as usize;
        let (back, asked) = (self.draw() % REACH, 1 + self.draw() % ASKED_MAX);
        let stream = &self.streams[session];
        let Some(first) = stream.bytes.checked_sub(UNSENT_MAX + ASKED_MAX + back) else {
            return false;
        };
        let mut list = NakList::default();
        let first = first as u32;
        let is_kept = list.push(ByteRange { first, bytes: asked as u32 });
        let mut packet = vec![0; self.a10.bytes.map_or(MIN_BYTES, |bytes| bytes as usize)];
        let mut writer = Writer::new(&mut packet).expect("there is room for the header");
        assert!(is_kept && writer.nak(&list), "a list of one range is valid and short");
        writer.finish(&ACCESS_ETHERNET, stream.key);
        let at = frame::PACKET_HEADER_BYTES + frame::FRAME_HEADER_BYTES;
        let running = vec![(at, first, Unit::Bytes)];
        self.push(Written { bytes: packet, running }, session, time_ns);
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
                    Unit::Bytes => stream.bytes as u32,
                };
                Running { at: at as u16, bytes: 4, first, step }
            });
            let running: Vec<Running> = running.collect();
            builder.push(&self.bytes[start..draft.end], draft.time_ns, &running);
            start = draft.end;
        }
    }
}

/// A frame and its running numbers.
struct Written {
    bytes: Vec<u8>,
    running: Vec<(usize, u32, Unit)>,
}
