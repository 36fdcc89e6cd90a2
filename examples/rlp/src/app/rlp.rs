// SPDX-License-Identifier: MIT OR Apache-2.0
//! `RLP`: the Radio Link Protocol for all of this worker's sessions.
//!
//! Forward: an A10 packet's bytes are appended to its session's stream, and the packet buffer is
//! reused for the frames they fill. Bytes that do not fill a frame wait or, with `flush`, are sent
//! in a short frame. A NAK list is answered by a packet with the bytes it requests.
//!
//! Reverse: a terminal's frames are added to its stream. The packet then becomes an A10 packet with
//! the next in-order bytes if there are any, or else the NAK list that is due; otherwise it is
//! consumed. NAK round timers count packets from the source, so that no clock is needed and every
//! mapping behaves the same.
//!
//! The neighbouring stages handle Ethernet, IPv4, and access-side addresses.

use super::{BySession, Place, bucket_of, mark_a10, mark_access, place};
use crate::envelope::{self, HEADER_BYTES};
use crate::frame::{
    self, Access, FRAME_HEADER_BYTES, Fault, Frame, MAX_NAK_BYTES, PACKET_HEADER_BYTES, Ranges,
    Writer,
};
use crate::receiver::{self, MAX_ROUNDS, Receiver, Rounds, Taken};
use crate::sender::{Limits, Sender};
use crate::sessions::{Refusal, Sessions};
use crate::window::{Stale, Window};
use linerate_stage_api::params::Params;
use linerate_stage_api::params::{Reader, fail};
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{
    BUCKETS, BuildContext, BuildError, Burst, Packet, Stage, StageContext, StageKind, Verdict,
};
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

linerate_stage_api::causes! {
    /// The packet was checked by neither `PDSN_RX` nor `ATIF_RX`.
    Unchecked = "unchecked",
    /// The key is outside the configured range, or a NAK list is for a session that is not open.
    UnknownKey = "unknown_key",
    /// Session limit reached.
    SessionsFull = "sessions_full",
    /// The A10 packet's sequence number, or every byte in the frames, was received before.
    Duplicate = "duplicate",
    /// A packet with a higher sequence number arrived before, or the bytes were abandoned.
    Late = "late",
    /// The sequence number is far from those before it.
    Jump = "jump",
    /// The stream has no room for the bytes, or too many holes.
    StreamFull = "stream_full",
    /// Inconsistent access-side packet.
    BadAccess = "bad_access",
    /// The NAK list is empty, too long or out of order.
    BadNak = "bad_nak",
    /// NAK list for bytes that were never sent.
    NakUnsent = "nak_unsent",
    /// NAK list for bytes no longer in the retransmission ring.
    NakGone = "nak_gone",
    /// NAK list for more bytes than the retransmission queue may hold.
    NakTooMuch = "nak_too_much",
    /// The packet has no frames.
    Nothing = "nothing",
}

impl From<Stale> for Cause {
    fn from(stale: Stale) -> Self {
        match stale {
            Stale::Duplicate => Self::Duplicate,
            Stale::Late => Self::Late,
            Stale::Jump => Self::Jump,
        }
    }
}

impl From<receiver::Refusal> for Cause {
    fn from(refusal: receiver::Refusal) -> Self {
        match refusal {
            receiver::Refusal::Duplicate => Self::Duplicate,
            receiver::Refusal::Late => Self::Late,
            receiver::Refusal::Window | receiver::Refusal::Holes => Self::StreamFull,
            receiver::Refusal::Jump => Self::Jump,
        }
    }
}

impl From<Refusal> for Cause {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full | Refusal::Taken => Self::SessionsFull,
        }
    }
}

impl From<Fault> for Cause {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::BadNak => Self::BadNak,
            _ => Self::BadAccess,
        }
    }
}

const fn integer(
    name: &'static str,
    range: [i64; 2],
    default: i64,
    help: &'static str,
) -> ParamSpec {
    let kind = ParamKind::Integer { min: range[0], max: range[1] };
    ParamSpec { name, kind, default: Default::Integer(default), help }
}

const PARAMS: &[ParamSpec] = &[
    integer("first_key", [0, u32::MAX as i64], 1, "Lowest key that may have a session."),
    integer(
        "keys",
        [1, 1 << 32],
        1 << 16,
        "Number of consecutive keys, from first_key on, that may have a session.",
    ),
    integer(
        "sessions_per_bucket",
        [1, 1 << 7],
        1,
        "Maximum number of sessions in each of the 128 RSS buckets; consecutive keys are \
         spread evenly.",
    ),
    integer("frame_bytes", [1, 1024], 128, "Stream bytes per frame."),
    integer(
        "ring_bytes",
        [128, 1 << 20],
        16_384,
        "Retransmission buffer of a session in bytes: a power of two, at least two frames.",
    ),
    ParamSpec {
        name: "flush",
        kind: ParamKind::Bool,
        default: Default::Bool(false),
        help: "Send a partial frame immediately instead of waiting for the next packet.",
    },
    ParamSpec {
        name: "nak_rounds",
        kind: ParamKind::Text,
        default: Default::Text("1,2,3"),
        help: "Number of NAK lists sent in each round of requests to a terminal, or \"unlimited\".",
    },
    integer("round_packets", [1, 1 << 30], 1 << 12, "Interval between rounds, in source packets."),
    integer(
        "bearer_bytes",
        [1, 65_000],
        1_468,
        "Maximum stream bytes in an A10 packet; 1468 give a 1500-byte IPv4 packet.",
    ),
];

/// NAK rounds as written in a path file.
struct NakRounds(Rounds);

impl FromStr for NakRounds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unlimited" {
            return Ok(Self(Rounds::UNLIMITED));
        }
        let copies: Option<Vec<u8>> = match text {
            "" => Some(Vec::new()),
            _ => text.split(',').map(|copies| copies.trim().parse().ok()).collect(),
        };
        copies.and_then(|copies| Rounds::new(&copies)).map(Self).ok_or_else(|| {
            format!(
                "invalid rounds \"{text}\"; expected up to {MAX_ROUNDS} numbers from 1 to 255, \
                 e.g. \"1,2,3\", or \"unlimited\""
            )
        })
    }
}

pub(super) const KIND: StageKind = StageKind {
    spec: StageSpec {
        kind: "RLP",
        help: "Cut the byte stream of each session into frames, and retransmit on request.",
        params: PARAMS,
        needs_headers: false,
        state: State::PerFlow,
        keeps_order: true,
        drop_causes: CAUSES,
    },
    build,
    steer: |_| Ok(Some(Arc::new(BySession))),
};

fn build(params: &Params, _: &BuildContext) -> Result<Box<dyn Stage>, BuildError> {
    let params = Reader(params);
    let (first, keys): (u64, u64) = (params.integer("first_key")?, params.integer("keys")?);
    let share: u32 = params.integer("sessions_per_bucket")?;
    let sessions = share as usize * BUCKETS;
    let limits = Limits {
        frame_bytes: params.integer("frame_bytes")?,
        ring_bytes: params.integer("ring_bytes")?,
    };
    if let Some(fault) = limits.fault() {
        return Err(fail("ring_bytes", fault));
    }
    let NakRounds(rounds) = params.parsed("nak_rounds")?;
    let receives = receiver::Limits {
        ring_bytes: limits.ring_bytes,
        rounds,
        timer_ticks: params.integer("round_packets")?,
    };
    Ok(Box::new(Rlp {
        sessions: Sessions::new(sessions),
        opener: Opener {
            keys: first..first + keys,
            share,
            opened: [0; BUCKETS],
            spare: (0..sessions).map(|_| Session::new(limits, receives)).collect(),
        },
        flush: params.bool("flush")?,
        bearer_bytes: params.integer("bearer_bytes")?,
    }))
}

/// One session's state, in both directions.
struct Session {
    /// Duplicate detection for received A10 packets.
    window: Window,
    /// Stream to the terminal.
    sender: Sender,
    /// Stream from the terminal.
    receiver: Receiver,
    /// Sequence number of the next A10 packet to be sent.
    sequence: u32,
}

impl Session {
    fn new(sends: Limits, receives: receiver::Limits) -> Self {
        Self {
            window: Window::default(),
            sender: Sender::new(sends),
            receiver: Receiver::new(receives),
            sequence: 0,
        }
    }
}

/// Opens sessions. Their states are preallocated, so that no packet waits for an allocation.
///
/// The limit applies to each RSS bucket separately, so that every mapping opens the same sessions.
struct Opener {
    /// Keys for which a session may be opened.
    keys: Range<u64>,
    /// Maximum sessions per RSS bucket.
    share: u32,
    opened: [u32; BUCKETS],
    spare: Vec<Session>,
}

impl Opener {
    #[cold]
    fn open(&mut self, key: u32) -> Result<Session, Cause> {
        if !self.keys.contains(&u64::from(key)) {
            return Err(Cause::UnknownKey);
        }
        let opened = &mut self.opened[usize::from(bucket_of(key))];
        if *opened == self.share {
            return Err(Cause::SessionsFull);
        }
        let session = self.spare.pop().ok_or(Cause::SessionsFull)?;
        *opened += 1;
        Ok(session)
    }
}

struct Rlp {
    sessions: Sessions<Session>,
    opener: Opener,
    flush: bool,
    /// Maximum stream bytes per A10 packet.
    bearer_bytes: usize,
}

impl Stage for Rlp {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, context| {
            let verdict = match place(packet) {
                Place::A10 { gre, end } => self.forward(packet, gre.into()..end.into(), context),
                Place::Wire | Place::Access => self.access(packet, context),
                Place::Other => Err(Cause::Unchecked),
            };
            verdict.unwrap_or_else(|cause| Verdict::Drop(cause as u8))
        });
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let states = self.sessions.states();
        let sum = |count: fn(&Session) -> u64| states.iter().map(count).sum();
        vec![
            ("sessions", states.len() as u64),
            ("frames", sum(|session| session.sender.counts().frames)),
            ("frames_again", sum(|session| session.sender.counts().frames_again)),
            ("bytes_again", sum(|session| session.sender.counts().bytes_again)),
            ("ranges_unsent", sum(|session| session.sender.counts().nak_unsent)),
            ("ranges_gone", sum(|session| session.sender.counts().nak_gone)),
            ("ranges_too_many", sum(|session| session.sender.counts().nak_overflow)),
            ("holes", sum(|session| session.receiver.counts().holes)),
            ("nak_lists", sum(|session| session.receiver.counts().naks)),
            ("aborts", sum(|session| session.receiver.counts().aborts)),
            ("bytes_aborted", sum(|session| session.receiver.counts().aborted_bytes)),
        ]
    }
}

impl Rlp {
    /// Handles an A10 packet: appends its bytes to the stream.
    #[inline]
    fn forward(
        &mut self,
        packet: &mut Packet<'_>,
        gre: Range<usize>,
        context: &mut StageContext,
    ) -> Result<Verdict, Cause> {
        let bytes = packet.bytes();
        let envelope = envelope::parse_gre(bytes, gre).map_err(|_| Cause::Unchecked)?;
        let key = envelope.key;
        let session = self.sessions.find_or_open(key, || self.opener.open(key))?;
        session.window.admit(envelope.sequence)?;
        if !session.sender.append(&bytes[envelope.payload]) {
            return Err(Cause::StreamFull);
        }
        Ok(emit(&mut session.sender, key, self.flush, packet, context))
    }

    /// Handles an access-side packet. An inconsistent packet changes no state.
    fn access(
        &mut self,
        packet: &mut Packet<'_>,
        context: &mut StageContext,
    ) -> Result<Verdict, Cause> {
        let bytes = packet.bytes();
        if !frame::is_access(bytes) {
            return Err(Cause::Unchecked);
        }
        let access = frame::parse(bytes)?;
        let mut has_stream = false;
        for frame in access.frames() {
            has_stream |= !matches!(frame?, Frame::Nak(_));
        }
        let (key, now) = (access.session, packet.meta().position);
        let session = match has_stream {
            true => self.sessions.find_or_open(key, || self.opener.open(key))?,
            false => self.sessions.find(key).ok_or(Cause::UnknownKey)?,
        };
        let heard = session.hear(&access, now);
        let (ready, most) = (session.receiver.ready(), self.bearer_bytes);
        if ready > 0 && session.deliver(key, ready.min(most), packet, context) {
            return Ok(Verdict::Pass);
        }
        if session.receiver.wants_nak() && ask(&mut session.receiver, now, key, packet, context) {
            return Ok(Verdict::Pass);
        }
        if !session.sender.is_served() {
            return Ok(emit(&mut session.sender, key, self.flush, packet, context));
        }
        heard.map(|()| Verdict::Consume)
    }
}

impl Session {
    /// Processes all valid frames in a packet.
    ///
    /// # Errors
    /// Returns the last frame's reason if no frame had any effect.
    fn hear(&mut self, access: &Access<'_>, now: u64) -> Result<(), Cause> {
        let (mut news, mut refusal) = (false, Cause::Nothing);
        let mut note = |result: Result<(), Cause>| match result {
            Ok(()) => news = true,
            Err(cause) => refusal = cause,
        };
        self.receiver.tick(now);
        for frame in access.frames().flatten() {
            match frame {
                Frame::Data { sequence, bytes, .. } => {
                    note(self.receiver.receive(sequence, bytes).map_err(Cause::from));
                }
                Frame::Idle { sequence } => {
                    note(self.receiver.receive(sequence, &[]).map_err(Cause::from));
                }
                Frame::Nak(ranges) => note(self.serve(ranges)),
            }
        }
        // Abandoned bytes no longer block later ones.
        while self.receiver.ready() == 0
            && matches!(self.receiver.take(&mut []), Taken::Aborted { .. })
        {}
        if news { Ok(()) } else { Err(refusal) }
    }

    /// Queues the bytes requested by a NAK list.
    ///
    /// # Errors
    /// Returns the reason if none of them can be sent.
    fn serve(&mut self, ranges: Ranges<'_>) -> Result<(), Cause> {
        let before = *self.sender.counts();
        self.sender.serve(ranges.iter());
        let counts = self.sender.counts();
        if !self.sender.is_served() {
            Ok(())
        } else if counts.nak_overflow > before.nak_overflow {
            Err(Cause::NakTooMuch)
        } else if counts.nak_gone > before.nak_gone {
            Err(Cause::NakGone)
        } else {
            Err(Cause::NakUnsent)
        }
    }

    /// Turns the packet into an A10 packet with the next `bytes` stream bytes, or fewer if the
    /// buffer is smaller. `PDSN_TX` writes the headers before GRE. Returns `false` if there is no
    /// room for any byte.
    #[inline]
    fn deliver(
        &mut self,
        key: u32,
        bytes: usize,
        packet: &mut Packet<'_>,
        context: &mut StageContext,
    ) -> bool {
        let room = packet.capacity().min(HEADER_BYTES + bytes);
        let Some(frame) = packet.resize(room, &mut context.account) else { return false };
        let Some((header, stream)) = frame.split_at_mut_checked(HEADER_BYTES) else {
            return false;
        };
        let Taken::Bytes(taken) = self.receiver.take(stream) else { return false };
        if let Some(gre) = header.last_chunk_mut() {
            envelope::write_gre(gre, key, self.sequence);
        }
        self.sequence = self.sequence.wrapping_add(1);
        let end = HEADER_BYTES + taken;
        packet.truncate(end, &mut context.account);
        mark_a10(packet, HEADER_BYTES..end);
        true
    }
}

/// Turns the packet into the NAK list that is due. Returns `false` if the buffer is too short for a
/// list.
#[cold]
fn ask(
    receiver: &mut Receiver,
    now: u64,
    key: u32,
    packet: &mut Packet<'_>,
    context: &mut StageContext,
) -> bool {
    let longest = PACKET_HEADER_BYTES + FRAME_HEADER_BYTES + MAX_NAK_BYTES;
    let Some(room) = packet.resize(longest, &mut context.account) else { return false };
    let Some(mut writer) = Writer::new(room) else { return false };
    let is_written = receiver.next_nak(now).is_some_and(|list| writer.nak(&list));
    let bytes = writer.finish(&[0; 12], key);
    packet.truncate(bytes, &mut context.account);
    mark_access(packet);
    is_written
}

/// Turns the packet into one with the frames that are due, or consumes it if there are none.
#[inline]
fn emit(
    sender: &mut Sender,
    key: u32,
    flush: bool,
    packet: &mut Packet<'_>,
    context: &mut StageContext,
) -> Verdict {
    let wanted = PACKET_HEADER_BYTES + sender.wire_bytes(flush);
    let Some(room) = packet.resize(wanted.min(packet.capacity()), &mut context.account) else {
        return Verdict::Consume;
    };
    let Some(mut writer) = Writer::new(room) else { return Verdict::Consume };
    sender.emit(&mut writer, flush);
    if writer.frames() == 0 {
        return Verdict::Consume;
    }
    // `ATIF_TX` fills in the addresses.
    let bytes = writer.finish(&[0; 12], key);
    packet.truncate(bytes, &mut context.account);
    mark_access(packet);
    Verdict::Pass
}
