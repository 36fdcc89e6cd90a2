// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares stages restricted to a packet class with a reference that processes one packet at a
//! time.

use super::*;
use crate::burst::Verdict;
use crate::context::StageContext;
use crate::pool::Pool;
use crate::stage::Stage;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the test stage does with a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Pass,
    Drop,
    Consume,
    Panic,
}

/// A packet in a test: IP version, protocol, and what the stage does with it.
type Given = (u8, u8, Fate);

/// A stage that treats packets by position, and records the positions of the packets it was given.
struct Decide {
    fates: Vec<Fate>,
    seen: std::sync::mpsc::Sender<u64>,
}

impl Stage for Decide {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        assert!(!burst.is_empty(), "a stage without packets is not called");
        burst.sift(context, |packet, _| {
            let position = packet.meta().position;
            self.seen.send(position).expect("the test listens");
            match self.fates[position as usize] {
                Fate::Pass => Verdict::Pass,
                Fate::Drop => Verdict::Drop(0),
                Fate::Consume => Verdict::Consume,
                Fate::Panic => panic!("on purpose"),
            }
        });
    }
}

fn part(stage: Box<dyn Stage>, only: PacketClass) -> Part {
    Part {
        name: "test".to_owned(),
        drop_causes: &["test"],
        stage,
        context: StageContext::default(),
        branch: Branch::new(only),
        input_packets: 0,
        measured: [0, u64::MAX],
        audited_output: Tally::default(),
    }
}

fn fill<'p>(burst: &mut Burst<'p>, packets: Vec<Packet<'p>>, given: &[Given]) {
    for (position, (mut packet, (version, protocol, _))) in
        packets.into_iter().zip(given).enumerate()
    {
        assert!(packet.fill(&vec![0; 20 + position]));
        let meta = packet.meta_mut();
        meta.position = position as u64;
        (meta.layers.ip_version, meta.layers.protocol) = (*version, *protocol);
        burst.push(packet);
    }
}

fn bytes(positions: impl IntoIterator<Item = u64>) -> u64 {
    positions.into_iter().map(|position| 20 + position).sum()
}

fn packets() -> impl Strategy<Value = Vec<Given>> {
    let version = prop::sample::select(&[0_u8, 4, 6][..]);
    let protocol = prop::sample::select(&[1_u8, 6, 17, 47, 58][..]);
    let fate = prop_oneof![4 => Just(Fate::Pass), 1 => Just(Fate::Drop), 1 => Just(Fate::Consume)];
    prop::collection::vec((version, protocol, fate), 1..=MAX_BURST)
}

fn config(cases: u32) -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(5);
    ProptestConfig { cases, rng_seed, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn a_branch_equals_a_packet_at_a_time(
        given in packets(),
        only in prop::sample::select(&PacketClass::ALL[1..]),
    ) {
        let is_chosen = |position: &u64| {
            let (version, protocol, _) = given[*position as usize];
            only.contains(version, protocol)
        };
        let fate = |position: &u64| given[*position as usize].2;
        let all: Vec<u64> = (0..given.len() as u64).collect();
        let chosen: Vec<u64> = all.iter().copied().filter(is_chosen).collect();
        let left: Vec<u64> = all.iter().copied()
            .filter(|one| !is_chosen(one) || fate(one) == Fate::Pass).collect();

        let (seen, listen) = std::sync::mpsc::channel();
        let fates = given.iter().map(|(_, _, fate)| *fate).collect();
        let mut part = part(Box::new(Decide { fates, seen }), only);
        let mut pool = Pool::new(given.len(), 512);
        let (mut burst, mut bypass) = (Burst::new(), Bypass::new(true));
        fill(&mut burst, pool.packets(0), &given);
        let processed = part.process_some(&mut burst, &mut bypass);

        let positions = |packets: &[Packet<'_>]| -> Vec<u64> {
            packets.iter().map(|packet| packet.meta().position).collect()
        };
        prop_assert_eq!(listen.try_iter().collect::<Vec<_>>(), chosen.clone());
        prop_assert_eq!(positions(&burst.packets), left);
        prop_assert_eq!((processed, part.input_packets), (chosen.len(), chosen.len() as u64));
        prop_assert_eq!(part.arrived(), all.len() as u64);
        let around = all.iter().copied().filter(|one| !is_chosen(one));
        let bypassed = Tally { packets: around.clone().count() as u64, bytes: bytes(around) };
        prop_assert_eq!(part.bypassed(), bypassed);
        let ends = |end: Fate| {
            let ended = chosen.iter().copied().filter(move |one| fate(one) == end);
            Tally { packets: ended.clone().count() as u64, bytes: bytes(ended) }
        };
        let account = &part.context.account;
        prop_assert_eq!(account.drops[0], ends(Fate::Drop));
        prop_assert_eq!(account.consumed, ends(Fate::Consume));
        let released = (ends(Fate::Drop) + ends(Fate::Consume)).packets as usize;
        prop_assert_eq!(burst.released.len(), released);
        // No packets are left behind, and no vector has grown.
        prop_assert!(bypass.aside.is_empty() && bypass.order.is_empty() && bypass.spare.is_empty());
        for vector in [&bypass.aside, &bypass.spare, &burst.packets] {
            prop_assert_eq!(vector.capacity(), MAX_BURST);
        }
    }
}

#[test]
fn packets_of_a_stage_that_panics_are_all_accounted_for() {
    let given: Vec<Given> = (0..9_usize)
        .map(|position| {
            let fate = [Fate::Drop, Fate::Pass, Fate::Panic][position / 3];
            ([4, 6][position % 2], 6, fate)
        })
        .collect();
    let (seen, _listen) = std::sync::mpsc::channel();
    let fates = given.iter().map(|(_, _, fate)| *fate).collect();
    let mut part = part(Box::new(Decide { fates, seen }), PacketClass::Ipv4);
    let mut pool = Pool::new(given.len(), 512);
    let (mut burst, mut bypass) = (Burst::new(), Bypass::new(true));
    fill(&mut burst, pool.packets(0), &given);
    let result = catch_unwind(AssertUnwindSafe(|| part.process_some(&mut burst, &mut bypass)));
    assert!(result.is_err());
    // IPv4: 0 and 2 are dropped, 4 passes, 6 panics, 8 is not processed. IPv6: all bypass the
    // stage.
    assert_eq!(burst.at_cursor().map(|packet| packet.meta().position), Some(6));
    let mut held: Vec<u64> =
        burst.remaining().chain(bypass.aside()).map(|packet| packet.meta().position).collect();
    held.sort_unstable();
    assert_eq!(held, [1, 3, 4, 5, 6, 7, 8]);
    assert_eq!((part.arrived(), part.bypassed()), (9, Tally::default()));
    assert_eq!(part.context.account.drops[0].packets, 2);
}

/// Reverses the packets of a burst.
struct Reverse;

impl Stage for Reverse {
    fn process(&mut self, burst: &mut Burst<'_>, _: &mut StageContext) {
        burst.packets.reverse();
    }
}

#[test]
fn a_stage_that_reorders_loses_nothing() {
    let given: Vec<Given> = (0..8).map(|i| ([4, 6, 6][i % 3], 6, Fate::Pass)).collect();
    let mut part = part(Box::new(Reverse), PacketClass::Ipv6);
    let mut pool = Pool::new(given.len(), 512);
    let (mut burst, mut bypass) = (Burst::new(), Bypass::new(true));
    fill(&mut burst, pool.packets(0), &given);
    part.process_some(&mut burst, &mut bypass);
    let positions: Vec<u64> = burst.iter().map(|packet| packet.meta().position).collect();
    // IPv4 is 0, 3, 6; IPv6 leaves the stage as 7, 5, 4, 2, 1.
    assert_eq!(positions, [0, 3, 6, 7, 5, 4, 2, 1]);
}
