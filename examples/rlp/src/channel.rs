// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated radio link that loses, duplicates and reorders frames, driven by a seeded random
//! generator.
//!
//! As on a radio, each frame in a packet has its own fate: every frame that is not lost comes out
//! in a packet of its own. Time is counted in ticks; a frame comes out `delay_ticks` after it went
//! in, or later if it is held back.
//!
//! Losses are independent or come in bursts (Gilbert 1960, Elliott 1963): the link is good or bad,
//! with a loss probability for each state, and may change state once per tick. All frames in a tick
//! see the same state, with independent random draws.
//!
//! Rate limits are not modelled, nor are corrupted frames, which a radio drops because of a wrong
//! check sequence.

use crate::frame::{self, FRAME_HEADER_BYTES, Fault, PACKET_HEADER_BYTES};
use std::collections::VecDeque;

/// Frame loss model. Probabilities are from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Each frame is lost with this probability, independently of the others.
    Independent(f64),
    /// Losses in bursts.
    GilbertElliott(Burst),
}

/// Gilbert-Elliott model parameters for a link that is either good or bad.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Probability per tick that a good link turns bad.
    pub worsen: f64,
    /// Probability per tick that a bad link turns good.
    pub recover: f64,
    /// Loss probability on a good link, and on a bad link.
    pub loss: [f64; 2],
}

/// Link impairments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weather {
    /// Loss model.
    pub loss: Loss,
    /// Propagation delay in ticks.
    pub delay_ticks: u64,
    /// Probability that a frame is held back for 1 to `held_ticks` ticks.
    pub hold: f64,
    /// Maximum extra delay, in ticks, of a held-back frame or of the second copy of a duplicated
    /// frame; at least 1 if either can occur.
    pub held_ticks: u64,
    /// Probability that a frame is duplicated.
    pub double: f64,
}

impl Weather {
    /// Returns a link with losses only: no duplicates, no reordering.
    pub fn losing(loss: Loss, delay_ticks: u64) -> Self {
        Self { loss, delay_ticks, hold: 0.0, held_ticks: 1, double: 0.0 }
    }
}

/// Returns true with this probability.
fn happens(random: &mut fastrand::Rng, chance: f64) -> bool {
    // Unbiased for 0 and 1: `f64` is a multiple of 2^-53 in [0, 1).
    random.f64() < chance
}

/// Link statistics, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that entered the link.
    pub sent: u64,
    /// Frames lost.
    pub lost: u64,
    /// Frames duplicated.
    pub doubled: u64,
    /// Frames held back.
    pub held: u64,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Channel {
    weather: Weather,
    random: fastrand::Rng,
    /// Whether the link is in the bad state at the current tick.
    bad: bool,
    tick: u64,
    /// Frames in flight, one per packet, sorted by arrival tick; frames with the same tick stay in
    /// the order in which they were sent.
    flying: VecDeque<(u64, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    counts: Counts,
}

impl Channel {
    /// Creates an empty link. With burst losses, the initial state is drawn from the stationary
    /// distribution.
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

    /// Sends a packet's frames at tick `now`, which must not decrease between calls.
    ///
    /// # Errors
    /// Returns the first error in the packet. The frames before it are sent.
    pub fn send(&mut self, now: u64, packet: &[u8]) -> Result<(), Fault> {
        self.age(now);
        let access = frame::parse(packet)?;
        let mut rest = &packet[PACKET_HEADER_BYTES..];
        for frame in access.frames() {
            frame?;
            // The frame parsed, so it has at least a header, which contains the length of the rest.
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
        // One frame and its length, which is at most 65535 because the packet's header is valid.
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

    /// Advances the link's state to tick `now`, with one transition per tick.
    fn age(&mut self, now: u64) {
        if let Loss::GilbertElliott(burst) = self.weather.loss {
            for _ in self.tick..now {
                let chance = if self.bad { burst.recover } else { burst.worsen };
                self.bad ^= happens(&mut self.random, chance);
            }
        }
        self.tick = now;
    }

    /// Passes the packets (one frame each) that have arrived by tick `now` to `take`.
    pub fn arrive(&mut self, now: u64, mut take: impl FnMut(&[u8])) {
        while self.flying.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, packet)) = self.flying.pop_front() else {
                return;
            };
            take(&packet);
            self.spare.push(packet);
        }
    }

    /// Returns whether no frame is in flight.
    pub fn is_empty(&self) -> bool {
        self.flying.is_empty()
    }

    /// Returns the statistics.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl Burst {
    /// Returns the long-run fraction of time that the link is in the bad state (stationary
    /// distribution).
    pub fn share_bad(&self) -> f64 {
        self.worsen / (self.worsen + self.recover)
    }
}
