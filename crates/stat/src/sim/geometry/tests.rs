// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of parsing caches, reading those of this machine, and fitting them to the simulator.

use super::super::named::shape;
use super::*;
use linerate_machine::Error;
use proptest::prelude::*;

const fn of_bytes(bytes: u64, ways: u32, line_bytes: u32) -> CacheShape {
    CacheShape { bytes, ways, line_bytes }
}

/// Checks a cache against Valgrind's requirements, as worded in its errors.
fn is_accepted(shape: CacheShape) -> bool {
    let sets = shape.bytes / u64::from(shape.ways) / u64::from(shape.line_bytes);
    sets.is_power_of_two()
        && sets * u64::from(shape.ways) * u64::from(shape.line_bytes) == shape.bytes
        && shape.line_bytes.is_power_of_two()
        && shape.line_bytes >= LEAST_LINE_BYTES
        && shape.bytes <= i32::MAX as u64
}

#[test]
fn what_fits_stays_and_what_does_not_keeps_its_size() {
    for shape in [shape(32, 8, 64), shape(48, 12, 64), shape(3 << 10, 12, 64), shape(4, 64, 64)] {
        assert_eq!(fitting(shape), Ok(shape));
    }
    // 35.75 MiB in 26 slices of 1.375 MiB with 11 ways: 53 248 sets.
    assert_eq!(fitting(of_bytes(37_486_592, 11, 64)), Ok(of_bytes(35_651_584, 17, 64)));
    assert_eq!(fitting(shape(8, 4, 16)), Ok(shape(8, 4, LEAST_LINE_BYTES.max(16))));
    assert_eq!(fitting(shape(4 << 20, 16, 64)), Ok(shape(1 << 20, 16, 64)));
    for bad in [
        of_bytes(0, 1, 64),
        of_bytes(32, 0, 64),
        of_bytes(1 << 15, 8, 48),
        of_bytes(256, 8, 64),
        of_bytes(9, 1, 0),
    ] {
        assert!(fitting(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn names_and_lists() {
    let g4 = Geometry::parse("g4").unwrap();
    assert_eq!(
        g4.options(),
        ["--I1=32768,8,32", "--D1=32768,8,32", "--LL=262144,8,32"].map(str::to_owned)
    );
    assert_eq!(Geometry::parse("Cortex-A7").unwrap().caches().name, "cortex_a7");
    let given = Geometry::parse("ll=3M/11/64,i1=32768/8/64,d1=48k/12/64").unwrap();
    assert_eq!(given.caches().d1, shape(48, 12, 64));
    assert_eq!(given.caches().note, "ll is 3M/11/64, simulated as 3M/12/64");
    assert_eq!(given.last_level(), LastLevel::Beyond);
    let arm1176 = Geometry::named("arm1176").unwrap();
    assert_eq!(arm1176.last_level(), LastLevel::None);
    assert!(arm1176.caches().note.contains("no cache level beyond L1"));
    // The error lists every name that --caches takes.
    let error = Geometry::parse("foo").unwrap_err().to_string();
    for name in Geometry::names().map(|(name, _)| name).chain(["`os`", "`profile`"]) {
        assert!(error.contains(&format!(" {name},")), "{name}: {error}");
    }
    for (name, prose) in Geometry::names() {
        let geometry = Geometry::parse(name).unwrap();
        let SimulatedCaches { i1, d1, ll, .. } = *geometry.caches();
        assert!([i1, d1, ll].into_iter().all(is_accepted) && !prose.is_empty(), "{name}");
    }
}

#[test]
fn bad_input_says_what_would_do() {
    let error = |text: &str| Geometry::parse(text).unwrap_err().to_string();
    assert!(error("cortex_a8").contains("choose cortex_a7"), "{}", error("cortex_a8"));
    assert!(error("z80").contains("arm1176, cortex_a7, cortex_a53"), "{}", error("z80"));
    for (text, reason) in [
        ("i1=32K/8/64", "i1 and d1 are required"),
        ("i1=0/8/64,d1=32K/8/64", "0/8/64"),
        ("i1=32K/8/64,d1", "invalid cache `d1`, expected `cache=size/ways/line`"),
        ("i1=32K/8/64,i1=1K/1/64", "duplicate cache `i1`"),
        ("l2=32K/8/64", "i1 and d1 are required"),
        ("g4,ll=2M/8/64,l3=1M/8/64", "`l3` and `ll` are the same level"),
        ("l4=32K/8/64", "unknown cache `l4`, expected i1, d1, l2"),
        ("g4,l2", "invalid cache `l2`"),
        ("arm1176,l3=32K/8/64", "L3: list the levels closer to the core first"),
        ("g4,d1=32K/8/64/victim", "unknown rule `victim`"),
        ("g4,dtlb=64/x", "invalid number `x`"),
        ("g4,page=3K", "invalid page size `3K`"),
        ("i1=32K/8", "invalid geometry `32K/8`"),
        ("i1=32Q/8/64", "invalid size `32Q`"),
        ("i1=K/8/64", "invalid size `K`"),
        ("i1=/8/64", "invalid size ``"),
        ("i1=32K/-8/64", "invalid number `-8`"),
        ("i1=32K/8/64,d1=1K/64/64", "a set of 64 lines"),
        ("i1=99999999999999999999K/8/64", "invalid size"),
    ] {
        assert!(error(text).contains(reason), "{text}: {}", error(text));
    }
}

#[test]
fn the_last_level_does_not_replace_a_second_one_in_the_same_list() {
    let levels = |text: &str| {
        let geometry = Geometry::parse(text).unwrap();
        let sizes = geometry.model().beyond().iter().map(|level| level.shape.bytes >> 20);
        (sizes.collect::<Vec<u64>>(), geometry.last_level())
    };
    for name in ["i1=32K/8/64,d1=32K/8/64", "arm1176", "cortex_a53", "zen5"] {
        for order in ["l2=1M/8/64,ll=32M/16/64", "ll=32M/16/64,l2=1M/8/64"] {
            let text = format!("{name},{order}");
            assert_eq!(levels(&text), (vec![1, 32], LastLevel::Beyond), "{text}");
        }
    }
    assert_eq!(levels("cortex_a53,ll=4M/16/64").0, [4]);
    assert_eq!(levels("arm1176,ll=4M/16/64").0, [4]);
}

#[test]
fn models_have_all_levels_tlbs_and_rules() {
    let arguments = |text: &str| Geometry::parse(text).unwrap().model().arguments();
    let expected = "l1i=128:4:32:2 l1d=128:4:32:2:1 itlb=1:10:1 dtlb=1:10:1 tlb2=32:2:0 page=4096";
    assert_eq!(arguments("arm1176").unwrap().join(" "), expected);
    let huge_pages = arguments("arm1176,page=1G").unwrap();
    assert_eq!(huge_pages.last().map(String::as_str), Some("page=1073741824"));
    let t1 = arguments("t1").unwrap();
    assert!(t1.contains(&"l2=4096:12:64:0:1".to_owned()), "{t1:?}");
    assert!(t1.contains(&"l1d=128:4:16:2:2".to_owned()), "{t1:?}");
    let zen5 = arguments("zen5").unwrap();
    assert!(zen5.contains(&"l3=32768:16:64:0:3".to_owned()), "{zen5:?}");
    let given = "i1=32K/8/64,d1=48K/12/64/around,l2=1M/16/64/exclusive,l3=33M/11/64/fifo,\
                 dtlb=64/4,itlb=64,page=2M";
    assert_eq!(
        arguments(given).unwrap().join(" "),
        "l1i=64:8:64:0 l1d=64:12:64:0:1 l2=1024:16:64:0:2 l3=49152:11:64:1:0 dtlb=16:4:0 \
         itlb=1:64:0 page=2097152"
    );
    let changed = Geometry::parse("g4,l2=1M/8/64,dtlb=16").unwrap();
    assert_eq!(changed.caches().name, "g4 with l2=1M/8/64,dtlb=16");
    assert_eq!((changed.caches().ll, changed.caches().d1), (shape(1024, 8, 64), shape(32, 8, 32)));
    let all = changed.model().arguments().unwrap();
    assert!(all.contains(&"dtlb=1:16:0".to_owned()) && all.contains(&"itlb=64:2:0".to_owned()));
    let error = arguments("g4,dtlb=10/3").unwrap_err();
    assert!(error.contains("10 entries cannot be divided into sets of 3 ways"), "{error}");
}

fn cache(level: u32, kind: CacheKind, bytes: u64, ways: u32) -> Cache {
    let shared_by = Ok(vec![0]);
    Cache { level, kind, bytes: Ok(bytes), line_bytes: Ok(64), ways: Ok(ways), shared_by }
}

#[test]
fn caches_from_the_kernel() {
    use CacheKind::{Data, Instruction, Unified};
    let first = [cache(1, Data, 48 << 10, 12), cache(1, Instruction, 32 << 10, 8)];
    let geometry_of =
        |more: &[Cache]| Geometry::from_caches("x", &[&first[..], more].concat()).unwrap();
    assert_eq!(geometry_of(&[]).last_level(), LastLevel::None);
    let second = cache(2, Unified, 1 << 20, 16);
    let third = cache(3, Unified, 32 << 20, 16);
    let geometry = geometry_of(&[third, second.clone()]);
    assert_eq!(geometry.last_level(), LastLevel::Beyond);
    assert_eq!(
        (geometry.caches().ll, geometry.caches().d1),
        (shape(32 << 10, 16, 64), shape(48, 12, 64))
    );
    assert_eq!(geometry_of(&[second]).last_level(), LastLevel::Second);
    let unified = Geometry::from_caches("x", &[cache(1, Unified, 8 << 10, 4)]).unwrap();
    assert_eq!((unified.caches().i1, unified.caches().d1), (shape(8, 4, 64), shape(8, 4, 64)));
}

#[test]
fn measured_sizes_replace_those_stated() {
    use CacheKind::{Data, Instruction, Unified};
    let first = [cache(1, Data, 48 << 10, 12), cache(1, Instruction, 32 << 10, 8)];
    let third = [cache(2, Unified, 1 << 20, 16), cache(3, Unified, 32 << 20, 16)];
    let stated = Geometry::from_caches(THIS_MACHINE, &[&first[..], &third].concat()).unwrap();
    let measured = stated.resized(None, Some(6_500_000), "measured").unwrap();
    let SimulatedCaches { name, d1, ll, note, .. } = measured.caches();
    assert_eq!((name.as_str(), *d1), ("this machine, as measured", shape(48, 12, 64)));
    // 4096 sets with 24 ways.
    assert_eq!((ll.bytes, ll.ways, measured.last_level()), (6 << 20, 24, LastLevel::Beyond));
    assert!(note.contains("simulated as 6M/24/64") && note.ends_with("; measured"), "{note}");
    assert!(stated.resized(Some(100), None, "").is_err());
    for (geometry, is_ours) in [(&stated, true), (&measured, true)] {
        assert_eq!(Geometry::is_of_this_machine(geometry.caches()), is_ours);
        assert_eq!(stated.recorded(geometry.caches()).caches(), geometry.caches());
    }
    let other = Geometry::named("g4").unwrap();
    assert!(!Geometry::is_of_this_machine(other.caches()));
    // A machine with one cache level has no last level to resize.
    let alone = Geometry::from_caches(THIS_MACHINE, &first).unwrap();
    let resized = alone.resized(Some(32 << 10), Some(1 << 20), "").unwrap();
    assert_eq!((resized.caches().d1.bytes, resized.caches().ll.bytes), (32 << 10, 32 << 10));
}

#[test]
fn unreported_values_are_not_guessed() {
    let told = |caches: &[Cache]| Geometry::from_caches("x", caches).unwrap_err().to_string();
    assert!(told(&[]).contains("no level-1 instruction cache"), "{}", told(&[]));
    let mut silent = cache(1, CacheKind::Unified, 1 << 15, 8);
    silent.ways = Err(Error::File { path: "ways".to_owned(), reason: "gone".to_owned() });
    let error = told(&[silent]);
    assert!(error.contains("ways: gone") && error.contains("--caches cortex_a53"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// The simulator accepts a fitted cache, which is smaller than the original by less than one
    /// line per set.
    #[test]
    fn what_fits_is_accepted(bytes in 1u64..MOST_BYTES, ways in 1u32..200, line in 0u32..9) {
        let line = 1 << line;
        if let Ok(fitted) = fitting(of_bytes(bytes, ways, line)) {
            prop_assert!(is_accepted(fitted), "{fitted:?}");
            prop_assert!((ways..2 * ways).contains(&fitted.ways), "{fitted:?}");
            let set_bytes = fitted.bytes / u64::from(fitted.ways);
            prop_assert!((bytes - set_bytes + 1..=bytes).contains(&fitted.bytes));
        } else {
            prop_assert!(bytes < u64::from(ways) * u64::from(line.max(LEAST_LINE_BYTES)));
        }
    }

    #[test]
    fn reading_survives_anything(text in "(i1=|d1=|ll=|,|/|[0-9]{1,20}|[KMk]|\\PC){0,12}") {
        if let Ok(geometry) = Geometry::parse(&text) {
            prop_assert!(is_accepted(geometry.caches().d1));
        }
    }
}
