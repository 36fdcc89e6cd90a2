// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads the packets of a capture one by one: selects, checks and repairs them.

use super::{Traffic, TrafficError};
use crate::bucket::address_hash;
use crate::capture::mtu::Mtus;
use crate::capture::repair::{Joined, completed, padded};
use crate::capture::{self, CaptureError, CapturedPacket, Contents, Flow, Tail};
use crate::pool::MAX_BUFFER_BYTES;
use crate::stage::Steer;
use linerate_machine::{Root, free_memory};
use linerate_path::model::CaptureRules;
use linerate_record::input::{REFUSED_SHARE, cause};
use linerate_record::random::mix;
use linerate_record::run::{CutSegments, Tally};
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of packets to search for TCP segment sizes: enough to contain the set-up of many
/// connections, and few enough that a long file is not read twice in full.
const MTU_PACKETS: u64 = 1 << 20;

/// Minimum number of bytes by which the memory for packets grows at a time. Usually, it grows by a
/// quarter of its size.
const STEP_BYTES: usize = 256 << 10;

/// Selects packets of a capture by the rules `skip`, `first` and `sample`.
struct Selection {
    rules: CaptureRules,
    /// Number of packets seen so far.
    seen: u64,
    /// Number of packets that were not selected.
    passed_over: u64,
}

impl Selection {
    fn new(rules: CaptureRules) -> Self {
        Self { rules, seen: 0, passed_over: 0 }
    }

    /// Returns whether the next packet is selected, and whether more may follow.
    fn next(&mut self, packet: &CapturedPacket<'_>) -> (bool, Flow) {
        let CaptureRules { skip, first, sample, .. } = self.rules;
        let index = self.seen;
        self.seen += 1;
        let is_sampled =
            || sample <= 1 || mix(address_hash(packet.bytes)).is_multiple_of(sample.into());
        let is_wanted = index >= skip && is_sampled();
        self.passed_over += u64::from(!is_wanted);
        let is_last = self.seen.saturating_sub(skip) >= first;
        (is_wanted, if is_last { Flow::Break(()) } else { Flow::Continue(()) })
    }
}

/// Returns the MTU of the link and of each connection, derived from the packets that `skip` and
/// `first` select.
pub(super) fn mtus(from: impl Read, rules: CaptureRules) -> Result<Mtus, CaptureError> {
    let mut selection = Selection::new(CaptureRules { sample: 1, ..rules });
    let mut mtus = Mtus::default();
    capture::scan(from, |packet| {
        let (is_wanted, flow) = selection.next(packet);
        if is_wanted {
            mtus.see(packet.bytes);
        }
        if selection.seen < MTU_PACKETS { flow } else { Flow::Break(()) }
    })?;
    Ok(mtus)
}

/// Traffic that is being built from a capture, packet by packet.
pub(super) struct Intake<'s> {
    traffic: Traffic,
    selection: Selection,
    buffer_bytes: usize,
    mtus: Mtus,
    steers: &'s [Arc<dyn Steer>],
    /// Buffer for the segments of a frame that is split.
    scratch: Vec<u8>,
}

impl<'s> Intake<'s> {
    pub(super) fn new(
        buffer_bytes: u32,
        rules: CaptureRules,
        mtus: Mtus,
        steers: &'s [Arc<dyn Steer>],
    ) -> Self {
        Self {
            traffic: Traffic::default(),
            selection: Selection::new(rules),
            buffer_bytes: (buffer_bytes as usize).min(MAX_BUFFER_BYTES),
            mtus,
            steers,
            scratch: Vec::new(),
        }
    }

    /// Reads the capture and returns its traffic.
    pub(super) fn read(mut self, from: impl Read) -> Result<Traffic, TrafficError> {
        let mut refused = None;
        let contents = capture::scan(from, |packet| {
            let (is_wanted, flow) = self.selection.next(packet);
            if is_wanted && let Err(error) = self.take(packet) {
                refused = Some(error);
                return Flow::Break(());
            }
            flow
        });
        let contents = contents.map_err(TrafficError::Capture)?;
        refused.map_or(Ok(()), Err)?;
        self.count(&contents);
        self.traffic.keep_fragments_with_their_flows(self.steers);
        let Self { traffic, selection, .. } = self;
        let rules = selection.rules;
        if traffic.frames.is_empty() {
            return Err(match traffic.input.left_out.is_empty() {
                true => TrafficError::NoneSelected(selection.seen),
                false => TrafficError::AllRejected(traffic.input.left_out),
            });
        }
        if !rules.allow_left_out && traffic.input.left_out_share() > REFUSED_SHARE {
            return Err(TrafficError::MostRejected(Box::new(traffic.input)));
        }
        Ok(traffic)
    }

    /// Adds a packet, after repairing it as the rules say, or counts it as skipped, by cause.
    fn take(&mut self, packet: &CapturedPacket<'_>) -> Result<(), TrafficError> {
        let on_wire = packet.original_bytes.max(packet.bytes.len() as u32);
        let lost = Tally { packets: 1, bytes: on_wire.into() };
        let Some(frame) = self.whole(packet) else {
            self.traffic.reject(cause::CUT_SHORT, lost);
            return Ok(());
        };
        self.make_room(2 * frame.len())?;
        let mtu = self.mtus.of(&frame);
        let joined = Joined::detect(&frame, mtu);
        if let Some(joined) = joined.filter(|_| self.selection.rules.cut_segments) {
            self.cut(&joined, mtu, packet.time_ns);
            return Ok(());
        }
        let is_joined = joined.is_some();
        let frame = self.with_checksum(frame);
        match frame.len() {
            0 => self.traffic.reject(cause::ZERO_LENGTH, lost),
            bytes if bytes <= self.buffer_bytes => {
                self.traffic.push(&frame, packet.time_ns, self.steers);
            }
            _ if is_joined => self.traffic.reject(cause::JOINED_SEGMENTS, lost),
            _ => self.traffic.reject(cause::TOO_LONG, lost),
        }
        Ok(())
    }

    /// Makes room for `bytes` more bytes. Returns an error if there is not enough free memory.
    fn make_room(&mut self, bytes: usize) -> Result<(), TrafficError> {
        let held = &mut self.traffic.bytes;
        if held.capacity() - held.len() >= bytes {
            return Ok(());
        }
        let step = bytes.max(held.len() / 4).max(STEP_BYTES);
        let own = linerate_linux::memory_limits();
        let limit = free_memory::room(&Root::new(Path::new("/")), own);
        if let Some(limit) = limit.filter(|limit| limit.bytes < step as u64) {
            return Err(TrafficError::NoRoom { taken: self.traffic.input.offered, limit });
        }
        held.reserve_exact(step);
        Ok(())
    }

    /// Returns the frame at its length on the wire; `None` if it is truncated and cannot or must
    /// not be padded.
    fn whole<'p>(&mut self, packet: &CapturedPacket<'p>) -> Option<Cow<'p, [u8]>> {
        let on_wire = packet.original_bytes as usize;
        if packet.bytes.len() >= on_wire {
            return Some(Cow::Borrowed(packet.bytes));
        }
        let pads = self.selection.rules.pad;
        let frame = pads.then(|| padded(packet.bytes, on_wire)).flatten()?;
        self.traffic.input.padded_frames += 1;
        Some(Cow::Owned(frame))
    }

    /// Returns the frame. If the sender left the checksum to the NIC, fills it in.
    fn with_checksum<'p>(&mut self, frame: Cow<'p, [u8]>) -> Cow<'p, [u8]> {
        let Some(whole) = completed(&frame) else { return frame };
        self.traffic.input.completed_checksums += 1;
        Cow::Owned(whole)
    }

    fn cut(&mut self, joined: &Joined<'_>, mtu: usize, time_ns: u64) {
        let Self { traffic, steers, scratch, buffer_bytes, .. } = self;
        joined.cut(scratch, |segment| match segment.len() <= *buffer_bytes {
            true => traffic.push(segment, time_ns, steers),
            false => {
                let bytes = segment.len() as u64;
                traffic.reject(cause::TOO_LONG, Tally { packets: 1, bytes });
            }
        });
        let none = CutSegments { frames: 0, segments: 0, mtu: 0 };
        let cut = traffic.input.cut_segments.get_or_insert(none);
        cut.mtu = cut.mtu.max(mtu as u64);
        cut.frames += 1;
        cut.segments += joined.segments();
    }

    /// Adds the counts of a scan other than those of delivered packets: unsupported, damaged,
    /// unreadable and unselected packets.
    fn count(&mut self, contents: &Contents) {
        let traffic = &mut self.traffic;
        traffic.reject(cause::OTHER_LINK_TYPE, contents.other_link_types);
        traffic.reject(cause::DAMAGED_BLOCK, contents.damaged_blocks);
        traffic.input.unread = contents.unread;
        traffic.input.framed_packets = contents.framed;
        traffic.input.unselected_packets = self.selection.passed_over;
        let unread = contents.unread.map_or(0, |unread| unread.bytes);
        let tally = Tally { packets: 1, bytes: unread };
        match contents.tail {
            Tail::Whole => {}
            Tail::Truncated => traffic.reject(cause::TRUNCATED_TAIL, tally),
            Tail::Damaged => traffic.reject(cause::DAMAGED_TAIL, tally),
        }
    }
}
