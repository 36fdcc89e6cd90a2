// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic source: a capture's packets, as carried by a radio access network's sessions.
//!
//! Each IP packet is framed as PPP and appended to the stream of a session, which is chosen by its
//! pair of addresses, so that both directions of a conversation share a session. Streams travel
//! forward in A10 packets or in reverse in RLP frames, optionally of a fixed size. What is left at
//! the end of the capture is padded with flags, which PPP allows between frames. The terminals' NAK
//! lists are inserted between the packets at pseudo-random positions. Each requests bytes that were
//! certainly sent, whatever the frame size, and that a 4 KiB ring still holds.
//!
//! When the capture is repeated, sequence numbers continue: in each pass, GRE numbers advance by
//! the session's packets and byte numbers by its bytes.
//!
//! Packets that are not IP, have VLAN tags, or do not fit are skipped and counted. Loss is added by
//! the terminal emulator.

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

/// Minimum Ethernet frame length without FCS.
const MIN_BYTES: usize = 60;

/// Addresses of packets from the packet data serving node to the packet control function. The IPv4
/// addresses are reserved for documentation (RFC 5737).
const ENDS: Ends = Ends {
    ethernet: [2, 0, 0, 0, 0, 0x0a, 2, 0, 0, 0, 0, 0x0b],
    ipv4: [192, 0, 2, 1, 192, 0, 2, 2],
};

/// Ethernet addresses of frames from the terminals' side to this side: destination, then source.
const ACCESS_ETHERNET: [u8; 12] = [2, 0, 0, 0, 0, 0x0a, 2, 0, 0, 0, 0, 0x0c];

/// Minimum distance of requested bytes from the end of the stream, which excludes bytes in an
/// unsent partial frame.
const UNSENT_MAX: u64 = MAX_FRAME_BYTES as u64;
/// Maximum bytes requested by a NAK list.
const ASKED_MAX: u64 = 256;
/// Upper limit on the additional random distance in bytes.
const REACH: u64 = 2_048;

/// Values of `direction` in the path file.
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
        "Direction of the packets: to the terminals in A10 packets, or from them in RLP frames.",
    ),
    param(
        "bytes",
        ParamKind::Integer { min: MIN_FRAME_BYTES as i64, max: MAX_BUFFER_BYTES as i64 },
        Default::Absent("one frame per captured packet"),
        "Length of every frame in bytes, without frame check sequence.",
    ),
    param(
        "sessions",
        ParamKind::Integer { min: 1, max: 1 << 16 },
        Default::Integer(64),
        "Number of sessions over which the packets are distributed.",
    ),
    param(
        "first_key",
        ParamKind::Integer { min: 0, max: u32::MAX as i64 },
        Default::Integer(1),
        "Key of the first session; the others have the keys that follow.",
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
        "Random seed for the positions of NAK lists.",
    ),
];

/// `kind = "a10"`: a capture carried by a radio access network's sessions.
pub const KIND: SourceKind = SourceKind {
    spec: SourceSpec {
        kind: "a10",
        help: "A capture, carried by the sessions of a radio access network.",
        params: PARAMS,
        check,
        frame_bytes: |params| Reader(params).integer_if_given("bytes").ok().flatten(),
    },
    traffic: |used, inner, steers| traffic(inner, &A10::new(used)?, steers),
};

/// Checks combinations of individually valid parameters.
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
                "{sessions} sessions starting at key {first_key} do not fit: the largest key is {}",
                u32::MAX
            ),
            help: format!("lower first_key to {} or less", u32::MAX - (sessions - 1)),
        });
    }
    if a10.naks > 0.0 && a10.direction == Direction::Reverse {
        misfits.push(Misfit {
            param: "naks",
            message: "NAK lists from terminals require a source in the forward direction".into(),
            help: "remove 'naks'".into(),
        });
    }
    misfits
}

/// Direction of a session's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// To the terminal; the packets arrive encapsulated for A10 (GRE).
    Forward,
    /// From the terminal; the packets arrive in RLP frames.
    Reverse,
}

/// How captured packets are encapsulated in sessions.
#[derive(Clone, Debug, PartialEq)]
struct A10 {
    direction: Direction,
    /// Frame length without FCS; `None` for one frame per captured packet.
    bytes: Option<u32>,
    sessions: u32,
    /// Key of the first session; the others follow consecutively.
    first_key: u32,
    /// Fraction of frames that are NAK lists, 0 to 0.5.
    naks: f64,
    /// Random seed for NAK list positions.
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

/// Encapsulates the packets in `inner`. `steers` assign each session's frames to RSS buckets.
///
/// # Errors
/// Returns an error if no packet in the capture can be used.
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

/// Returns an Ethernet frame's PPP protocol number and IP packet, without Ethernet padding.
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

/// A session whose packets are being built from the capture.
struct Stream {
    key: u32,
    /// Bytes not yet in a frame.
    pending: Vec<u8>,
    /// A10 packets per pass.
    packets: u32,
    /// Stream bytes per pass.
    bytes: u64,
}

/// What a sequence number counts when the capture is repeated.
#[derive(Clone, Copy)]
enum Unit {
    Packets,
    Bytes,
}

/// A frame whose sequence numbers still lack their increment per pass, which is known only at the
/// end of the capture.
struct Draft {
    end: usize,
    time_ns: u64,
    session: usize,
    /// Each sequence number's offset, first value and unit.
    running: Vec<(usize, u32, Unit)>,
}

/// All frames, and the state for building them.
struct Drafts<'a> {
    a10: &'a A10,
    streams: Vec<Stream>,
    bytes: Vec<u8>,
    drafts: Vec<Draft>,
    random: u64,
    /// NAK lists still to be inserted for the frames so far.
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

    /// Returns the stream bytes in a frame of `bytes` bytes.
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

    /// Appends a packet to a session, and builds the frames that it completes.
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

    /// Sends every session's remaining bytes, padded with flags.
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

    /// Adds a frame with these bytes from a session, followed by a NAK list if one is due.
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
        assert!(fits, "a buffer is shorter than the maximum IPv4 packet");
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

    /// Adds a NAK list for a random session. Returns `false` if that session has not sent enough
    /// bytes yet.
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

    /// Passes all frames to the builder. This happens last, because a sequence number's increment
    /// per pass is known only once all frames have been drafted.
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

/// A frame and its sequence numbers.
struct Written {
    bytes: Vec<u8>,
    running: Vec<(usize, u32, Unit)>,
}
