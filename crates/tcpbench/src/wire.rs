// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames, and the queues that carry them from one end to the other, or lose them.
//!
//! A wire without [`Impairments`] hands frames over at the next turn, a few at a time. With them it
//! loses, holds back, doubles and damages frames at random, by seed, so that a run can be repeated.
//!
//! Damage turns over bits anywhere in the frame. Some damage leaves every checksum right: that is
//! the limit of the checksum (RFC 1071), not the fault of a routine. The wire knows, because it has
//! seen the frame before: it counts such a frame and loses it. What damage is left must be found.

use crate::lent::Lent;
use crate::link::{HEADER_BYTES, Micros, Side};
use linerate_kernels::{Sum, checksum};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::ptr::NonNull;

/// An IPv4 packet on the wire.
#[derive(Debug)]
pub struct Frame {
    /// Of the size of the largest frame, however much of it is used.
    storage: Vec<u8>,
    bytes: usize,
    /// Location of the bytes, if the sender still holds them.
    lent: Option<Lent>,
}

impl Frame {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.lent.as_ref().map_or(&self.storage[..self.bytes], Lent::bytes)
    }

    /// Its length in bytes.
    pub fn length(&self) -> usize {
        self.bytes
    }

    /// Its bytes, to be written: those of the sender stay as they are.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if let Some(lent) = self.lent.take() {
            self.storage[..self.bytes].copy_from_slice(lent.bytes());
        }
        &mut self.storage[..self.bytes]
    }

    /// Its bytes where they stay for as long as the frame is kept, cut behind `header`; what is in
    /// front may be written, and is a copy where the sender still holds the bytes.
    pub(crate) fn pinned(&mut self, header: usize) -> (NonNull<[u8]>, NonNull<[u8]>) {
        match &self.lent {
            Some(lent) => {
                let (front, back) = lent.bytes().split_at(header);
                self.storage[..header].copy_from_slice(front);
                (NonNull::from(&mut self.storage[..header]), NonNull::from(back))
            }
            None => {
                let (front, back) = self.storage[..self.bytes].split_at_mut(header);
                (NonNull::from(front), NonNull::from(back))
            }
        }
    }
}

/// Frames not in use, the one used last on top.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Frame>,
    bytes_max: usize,
}

impl Pool {
    /// For frames of up to this many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { free: Vec::new(), bytes_max }
    }

    /// A frame of this many bytes, with undefined content.
    ///
    /// # Panics
    /// If that is more than the pool is for.
    pub fn take(&mut self, bytes: usize) -> Frame {
        assert!(
            bytes <= self.bytes_max,
            "frame of {bytes} bytes exceeds the maximum of {}",
            self.bytes_max
        );
        let fresh = || Frame { storage: vec![0; self.bytes_max], bytes: 0, lent: None };
        let mut frame = self.free.pop().unwrap_or_else(fresh);
        frame.bytes = bytes;
        frame
    }

    /// A frame with the same bytes.
    pub fn copy(&mut self, frame: &Frame) -> Frame {
        let mut copy = self.take(frame.length());
        copy.bytes_mut().copy_from_slice(frame.bytes());
        copy
    }

    /// A frame that stays where its sender has it.
    ///
    /// # Panics
    /// As [`take`](Self::take).
    pub(crate) fn lend(&mut self, lent: Lent) -> Frame {
        let mut frame = self.take(lent.bytes().len());
        frame.lent = Some(lent);
        frame
    }

    /// The frame is not needed any more.
    pub fn put(&mut self, mut frame: Frame) {
        frame.lent = None;
        self.free.push(frame);
    }
}

/// An endpoint's view of the wire while it is polled.
#[derive(Debug)]
pub struct Port<'a> {
    /// Frames that have arrived, the oldest in front.
    pub arrived: &'a mut VecDeque<Frame>,
    /// Frames to be sent, the latest at the back.
    pub sent: &'a mut VecDeque<Frame>,
    /// Source of frames, and their destination after reading.
    pub pool: &'a mut Pool,
}

/// Impairments of a wire. Shares are of frames, drawn independently.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairments {
    /// Share that is lost.
    pub loss: f64,
    /// Share that is held back, so that later ones overtake it.
    pub reorder: f64,
    /// Share that arrives twice.
    pub duplicate: f64,
    /// Share in which bits are turned over.
    pub corrupt: f64,
    /// Virtual microseconds from one end to the other.
    pub delay: Micros,
    /// Bytes per virtual microsecond that a direction carries; `None` for any number.
    pub rate: Option<f64>,
    /// Whether frames without payload are left alone.
    pub only_data: bool,
}

/// Statistics of a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Frames that were sent.
    pub frames: u64,
    /// Bytes of those, headers included.
    pub bytes: u64,
    /// Frames lost.
    pub lost: u64,
    /// Frames held back.
    pub reordered: u64,
    /// Frames that arrived twice.
    pub duplicated: u64,
    /// Frames that arrived damaged.
    pub corrupted: u64,
    /// Frames damaged such that every checksum still matched, and lost for it.
    pub masked: u64,
}

/// Most frames a direction delivers per iteration: a driver's burst. It keeps an endpoint that
/// acknowledges once per iteration from acknowledging once per window.
const BURST: usize = 16;

/// Maximum additional delay of a frame.
const HELD_BACK_MAX: Micros = 20;

/// One direction.
#[derive(Debug, Default)]
struct Line {
    sent: VecDeque<Frame>,
    arrived: VecDeque<Frame>,
    /// Frames on their way, by when they arrive and by number.
    flying: BTreeMap<(Micros, u64), Frame>,
    /// Time at which the line will have sent its queue, in microseconds.
    free_at: f64,
}

/// Two lines, one in each direction.
#[derive(Debug)]
pub struct Wire {
    lines: [Line; 2],
    pool: Pool,
    impairments: Option<Impairments>,
    /// Whether frames carry checksums.
    summed: bool,
    random: fastrand::Rng,
    /// The headers of the last frame sent, kept on request.
    last: Option<Vec<u8>>,
    carried: Carried,
}

impl Wire {
    /// A wire for frames of up to this many bytes, with or without checksums.
    pub fn new(bytes_max: usize, impairments: Impairments, summed: bool, seed: u64) -> Self {
        Self {
            lines: Default::default(),
            pool: Pool::new(bytes_max),
            impairments: (impairments != Impairments::default()).then_some(impairments),
            summed,
            random: fastrand::Rng::with_seed(seed),
            last: None,
            carried: Carried::default(),
        }
    }

    /// An endpoint's view of it.
    pub fn port(&mut self, side: Side) -> Port<'_> {
        let [up, down] = &mut self.lines;
        let (arrived, sent) = match side {
            Side::Client => (&mut down.arrived, &mut up.sent),
            Side::Server => (&mut up.arrived, &mut down.sent),
        };
        Port { arrived, sent, pool: &mut self.pool }
    }

    /// Delivers frames due at this time; returns whether there were any.
    pub fn carry(&mut self, now: Micros) -> bool {
        let Some(impairments) = self.impairments else { return self.hand_over() };
        let mut carried = false;
        for which in 0..self.lines.len() {
            while let Some(frame) = self.lines[which].sent.pop_front() {
                self.launch(which, frame, now, &impairments);
                carried = true;
            }
            let Line { flying, arrived, .. } = &mut self.lines[which];
            while arrived.len() < BURST
                && let Some(first) = flying.first_entry()
                && first.key().0 <= now
            {
                arrived.push_back(first.remove());
                carried = true;
            }
        }
        carried
    }

    /// The next few of each direction, in order.
    fn hand_over(&mut self) -> bool {
        let mut carried = false;
        for line in &mut self.lines {
            let count = line.sent.len().min(BURST.saturating_sub(line.arrived.len()));
            for frame in line.sent.drain(..count) {
                self.carried.frames += 1;
                self.carried.bytes += frame.length() as u64;
                if let Some(last) = &mut self.last {
                    keep(last, &frame);
                }
                line.arrived.push_back(frame);
            }
            carried |= count > 0;
        }
        carried
    }

    /// Sends a frame, or drops it.
    fn launch(&mut self, which: usize, mut frame: Frame, now: Micros, how: &Impairments) {
        self.carried.frames += 1;
        self.carried.bytes += frame.length() as u64;
        if let Some(last) = &mut self.last {
            keep(last, &frame);
        }
        let line = &mut self.lines[which];
        let mut at = now + how.delay;
        if let Some(rate) = how.rate {
            line.free_at = line.free_at.max(now as f64) + frame.length() as f64 / rate;
            at = line.free_at as Micros + how.delay;
        }
        if how.only_data && frame.length() <= HEADER_BYTES {
            line.flying.insert((at, self.carried.frames), frame);
            return;
        }
        if self.random.f64() < how.loss {
            self.carried.lost += 1;
            return self.pool.put(frame);
        }
        if self.random.f64() < how.duplicate {
            self.carried.duplicated += 1;
            let copy = self.pool.copy(&frame);
            // Behind every frame of the same time that was sent before; they are fewer than 2^32.
            let number = self.carried.frames + (1 << 32);
            self.lines[which].flying.insert((at, number), copy);
        }
        if self.random.f64() < how.reorder {
            self.carried.reordered += 1;
            at += self.random.u64(1..=HELD_BACK_MAX);
        }
        if self.random.f64() < how.corrupt {
            frame = self.damage(frame);
            if self.summed && sums_match(frame.bytes_mut()) {
                self.carried.masked += 1;
                return self.pool.put(frame);
            }
            self.carried.corrupted += 1;
        }
        self.lines[which].flying.insert((at, self.carried.frames), frame);
    }

    /// Turns over 1 to 4 bits of a frame.
    fn damage(&mut self, frame: Frame) -> Frame {
        let mut damaged = self.pool.copy(&frame);
        self.pool.put(frame);
        let bytes = damaged.bytes_mut();
        for _ in 0..self.random.usize(1..=4) {
            bytes[self.random.usize(..bytes.len())] ^= 1 << self.random.u8(..8);
        }
        damaged
    }

    /// Arrival time of the next frame in flight.
    pub fn next_arrival(&self) -> Option<Micros> {
        let first = |line: &Line| line.flying.first_key_value().map(|((at, _), _)| *at);
        self.lines.iter().filter_map(first).min()
    }

    /// Returns the statistics.
    pub fn carried(&self) -> Carried {
        self.carried
    }

    /// From now on keeps the headers of the last frame.
    pub fn keep_last(&mut self) {
        self.last.get_or_insert_default();
    }

    /// The last frame since [`keep_last`](Self::keep_last), in words.
    pub fn last(&self) -> String {
        self.last.as_deref().and_then(describe).unwrap_or_else(|| "not seen: none was sent".into())
    }
}

fn keep(last: &mut Vec<u8>, frame: &Frame) {
    last.clear();
    last.extend(frame.bytes().iter().take(HEADER_BYTES));
}

/// A segment by its headers.
fn describe(header: &[u8]) -> Option<String> {
    let word = |at: usize| Some(u16::from_be_bytes(header.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u32::from_be_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let payload = usize::from(word(2)?).saturating_sub(20 + usize::from(header.get(32)? >> 4) * 4);
    let flags = header.get(33)?;
    let mut text = format!("port {} to {}: {payload} bytes", word(20)?, word(22)?);
    for (bit, name) in ["FIN", "SYN", "RST", "PSH", "ACK", "URG"].iter().enumerate() {
        if flags >> bit & 1 == 1 {
            // Writing to a String cannot fail.
            let _ = write!(text, " {name}");
        }
    }
    let (sequence, sum) = (long(24)?, word(36)?);
    let _ = write!(text, ", sequence number {sequence}, checksum {sum:#06x}");
    Some(text)
}

/// Whether a receiver finds nothing wrong with the checksums of a damaged packet, by the
/// specification: of the header, and of the segment with its pseudo-header.
fn sums_match(packet: &[u8]) -> bool {
    let Some((header, rest)) = packet.split_at_checked(20) else { return false };
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let sound = |bytes: &[u8], sum| checksum::reference(bytes, sum, checksum::BYTE_SWAP) == 0;
    if header[0] != 0x45 || total != packet.len() || !sound(header, Sum::ZERO) {
        return false;
    }
    let addresses = header[12..20].try_into().expect("the slice has 8 bytes");
    sound(rest, checksum::pseudo_ipv4(addresses, header[9], rest.len() as u16))
}

#[cfg(test)]
#[expect(unsafe_code, reason = "a lender to lend from")]
mod tests;
