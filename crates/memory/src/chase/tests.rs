// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks chains by walking them item by item.

use super::*;
use linerate_record::memory::PageKind;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

fn arena(bytes: usize) -> Arena {
    Arena::new(bytes, PageKind::Base, &AtomicBool::new(false)).unwrap()
}

/// Returns the items in walk order, from item 0 back to item 0, using only memory contents.
fn walked(chain: &Chain<'_>) -> Vec<usize> {
    let mut items = vec![0];
    let mut cursor = chain.next(Cursor::default());
    while chain.item(cursor) != 0 && items.len() <= chain.len() {
        items.push(chain.item(cursor));
        cursor = chain.next(cursor);
    }
    items
}

/// Checks that each item occurs once, block by block, and that a sequential chain is in order.
fn check(chain: &Chain<'_>) {
    let items = walked(chain);
    let mut sorted = items.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..chain.len()).collect::<Vec<_>>());
    let mut boxes: Vec<usize> = items.iter().map(|item| chain.box_of(*item)).collect();
    boxes.dedup();
    assert_eq!(boxes.len(), chain.len().div_ceil(1 << chain.box_shift), "{boxes:?}");
    if chain.layout.order == Order::Sequential {
        assert_eq!(items, sorted);
    }
}

const ORDERS: [Order; 3] = [Order::PageLocal, Order::Random, Order::Sequential];

/// Returns a layout with one item per page, which keeps blocks small.
fn paged(order: Order, start: usize) -> Layout {
    let page = page_bytes();
    Layout { order, stride: page, line: 64, start: start * page }
}

#[test]
fn every_prefix_visits_each_item_once() {
    let mut arena = arena(150 * page_bytes());
    for order in ORDERS {
        let mut chain = Chain::new(&mut arena, paged(order, 70), 5);
        assert_eq!(chain.capacity(), 150);
        for len in 1..=150 {
            chain.resize(len);
            assert_eq!(chain.len(), len);
            check(&chain);
        }
    }
}

#[test]
fn dense_chains_of_several_boxes_are_whole() {
    let mut arena = arena(1 << 20);
    for order in ORDERS {
        let mut chain = Chain::new(&mut arena, Layout::dense(order, 64), 9);
        for len in [1, 64, 768, 2047, 2048, 2049, 16384] {
            chain.resize(len);
            check(&chain);
        }
    }
}

#[test]
fn more_than_fits_is_what_fits() {
    let mut arena = arena(1 << 16);
    let mut chain = Chain::new(&mut arena, Layout::dense(Order::Random, 64), 1);
    chain.resize(usize::MAX);
    assert_eq!(chain.len(), 1024);
    check(&chain);
    chain.resize(0);
    assert_eq!((chain.len(), chain.is_empty()), (1, false));
}

/// All (n-1)! cycles over n items are equally likely. Four items have 6 cycles, tried with 6000
/// fixed seeds. Chi-square with 5 degrees of freedom exceeds 20.5 once in a thousand.
#[test]
fn cycles_are_uniform() {
    for order in [Order::Random, Order::PageLocal] {
        let mut arena = arena(4 * page_bytes());
        let mut seen: BTreeMap<Vec<usize>, u32> = BTreeMap::new();
        for seed in 0..6000 {
            let mut chain = Chain::new(&mut arena, paged(order, 0), seed);
            chain.resize(4);
            *seen.entry(walked(&chain)).or_default() += 1;
        }
        let squares = seen.values().map(|n| (f64::from(*n) - 1000.0).powi(2) / 1000.0);
        let chi: f64 = squares.sum();
        assert!(seen.len() == 6 && chi < 20.5, "{chi} {seen:?}");
    }
}

#[test]
fn a_walk_ends_where_following_by_hand_does() {
    let mut arena = arena(1 << 20);
    for order in ORDERS {
        let mut chain = Chain::new(&mut arena, Layout::dense(order, 64), 3);
        chain.resize(5000);
        let items = walked(&chain);
        let (mut cursor, mut at) = (Cursor::default(), 0);
        for loads in [1, 16, 17, 4096, 100_000] {
            at += chain.run(&mut cursor, loads) as usize;
            assert_eq!(chain.item(cursor), items[at % items.len()]);
        }
        assert_eq!(at, 16 + 16 + 32 + 4096 + 100_000);

        let places = chain.places(3);
        let mut cursors = [places[0], places[1], places[2]];
        assert_eq!(chain.run_side_by_side(&mut cursors, 1000), 1008);
        for (place, cursor) in places.iter().zip(cursors) {
            let start = items.iter().position(|item| *item == chain.item(*place)).unwrap();
            assert_eq!(chain.item(cursor), items[(start + 1008) % items.len()]);
        }
    }
}

/// Follows the chain to check that all stretches have equal length, to within a block or to within
/// one of the 1024 segments of a random cycle, whose longest is about ln 1024 times the mean.
#[test]
fn places_part_the_walk_evenly() {
    let mut arena = arena(4 << 20);
    let box_items = BOX_PAGES * page_bytes() / 64;
    let orders = [(Order::PageLocal, box_items), (Order::Random, 450), (Order::Sequential, 1)];
    for (order, slack) in orders {
        let mut chain = Chain::new(&mut arena, Layout::dense(order, 64), 3);
        // The chain grows, shrinks, is built again, and grows.
        for len in [65_536, 20 * 2048, 12_000, 65_000] {
            chain.resize(len);
            let items = walked(&chain);
            let at = |place: &Cursor| items.iter().position(|item| *item == chain.item(*place));
            let places = chain.places(8);
            let mut starts: Vec<usize> = places.iter().map(|place| at(place).unwrap()).collect();
            assert!(starts.is_sorted(), "{starts:?}");
            starts.push(len);
            for stretch in starts.windows(2) {
                let error = (stretch[1] - stretch[0]).abs_diff(len / 8);
                assert!(error <= slack, "{order:?} {len}: {starts:?}");
            }
        }
    }
}

/// Each page holds one line of the chain, and all line positions within a page occur equally often.
#[test]
fn lines_of_pages_are_spread_over_the_sets() {
    let page = page_bytes();
    let mut arena = arena(256 * page);
    let mut chain = Chain::new(&mut arena, Layout::one_per_page(page, 64), 1);
    chain.resize(256);
    let mut places: BTreeMap<usize, usize> = BTreeMap::new();
    for item in 0..256 {
        let offset = chain.slot(item) as usize - chain.start as usize;
        assert_eq!(offset / page, item);
        *places.entry(offset % page).or_default() += 1;
        assert_eq!(chain.item_at(chain.address(item)), item);
    }
    let expected = (256 * 64 / page).max(1);
    assert!(places.values().all(|n| *n == expected), "{places:?}");
    check(&chain);
}

#[test]
fn a_chain_that_grows_can_be_stopped() {
    let mut arena = arena(8 << 20);
    let mut chain = Chain::new(&mut arena, Layout::dense(Order::PageLocal, 64), 3);
    assert!(!chain.grow(100_000, || false));
    assert_eq!(chain.len(), 1);
    let calls = std::cell::Cell::new(0);
    let once = || calls.replace(calls.get() + 1) == 0;
    assert!(!chain.grow(100_000, once));
    assert_eq!(chain.len(), 1 + STRETCH);
    assert!(chain.grow(usize::MAX, || true));
    assert_eq!(chain.len(), chain.capacity());
    assert!(chain.grow(5, || false), "the chain is already longer");
    check(&chain);
}

#[test]
fn a_chain_wraps_around_the_end_of_the_arena() {
    let mut arena = arena(1 << 20);
    for order in ORDERS {
        let layout = Layout { start: 1 << 19, ..Layout::dense(order, 64) };
        let mut chain = Chain::new(&mut arena, layout, 3);
        chain.resize(10_000);
        check(&chain);
        let offset = |item| chain.slot(item) as usize - chain.start as usize;
        assert_eq!([0, 9_999].map(offset), [1 << 19, 1807 << 6]);
    }
}

#[test]
fn a_cursor_beyond_the_end_restarts() {
    let mut arena = arena(1 << 16);
    let mut chain = Chain::new(&mut arena, Layout::dense(Order::Random, 64), 1);
    chain.resize(1000);
    let beyond = Cursor { item: 999 };
    chain.resize(10);
    assert_eq!(chain.item(beyond), 0);
    assert_eq!(chain.next(beyond), chain.next(Cursor::default()));
}

#[test]
#[should_panic(expected = "Layout")]
fn a_start_within_a_stride_is_refused() {
    let layout = Layout { start: 64, ..Layout::one_per_page(page_bytes(), 64) };
    let _ = Chain::new(&mut arena(1 << 16), layout, 1);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        cases: 64,
        ..ProptestConfig::default()
    })]

    /// A chain depends only on its length, not on earlier lengths.
    #[test]
    fn a_rebuilt_chain_is_independent_of_the_previous_one(
        lens in prop::collection::vec(1usize..200, 1..8),
        order in prop::sample::select(&ORDERS[..]),
        start in 0usize..200,
        seed: u64,
    ) {
        let (mut one, mut other) = (arena(200 * page_bytes()), arena(200 * page_bytes()));
        let mut chain = Chain::new(&mut one, paged(order, start), seed);
        for len in &lens {
            chain.resize(*len);
            check(&chain);
        }
        let mut straight = Chain::new(&mut other, paged(order, start), seed);
        straight.resize(*lens.last().unwrap());
        prop_assert_eq!(walked(&chain), walked(&straight));
        prop_assert_eq!((&chain.after, &chain.exits), (&straight.after, &straight.exits));
    }
}
