// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the judge and the limits. The accuracy suite checks the detector's success rate.

use crate::accuracy::{FULL, KINDS, POINTS, stated};
use crate::judge::{Case, Way};
use crate::quantity::{PAGE, Quantity, Share};
use linerate_caches::Noise;
use linerate_hierarchy::steps::{FoundLevels, Level};
use linerate_record::accuracy::MISS;
use linerate_record::stats::Estimate;
use linerate_record::stats::coverage::loss_noticed;

/// Returns the detector's answer with very wide intervals.
fn widened(found: &FoundLevels) -> FoundLevels {
    let wide = |of: Estimate| Estimate { low: of.value * 0.5, high: of.value * 2.0, ..of };
    let levels = found.levels.iter().map(|level| Level {
        size: level.size.map(wide),
        latency: wide(level.latency),
        ..level.clone()
    });
    FoundLevels { levels: levels.collect(), unresolved: found.unresolved.clone() }
}

#[test]
fn scores_right_answers_and_degraded_ones_by_quantity() {
    let mut right = 0;
    for seed in 0..6 {
        let case = Case::new(seed, Way::Analytic, &Noise::none());
        let answer = widened(&case.found);
        let verdict = case.judge(&answer);
        if !verdict.is_right() {
            continue;
        }
        right += 1;
        for quantity in Quantity::EACH {
            let Share { hits, trials } = quantity.of(&verdict);
            assert_eq!(hits, trials, "{quantity:?}: {}", verdict.print());
            let spoilt = case.judge(&quantity.spoil(&answer));
            assert_eq!(quantity.of(&spoilt).hits, 0, "{quantity:?}: {}", spoilt.print());
            assert!(!spoilt.is_right() || quantity == Quantity::Intervals, "{quantity:?}");
        }
    }
    assert!(right >= 2, "{right} of 6 answers are right");
}

#[test]
fn the_figures_of_a_page_are_read() {
    let page = "# A\n\n## One\n\n```text\n$ cargo run\n\
                200 analytic machines, correct: number of levels 189 (94.5 %), sizes within 10 % \
                193 (96.5 %), latencies within 1 % 188 (94.0 %), all three 171 (85.5 %)\n\
                intervals that contain the true value: 1102 of 1184 (93.1 %); latencies hidden: \
                38\n\
                machines whose pages are huge, correct: number of levels 3 of 9 (33.3 %)\n```\n\n\
                ## Two\n";
    let expected = [(189, 200), (193, 200), (188, 200), (171, 200), (1102, 1184)];
    for (quantity, (hits, trials)) in Quantity::EACH.into_iter().zip(expected) {
        assert_eq!(quantity.published(page, "One"), Some(Share { hits, trials }), "{quantity:?}");
        assert_eq!(quantity.published(page, "Two"), None);
    }
    assert_eq!(
        Quantity::All.published(PAGE, "Any pages, no noise").map(|s| s.trials > 0),
        Some(true)
    );
}

/// A detector 5 points below the published rates fails nine times in ten, whichever machines are
/// drawn.
#[test]
fn a_full_run_has_machines_enough_to_notice_five_points() {
    for quantity in Quantity::EACH {
        let kinds = KINDS.iter().map(|kind| stated(kind, quantity));
        let share = kinds.fold(Share::default(), |sum, share| sum + share).value();
        let trials = (FULL * KINDS.len()) as u64;
        let loss = loss_noticed(trials, share, MISS, 0.9);
        assert!(loss.is_some_and(|loss| loss <= POINTS), "{quantity:?}: {loss:?}");
    }
}
