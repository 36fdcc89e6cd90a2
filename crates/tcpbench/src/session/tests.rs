// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that every pattern completes, and that failures are reported as such.

use super::applications::HALF_OPEN;
use super::time::UNEASE_TURNS;
use super::*;
use crate::endpoint::{State, WireMode};
use crate::lwip::Lwip;
use crate::proof::{ROUGH, little};
use crate::routines::{OFF, Routines, SELECTED, STACK};
use crate::smol::Smoltcp;
use crate::wire::Impairments;

fn session(setup: &Setup, set: &Set) -> Result<Session, Error> {
    between(setup, &Smoltcp, set)
}

fn between(setup: &Setup, stack: &dyn Stack, set: &Set) -> Result<Session, Error> {
    let stream = Rc::new(Stream::new(1, setup.buffer_bytes()));
    Session::new(setup, [stack, stack], set, &stream)
}

#[test]
fn every_pattern_completes_with_every_set_over_both_wires() {
    for pattern in Pattern::ALL {
        for wire in [WireMode::Copy, WireMode::Reference] {
            for set in ["document", SELECTED, STACK, OFF] {
                let set = Set::find(set).expect("a set");
                let mut session = session(&Setup { wire, ..Setup::for_pattern(pattern) }, &set)
                    .expect("it connects");
                let slice = session.run(little(pattern)).expect("the run completes");
                let done = if pattern.is_about_bytes() { slice.bytes } else { slice.exchanges };
                assert!(done >= little(pattern) && slice.frames > 0, "{pattern} {slice:?}");
                assert_eq!(session.carried().lost, 0);
            }
        }
    }
}

#[test]
fn every_pattern_survives_every_impairment() {
    for pattern in Pattern::ALL {
        let setup = Setup { impairments: ROUGH, ..Setup::for_pattern(pattern) };
        let set = Set::find(SELECTED).expect("a set");
        let mut session = session(&setup, &set).expect("it connects");
        session.run(little(pattern)).expect("the run completes");
        let carried = session.carried();
        assert!(carried.lost > 0 && carried.corrupted > 0, "{pattern} {carried:?}");
        let dropped: u64 = session.counters().iter().map(|c| c.bad_checksums).sum();
        // Data in flight has not been compared.
        let duplicates = carried.duplicated;
        assert!(dropped <= carried.corrupted + duplicates, "{pattern} {carried:?} {dropped}");
        assert!(dropped + 4 >= carried.corrupted, "{pattern} {carried:?} {dropped}");
    }
}

#[test]
fn reconnects_to_a_server_that_lost_the_handshake() {
    let setup = Setup::for_pattern(Pattern::Response);
    let set = Set::find(SELECTED).expect("a set");
    let mut session = session(&setup, &set).expect("the session is created");
    session.server.open(0).expect("it listens");
    session.client.open(0).expect("it calls");
    session.until(|s| s.client.state() == State::Open).expect("the client gets a reply");
    session.server = Smoltcp.endpoint(&config(&setup, &set, Side::Server)).expect("another");
    session.server.open(session.now).expect("it listens");
    session.shake_hands().expect("the second attempt succeeds");
    assert_eq!([session.client.state(), session.server.state()], [State::Open; 2]);
    assert_eq!(session.refused(), 1);
    assert!(session.now > HALF_OPEN && session.watchdog.turns < UNEASE_TURNS);
}

/// Negative control: with checksums disabled, the comparison detects the corruption.
#[test]
fn without_checksums_the_comparison_finds_damage() {
    let corrupt = Impairments { corrupt: 0.01, only_data: true, ..Impairments::default() };
    for wire in [WireMode::Copy, WireMode::Reference] {
        let setup = Setup { impairments: corrupt, wire, ..Setup::for_pattern(Pattern::Bulk) };
        let mut off = session(&setup, &Set::find(OFF).expect("a set")).expect("it connects");
        let error = off.run(100_000_000).expect_err("the corruption is detected");
        assert!(matches!(error, Error::Corrupt { .. } | Error::Lost { .. }), "{error}");
        let selected = Set::find(SELECTED).expect("a set");
        let mut on = session(&setup, &selected).expect("it connects");
        on.run(3_000_000).expect("checksums reject all corruption");
        assert!(on.carried().corrupted > 10);
    }
}

#[test]
fn a_routine_wrong_by_one_carry_ends_the_run_and_names_the_segment() {
    let wrong = Set::from_routines(Routines::wrong_by_a_carry());
    let lwip = Lwip::new();
    let mut stacks: Vec<&dyn Stack> = vec![&Smoltcp];
    match lwip.check(1460).and_then(|()| lwip.check(8000)) {
        Ok(()) => stacks.push(&lwip),
        Err(error) => println!("SKIP: lwIP: {error}"),
    }
    let patterns = [Pattern::Bulk, Pattern::Jumbo, Pattern::Mixed];
    let each = stacks.into_iter().flat_map(|stack| patterns.map(|pattern| (stack, pattern)));
    for (stack, pattern) in each {
        let made = between(&Setup::for_pattern(pattern), stack, &wrong);
        let run = made.and_then(|mut session| session.run(100_000_000));
        let Err(Error::Stuck(stuck)) = run else { panic!("{pattern}: {run:?}") };
        assert!(stuck.bad_checksums > 0, "{stuck}");
        let text = stuck.to_string();
        for part in [pattern.name(), stack.name(), "`wrong`", "sequence number", "bytes"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn sums_taken_by_the_stack_and_by_the_device_understand_each_other() {
    let setup = Setup::for_pattern(Pattern::Bulk);
    let mut mixed = session(&setup, &Set::find(SELECTED).expect("a set")).expect("connects");
    let stack = config(&setup, &Set::find(STACK).expect("a set"), Side::Server);
    mixed.server = Smoltcp.endpoint(&stack).expect("an endpoint");
    mixed.client = Smoltcp
        .endpoint(&config(&setup, &Set::find("document").expect("a set"), Side::Client))
        .expect("an endpoint");
    mixed.connect().expect("it connects");
    mixed.run(3_000_000).expect("the run completes");
    assert_eq!(mixed.counters()[0].bad_checksums, 0);
}
