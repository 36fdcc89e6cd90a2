// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the receiver with a reference that keeps each byte's state separately.

use super::*;
use crate::frame::ByteRange;
use proptest::prelude::*;

const RING_BYTES: u64 = 128;
const TIMER_TICKS: u64 = 5;
const COPIES: [u8; 2] = [1, 2];

/// A stream byte's state in the reference receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Note {
    Here(u8),
    /// Missing since the frame with this index arrived.
    Missing {
        hole: usize,
        round: usize,
        copies: u8,
        due: u64,
    },
    GivenUp {
        hole: usize,
    },
}

/// State of every byte from the first to the highest seen.
struct Reference {
    notes: Vec<Note>,
    taken: usize,
    resume: Option<i64>,
    rounds: Option<&'static [u8]>,
    refused: [u64; 5],
}

impl Reference {
    /// Returns runs of missing bytes as index ranges; adjacent bytes in the same hole form one run.
    fn runs(&self) -> Vec<(usize, usize)> {
        let hole = |note: &Note| match note {
            Note::Here(_) => None,
            Note::Missing { hole, .. } => Some((*hole, false)),
            Note::GivenUp { hole } => Some((*hole, true)),
        };
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (at, note) in self.notes.iter().enumerate().skip(self.taken) {
            match runs.last_mut() {
                _ if hole(note).is_none() => {}
                Some((_, end)) if *end == at && hole(&self.notes[at - 1]) == hole(note) => {
                    *end += 1;
                }
                _ => runs.push((at, at + 1)),
            }
        }
        runs
    }

    fn give_up(&mut self, below: usize) {
        for (first, end) in self.runs() {
            for note in &mut self.notes[first..end] {
                if let (Note::Missing { hole, .. }, true) = (*note, first < below) {
                    *note = Note::GivenUp { hole };
                }
            }
        }
    }

    fn open(&mut self, end: usize, hole: usize, given_up: bool) {
        let copies = self.rounds.map_or(Some(1), |rounds| rounds.first().copied());
        let note = match copies {
            Some(copies) if !given_up => Note::Missing { hole, round: 0, copies, due: 0 },
            _ => Note::GivenUp { hole },
        };
        self.notes.resize(end, note);
    }

    /// `first` is a 64-bit byte number; `step` identifies the hole this frame may open.
    fn receive(&mut self, step: usize, first: i64, bytes: &[u8]) -> Result<(), Refusal> {
        let (end, expected) = (first + bytes.len() as i64, self.notes.len() as i64);
        let room = (self.taken as u64 + RING_BYTES) as i64;
        let jumps = first - expected > RING_BYTES as i64;
        if jumps && self.resume != Some(first) {
            self.resume = Some(end);
            return Err(Refusal::Jump);
        }
        if jumps {
            self.give_up(usize::MAX);
            self.open(first as usize, step, true);
        }
        if end > room {
            self.give_up((end - RING_BYTES as i64) as usize);
            return Err(Refusal::Window);
        }
        if first > expected {
            self.open(first as usize, step, false);
        }
        self.resume = None;
        let mut result = if bytes.is_empty() { Ok(()) } else { Err(Refusal::Duplicate) };
        for (number, byte) in (first..).zip(bytes) {
            let Ok(at) = usize::try_from(number) else { continue };
            match self.notes.get(at) {
                None => {
                    self.notes.push(Note::Here(*byte));
                    result = Ok(());
                }
                Some(Note::Missing { .. }) => {
                    self.notes[at] = Note::Here(*byte);
                    result = Ok(());
                }
                Some(Note::GivenUp { .. }) if at >= self.taken => {
                    result = result.or(Err(Refusal::Late));
                }
                Some(_) => {}
            }
        }
        result
    }

    fn tick(&mut self, now: u64) {
        for note in &mut self.notes[self.taken..] {
            if let Note::Missing { hole, round, copies: 0, due } = *note
                && due <= now
            {
                let next = round + 1;
                *note = match self.rounds.map_or(Some(1), |all| all.get(next).copied()) {
                    Some(copies) => Note::Missing { hole, round: next, copies, due },
                    None => Note::GivenUp { hole },
                };
            }
        }
    }

    fn next_nak(&mut self, now: u64) -> Vec<(usize, usize)> {
        let mut runs = self.runs();
        let wants = |note: &Note| matches!(note, Note::Missing { copies, .. } if *copies > 0);
        runs.retain(|(first, _)| wants(&self.notes[*first]));
        runs.truncate(crate::frame::MAX_RANGES);
        for (first, end) in &runs {
            for note in &mut self.notes[*first..*end] {
                if let Note::Missing { copies, due, .. } = note {
                    *copies -= 1;
                    *due = if *copies == 0 { now + TIMER_TICKS } else { *due };
                }
            }
        }
        runs
    }

    fn take(&mut self, most: usize) -> (Taken, Vec<u8>) {
        let here = self.notes[self.taken..].iter().map_while(|note| match note {
            Note::Here(byte) => Some(*byte),
            _ => None,
        });
        let bytes: Vec<u8> = here.take(most).collect();
        if !bytes.is_empty() {
            self.taken += bytes.len();
            return (Taken::Bytes(bytes.len()), bytes);
        }
        match (self.runs().first(), self.notes.get(self.taken)) {
            (Some(&(first, end)), Some(Note::GivenUp { .. })) => {
                self.taken = end;
                let bytes = (end - first) as u64;
                (Taken::Aborted { first: first as u64, bytes }, Vec::new())
            }
            _ => (Taken::Nothing, Vec::new()),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Distance of the first byte from the highest number seen, and length in bytes.
    Frame(i64, usize),
    Wait(u64),
    Nak,
    Take(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (prop_oneof![2 => Just(0_i64), 2 => -60..60_i64, 1 => -400..400_i64], 0..30_usize)
            .prop_map(|(at, bytes)| Step::Frame(at, bytes)),
        2 => (0..4_u64).prop_map(Step::Wait),
        2 => Just(Step::Nak),
        3 => (0..60_usize).prop_map(Step::Take),
    ];
    // Too few frames to open `MAX_HOLES` holes.
    prop::collection::vec(step, 0..120)
}

fn limits(rounds: Option<&[u8]>) -> Limits {
    let rounds = rounds.map_or(Rounds::UNLIMITED, |copies| Rounds::new(copies).expect("few"));
    Limits { ring_bytes: RING_BYTES as usize, rounds, timer_ticks: TIMER_TICKS }
}

fn rounds() -> impl Strategy<Value = Option<&'static [u8]>> {
    prop_oneof![Just(None), Just(Some(&[][..])), Just(Some(&COPIES[..]))]
}

proptest! {
    #[test]
    fn holes_say_what_a_note_for_every_byte_would(
        start in prop_oneof![Just(0_u64), (1_u64 << 32) - 300..1 << 32],
        rounds in rounds(), steps in steps(),
    ) {
        let mut receiver =
            Receiver { taken: start, expected: start, ..Receiver::new(limits(rounds)) };
        let mut reference =
            Reference { notes: Vec::new(), taken: 0, resume: None, rounds, refused: [0; 5] };
        let mut now = 0;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Frame(at, bytes) => {
                    let first = reference.notes.len() as i64 + at;
                    // Frames carry different values for the same byte numbers: the first value
                    // received must be kept.
                    let bytes: Vec<u8> =
                        (0..bytes).map(|i| (i * 3 + number * 17) as u8).collect();
                    let wire = (start as i64 + first) as u32;
                    let expected = reference.receive(number, first, &bytes);
                    if let Err(refusal) = expected { reference.refused[refusal as usize] += 1; }
                    prop_assert_eq!(receiver.receive(wire, &bytes), expected);
                }
                Step::Wait(ticks) => {
                    now += ticks;
                    reference.tick(now);
                    receiver.tick(now);
                }
                Step::Nak => {
                    let expected = reference.next_nak(now);
                    let list = receiver.next_nak(now);
                    let ranges = list.iter().flat_map(|list| list.ranges().iter());
                    let place = |first: u32| first.wrapping_sub(start as u32) as usize;
                    let ends = |range: &ByteRange| {
                        (place(range.first), place(range.first) + range.bytes as usize)
                    };
                    let found: Vec<_> = ranges.map(ends).collect();
                    prop_assert_eq!(found, expected);
                }
                Step::Take(most) => {
                    let mut out = vec![0; most];
                    let (expected, bytes) = reference.take(most);
                    let expected = match expected {
                        Taken::Aborted { first, bytes } => {
                            Taken::Aborted { first: first + start, bytes }
                        }
                        other => other,
                    };
                    prop_assert_eq!(receiver.take(&mut out), expected);
                    prop_assert_eq!(&out[..bytes.len()], &bytes[..]);
                }
            }
            let wants = |note: &Note| matches!(note, Note::Missing { copies: 1.., .. });
            let here = |note: &&Note| matches!(note, Note::Here(_));
            let rest = &reference.notes[reference.taken..];
            prop_assert_eq!(receiver.wants_nak(), rest.iter().any(wants));
            prop_assert_eq!(receiver.ready(), rest.iter().take_while(here).count());
            prop_assert_eq!(receiver.is_settled(), rest.is_empty());
            prop_assert_eq!(receiver.counts().refused, reference.refused);
        }
    }
}

#[test]
fn holes_beyond_the_limit_are_refused_and_found_again() {
    let limits = Limits { ring_bytes: 1024, ..limits(Some(&[1])) };
    let mut receiver = Receiver::new(limits);
    for at in 0..MAX_HOLES as u32 {
        assert_eq!(receiver.receive(4 * at + 3, &[at as u8]), Ok(()));
    }
    let full = 4 * MAX_HOLES as u32;
    assert_eq!(receiver.receive(full + 1, &[0]), Err(Refusal::Holes));
    assert_eq!(receiver.receive(1, &[1]), Err(Refusal::Holes), "one hole would be two");
    assert_eq!(receiver.receive(0, &[1, 2, 3]), Ok(()), "one hole less");
    assert_eq!(receiver.receive(full + 1, &[0]), Ok(()));
    let mut lists = 0;
    while let Some(list) = receiver.next_nak(0) {
        assert!(!list.ranges().is_empty());
        lists += 1;
    }
    assert_eq!(lists, MAX_HOLES.div_ceil(crate::frame::MAX_RANGES));
    receiver.tick(TIMER_TICKS);
    assert_eq!(receiver.counts().aborts, MAX_HOLES as u64);
}

#[test]
fn rounds_are_few_and_none_is_empty() {
    assert!(Rounds::new(&[1; MAX_ROUNDS]).is_some() && Rounds::new(&[]).is_some());
    assert_eq!(Rounds::new(&[1; MAX_ROUNDS + 1]), None);
    assert_eq!(Rounds::new(&[1, 0]), None);
}
