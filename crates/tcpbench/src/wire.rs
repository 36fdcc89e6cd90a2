// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames, and the simulated wire that carries, loses or corrupts them.
//!
//! A wire without [`Impairments`] delivers frames in the next iteration, a few at a time. With
//! impairments, it loses, delays, duplicates and corrupts frames at random, seeded for
//! repeatability.
//!
//! Corruption flips bits anywhere in the frame. Some corruption leaves every checksum correct,
//! which is a limitation of the checksum (RFC 1071), not an error in a routine. The wire counts and
//! drops such frames. All remaining corruption must be detected.

use crate::lent::Lent;
use crate::link::{HEADER_BYTES, Micros, Side};
use linerate_kernels::{Sum, checksum};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::ptr::NonNull;

/// An IPv4 packet on the wire.
#[derive(Debug)]
pub struct Frame {
    /// Buffer of the maximum frame size, even if the frame is shorter.
    storage: Vec<u8>,
    bytes: usize,
    /// The frame's bytes if they are still in the sender's memory, otherwise `None`.
    lent: Option<Lent>,
}

impl Frame {
    /// Returns the frame's bytes.
    pub fn bytes(&self) -> &[u8] {
        self.lent.as_ref().map_or(&self.storage[..self.bytes], Lent::bytes)
    }

    /// Returns the frame length in bytes.
    pub fn length(&self) -> usize {
        self.bytes
    }

    /// Returns the frame's bytes for writing. Lent bytes are copied first, so that the sender's
    /// memory remains unchanged.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if let Some(lent) = self.lent.take() {
            self.storage[..self.bytes].copy_from_slice(lent.bytes());
        }
        &mut self.storage[..self.bytes]
    }

    /// Returns the frame's bytes, split after `header` bytes, at addresses that remain valid for as
    /// long as the frame is kept. The front part may be written; it is a copy if the bytes are
    /// still in the sender's memory.
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

/// A stock of unused frames. The most recently used one is taken first.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Frame>,
    bytes_max: usize,
}

impl Pool {
    /// Creates a pool for frames of up to this many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { free: Vec::new(), bytes_max }
    }

    /// Takes a frame of this many bytes from the pool. Its content is unspecified.
    ///
    /// # Panics
    /// Panics if the length exceeds the pool's maximum frame size.
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

    /// Takes a frame from the pool, and copies the bytes of `frame` into it.
    pub fn copy(&mut self, frame: &Frame) -> Frame {
        let mut copy = self.take(frame.length());
        copy.bytes_mut().copy_from_slice(frame.bytes());
        copy
    }

    /// Returns a frame whose bytes stay in the sender's memory.
    ///
    /// # Panics
    /// Panics as [`take`](Self::take) does.
    pub(crate) fn lend(&mut self, lent: Lent) -> Frame {
        let mut frame = self.take(lent.bytes().len());
        frame.lent = Some(lent);
        frame
    }

    /// Puts a frame that is no longer needed back into the pool.
    pub fn put(&mut self, mut frame: Frame) {
        frame.lent = None;
        self.free.push(frame);
    }
}

/// An endpoint's view of the wire while being polled.
#[derive(Debug)]
pub struct Port<'a> {
    /// Frames that have arrived, oldest first.
    pub arrived: &'a mut VecDeque<Frame>,
    /// Frames to be sent, newest last.
    pub sent: &'a mut VecDeque<Frame>,
    /// Pool that frames are taken from, and returned to after reading.
    pub pool: &'a mut Pool,
}

/// Wire impairments. Fractions are of all frames; each impairment is drawn for each frame
/// independently of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairments {
    /// Fraction of frames that are lost.
    pub loss: f64,
    /// Fraction of frames that are held back, so that later frames overtake them.
    pub reorder: f64,
    /// Fraction of frames that arrive twice.
    pub duplicate: f64,
    /// Fraction of frames in which bits are flipped.
    pub corrupt: f64,
    /// One-way delay in virtual microseconds.
    pub delay: Micros,
    /// Rate per direction in bytes per virtual microsecond; `None` for unlimited.
    pub rate: Option<f64>,
    /// Whether frames without payload are exempt from everything except `delay` and `rate`.
    pub only_data: bool,
}

/// Counts of a wire: frames sent, lost, reordered, duplicated and corrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Number of frames sent.
    pub frames: u64,
    /// Number of bytes sent, including headers.
    pub bytes: u64,
    /// Number of frames lost.
    pub lost: u64,
    /// Number of frames held back, so that later frames overtook them.
    pub reordered: u64,
    /// Number of frames that arrived twice.
    pub duplicated: u64,
    /// Number of frames that arrived corrupted.
    pub corrupted: u64,
    /// Number of frames dropped because they were corrupted in such a way that every checksum still
    /// matched.
    pub masked: u64,
}

/// Maximum number of frames that a direction delivers per iteration, like the burst of a driver.
/// Without this limit, an endpoint that acknowledges once per iteration would do so only once per
/// window.
const BURST: usize = 16;

/// Maximum additional delay of a held-back frame, in virtual microseconds.
const HELD_BACK_MAX: Micros = 20;

/// One direction of the wire.
#[derive(Debug, Default)]
struct Line {
    sent: VecDeque<Frame>,
    arrived: VecDeque<Frame>,
    /// Frames in flight, by arrival time and number.
    flying: BTreeMap<(Micros, u64), Frame>,
    /// Virtual time in microseconds at which the link will have sent all queued frames.
    free_at: f64,
}

/// The wire: a link in each direction.
#[derive(Debug)]
pub struct Wire {
    lines: [Line; 2],
    pool: Pool,
    impairments: Option<Impairments>,
    /// Whether frames carry checksums.
    summed: bool,
    random: fastrand::Rng,
    /// Headers of the last frame sent, recorded on request.
    last: Option<Vec<u8>>,
    carried: Carried,
}

impl Wire {
    /// Creates a wire for frames of up to this many bytes, with or without checksums.
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

    /// Returns an endpoint's view of the wire.
    pub fn port(&mut self, side: Side) -> Port<'_> {
        let [up, down] = &mut self.lines;
        let (arrived, sent) = match side {
            Side::Client => (&mut down.arrived, &mut up.sent),
            Side::Server => (&mut up.arrived, &mut down.sent),
        };
        Port { arrived, sent, pool: &mut self.pool }
    }

    /// Accepts the frames that endpoints have sent, and delivers those that are due. Returns
    /// whether any frame was accepted or delivered.
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

    /// Delivers the next few frames in each direction, in order.
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

    /// Puts a frame in flight, or drops it.
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
            // Sorts after every earlier frame with the same arrival time; there are fewer than 2^32
            // frames.
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

    /// Flips 1 to 4 bits in a frame.
    fn damage(&mut self, frame: Frame) -> Frame {
        let mut damaged = self.pool.copy(&frame);
        self.pool.put(frame);
        let bytes = damaged.bytes_mut();
        for _ in 0..self.random.usize(1..=4) {
            bytes[self.random.usize(..bytes.len())] ^= 1 << self.random.u8(..8);
        }
        damaged
    }

    /// Returns the arrival time of the next frame in flight.
    pub fn next_arrival(&self) -> Option<Micros> {
        let first = |line: &Line| line.flying.first_key_value().map(|((at, _), _)| *at);
        self.lines.iter().filter_map(first).min()
    }

    /// Returns the wire's counts: frames sent, lost, reordered, duplicated and corrupted.
    pub fn carried(&self) -> Carried {
        self.carried
    }

    /// Starts recording the headers of each frame sent, for [`last`](Self::last).
    pub fn keep_last(&mut self) {
        self.last.get_or_insert_default();
    }

    /// Describes the last frame sent since the call to [`keep_last`](Self::keep_last).
    pub fn last(&self) -> String {
        self.last
            .as_deref()
            .and_then(describe)
            .unwrap_or_else(|| "unknown, because no segment was sent".into())
    }
}

fn keep(last: &mut Vec<u8>, frame: &Frame) {
    last.clear();
    last.extend(frame.bytes().iter().take(HEADER_BYTES));
}

/// Describes a segment from its headers.
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

/// Returns whether a receiver that follows the specification would accept a corrupted packet,
/// because both its header checksum and its segment checksum match.
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
#[expect(unsafe_code, reason = "the test lender implements an unsafe method")]
mod tests;
