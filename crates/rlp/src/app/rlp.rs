// SPDX-License-Identifier: MIT OR Apache-2.0
//! `RLP`: the Radio Link Protocol of all sessions that meet this strand.
//!
//! Forward: the octets of an A10 packet are appended to the stream of its session, and the packet
//! becomes one of the frames they fill; those that fill none wait, or go in a short frame with
//! `flush`. A NAK list becomes the packet of what it asks for.
//!
//! Leaves out: Ethernet and IPv4, and addresses on the access side: those are its neighbours'.

use super::{BySession, Place, bucket_of, mark_access, place};
use crate::envelope;
use crate::frame::{self, Fault, Frame, PACKET_HEADER_OCTETS, Writer};
use crate::sender::{Limits, Sender};
use crate::sessions::{Refusal, Sessions};
use crate::window::{Stale, Window};
use linerate_dataplane::params::{Reader, fail};
use linerate_dataplane::{
    BUCKETS, BuildContext, BuildError, Burst, Packet, Stage, StageKind, StageLedger, Verdict,
};
use linerate_path::model::Params;
use linerate_path::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use std::ops::Range;
use std::sync::Arc;

/// Why a packet is dropped here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Cause {
    /// Neither an A10 packet that `PDSN_RX` has checked nor one of the access side.
    Unchecked,
    /// A key that may have no session, or that has none where a terminal speaks first.
    UnknownKey,
    /// As many sessions are open as may be.
    SessionsFull,
    /// The number of the A10 packet was seen before.
    Duplicate,
    /// A higher number of the session came before.
    Late,
    /// The number is far from those before it.
    Jump,
    /// The stream has no room for the octets.
    StreamFull,
    /// A packet of the access side that contradicts itself.
    BadAccess,
    /// A NAK list that is empty, too long or out of order.
    BadNak,
    /// A NAK list for octets that were never sent.
    NakUnsent,
    /// A NAK list for octets that the ring has no more.
    NakGone,
    /// A NAK list for more octets than may wait to be sent again.
    NakTooMuch,
    /// Nothing in the packet asks for anything.
    Nothing,
}

const CAUSES: &[&str] = &[
    "unchecked",
    "unknown_key",
    "sessions_full",
    "duplicate",
    "late",
    "jump",
    "stream_full",
    "bad_access",
    "bad_nak",
    "nak_unsent",
    "nak_gone",
    "nak_too_much",
    "nothing",
];

impl From<Stale> for Cause {
    fn from(stale: Stale) -> Self {
        match stale {
            Stale::Duplicate => Self::Duplicate,
            Stale::Late => Self::Late,
            Stale::Jump => Self::Jump,
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
    integer("keys", [1, 1 << 32], 1 << 16, "How many keys from there on may have one."),
    integer(
        "sessions",
        [1, 1 << 14],
        128,
        "Sessions at most; keys are dealt out to 128 buckets that have an equal share of them.",
    ),
    integer("frame_octets", [1, 1024], 128, "Octets of the stream in a frame."),
    integer(
        "ring_octets",
        [128, 1 << 20],
        16_384,
        "Octets a session keeps to send again; a power of two, two frames at least.",
    ),
    ParamSpec {
        name: "flush",
        kind: ParamKind::Bool,
        default: Default::Bool(false),
        help: "Send what fills no frame in a short one, instead of waiting for the next packet.",
    },
];

pub(super) const KIND: StageKind = StageKind {
    spec: StageSpec {
        kind: "RLP",
        help: "Cut the octets of each session into frames, and send again what NAK lists ask for.",
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
    let sessions: usize = params.integer("sessions")?;
    let share = sessions.div_ceil(BUCKETS);
    let limits = Limits {
        frame_octets: params.integer("frame_octets")?,
        ring_octets: params.integer("ring_octets")?,
    };
    if let Some(fault) = limits.fault() {
        return Err(fail("ring_octets", fault));
    }
    let most = sessions.min(share * BUCKETS);
    Ok(Box::new(Rlp {
        sessions: Sessions::new(most),
        opener: Opener {
            keys: first..first + keys,
            share: share as u32,
            opened: [0; BUCKETS],
            spare: (0..most).map(|_| Session::new(limits)).collect(),
        },
        flush: params.bool("flush")?,
    }))
}

/// One session.
struct Session {
    window: Window,
    sender: Sender,
}

impl Session {
    fn new(limits: Limits) -> Self {
        Self { window: Window::default(), sender: Sender::new(limits) }
    }
}

/// What opens sessions: states made beforehand, so that none is allocated while packets wait.
///
/// A bucket's sessions do not depend on those of others, so that every mapping opens the same.
struct Opener {
    /// Keys that may have a session.
    keys: Range<u64>,
    /// Sessions a bucket may have.
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
}

impl Stage for Rlp {
    fn process(&mut self, burst: &mut Burst<'_>, ledger: &mut StageLedger) {
        burst.sift(ledger, |packet, ledger| {
            let verdict = match place(packet) {
                Place::A10 { gre, end } => self.forward(packet, gre.into()..end.into(), ledger),
                Place::Wire | Place::Access => self.access(packet, ledger),
                Place::Other => Err(Cause::Unchecked),
            };
            verdict.unwrap_or_else(|cause| Verdict::Drop(cause as u8))
        });
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let states = self.sessions.states();
        let sum = |count: fn(&crate::sender::Counts) -> u64| {
            states.iter().map(|session| count(session.sender.counts())).sum()
        };
        vec![
            ("sessions", states.len() as u64),
            ("frames", sum(|counts| counts.frames)),
            ("frames_again", sum(|counts| counts.frames_again)),
            ("octets_again", sum(|counts| counts.octets_again)),
            ("ranges_unsent", sum(|counts| counts.nak_unsent)),
            ("ranges_gone", sum(|counts| counts.nak_gone)),
            ("ranges_too_many", sum(|counts| counts.nak_overflow)),
        ]
    }
}

impl Rlp {
    /// An A10 packet: its octets join the stream.
    #[inline]
    fn forward(
        &mut self,
        packet: &mut Packet<'_>,
        gre: Range<usize>,
        ledger: &mut StageLedger,
    ) -> Result<Verdict, Cause> {
        let octets = packet.bytes();
        let envelope = envelope::parse_gre(octets, gre).map_err(|_| Cause::Unchecked)?;
        let key = envelope.key;
        let session = self.sessions.find_or_open(key, || self.opener.open(key))?;
        session.window.admit(envelope.sequence)?;
        if !session.sender.append(&octets[envelope.payload]) {
            return Err(Cause::StreamFull);
        }
        Ok(emit(&mut session.sender, key, self.flush, packet, ledger))
    }

    /// A packet of the access side. One that contradicts itself changes nothing.
    fn access(
        &mut self,
        packet: &mut Packet<'_>,
        ledger: &mut StageLedger,
    ) -> Result<Verdict, Cause> {
        let octets = packet.bytes();
        if !frame::is_access(octets) {
            return Err(Cause::Unchecked);
        }
        let access = frame::parse(octets)?;
        access.frames().try_for_each(|frame| frame.map(drop))?;
        let key = access.session;
        let sender = &mut self.sessions.find(key).ok_or(Cause::UnknownKey)?.sender;
        let before = *sender.counts();
        for frame in access.frames().flatten() {
            if let Frame::Nak(ranges) = frame {
                sender.serve(ranges.iter());
            }
        }
        if !sender.is_served() {
            return Ok(emit(sender, key, self.flush, packet, ledger));
        }
        let counts = sender.counts();
        Err(if counts.nak_overflow > before.nak_overflow {
            Cause::NakTooMuch
        } else if counts.nak_gone > before.nak_gone {
            Cause::NakGone
        } else if counts.nak_unsent > before.nak_unsent {
            Cause::NakUnsent
        } else {
            Cause::Nothing
        })
    }
}

/// Makes the packet one of the frames that are to be sent; without any it ends here.
#[inline]
fn emit(
    sender: &mut Sender,
    key: u32,
    flush: bool,
    packet: &mut Packet<'_>,
    ledger: &mut StageLedger,
) -> Verdict {
    let wanted = PACKET_HEADER_OCTETS + sender.wire_octets(flush);
    let Some(room) = packet.resize(wanted.min(packet.capacity()), ledger) else {
        return Verdict::Consume;
    };
    let Some(mut writer) = Writer::new(room) else { return Verdict::Consume };
    sender.emit(&mut writer, flush);
    if writer.frames() == 0 {
        return Verdict::Consume;
    }
    // ATIF_TX fills in the addresses.
    let octets = writer.finish(&[0; 12], key);
    packet.truncate(octets, ledger);
    mark_access(packet);
    Verdict::Pass
}
