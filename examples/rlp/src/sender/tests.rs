// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the sender with a reference that keeps the whole stream.

use super::*;
use crate::frame::{Frame, MAX_RANGES, NakList, PACKET_HEADER_BYTES, parse};
use proptest::prelude::*;

const LIMITS: Limits = Limits { frame_bytes: 10, ring_bytes: 64 };

/// Reference sender: keeps every byte, and examines ranges byte by byte.
struct Reference {
    stream: Vec<u8>,
    cut: usize,
    queue: Vec<(usize, usize)>,
    counts: Counts,
}

/// A sent frame: 64-bit number of its first byte, its bytes, and whether it is a retransmission.
type Sent = (usize, Vec<u8>, bool);

impl Reference {
    fn oldest(&self) -> usize {
        self.stream.len().saturating_sub(LIMITS.ring_bytes)
    }

    fn want(&mut self, first: i64, bytes: u32) {
        let wanted = first..first + i64::from(bytes);
        if wanted.clone().any(|number| number >= self.cut as i64) {
            self.counts.nak_unsent += 1;
            return;
        }
        let left: Vec<i64> = wanted.filter(|number| *number >= self.oldest() as i64).collect();
        self.counts.nak_gone += u64::from(left.len() < bytes as usize);
        let Some(&first) = left.first() else {
            return;
        };
        let queued: usize = self.queue.iter().map(|(first, end)| end - first).sum();
        if self.queue.len() == MAX_QUEUED || queued + left.len() > LIMITS.ring_bytes {
            self.counts.nak_overflow += 1;
            return;
        }
        self.queue.push((first as usize, first as usize + left.len()));
    }

    fn emit(&mut self, mut room: usize, flush: bool) -> Vec<Sent> {
        let mut sent = Vec::new();
        let mut send = |stream: &[u8], first: usize, bytes: usize, again| {
            let fits = bytes + FRAME_HEADER_BYTES <= room;
            if fits {
                room -= bytes + FRAME_HEADER_BYTES;
                sent.push((first, stream[first..first + bytes].to_vec(), again));
            }
            fits
        };
        while let Some((first, end)) = self.queue.first().copied() {
            let oldest = self.stream.len().saturating_sub(LIMITS.ring_bytes);
            self.counts.nak_gone += u64::from(first < oldest);
            let first = first.max(oldest);
            if first >= end {
                self.queue.remove(0);
                continue;
            }
            self.queue[0].0 = first;
            let bytes = (end - first).min(LIMITS.frame_bytes);
            if !send(&self.stream, first, bytes, true) {
                return sent;
            }
            self.counts.frames_again += 1;
            self.counts.bytes_again += bytes as u64;
            self.queue[0].0 = first + bytes;
        }
        loop {
            let bytes = (self.stream.len() - self.cut).min(LIMITS.frame_bytes);
            let waits = bytes == 0 || bytes < LIMITS.frame_bytes && !flush;
            if waits || !send(&self.stream, self.cut, bytes, false) {
                return sent;
            }
            self.counts.frames += 1;
            self.cut += bytes;
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Emit(usize, bool),
    /// Distance of the first range from the last byte sent; length of each range and distance to
    /// the next.
    Nak(i64, Vec<(u32, u32)>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ranges = || prop::collection::vec((1..30_u32, 0..20_u32), 1..5);
    let step = prop_oneof![
        4 => (0..40_usize).prop_map(Step::Append),
        4 => (0..120_usize, any::<bool>()).prop_map(|(room, flush)| Step::Emit(room, flush)),
        3 => (-90..5_i64, ranges()).prop_map(|(at, ranges)| Step::Nak(at, ranges)),
        1 => (any::<i32>(), ranges()).prop_map(|(at, ranges)| Step::Nak(at.into(), ranges)),
    ];
    prop::collection::vec(step, 0..80)
}

fn sent(packet: &[u8], start: u64) -> Vec<Sent> {
    let frames = parse(packet).expect("in order").frames();
    let plain = |frame| match frame {
        Ok(Frame::Data { sequence, bytes, again }) => {
            (sequence.wrapping_sub(start as u32) as usize, bytes.to_vec(), again)
        }
        other => panic!("{other:?}"),
    };
    frames.map(plain).collect()
}

proptest! {
    #[test]
    fn a_ring_does_what_the_whole_stream_would(
        before in prop_oneof![Just(0_u64), (1_u64 << 32) - 200..1 << 32], steps in steps(),
    ) {
        let mut sender = Sender { appended: before, cut: before, ..Sender::new(LIMITS) };
        // The whole stream is zeros, as is the ring initially.
        let stream = vec![0; before.min(100) as usize];
        let start = before - stream.len() as u64;
        let mut reference =
            Reference { cut: stream.len(), stream, queue: Vec::new(), counts: Counts::default() };
        for (salt, step) in steps.into_iter().enumerate() {
            match step {
                Step::Append(bytes) => {
                    let new: Vec<u8> = (0..bytes).map(|i| (i * 31 + salt * 7) as u8).collect();
                    let fits = reference.stream.len() - reference.cut + bytes <= 64;
                    prop_assert_eq!(sender.append(&new), fits);
                    if fits { reference.stream.extend(new); }
                }
                Step::Emit(room, flush) => {
                    let most = sender.wire_bytes(flush);
                    let mut packet = vec![0; PACKET_HEADER_BYTES + room];
                    let mut writer = Writer::new(&mut packet).expect("room for the header");
                    sender.emit(&mut writer, flush);
                    let bytes = writer.finish(&[0; 12], 1) - PACKET_HEADER_BYTES;
                    prop_assert!(bytes <= most);
                    prop_assert!(room < most || sender.is_served(), "all the room there was");
                    prop_assert_eq!(sent(&packet, start), reference.emit(room, flush));
                }
                Step::Nak(at, ranges) => {
                    let mut list = NakList::default();
                    let mut first = reference.cut as i64 + at;
                    for (bytes, gap) in ranges {
                        let wire = (start as i64 + first) as u32;
                        let fits = list.push(ByteRange { first: wire, bytes });
                        prop_assert!(fits);
                        // Bytes before the start of the stream were never sent, so the reference
                        // does not have them.
                        reference.want(first, bytes);
                        first += i64::from(bytes + gap);
                    }
                    sender.serve(list.ranges().iter().copied());
                }
            }
            prop_assert_eq!(sender.pending(), reference.stream.len() - reference.cut);
            prop_assert_eq!(sender.next(), (start + reference.cut as u64) as u32);
            prop_assert_eq!(sender.counts(), &reference.counts);
            prop_assert_eq!(sender.is_served(), reference.queue.is_empty());
        }
    }
}

#[test]
fn absurd_lists_are_counted_and_bounded() {
    let mut sender = Sender::new(LIMITS);
    assert!(sender.append(&[1; 64]));
    let mut packet = [0; 300];
    sender.emit(&mut Writer::new(&mut packet).expect("room"), true);
    let all = ByteRange { first: 0, bytes: 64 };
    sender.serve([all, all, all]);
    assert_eq!(sender.counts().nak_overflow, 2, "one ring of bytes at most");
    assert_eq!(sender.wire_bytes(true), 64 + 7 * FRAME_HEADER_BYTES);
    let mut sender = Sender::new(Limits::default());
    assert!(sender.append(&[1; 200]));
    sender.emit(&mut Writer::new(&mut [0; 300]).expect("room"), true);
    for _ in 0..10 {
        sender.serve([ByteRange { first: 3, bytes: 1 }; MAX_RANGES]);
    }
    assert_eq!(sender.counts().nak_overflow, (10 * MAX_RANGES - MAX_QUEUED) as u64);
    sender.serve([ByteRange { first: 199, bytes: 2 }, ByteRange { first: u32::MAX, bytes: 1 }]);
    assert_eq!((sender.counts().nak_unsent, sender.counts().nak_gone), (1, 1));
}

#[test]
fn limits_say_what_is_wrong_with_them() {
    assert_eq!(Limits::default().fault(), None);
    let fault = |frame_bytes, ring_bytes| Limits { frame_bytes, ring_bytes }.fault();
    assert_eq!(fault(1024, 2048), None);
    for (frame_bytes, ring_bytes) in [(0, 64), (1025, 4096), (10, 63), (33, 64), (1, 1 << 31)] {
        assert!(fault(frame_bytes, ring_bytes).is_some(), "{frame_bytes} {ring_bytes}");
    }
}
