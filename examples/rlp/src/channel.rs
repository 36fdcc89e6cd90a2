// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link that loses, repeats and reorders frames, by numbers from a seed.
//!
//! Frames meet the link one by one, as a radio carries them: a packet that goes in comes out as one
//! packet per frame that was not lost. Time is counted in ticks; a frame comes out `delay_ticks`
//! after it went in, later when it was held back.
//!
//! Losses are independent, or come in bursts (Gilbert 1960, Elliott 1963): the link is good or bad,
//! with a chance of loss in each, and may change once per tick. All frames of a tick see the same
//! state, with independent random draws.
//!
//! Leaves out: damaged frames (a radio drops them by their check sequence), limits of rate.

use crate::frame::{self, FRAME_HEADER_BYTES, Fault, PACKET_HEADER_BYTES};
use std::collections::VecDeque;

/// Loss model of frames. Probabilities are from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Each with the same chance.
    Independent(f64),
    /// In bursts.
    GilbertElliott(Burst),
}

/// The two states of a link that loses in bursts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Chance per tick that a good link turns bad.
    pub worsen: f64,
    /// Chance per tick that a bad link turns good.
    pub recover: f64,
    /// Chance that a frame is lost, on a good link and on a bad one.
    pub loss: [f64; 2],
}

/// Impairments of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weather {
    /// Loss model.
    pub loss: Loss,
    /// Ticks from one end to the other.
    pub delay_ticks: u64,
    /// Chance that a frame is held back, for 1 to `held_ticks` ticks.
    pub hold: f64,
    /// Longest time a frame is held back, or behind its double; at least 1 where it can happen.
    pub held_ticks: u64,
    /// Chance that a frame comes out twice.
    pub double: f64,
}

impl Weather {
    /// A link that only loses.
    pub fn losing(loss: Loss, delay_ticks: u64) -> Self {
        Self { loss, delay_ticks, hold: 0.0, held_ticks: 1, double: 0.0 }
    }
}

/// Random event with this probability.
fn happens(random: &mut fastrand::Rng, chance: f64) -> bool {
    // Exact: `f64` is a multiple of 2^-53 in [0, 1).
    random.f64() < chance
}

/// Statistics of a link, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Went in.
    pub sent: u64,
    /// Were lost.
    pub lost: u64,
    /// Came out twice.
    pub doubled: u64,
    /// Were held back.
    pub held: u64,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Channel {
    weather: Weather,
    random: fastrand::Rng,
    /// Whether the link is bad, as of the tick.
    bad: bool,
    tick: u64,
    /// Packets of one frame, by the tick at which they come out; in order of entry within a tick.
    flying: VecDeque<(u64, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    counts: Counts,
}

impl Channel {
    /// An empty link. One that loses in bursts begins in either state as often as it is in it.
    pub fn new(weather: Weather, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let bad = match weather.loss {
            Loss::Independent(_) => false,
            Loss::GilbertElliott(burst) => happens(&mut random, burst.share_bad()),
        };
        Self {
            weather,
            random,
            bad,
            tick: 0,
            flying: VecDeque::new(),
            spare: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Sends the frames of a packet, at a tick not earlier than previous ones.
    ///
    /// # Errors
    /// The error in the packet; the frames before it are sent.
    pub fn send(&mut self, now: u64, packet: &[u8]) -> Result<(), Fault> {
        self.age(now);
        let access = frame::parse(packet)?;
        let mut rest = &packet[PACKET_HEADER_BYTES..];
        for frame in access.frames() {
            frame?;
            // A frame that was read is at least its header, which says what follows.
            let bytes = FRAME_HEADER_BYTES + usize::from(u16::from_be_bytes([rest[2], rest[3]]));
            let (one, behind) = rest.split_at(bytes);
            self.send_one(now, &packet[..PACKET_HEADER_BYTES], one);
            rest = behind;
        }
        Ok(())
    }

    fn send_one(&mut self, now: u64, header: &[u8], frame: &[u8]) {
        let Weather { delay_ticks, hold, held_ticks, double, .. } = self.weather;
        self.counts.sent += 1;
        let chance = self.chance_of_loss();
        if happens(&mut self.random, chance) {
            self.counts.lost += 1;
            return;
        }
        let mut due = now + delay_ticks;
        if happens(&mut self.random, hold) {
            self.counts.held += 1;
            due += self.random.u64(1..=held_ticks.max(1));
        }
        self.fly(due, header, frame);
        if happens(&mut self.random, double) {
            self.counts.doubled += 1;
            due += self.random.u64(1..=held_ticks.max(1));
            self.fly(due, header, frame);
        }
    }

    fn fly(&mut self, due: u64, header: &[u8], frame: &[u8]) {
        let mut packet = self.spare.pop().unwrap_or_default();
        packet.clear();
        packet.extend_from_slice(header);
        packet.extend_from_slice(frame);
        // One frame, and its bytes: at most 65535, as the header of the whole packet says.
        packet[15] = 1;
        packet[16..18].copy_from_slice(&(frame.len() as u16).to_be_bytes());
        let at = self.flying.partition_point(|(tick, _)| *tick <= due);
        self.flying.insert(at, (due, packet));
    }

    fn chance_of_loss(&self) -> f64 {
        match self.weather.loss {
            Loss::Independent(chance) => chance,
            Loss::GilbertElliott(burst) => burst.loss[usize::from(self.bad)],
        }
    }

    /// Lets the link change, once per tick.
    fn age(&mut self, now: u64) {
        if let Loss::GilbertElliott(burst) = self.weather.loss {
            for _ in self.tick..now {
                let chance = if self.bad { burst.recover } else { burst.worsen };
                self.bad ^= happens(&mut self.random, chance);
            }
        }
        self.tick = now;
    }

    /// Hands over the packets, of one frame each, that have come out by a tick.
    pub fn arrive(&mut self, now: u64, mut take: impl FnMut(&[u8])) {
        while self.flying.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, packet)) = self.flying.pop_front() else {
                return;
            };
            take(&packet);
            self.spare.push(packet);
        }
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.flying.is_empty()
    }

    /// Returns the statistics.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl Burst {
    /// Long-term share of the bad state: the transitions balance.
    pub fn share_bad(&self) -> f64 {
        self.worsen / (self.worsen + self.recover)
    }
}
