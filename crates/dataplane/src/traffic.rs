// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets of a run, from a capture or a generator. All are in memory before the run.
//!
//! The caller opens the capture file. The source, not this module, paces the packets.

mod intake;

use self::intake::Intake;
use crate::bucket::{address_bucket, address_hash, flow_bucket, may_be_fragment};
use crate::capture::CaptureError;
use crate::generator::{Generator, GeneratorError};
use crate::pool::MAX_BUFFER_BYTES;
use crate::stage::{BUCKETS, BuildError, Steer};
use linerate_machine::free_memory::Limit;
use linerate_path::model::{CaptureRules, FRAME_BYTES_MIN, SourceUse};
use linerate_path::spec::SourceSpec;
use linerate_record::input::{self, InputReport};
use linerate_record::run::Tally;
use linerate_record::units::memory_size;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

/// Time between generated frames, in nanoseconds.
const GENERATED_GAP_NS: u64 = 1000;

/// A frame's metadata, and where its bytes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Time of capture, nanoseconds since 1970-01-01 UTC. Never decreases from frame to frame.
    pub time_ns: u64,
    /// Offset in the byte array that holds all frames.
    offset: usize,
    /// Frame length in bytes; never 0.
    pub bytes: u16,
    /// RSS bucket, below [`BUCKETS`].
    pub bucket: u8,
    /// Number of the frame's fields that vary from pass to pass.
    running: u8,
    /// Index of this frame's first varying field in the array of all frames' varying fields.
    first_running: u32,
}

/// A field of a frame, such as a sequence number, that increases from pass to pass over the
/// traffic. In pass `p`, from 0, its value is `first + p * step`, truncated to its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Offset of the field in the frame.
    pub at: u16,
    /// Width in bytes, 1 to 4, big-endian.
    pub bytes: u8,
    /// Value in the first pass.
    pub first: u32,
    /// Increment from one pass to the next.
    pub step: u32,
}

impl Running {
    /// Writes the value for `pass` into the frame.
    #[inline]
    pub(crate) fn write(self, frame: &mut [u8], pass: u64) {
        // The low 32 bits of the product depend only on the low 32 bits of `pass`.
        let value = self.first.wrapping_add(self.step.wrapping_mul(pass as u32));
        let (at, bytes) = (usize::from(self.at), usize::from(self.bytes));
        frame[at..at + bytes].copy_from_slice(&value.to_be_bytes()[4 - bytes..]);
    }
}

/// The frames to offer, in order, and the skipped ones by cause. Empty (the default) only if the
/// path's packets come from interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    running: Vec<Running>,
    input: InputReport,
    /// Hashes of pairs of addresses that exchange fragments; empty once all frames have been added.
    fragmented: BTreeSet<u64>,
}

/// Builds traffic frame by frame, for sources in other crates.
pub struct TrafficBuilder<'s> {
    traffic: Traffic,
    steers: &'s [Arc<dyn Steer>],
}

impl<'s> TrafficBuilder<'s> {
    /// Creates a builder without frames. For `steers`, see [`Traffic::from_capture`].
    pub fn new(steers: &'s [Arc<dyn Steer>]) -> Self {
        Self { traffic: Traffic::default(), steers }
    }

    /// Appends a frame whose varying fields are `running`.
    ///
    /// # Panics
    /// Panics if the frame is empty or longer than [`MAX_BUFFER_BYTES`], if a varying field is
    /// outside the frame or not 1 to 4 bytes wide, if there are more than 255 varying fields, or if
    /// a stage steers to a nonexistent bucket.
    pub fn push(&mut self, frame: &[u8], time_ns: u64, running: &[Running]) {
        let bytes = frame.len();
        assert!((1..=MAX_BUFFER_BYTES).contains(&bytes), "invalid frame length: {bytes} bytes");
        for number in running {
            let end = usize::from(number.at) + usize::from(number.bytes);
            assert!(
                (1..=4).contains(&number.bytes) && end <= bytes,
                "invalid field of a {bytes}-byte frame: {number:?}"
            );
        }
        self.traffic.push_running(frame, time_ns, self.steers, running);
    }

    /// Counts packets that were skipped for the reason `cause`.
    pub fn reject(&mut self, cause: &str, packets: Tally) {
        self.traffic.reject(cause, packets);
    }

    /// Adds the counts of packets that were skipped or repaired in `inner`, the capture from which
    /// the source derives its packets.
    pub fn made_of(&mut self, inner: &Traffic) {
        let InputReport { left_out, .. } = &inner.input;
        left_out.iter().for_each(|(cause, tally)| self.reject(cause, *tally));
        let input = &mut self.traffic.input;
        let left_out = std::mem::take(&mut input.left_out);
        *input = InputReport { offered: input.offered, left_out, ..inner.input.clone() };
    }

    /// Returns the finished traffic.
    ///
    /// # Errors
    /// Returns [`TrafficError::AllRejected`] if there are no frames.
    pub fn finish(mut self) -> Result<Traffic, TrafficError> {
        self.traffic.keep_fragments_with_their_flows(self.steers);
        match self.traffic.frames.is_empty() {
            true => Err(TrafficError::AllRejected(self.traffic.input.left_out)),
            false => Ok(self.traffic),
        }
    }
}

/// A source kind, which derives its packets from a capture.
#[derive(Clone, Copy)]
pub struct SourceKind {
    /// Specification of the kind, for the path checker.
    pub spec: SourceSpec,
    /// Derives the traffic that the source offers from the packets of a capture. The last argument
    /// is the steering of the path's stages, as in [`Traffic::from_capture`].
    pub traffic: MakeTraffic,
}

/// A function that derives a source's traffic from the packets of a capture.
pub type MakeTraffic = fn(&SourceUse, &Traffic, &[Arc<dyn Steer>]) -> Result<Traffic, TrafficError>;

/// Error returned when a run's traffic cannot be prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrafficError {
    /// The capture cannot be read.
    Capture(CaptureError),
    /// The generator's parameters are invalid.
    Generator(GeneratorError),
    /// The source's parameters are invalid.
    Source(BuildError),
    /// The capture has packets, but none can be replayed. Holds their number by cause.
    AllRejected(BTreeMap<String, Tally>),
    /// `skip` and `first`, or `sample`, exclude every packet of the capture. Holds the number of
    /// its packets.
    NoneSelected(u64),
    /// There is not enough memory for the packets.
    NoRoom {
        /// Packets and bytes loaded before memory ran out.
        taken: Tally,
        /// How much memory was available for packets, and what limited it.
        limit: Limit,
    },
    /// Most of the capture's bytes would be skipped, but `allow_left_out` is not set.
    MostRejected(Box<InputReport>),
}

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capture(error) => error.fmt(f),
            Self::Generator(error) => error.fmt(f),
            Self::Source(error) => error.fmt(f),
            Self::AllRejected(causes) => {
                f.write_str("none of the capture's packets can be replayed:")?;
                write_causes(f, causes)
            }
            Self::NoneSelected(packets) => write!(
                f,
                "`skip`, `first` and `sample` in [source] select none of the {packets} packets"
            ),
            Self::NoRoom { taken, limit } => write!(
                f,
                "the capture does not fit in memory: after {} packets ({}), only {} more can be \
                 allocated ({}); `first = {}` or `sample = 10` in [source] replays only part of it",
                taken.packets,
                memory_size(taken.bytes as f64),
                memory_size(limit.bytes as f64),
                limit.reason,
                (taken.packets / 2).max(1)
            ),
            Self::MostRejected(input) => {
                let share = 100.0 * input.left_out_share();
                write!(f, "{share:.1} % of the capture's bytes would be skipped:")?;
                write_causes(f, &input.left_out)?;
                if let Some(unread) = input.unread {
                    let bytes = memory_size(unread.bytes as f64);
                    write!(f, " ({bytes} cannot be read, starting at byte {})", unread.offset)?;
                }
                f.write_str("; `allow_left_out = true` in [source] replays the rest")
            }
        }
    }
}

/// Writes each cause with its packet count, byte count and remedy.
fn write_causes(f: &mut fmt::Formatter<'_>, causes: &BTreeMap<String, Tally>) -> fmt::Result {
    for (i, (cause, tally)) in causes.iter().enumerate() {
        let (comma, bytes) = (if i == 0 { "" } else { "," }, memory_size(tally.bytes as f64));
        write!(f, "{comma} {} {cause} ({bytes})", tally.packets)?;
    }
    causes.keys().try_for_each(|cause| write!(f, "; {}", input::remedy(cause)))
}

impl From<BuildError> for TrafficError {
    fn from(error: BuildError) -> Self {
        Self::Source(error)
    }
}

impl std::error::Error for TrafficError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Capture(error) => Some(error),
            Self::Generator(error) => Some(error),
            Self::Source(error) => Some(error),
            Self::AllRejected(_)
            | Self::NoneSelected(_)
            | Self::NoRoom { .. }
            | Self::MostRejected(_) => None,
        }
    }
}

impl Traffic {
    /// Loads the packets of a capture that can be replayed. `buffer_bytes` is the largest frame
    /// that fits a buffer, and `rules` say how to treat coalesced and truncated frames. A frame's
    /// bucket is the first one that any of `steers` returns. If none does, it is the frame's
    /// [`flow_bucket`] or, between addresses that exchange fragments, its [`address_bucket`], so
    /// that fragments stay in order with the other packets of their flow.
    ///
    /// The following are skipped and counted in [`Traffic::input`], by the causes in
    /// [`linerate_record::input::cause`]: frames that are empty or do not fit a buffer; truncated
    /// frames, which would have a wrong length and checksum, if `rules` do not pad them or they are
    /// truncated within the headers; packets with an unsupported link type; and unreadable parts of
    /// the file. All other frames are offered, however unusual (ARP, inconsistent headers), since
    /// rejecting them is the path's job.
    ///
    /// # Errors
    /// Returns an error if no packets are left, or if less than half of the bytes are left and
    /// `rules` do not allow this.
    ///
    /// # Panics
    /// Panics if a stage steers to a nonexistent bucket.
    pub fn from_capture(
        file: &[u8],
        buffer_bytes: u32,
        rules: CaptureRules,
        steers: &[Arc<dyn Steer>],
    ) -> Result<Self, TrafficError> {
        Self::from_input(|| Ok(file), buffer_bytes, rules, steers)
    }

    /// Like [`Traffic::from_capture`], but for a file that can be reopened. It is read twice, the
    /// first time to find the MTU. Only the packets to replay and the packet being read are in
    /// memory.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Traffic::from_capture`], if the file cannot be read,
    /// or if there is not enough memory for its packets.
    ///
    /// # Panics
    /// Panics as [`Traffic::from_capture`] does.
    pub fn from_input<R: Read>(
        open: impl Fn() -> io::Result<R>,
        buffer_bytes: u32,
        rules: CaptureRules,
        steers: &[Arc<dyn Steer>],
    ) -> Result<Self, TrafficError> {
        let open = || {
            let unreadable = |error: io::Error| CaptureError::Unreadable(error.to_string());
            open().map_err(unreadable).map_err(TrafficError::Capture)
        };
        let mtus = intake::mtus(open()?, rules).map_err(TrafficError::Capture)?;
        Intake::new(buffer_bytes, rules, mtus, steers).read(open()?)
    }

    /// Generates frames with timestamps 1 µs apart, from 0. For `buffer_bytes` and `steers`, see
    /// [`Traffic::from_capture`].
    pub fn generate(
        generator: Generator<'_>,
        buffer_bytes: u32,
        steers: &[Arc<dyn Steer>],
    ) -> Result<Self, TrafficError> {
        let mut traffic = Self::default();
        let mut time_ns = 0;
        let keep = |frame: &[u8]| {
            traffic.push(frame, time_ns, steers);
            time_ns += GENERATED_GAP_NS;
        };
        generator.generate(buffer_bytes, keep).map_err(TrafficError::Generator)?;
        traffic.keep_fragments_with_their_flows(steers);
        Ok(traffic)
    }

    fn push(&mut self, bytes: &[u8], time_ns: u64, steers: &[Arc<dyn Steer>]) {
        self.push_running(bytes, time_ns, steers, &[]);
    }

    fn push_running(
        &mut self,
        bytes: &[u8],
        time_ns: u64,
        steers: &[Arc<dyn Steer>],
        running: &[Running],
    ) {
        let steered = steers.iter().find_map(|steer| steer.bucket(bytes));
        if steered.is_none() && may_be_fragment(bytes) {
            self.fragmented.insert(address_hash(bytes));
        }
        let bucket = steered.unwrap_or_else(|| flow_bucket(bytes));
        assert!(usize::from(bucket) < BUCKETS, "no such RSS bucket: {bucket}");
        let earliest_ns = self.frames.last().map_or(0, |frame| frame.time_ns);
        self.frames.push(Frame {
            time_ns: time_ns.max(earliest_ns),
            offset: self.bytes.len(),
            bytes: bytes.len() as u16,
            bucket,
            running: u8::try_from(running.len()).expect("a frame has at most 255 varying fields"),
            first_running: u32::try_from(self.running.len())
                .expect("fewer than 2^32 varying fields"),
        });
        self.bytes.extend_from_slice(bytes);
        self.running.extend_from_slice(running);
        self.input.offered.add(1, bytes.len() as u64);
    }

    /// Assigns all packets between addresses that exchange fragments to their [`address_bucket`].
    /// Only first fragments have ports, so a hash of ports would separate the other fragments from
    /// their flow.
    fn keep_fragments_with_their_flows(&mut self, steers: &[Arc<dyn Steer>]) {
        let fragmented = std::mem::take(&mut self.fragmented);
        if fragmented.is_empty() {
            return;
        }
        for index in 0..self.frames.len() {
            let bytes = self.frame(index);
            let is_steered = steers.iter().any(|steer| steer.bucket(bytes).is_some());
            if !is_steered && fragmented.contains(&address_hash(bytes)) {
                self.frames[index].bucket = address_bucket(bytes);
            }
        }
    }

    fn reject(&mut self, cause: &str, packets: Tally) {
        if packets.packets > 0 {
            let tally = self.input.left_out.entry(cause.to_owned()).or_default();
            *tally = *tally + packets;
        }
    }

    /// Returns the number of frames; 0 only if packets come from interfaces.
    #[expect(clippy::len_without_is_empty, reason = "replayed traffic is never empty")]
    #[inline]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns the frames, in the order in which they are offered.
    #[inline]
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Returns the bytes of frame `i`, which must be below [`Traffic::len`].
    #[inline]
    pub fn frame(&self, i: usize) -> &[u8] {
        let frame = &self.frames[i];
        &self.bytes[frame.offset..frame.offset + usize::from(frame.bytes)]
    }

    /// Returns the varying fields of `frame`.
    #[inline]
    pub(crate) fn running(&self, frame: Frame) -> &[Running] {
        let first = frame.first_running as usize;
        &self.running[first..first + usize::from(frame.running)]
    }

    /// Returns the total size of all frames, in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the mean frame size in bytes, without FCS.
    pub fn mean_bytes(&self) -> f64 {
        self.bytes.len() as f64 / self.frames.len() as f64
    }

    /// Returns the mean size in bytes that frames have when they are sent on an Ethernet link,
    /// without FCS: like [`Self::mean_bytes`], but with short frames padded.
    pub fn mean_sent_bytes(&self) -> f64 {
        let sent = self.frames.iter().map(|frame| u64::from(frame.bytes.max(FRAME_BYTES_MIN)));
        sent.sum::<u64>() as f64 / self.frames.len() as f64
    }

    /// Returns the time from the first to the last frame, in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        match self.frames.as_slice() {
            [first, .., last] => last.time_ns - first.time_ns,
            _ => 0,
        }
    }

    /// Returns how many packets of the input were offered, repaired and skipped.
    pub fn input(&self) -> &InputReport {
        &self.input
    }

    /// Returns the number of packets in each bucket.
    pub fn bucket_weights(&self) -> [u64; BUCKETS] {
        let mut weights = [0; BUCKETS];
        for frame in &self.frames {
            weights[usize::from(frame.bucket)] += 1;
        }
        weights
    }
}

#[cfg(test)]
mod tests;
