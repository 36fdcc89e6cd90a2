// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets of a run, all in memory before it starts: replayed from a capture or generated.
//!
//! Left out: files (whoever calls has read them) and time (whoever replays paces).

use crate::bucket::address_bucket;
use crate::capture::{self, Capture, CaptureError, CapturedPacket, Tail};
use crate::generator::{Generator, GeneratorError};
use crate::pool::MAX_BUFFER_OCTETS;
use crate::stage::{BUCKETS, Steer};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Generated frames are this far apart, in nanoseconds.
const GENERATED_GAP_NS: u64 = 1000;

/// Where one frame is and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Time of capture, nanoseconds since 1970-01-01 UTC; never before that of the frame before.
    pub time_ns: u64,
    /// Offset from the start of all octets.
    offset: usize,
    /// Length; never 0.
    pub octets: u16,
    /// Which bucket it is sorted into, below [`BUCKETS`].
    pub bucket: u8,
    /// How many of its numbers run on from pass to pass.
    running: u8,
    /// Where they start among those of all frames.
    first_running: u32,
}

/// A number in a frame that runs on when the traffic is offered again, such as a sequence number:
/// pass `p`, counted from 0, has `first + p * step`, modulo what its octets hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Offset of its first octet in the frame.
    pub at: u16,
    /// How many octets it has, 1 to 4, the highest first.
    pub octets: u8,
    /// Its value the first time.
    pub first: u32,
    /// What each pass adds.
    pub step: u32,
}

impl Running {
    /// Writes the value of a pass into the frame.
    #[inline]
    pub(crate) fn write(self, frame: &mut [u8], pass: u64) {
        // Of the product only the low 32 bits matter, and they depend on the low bits of `pass`.
        let value = self.first.wrapping_add(self.step.wrapping_mul(pass as u32));
        let (at, octets) = (usize::from(self.at), usize::from(self.octets));
        frame[at..at + octets].copy_from_slice(&value.to_be_bytes()[4 - octets..]);
    }
}

/// Frames in the order they are offered, and why others were left out. Never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    running: Vec<Running>,
    rejected: BTreeMap<String, u64>,
}

/// Traffic in the making, for sources that stand in other crates.
pub struct TrafficBuilder<'s> {
    traffic: Traffic,
    steers: &'s [Arc<dyn Steer>],
}

impl<'s> TrafficBuilder<'s> {
    /// Nothing yet. `steers` as in [`Traffic::from_capture`].
    pub fn new(steers: &'s [Arc<dyn Steer>]) -> Self {
        Self { traffic: Traffic::default(), steers }
    }

    /// Puts a frame behind the others; `running` are those of its numbers that run on.
    ///
    /// # Panics
    /// When the frame is empty or longer than [`MAX_BUFFER_OCTETS`], when a running number does not
    /// lie in it or has no octet or more than 4, when there are more than 255, or when a stage
    /// steers into a bucket that does not exist.
    pub fn push(&mut self, frame: &[u8], time_ns: u64, running: &[Running]) {
        let octets = frame.len();
        assert!((1..=MAX_BUFFER_OCTETS).contains(&octets), "a frame of {octets} octets");
        for number in running {
            let end = usize::from(number.at) + usize::from(number.octets);
            assert!((1..=4).contains(&number.octets) && end <= octets, "{number:?} of {octets}");
        }
        self.traffic.push_running(frame, time_ns, self.steers, running);
    }

    /// Counts packets that are left out.
    pub fn reject(&mut self, cause: &str, packets: u64) {
        self.traffic.reject(cause, packets);
    }

    /// The traffic, or what was left out where there is none.
    ///
    /// # Errors
    /// [`TrafficError::AllRejected`] when there is no frame.
    pub fn finish(self) -> Result<Traffic, TrafficError> {
        match self.traffic.frames.is_empty() {
            true => Err(TrafficError::AllRejected(self.traffic.rejected)),
            false => Ok(self.traffic),
        }
    }
}

/// Why there is nothing to offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrafficError {
    /// The capture cannot be read.
    Capture(CaptureError),
    /// The generator cannot make frames.
    Generator(GeneratorError),
    /// The capture has packets, but none that can be replayed; how many by cause.
    AllRejected(BTreeMap<String, u64>),
}

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capture(error) => error.fmt(f),
            Self::Generator(error) => error.fmt(f),
            Self::AllRejected(causes) => {
                f.write_str("none of the packets of the capture can be replayed:")?;
                for (i, (cause, packets)) in causes.iter().enumerate() {
                    write!(f, "{} {packets} {cause}", if i == 0 { "" } else { "," })?;
                }
                if causes.contains_key(CUT_SHORT) {
                    f.write_str("; record whole packets, with `tcpdump -s 0`")?;
                }
                if causes.contains_key(TOO_LONG) {
                    f.write_str("; raise buffer_octets, or record with segmentation offload off")?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for TrafficError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Capture(error) => Some(error),
            Self::Generator(error) => Some(error),
            Self::AllRejected(_) => None,
        }
    }
}

const CUT_SHORT: &str = "cut_short";
const TOO_LONG: &str = "too_long";

impl Traffic {
    /// The packets of a capture file that can be replayed. `buffer_octets` is the largest frame a
    /// buffer holds; `steers` are asked for the bucket in turn, and where none answers the
    /// addresses decide.
    ///
    /// Left out, and counted under these causes in [`Traffic::rejected`]:
    /// `too_long` for a buffer; `cut_short` by the capture, whose length and checksums would be
    /// wrong; `zero_length`; `other_link_type`, recorded on an interface that is not Ethernet;
    /// `damaged_block`; `truncated_tail` and `damaged_tail`, 1 where the file breaks off.
    /// Whatever else is odd (ARP, headers that lie) is offered: to refuse it is the path's work.
    ///
    /// # Panics
    /// When a stage steers into a bucket that does not exist.
    pub fn from_capture(
        file: &[u8],
        buffer_octets: u32,
        steers: &[Arc<dyn Steer>],
    ) -> Result<Self, TrafficError> {
        let capture = capture::read(file).map_err(TrafficError::Capture)?;
        let mut traffic = Self::default();
        traffic.count_unread(&capture);
        for packet in &capture.packets {
            match cause_to_reject(packet, buffer_octets) {
                Some(cause) => traffic.reject(cause, 1),
                None => traffic.push(packet.octets, packet.time_ns, steers),
            }
        }
        if traffic.frames.is_empty() {
            return Err(TrafficError::AllRejected(traffic.rejected));
        }
        Ok(traffic)
    }

    /// Generated frames, 1 µs apart from time 0. `buffer_octets` and `steers` as for a capture.
    pub fn generate(
        generator: Generator<'_>,
        buffer_octets: u32,
        steers: &[Arc<dyn Steer>],
    ) -> Result<Self, TrafficError> {
        let mut traffic = Self::default();
        let mut time_ns = 0;
        let keep = |frame: &[u8]| {
            traffic.push(frame, time_ns, steers);
            time_ns += GENERATED_GAP_NS;
        };
        generator.generate(buffer_octets, keep).map_err(TrafficError::Generator)?;
        Ok(traffic)
    }

    fn push(&mut self, octets: &[u8], time_ns: u64, steers: &[Arc<dyn Steer>]) {
        self.push_running(octets, time_ns, steers, &[]);
    }

    fn push_running(
        &mut self,
        octets: &[u8],
        time_ns: u64,
        steers: &[Arc<dyn Steer>],
        running: &[Running],
    ) {
        let steered = steers.iter().find_map(|steer| steer.bucket(octets));
        let bucket = steered.unwrap_or_else(|| address_bucket(octets));
        assert!(usize::from(bucket) < BUCKETS, "a stage steers into bucket {bucket}");
        let earliest_ns = self.frames.last().map_or(0, |frame| frame.time_ns);
        self.frames.push(Frame {
            time_ns: time_ns.max(earliest_ns),
            offset: self.bytes.len(),
            octets: octets.len() as u16,
            bucket,
            running: u8::try_from(running.len()).expect("at most 255 running numbers"),
            first_running: u32::try_from(self.running.len()).expect("fewer than 2^32 in all"),
        });
        self.bytes.extend_from_slice(octets);
        self.running.extend_from_slice(running);
    }

    fn reject(&mut self, cause: &str, packets: u64) {
        if packets > 0 {
            *self.rejected.entry(cause.to_owned()).or_default() += packets;
        }
    }

    fn count_unread(&mut self, capture: &Capture<'_>) {
        self.reject("other_link_type", capture.other_link_types);
        self.reject("damaged_block", capture.damaged_blocks);
        match capture.tail {
            Tail::Whole => {}
            Tail::Truncated => self.reject("truncated_tail", 1),
            Tail::Damaged => self.reject("damaged_tail", 1),
        }
    }

    /// Number of frames; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "traffic is never empty")]
    #[inline]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// All frames, in the order they are offered.
    #[inline]
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The octets of frame `i`, below [`Traffic::len`].
    #[inline]
    pub fn frame(&self, i: usize) -> &[u8] {
        let frame = &self.frames[i];
        &self.bytes[frame.offset..frame.offset + usize::from(frame.octets)]
    }

    /// The numbers of `frame`, one of these frames, that run on from pass to pass.
    #[inline]
    pub(crate) fn running(&self, frame: Frame) -> &[Running] {
        let first = frame.first_running as usize;
        &self.running[first..first + usize::from(frame.running)]
    }

    /// Octets of all frames together.
    pub fn octets(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Mean length of a frame in octets, without FCS.
    pub fn mean_octets(&self) -> f64 {
        self.bytes.len() as f64 / self.frames.len() as f64
    }

    /// From the first frame to the last, in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        match self.frames.as_slice() {
            [first, .., last] => last.time_ns - first.time_ns,
            _ => 0,
        }
    }

    /// Packets left out, by cause.
    pub fn rejected(&self) -> &BTreeMap<String, u64> {
        &self.rejected
    }

    /// Packets in each bucket.
    pub fn bucket_weights(&self) -> [u64; BUCKETS] {
        let mut weights = [0; BUCKETS];
        for frame in &self.frames {
            weights[usize::from(frame.bucket)] += 1;
        }
        weights
    }
}

fn cause_to_reject(packet: &CapturedPacket<'_>, buffer_octets: u32) -> Option<&'static str> {
    let octets = packet.octets.len();
    if octets < packet.original_octets as usize {
        Some(CUT_SHORT)
    } else if octets == 0 {
        Some("zero_length")
    } else if octets > (buffer_octets as usize).min(MAX_BUFFER_OCTETS) {
        Some(TOO_LONG)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{LinkType, PcapWriter};

    /// A pcap file of frames whose record says they were `original` octets long.
    fn file(frames: &[(u64, &[u8], u32)]) -> Vec<u8> {
        let mut file = Vec::new();
        for (time_ns, frame, original) in frames {
            let mut one = PcapWriter::new(Vec::new()).unwrap();
            one.write(*time_ns, frame).unwrap();
            let mut one = one.finish().unwrap();
            one[36..40].copy_from_slice(&original.to_le_bytes());
            file.extend_from_slice(&one[if file.is_empty() { 0 } else { 24 }..]);
        }
        file
    }

    fn causes(list: &[(&str, u64)]) -> BTreeMap<String, u64> {
        list.iter().map(|(cause, packets)| ((*cause).to_owned(), *packets)).collect()
    }

    struct ByFirstOctet;

    impl Steer for ByFirstOctet {
        fn bucket(&self, frame: &[u8]) -> Option<u8> {
            frame.first().copied().filter(|octet| *octet < 100)
        }
    }

    struct Always(u8);

    impl Steer for Always {
        fn bucket(&self, _: &[u8]) -> Option<u8> {
            Some(self.0)
        }
    }

    #[test]
    fn odd_packets_are_counted_and_the_others_kept() {
        let mut bytes = file(&[
            (5, &[1; 60], 60),
            (6, &[], 0),
            (7, &[2; 101], 101),
            (3, &[3; 100], 100),
            (9, &[4; 40], 1500),
            (9, &[5; 7], 7),
            (10, &[6; 60], 60),
        ]);
        bytes.truncate(bytes.len() - 1);
        let traffic = Traffic::from_capture(&bytes, 100, &[]).unwrap();
        let kept: Vec<_> = (0..traffic.len()).map(|i| traffic.frame(i).to_vec()).collect();
        assert_eq!(kept, [vec![1; 60], vec![3; 100], vec![5; 7]]);
        let times: Vec<_> = traffic.frames().iter().map(|f| f.time_ns).collect();
        assert_eq!(times, [5, 5, 9], "time does not run backwards");
        assert_eq!(traffic.duration_ns(), 4);
        assert_eq!((traffic.octets(), traffic.mean_octets()), (167, 167.0 / 3.0));
        let expected =
            causes(&[("zero_length", 1), ("too_long", 1), ("cut_short", 1), ("truncated_tail", 1)]);
        assert_eq!(*traffic.rejected(), expected);
    }

    #[test]
    fn a_capture_of_headers_only_says_how_to_record() {
        let error = Traffic::from_capture(&file(&[(0, &[0; 96], 1514)]), 2048, &[]).unwrap_err();
        assert_eq!(error, TrafficError::AllRejected(causes(&[("cut_short", 1)])));
        let text = error.to_string();
        assert!(text.contains(": 1 cut_short; ") && text.contains("tcpdump -s 0"), "{text}");
    }

    #[test]
    fn unreadable_captures_keep_their_reason() {
        let mut bytes = file(&[(0, &[0; 60], 60)]);
        bytes[20] = 101;
        let error = Traffic::from_capture(&bytes, 2048, &[]).unwrap_err();
        assert_eq!(error, TrafficError::Capture(CaptureError::LinkType(LinkType(101))));
        assert!(error.to_string().contains("raw IP (101)"), "{error}");
    }

    #[test]
    fn the_first_stage_that_steers_decides() {
        let bytes = file(&[(0, &[7; 60], 60), (0, &[200; 60], 60)]);
        let buckets = |steers: &[Arc<dyn Steer>]| -> Vec<u8> {
            let traffic = Traffic::from_capture(&bytes, 2048, steers).unwrap();
            traffic.frames().iter().map(|f| f.bucket).collect()
        };
        let hashed = address_bucket(&[200; 60]);
        assert_eq!(buckets(&[Arc::new(ByFirstOctet)]), [7, hashed]);
        assert_eq!(buckets(&[Arc::new(ByFirstOctet), Arc::new(Always(9))]), [7, 9]);
        assert_eq!(buckets(&[Arc::new(Always(9)), Arc::new(ByFirstOctet)]), [9, 9]);
    }

    #[test]
    fn generated_traffic_has_the_mix_asked_for() {
        let imix = [60, 60, 60, 60, 60, 60, 60, 590, 590, 590, 590, 1514];
        let generator = Generator { sizes: &imix, flows: 5000, seed: 1 };
        let traffic = Traffic::generate(generator, 2048, &[]).unwrap();
        let mean = f64::from(imix.iter().sum::<u32>()) / imix.len() as f64;
        assert_eq!(traffic.mean_octets(), mean);
        assert_eq!(traffic.bucket_weights().iter().sum::<u64>(), traffic.len() as u64);
        assert_eq!(traffic.duration_ns(), (traffic.len() as u64 - 1) * GENERATED_GAP_NS);
        assert!(traffic.rejected().is_empty());
        for replicas in 2..=4 {
            let share = crate::bucket::largest_share(&traffic.bucket_weights(), replicas);
            assert!(share * f64::from(replicas) < 1.01, "{replicas} replicas: {share}");
        }
    }

    #[test]
    fn the_recorded_capture_suits_replicas() {
        let file = include_bytes!("../../../examples/edge.pcapng");
        let traffic = Traffic::from_capture(file, 1514, &[]).unwrap();
        assert!(traffic.rejected().is_empty(), "{:?}", traffic.rejected());
        assert!(traffic.len() > 4096 && (300.0..420.0).contains(&traffic.mean_octets()));
        for replicas in 2..=4 {
            let share = crate::bucket::largest_share(&traffic.bucket_weights(), replicas);
            assert!(share * f64::from(replicas) < 1.01, "{replicas} replicas: {share}");
        }
    }

    #[test]
    fn running_numbers_run_on_and_wrap() {
        let running = |octets, first, step| Running { at: 1, octets, first, step };
        let written = |number: Running, pass| {
            let mut frame = [0xee; 6];
            number.write(&mut frame, pass);
            frame
        };
        assert_eq!(written(running(4, 5, 7), 0), [0xee, 0, 0, 0, 5, 0xee]);
        assert_eq!(written(running(4, 5, 7), 300), [0xee, 0, 0, 0x08, 0x39, 0xee]);
        assert_eq!(written(running(2, 0xfffe, 1), 3), [0xee, 0, 1, 0xee, 0xee, 0xee]);
        assert_eq!(written(running(4, u32::MAX, 2), 1 << 31), [0xee, 0xff, 0xff, 0xff, 0xff, 0xee]);
    }

    #[test]
    fn a_builder_keeps_frames_in_order_and_their_numbers_apart() {
        let number = |at, first| Running { at, octets: 2, first, step: 1 };
        let mut builder = TrafficBuilder::new(&[]);
        builder.push(&[1; 60], 9, &[number(0, 1), number(58, 2)]);
        builder.push(&[2; 61], 4, &[]);
        builder.push(&[3; 62], 10, &[number(7, 3)]);
        builder.reject("odd", 2);
        let traffic = builder.finish().unwrap();
        let numbers: Vec<Vec<u32>> = traffic
            .frames()
            .iter()
            .map(|frame| traffic.running(*frame).iter().map(|n| n.first).collect())
            .collect();
        assert_eq!(numbers, [vec![1, 2], vec![], vec![3]]);
        assert_eq!(traffic.frame(1), [2; 61]);
        assert_eq!(traffic.frames()[1].time_ns, 9);
        assert_eq!(*traffic.rejected(), causes(&[("odd", 2)]));
        let mut nothing = TrafficBuilder::new(&[]);
        nothing.reject("odd", 3);
        let refused = nothing.finish().unwrap_err();
        assert_eq!(refused, TrafficError::AllRejected(causes(&[("odd", 3)])));
    }

    #[test]
    fn generator_errors_are_passed_on() {
        let generator = Generator { sizes: &[60], flows: 0, seed: 1 };
        let error = Traffic::generate(generator, 2048, &[]).unwrap_err();
        assert_eq!(error, TrafficError::Generator(GeneratorError::NoFlows));
    }
}
