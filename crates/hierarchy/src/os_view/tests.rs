// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the verdicts on synthetic machines.

use super::*;
use linerate_record::stats::Estimate;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn level(level: u32, bytes: u64) -> Level {
    Level { level, bytes: Ok(bytes), shared_by: 1 }
}

fn found_level(name: &str, bytes: Option<u64>) -> MemoryLevel {
    let ns = Figure::exact("ns", 1.0, Tier::Sw, "test");
    let size_bytes = match bytes {
        Some(bytes) => {
            let value = bytes as f64;
            let (low, high) = (value * 0.98, value * 1.02);
            let estimate = Estimate { value, low, high, confidence: 0.95, n: 5 };
            Figure::number("B", estimate, Tier::Sw, "test")
        }
        None => Figure::absent("B", Tier::Sw, "test", "it is memory"),
    };
    MemoryLevel {
        name: name.to_owned(),
        size_bytes,
        latency_ns: ns.clone(),
        latency_cycles: ns,
        settled: true,
        note: None,
    }
}

fn views(stated: &[u64], found: &[u64]) -> Vec<(String, OsVerdict)> {
    let levels = stated.iter().zip(1..).map(|(&bytes, n)| level(n, bytes)).collect();
    let mut found_levels: Vec<MemoryLevel> = found
        .iter()
        .zip(1..)
        .map(|(&bytes, n)| found_level(&format!("L{n}"), Some(bytes)))
        .collect();
    found_levels.push(found_level("memory", None));
    let found = Found { levels: &found_levels, unresolved: &[], max_bytes: 256 * MIB };
    let views = compare(&Ok(levels), &found);
    views.into_iter().map(|view| (view.name, view.verdict)).collect()
}

fn verdicts(stated: &[u64], found: &[u64]) -> Vec<OsVerdict> {
    views(stated, found).into_iter().map(|(_, verdict)| verdict).collect()
}

#[test]
fn what_is_found_as_stated_agrees_and_the_rest_is_judged() {
    use OsVerdict::{Agrees, Larger, Smaller};
    let stated = [32 * KIB, MIB, 32 * MIB];
    assert_eq!(verdicts(&stated, &[32 * KIB, MIB, 32 * MIB]), [Agrees; 3]);
    assert_eq!(verdicts(&stated, &[35 * KIB, 930 * KIB, 8 * MIB]), [Agrees, Agrees, Smaller]);
    assert_eq!(verdicts(&stated, &[64 * KIB, MIB, 32 * MIB]), [Larger, Agrees, Agrees]);
    // A victim cache: 512 KiB and the 1 MiB behind it hold 1.5 MiB in total.
    assert_eq!(
        verdicts(&[32 * KIB, 512 * KIB, MIB], &[32 * KIB, 512 * KIB, 1536 * KIB]),
        [Agrees; 3]
    );
}

/// The third level was missed, and an intermediate step was mistaken for the second.
#[test]
fn no_verdict_at_twice_the_stated_size() {
    use OsVerdict::{Agrees, CannotTell, Larger, Unseen};
    let stated = [48 * KIB, MIB, 32 * MIB];
    let found = [48 * KIB, 2990 * KIB];
    assert_eq!(verdicts(&stated, &found), [Agrees, CannotTell, Unseen]);
    assert_eq!(verdicts(&stated, &[48 * KIB, 2 * MIB, 32 * MIB])[1], Larger);
    // A victim cache of 1 MiB behind a 2 MiB cache extends it to 3 MiB, as victim caches do.
    assert_eq!(verdicts(&[48 * KIB, 2 * MIB, MIB], &[48 * KIB, 2 * MIB, 3 * MIB]), [Agrees; 3]);
}

/// An undetermined range that only touches the interval is ignored; one that overlaps it matters.
#[test]
fn an_unresolved_size_gets_no_verdict() {
    let found_levels = [
        found_level("L1", Some(32 * KIB)),
        found_level("L2", Some(MIB)),
        found_level("memory", None),
    ];
    let stated = Ok(vec![level(1, 32 * KIB), level(2, MIB)]);
    let verdict = |from_bytes, to_bytes| {
        let part = |from_bytes, to_bytes, cause: &str| Unresolved {
            from_bytes,
            to_bytes,
            cause: cause.to_owned(),
            sentence: "it is so".to_owned(),
        };
        // The range before it overlaps the interval less.
        let before = part(512 * KIB, 1010 * KIB, "too_noisy");
        let unresolved = match from_bytes {
            MIB => vec![before, part(from_bytes, to_bytes, "moved")],
            _ => vec![part(from_bytes, to_bytes, "moved")],
        };
        let views = compare(
            &stated,
            &Found { levels: &found_levels, unresolved: &unresolved, max_bytes: 64 * MIB },
        );
        assert_eq!(views[0].verdict, OsVerdict::Agrees);
        (views[1].verdict, views[1].sentence.clone())
    };
    let (is, sentence) = verdict(MIB, 2 * MIB);
    assert_eq!(is, OsVerdict::CannotTell);
    assert!(sentence.contains("1 MiB to 2 MiB"), "{sentence}");
    assert!(sentence.ends_with("varied between passes"), "{sentence}");
    let high = (MIB as f64 * 1.02).ceil() as u64;
    assert_eq!(verdict(high, 2 * MIB).0, OsVerdict::Agrees);
}

#[test]
fn agreement_says_how_far_it_goes() {
    let sentence = |found: u64| {
        let found_levels = [found_level("L1", Some(found)), found_level("memory", None)];
        let found = Found { levels: &found_levels, unresolved: &[], max_bytes: 64 * MIB };
        let view = compare(&Ok(vec![level(1, MIB)]), &found).remove(0);
        assert_eq!(view.verdict, OsVerdict::Agrees);
        view.sentence
    };
    let within = "the measured size is 1.01 MiB; the OS-reported 1 MiB is within its interval";
    assert_eq!(sentence(1034 * KIB), within);
    let near = sentence(1137 * KIB);
    let wanted = "the measured size is 1.11 MiB; the OS-reported 1 MiB is less than 10 % outside";
    assert!(near.starts_with(wanted), "{near}");
}

#[test]
fn no_two_entries_have_one_name() {
    // A third level is found in between, so the last level is the fourth one found.
    let found = views(&[32 * KIB, MIB, 32 * MIB], &[32 * KIB, MIB, 6 * MIB, 32 * MIB]);
    let names: Vec<&str> = found.iter().map(|(name, _)| &name[..]).collect();
    assert_eq!(names, ["L1", "L2", "level of 6 MiB", "L3"]);
    assert_eq!(views(&[], &[32 * KIB])[0].0, "L1");
}

#[test]
fn reports_levels_without_a_counterpart() {
    use OsVerdict::{Agrees, NotStated, Unseen};
    // The second level was not found, and the third must not be mistaken for it.
    let found = views(&[32 * KIB, 256 * KIB, 8 * MIB], &[32 * KIB, 8 * MIB]);
    let named = |name: &str, verdict| (name.to_owned(), verdict);
    assert_eq!(found, [named("L1", Agrees), named("L2", Unseen), named("L3", Agrees)]);
    assert_eq!(
        verdicts(&[32 * KIB, 8 * MIB], &[32 * KIB, 256 * KIB, 8 * MIB]),
        [Agrees, NotStated, Agrees]
    );
    assert_eq!(verdicts(&[], &[32 * KIB]), [NotStated]);
    assert_eq!(verdicts(&[32 * KIB], &[32 * KIB, MIB, 4 * MIB]), [Agrees, NotStated, NotStated]);
}

#[test]
fn no_verdict_on_invisible_sizes() {
    let found_levels = [found_level("L1", Some(32 * KIB)), found_level("memory", None)];
    let stated = Ok(vec![level(1, 32 * KIB), level(2, MIB)]);
    let moved = Unresolved {
        from_bytes: 512 * KIB,
        to_bytes: MIB,
        cause: "moved".to_owned(),
        sentence: "it moved".to_owned(),
    };
    let of = |unresolved: &[Unresolved], max_bytes, found_levels: &[MemoryLevel]| {
        let views = compare(&stated, &Found { levels: found_levels, unresolved, max_bytes });
        (views[1].verdict, views[1].sentence.clone())
    };
    assert_eq!(of(&[], 64 * MIB, &found_levels).0, OsVerdict::Unseen);
    let (verdict, sentence) = of(&[moved], 64 * MIB, &found_levels);
    assert!(verdict == OsVerdict::CannotTell && sentence.contains("it moved"), "{sentence}");
    let (verdict, sentence) = of(&[], MIB, &found_levels);
    assert!(verdict == OsVerdict::CannotTell && sentence.contains("1 MiB"), "{sentence}");
    assert_eq!(of(&[], MIB, &[]).0, OsVerdict::CannotTell);
}

#[test]
fn a_system_that_is_silent_gives_its_reason() {
    let found_levels = [found_level("L1", Some(32 * KIB)), found_level("memory", None)];
    let found = Found { levels: &found_levels, unresolved: &[], max_bytes: MIB };
    let views = compare(&Err("no such folder".to_owned()), &found);
    assert_eq!(views.len(), 1);
    assert_eq!((views[0].verdict, views[0].stated_bytes), (OsVerdict::NotStated, None));
    assert!(views[0].sentence.contains("no such folder"), "{}", views[0].sentence);
    let unread = Level { level: 1, bytes: Err("no size".to_owned()), shared_by: 0 };
    let views = compare(&Ok(vec![unread]), &found);
    assert_eq!(views[0].verdict, OsVerdict::NotStated);
    assert!(views[0].sentence.contains("no size"), "{}", views[0].sentence);
}

/// An interval with an open end does not determine a size: a reported size beyond that end may or
/// may not match.
#[test]
fn a_size_without_an_interval_neither_agrees_nor_contradicts() {
    let stated = Ok(vec![level(1, 48 << 10)]);
    let mut found = found_level("L1", Some(40 << 10));
    found.size_bytes.high = None;
    let levels = [found, found_level("memory", None)];
    let found = Found { levels: &levels, unresolved: &[], max_bytes: 256 * MIB };
    let views = compare(&stated, &found);
    assert_eq!(views[0].verdict, OsVerdict::CannotTell, "{}", views[0].sentence);
}

/// Compares the chosen pairing with brute force over all assignments.
#[test]
fn the_cheapest_pairing_is_chosen() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        let many = random.usize(0..6);
        let few = random.usize(0..=many);
        let costs: Vec<f64> = (0..few * many).map(|_| random.f64()).collect();
        let cost = |a: usize, b: usize| costs[a * many + b];
        let sum =
            |places: &[usize]| -> f64 { places.iter().enumerate().map(|(a, &b)| cost(a, b)).sum() };
        let chosen = choose(few, many, &cost);
        assert!(chosen.len() == few && chosen.windows(2).all(|pair| pair[0] < pair[1]));
        for mask in 0..1_u32 << many {
            let places: Vec<usize> = (0..many).filter(|b| mask >> b & 1 == 1).collect();
            if places.len() == few {
                assert!(sum(&chosen) <= sum(&places) + 1e-12, "{chosen:?} {places:?}");
            }
        }
    }
}
