// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with an implausible table from the BCM2835 memory hierarchy document, and with plausible
//! synthetic tables.

use super::*;
use linerate_record::{Figure, Tier};
use proptest::prelude::*;

const DOCUMENT: [&str; 4] = ["l1d_accesses", "l1d_misses", "micro_tlb_misses", "main_tlb_misses"];

/// Both tables from the BCM2835 memory hierarchy document. Each row has the size in KiB, the
/// seconds, and the counts of the [`DOCUMENT`] events, for 1024 x 128 Ki loads.
const TABLE: [(u64, f64, [u32; 4]); 10] = [
    (4096, 25.76, [24_696_257, 5_107_400, 1_049_399, 258_783]),
    (2048, 25.74, [24_927_252, 5_119_529, 1_051_719, 259_531]),
    (1024, 25.98, [24_878_797, 5_145_341, 1_065_404, 273_960]),
    (512, 25.56, [24_668_739, 5_086_410, 1_050_024, 259_104]),
    (256, 24.62, [22_999_900, 4_803_510, 1_057_814, 308_477]),
    (128, 19.99, [20_051_408, 4_258_682, 965_191, 181_398]),
    (64, 11.75, [11_972_871, 2_683_992, 620_354, 91_207]),
    (32, 10.49, [10_096_551, 2_288_319, 548_311, 71_756]),
    (16, 2.66, [2_621_836, 594_034, 136_900, 8_265]),
    (8, 2.39, [3_480_732, 446_481, 72_712, 2_757]),
];

fn arm1176() -> Known {
    Known {
        order: Order::Random,
        line_bytes: 32,
        page_bytes: 4096,
        caches: Caches { l1: Some(16 << 10), l2: None, last: Some(16 << 10) },
        tlb: Some((10, 72)),
        core_ghz: Some(0.7),
    }
}

fn document() -> Vec<Row> {
    let row = |&(kib, seconds, counts): &(u64, f64, [u32; 4])| Row {
        bytes: kib << 10,
        loads: 128 * 1024 * 1024,
        seconds,
        counts: DOCUMENT.iter().zip(counts).map(|(e, c)| ((*e).to_owned(), c.into())).collect(),
    };
    TABLE.iter().map(row).collect()
}

#[test]
fn the_documents_table_is_refused() {
    let judgements = judge(&document(), &arm1176());
    for (row, judged) in TABLE.iter().zip(&judgements) {
        for (event, judgement) in DOCUMENT.iter().zip(judged).take(2) {
            assert_eq!(judgement.plausible, Some(false), "{event} at {} KiB", row.0);
            let doubt = judgement.doubt.as_ref().unwrap();
            assert!(doubt.contains("proportional to time"), "{doubt}");
        }
    }
    let doubt = judgements[0][0].doubt.as_ref().unwrap();
    let expected = "the count is 0.18 per load, but cannot be less than 0.95, because each load is \
         one memory access; the count is proportional to time (0.93 million to 1.46 million per \
         second at all sizes), not to loads";
    assert_eq!(doubt, expected);
}

#[test]
fn misses_of_the_documents_table_are_refused_beyond_the_cache_by_themselves() {
    for row in document().iter().filter(|row| row.bytes >= 32 << 10) {
        let judged = judge(std::slice::from_ref(row), &arm1176());
        assert_eq!(judged[0][1].plausible, Some(false), "{row:?}");
        assert!(!judged[0][1].doubt.as_ref().unwrap().contains("follows"));
    }
    let largest = &judge(&document()[..1], &arm1176())[0];
    assert!(largest.iter().all(|judgement| judgement.plausible == Some(false)), "{largest:?}");
}

/// Returns counts for a machine with 32 KiB and 1 MiB caches and a TLB of 64 to 2048 pages.
fn true_table() -> (Vec<Row>, Known) {
    let sizes: [(u64, f64, [f64; 7]); 4] = [
        (16 << 10, 4.0, [4.0, 1.13, 1.0, 0.001, 0.0001, 0.0, 0.0]),
        (256 << 10, 14.0, [14.0, 1.13, 1.02, 1.0, 0.002, 0.001, 0.01]),
        (8 << 20, 45.0, [45.0, 1.14, 1.05, 1.6, 0.7, 0.6, 0.95]),
        (256 << 20, 400.0, [390.0, 1.2, 1.1, 1.9, 1.2, 1.1, 1.0]),
    ];
    let events =
        ["cycles", "instructions", "loads", "l1d_misses", "l2_misses", "ll_misses", "dtlb_misses"];
    let loads = 1 << 20;
    let row = |(bytes, cycles, per_load): (u64, f64, [f64; 7])| Row {
        bytes,
        loads,
        seconds: cycles * loads as f64 / 3e9,
        counts: events
            .iter()
            .zip(per_load)
            .map(|(e, x)| ((*e).to_owned(), x * loads as f64))
            .collect(),
    };
    let known = Known {
        order: Order::Random,
        line_bytes: 64,
        page_bytes: 4096,
        caches: Caches { l1: Some(32 << 10), l2: Some(1 << 20), last: Some(1 << 20) },
        tlb: Some((64, 2048)),
        core_ghz: Some(3.0),
    };
    (sizes.map(row).into(), known)
}

#[test]
fn a_table_that_can_be_true_is_not_doubted() {
    let (rows, known) = true_table();
    for judged in judge(&rows, &known) {
        let sound = Judgement { plausible: Some(true), doubt: None };
        assert!(judged.iter().all(|judgement| *judgement == sound), "{judged:?}");
    }
}

/// The end of L3 was not seen, or L2 could not be distinguished from L3: it is unknown with which
/// cache an event's counts should be compared.
#[test]
fn counts_of_a_cache_that_was_not_found_are_not_judged() {
    let level = |(name, kib): (&str, Option<u64>)| {
        let size = kib.map(|kib| Figure::exact("bytes", (kib << 10) as f64, Tier::Sw, "synthetic"));
        let absent = Figure::absent("", Tier::Sw, "synthetic", "unknown");
        MemoryLevel {
            name: name.to_owned(),
            size_bytes: size.unwrap_or_else(|| absent.clone()),
            latency_ns: absent.clone(),
            latency_cycles: absent,
            settled: true,
            note: None,
        }
    };
    let named = |levels: &[(&'static str, Option<u64>)]| {
        Caches::named(&levels.iter().copied().map(level).collect::<Vec<_>>())
    };
    let (l1, l2) = (Some(32 << 10), Some(1 << 20));
    let unseen = named(&[("L1", Some(32)), ("L2", Some(1024)), ("L3 or memory", None)]);
    assert_eq!(unseen, Caches { l1, l2, last: None });
    let withdrawn = named(&[("L1", Some(32)), ("L3", Some(8192)), ("memory", None)]);
    assert_eq!(withdrawn, Caches { l1, l2: None, last: Some(8 << 20) });
    assert_eq!(named(&[("L1", Some(32)), ("memory", None)]), Caches { l1, l2: None, last: l1 });
    assert_eq!(named(&[]), Caches::default());

    // A chain of 4 MiB, which hits L3.
    let (_, known) = true_table();
    let counts = vec![("l2_misses".to_owned(), 1e6), ("ll_misses".to_owned(), 900.0)];
    let row = Row { bytes: 4 << 20, loads: 1 << 20, seconds: 0.02, counts };
    let judged = &judge(std::slice::from_ref(&row), &Known { caches: unseen, ..known.clone() })[0];
    assert_eq!([&judged[0], &judged[1]].map(|j| j.plausible), [Some(true), None]);
    let judged = &judge(&[row], &Known { caches: withdrawn, ..known })[0];
    assert_eq!([&judged[0], &judged[1]].map(|j| j.plausible), [None, Some(true)]);
}

#[test]
fn one_wrong_count_is_doubted_and_no_other() {
    let (rows, known) = true_table();
    // (row, event, factor): a tenth of the count, or ten times the count, is outside the bounds.
    let cases = [
        (0, 0, 0.1),
        (0, 1, 0.1),
        (1, 2, 0.1),
        (1, 3, 0.1),
        (3, 4, 0.1),
        (3, 5, 0.1),
        (3, 6, 0.1),
        (0, 0, 10.0),
        (0, 1, 10.0),
        (1, 2, 10.0),
        (0, 3, 200.0),
        (3, 4, 10.0),
        (0, 6, f64::NAN),
    ];
    for (row, event, factor) in cases {
        let mut rows = rows.clone();
        rows[row].counts[event].1 *= factor;
        let judged = judge(&rows, &known);
        let doubted: Vec<(usize, usize)> = (0..rows.len())
            .flat_map(|r| (0..7).map(move |c| (r, c)))
            .filter(|&(r, c)| judged[r][c].doubt.is_some())
            .collect();
        assert_eq!(doubted, [(row, event)], "times {factor}: {judged:?}");
    }
}

#[test]
fn misses_of_translation_are_fewer_where_the_chase_is_page_local() {
    let (rows, mut known) = true_table();
    let mut row = rows[3].clone();
    row.counts = vec![("dtlb_misses".to_owned(), row.loads as f64 / 64.0)];
    let rows = [row];
    assert_eq!(judge(&rows, &known)[0][0].plausible, Some(false));
    known.order = Order::PageLocal;
    assert_eq!(judge(&rows, &known)[0][0].plausible, Some(true));
}

#[test]
fn what_nothing_is_known_of_is_not_judged() {
    let (mut rows, mut known) = true_table();
    rows[0].counts.push(("branch_misses".to_owned(), 1e12));
    known.caches = Caches::default();
    known.tlb = None;
    known.core_ghz = None;
    let judged = &judge(&rows, &known)[0];
    let plausible: Vec<Option<bool>> = judged.iter().map(|judgement| judgement.plausible).collect();
    let yes = Some(true);
    assert_eq!(plausible, [None, yes, yes, None, None, None, None, None]);
    rows[0].loads = 0;
    assert!(judge(&rows, &known)[0].iter().all(|judgement| judgement.plausible.is_none()));
}

proptest! {
    #[test]
    fn no_counts_make_it_panic(
        rows in prop::collection::vec(
            (any::<u64>(), any::<u64>(), any::<f64>(), prop::collection::vec(any::<f64>(), 0..8)),
            0..6,
        ),
        (l1, l2, last) in any::<(Option<u64>, Option<u64>, Option<u64>)>(),
        page_bytes in any::<u64>(),
        tlb in any::<Option<(u64, u64)>>(),
        core_ghz in any::<Option<f64>>(),
    ) {
        let events = ["cycles", "instructions", "loads", "l1d_misses", "l2_misses", "ll_misses",
            "dtlb_misses", "micro_tlb_misses"];
        let row = |(bytes, loads, seconds, counts): (u64, u64, f64, Vec<f64>)| Row {
            bytes, loads, seconds,
            counts: events.iter().zip(counts).map(|(e, c)| ((*e).to_owned(), c)).collect(),
        };
        let rows: Vec<Row> = rows.into_iter().map(row).collect();
        let order = Order::PageLocal;
        let caches = Caches { l1, l2, last };
        let known = Known { order, line_bytes: 64, page_bytes, caches, tlb, core_ghz };
        let judged = judge(&rows, &known);
        prop_assert_eq!(judged.len(), rows.len());
        for (row, judged) in rows.iter().zip(judged) {
            prop_assert_eq!(row.counts.len(), judged.len());
            prop_assert!(judged.iter().all(|j| j.doubt.is_some() == (j.plausible == Some(false))));
        }
    }
}
