// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames, and the queues that carry them from one end to the other, or lose them.
//!
//! A wire without [`Impairments`] hands frames over at the next turn, a few at a time. With them it
//! loses, holds back, doubles and damages frames at random, by seed, so that a run can be repeated.
//!
//! Damage turns over bits anywhere in the frame. Some damage leaves every checksum right: that is
//! the limit of the checksum (RFC 1071), not the fault of a routine. The wire knows, because it has
//! seen the frame before: it counts such a frame and loses it. What damage is left must be found.

use crate::endpoint::{HEADER_OCTETS, Micros, Side};
use crate::lwip::PluginFrame;
use linerate_kernels::{Sum, checksum};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::ptr::NonNull;

/// An IPv4 packet on the wire.
#[derive(Debug)]
pub struct Frame {
    /// Of the size of the largest frame, whatever is used of it.
    storage: Vec<u8>,
    octets: usize,
    /// Where the octets are instead, if the sender still holds them.
    lent: Option<PluginFrame>,
}

impl Frame {
    /// Its octets.
    pub fn bytes(&self) -> &[u8] {
        self.lent.as_ref().map_or(&self.storage[..self.octets], PluginFrame::octets)
    }

    /// How many octets it has.
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// Its octets, to be written: those of the sender stay as they are.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if let Some(lent) = self.lent.take() {
            self.storage[..self.octets].copy_from_slice(lent.octets());
        }
        &mut self.storage[..self.octets]
    }

    /// Its octets where they stay for as long as the frame is kept, cut behind `header`; what is in
    /// front may be written, and is a copy where the sender still holds the octets.
    pub(crate) fn pinned(&mut self, header: usize) -> (NonNull<[u8]>, NonNull<[u8]>) {
        match &self.lent {
            Some(lent) => {
                let (front, back) = lent.octets().split_at(header);
                self.storage[..header].copy_from_slice(front);
                (NonNull::from(&mut self.storage[..header]), NonNull::from(back))
            }
            None => {
                let (front, back) = self.storage[..self.octets].split_at_mut(header);
                (NonNull::from(front), NonNull::from(back))
            }
        }
    }
}

/// Frames not in use, the one used last on top.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Frame>,
    octets_max: usize,
}

impl Pool {
    /// For frames of up to so many octets.
    pub fn new(octets_max: usize) -> Self {
        Self { free: Vec::new(), octets_max }
    }

    /// A frame of so many octets, whose content means nothing yet.
    ///
    /// # Panics
    /// If that is more than the pool is for.
    pub fn take(&mut self, octets: usize) -> Frame {
        assert!(
            octets <= self.octets_max,
            "a frame of {octets} octets, at most {} fit",
            self.octets_max
        );
        let fresh = || Frame { storage: vec![0; self.octets_max], octets: 0, lent: None };
        let mut frame = self.free.pop().unwrap_or_else(fresh);
        frame.octets = octets;
        frame
    }

    /// A frame with the same octets.
    pub fn copy(&mut self, frame: &Frame) -> Frame {
        let mut copy = self.take(frame.octets());
        copy.bytes_mut().copy_from_slice(frame.bytes());
        copy
    }

    /// A frame that stays where its sender has it.
    ///
    /// # Panics
    /// As [`take`](Self::take).
    pub(crate) fn lend(&mut self, lent: PluginFrame) -> Frame {
        let mut frame = self.take(lent.octets().len());
        frame.lent = Some(lent);
        frame
    }

    /// The frame is not needed any more.
    pub fn put(&mut self, mut frame: Frame) {
        frame.lent = None;
        self.free.push(frame);
    }
}

/// What an endpoint sees of the wire while it is polled.
#[derive(Debug)]
pub struct Port<'a> {
    /// Frames that have arrived, the oldest in front.
    pub arrived: &'a mut VecDeque<Frame>,
    /// Frames to be sent, the latest at the back.
    pub sent: &'a mut VecDeque<Frame>,
    /// Where frames come from, and go when they have been read.
    pub pool: &'a mut Pool,
}

/// What a wire does to frames. Shares are of frames, each drawn by itself.
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
    /// Octets per virtual microsecond that a direction carries; `None` for any number.
    pub rate: Option<f64>,
    /// Whether frames without payload are left alone.
    pub only_data: bool,
}

/// What a wire has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Frames that were sent.
    pub frames: u64,
    /// Octets of those, headers included.
    pub octets: u64,
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

/// Frames a direction hands over per turn at most: what a driver takes in at once. An endpoint that
/// acknowledges once per turn is kept from doing so once per window.
const BURST: usize = 16;

/// How long a frame is held back at most, beyond the delay.
const HELD_BACK_MAX: Micros = 20;

/// One direction.
#[derive(Debug, Default)]
struct Line {
    sent: VecDeque<Frame>,
    arrived: VecDeque<Frame>,
    /// Frames on their way, by when they arrive and by number.
    flying: BTreeMap<(Micros, u64), Frame>,
    /// When the line has sent what it was given, in microseconds.
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
    /// The headers of the last frame sent, kept while somebody wants to know.
    last: Option<Vec<u8>>,
    carried: Carried,
}

impl Wire {
    /// A wire for frames of up to so many octets, which carry checksums or do not.
    pub fn new(octets_max: usize, impairments: Impairments, summed: bool, seed: u64) -> Self {
        Self {
            lines: Default::default(),
            pool: Pool::new(octets_max),
            impairments: (impairments != Impairments::default()).then_some(impairments),
            summed,
            random: fastrand::Rng::with_seed(seed),
            last: None,
            carried: Carried::default(),
        }
    }

    /// What an endpoint sees of it.
    pub fn port(&mut self, side: Side) -> Port<'_> {
        let [up, down] = &mut self.lines;
        let (arrived, sent) = match side {
            Side::Client => (&mut down.arrived, &mut up.sent),
            Side::Server => (&mut up.arrived, &mut down.sent),
        };
        Port { arrived, sent, pool: &mut self.pool }
    }

    /// Takes what was sent to where it arrives at this time; whether there was anything.
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
                self.carried.octets += frame.octets() as u64;
                if let Some(last) = &mut self.last {
                    keep(last, &frame);
                }
                line.arrived.push_back(frame);
            }
            carried |= count > 0;
        }
        carried
    }

    /// Sends a frame on its way, or does not.
    fn launch(&mut self, which: usize, mut frame: Frame, now: Micros, how: &Impairments) {
        self.carried.frames += 1;
        self.carried.octets += frame.octets() as u64;
        if let Some(last) = &mut self.last {
            keep(last, &frame);
        }
        let line = &mut self.lines[which];
        let mut at = now + how.delay;
        if let Some(rate) = how.rate {
            line.free_at = line.free_at.max(now as f64) + frame.octets() as f64 / rate;
            at = line.free_at as Micros + how.delay;
        }
        if how.only_data && frame.octets() <= HEADER_OCTETS {
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
        let octets = damaged.bytes_mut();
        for _ in 0..self.random.usize(1..=4) {
            octets[self.random.usize(..octets.len())] ^= 1 << self.random.u8(..8);
        }
        damaged
    }

    /// When the next frame arrives that is on its way.
    pub fn next_arrival(&self) -> Option<Micros> {
        let first = |line: &Line| line.flying.first_key_value().map(|((at, _), _)| *at);
        self.lines.iter().filter_map(first).min()
    }

    /// What it has done.
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
    last.extend(frame.bytes().iter().take(HEADER_OCTETS));
}

/// A segment by its headers.
fn describe(header: &[u8]) -> Option<String> {
    let word = |at: usize| Some(u16::from_be_bytes(header.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u32::from_be_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let payload = usize::from(word(2)?).saturating_sub(20 + usize::from(header.get(32)? >> 4) * 4);
    let flags = header.get(33)?;
    let mut text = format!("port {} to {}: {payload} octets", word(20)?, word(22)?);
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
    let sound = |octets: &[u8], sum| checksum::reference(octets, sum, checksum::BYTE_SWAP) == 0;
    if header[0] != 0x45 || total != packet.len() || !sound(header, Sum::ZERO) {
        return false;
    }
    let addresses = header[12..20].try_into().expect("the slice has 8 octets");
    sound(rest, checksum::pseudo_ipv4(addresses, header[9], rest.len() as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet with right checksums and some payload.
    fn packet(pool: &mut Pool, payload: usize) -> Frame {
        let mut frame = pool.take(HEADER_OCTETS + payload);
        let octets = frame.bytes_mut();
        octets.fill(0);
        octets[..4].copy_from_slice(&[0x45, 0, 0, 0]);
        let total = (HEADER_OCTETS + payload) as u16;
        octets[2..4].copy_from_slice(&total.to_be_bytes());
        octets[9] = 6;
        octets[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
        octets[32] = 0x50;
        octets[HEADER_OCTETS..].iter_mut().enumerate().for_each(|(i, octet)| *octet = i as u8);
        let (header, segment) = octets.split_at_mut(20);
        let addresses = header[12..20].try_into().unwrap();
        let pseudo = checksum::pseudo_ipv4(addresses, 6, segment.len() as u16);
        let sum = checksum::partial(segment, pseudo).finish();
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        let sum = checksum::header(header, Sum::ZERO).finish();
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    /// Sends so many frames one way, each numbered by its payload, and gives out what arrives.
    fn through(impairments: Impairments, frames: usize) -> (Vec<Vec<u8>>, Carried) {
        let mut wire = Wire::new(1500, impairments, true, 7);
        let mut arrived = Vec::new();
        for number in 0..frames {
            let port = wire.port(Side::Client);
            let frame = packet(port.pool, number % 1000);
            port.sent.push_back(frame);
        }
        for now in 0..100_000 {
            wire.carry(now);
            let port = wire.port(Side::Server);
            for frame in port.arrived.drain(..) {
                arrived.push(frame.bytes().to_vec());
                port.pool.put(frame);
            }
        }
        (arrived, wire.carried())
    }

    #[test]
    fn a_plain_wire_keeps_order_and_octets() {
        let (arrived, carried) = through(Impairments::default(), 900);
        let payloads: Vec<usize> = arrived.iter().map(|octets| octets.len() - 40).collect();
        assert_eq!(payloads, (0..900).collect::<Vec<_>>());
        assert_eq!(carried.frames, 900);
        assert!(arrived.iter().all(|octets| sums_match(octets)));
    }

    #[test]
    fn each_impairment_does_what_it_counts() {
        let all = Impairments {
            loss: 0.1,
            reorder: 0.1,
            duplicate: 0.1,
            corrupt: 0.5,
            ..Impairments::default()
        };
        let (arrived, carried) = through(all, 5000);
        let Carried { lost, duplicated, corrupted, masked, reordered, .. } = carried;
        assert_eq!(arrived.len() as u64, 5000 + duplicated - lost - masked);
        let damaged = arrived.iter().filter(|octets| !sums_match(octets)).count() as u64;
        assert_eq!(damaged, corrupted);
        // Two bits of the same column that turn over in opposite ways cancel out.
        assert!(masked > 0 && masked < corrupted / 10, "{carried:?}");
        for (count, share) in [(lost, 0.1), (duplicated, 0.09), (reordered, 0.09)] {
            let expected = 5000.0 * share;
            assert!((count as f64 - expected).abs() < expected / 5.0, "{carried:?}");
        }
        assert_eq!(through(all, 5000), (arrived, carried), "the same seed, the same damage");
    }

    #[test]
    fn frames_held_back_are_overtaken_and_nothing_else_happens() {
        let reorder = Impairments { reorder: 0.2, ..Impairments::default() };
        let (arrived, carried) = through(reorder, 900);
        let mut payloads: Vec<usize> = arrived.iter().map(|octets| octets.len() - 40).collect();
        assert!(!payloads.is_sorted() && carried.reordered > 0);
        payloads.sort_unstable();
        assert_eq!(payloads, (0..900).collect::<Vec<_>>());
    }

    #[test]
    fn delay_and_rate_are_kept() {
        let slow = Impairments { delay: 1000, rate: Some(0.5), ..Impairments::default() };
        let mut wire = Wire::new(1500, slow, true, 1);
        for _ in 0..3 {
            let port = wire.port(Side::Client);
            let frame = packet(port.pool, 60);
            port.sent.push_back(frame);
        }
        wire.carry(10);
        let mut times = Vec::new();
        while let Some(at) = wire.next_arrival() {
            assert!(wire.port(Side::Server).arrived.is_empty());
            wire.carry(at);
            times.push(at);
            wire.port(Side::Server).arrived.clear();
        }
        // 100 octets take 200 us each, one after the other.
        assert_eq!(times, [1210, 1410, 1610]);
    }

    #[test]
    fn frames_without_payload_can_be_spared() {
        let only_data = Impairments { loss: 1.0, only_data: true, ..Impairments::default() };
        let (arrived, carried) = through(only_data, 2000);
        assert_eq!((arrived.len(), carried.lost), (2, 1998));
    }

    #[test]
    fn the_last_segment_is_described() {
        let mut wire = Wire::new(1500, Impairments::default(), true, 1);
        wire.keep_last();
        assert!(wire.last().contains("none was sent"));
        let port = wire.port(Side::Client);
        let frame = packet(port.pool, 60);
        port.sent.push_back(frame);
        wire.carry(1);
        assert!(
            wire.last().contains("60 octets, sequence number 0, checksum 0x"),
            "{}",
            wire.last()
        );
    }
}
