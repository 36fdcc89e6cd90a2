// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the notations other than table names: sysfs PMU events, tracepoints, kernel events.

use super::*;
use linerate_linux::perf::{self, Request, Target};
use proptest::prelude::*;

fn units() -> TempDir {
    sysfs(&[
        ("bus/event_source/devices/cpu/type", "4\n"),
        ("bus/event_source/devices/cpu/format/event", "config:0-7,32-35\n"),
        ("bus/event_source/devices/cpu/format/umask", "config:8-15\n"),
        ("bus/event_source/devices/cpu/format/edge", "config:18\n"),
        ("bus/event_source/devices/cpu/format/ldlat", "config1:0-15\n"),
        ("bus/event_source/devices/cpu/format/odd", "config9:0-15\n"),
        ("bus/event_source/devices/cpu/format/worse", "config:7-64\n"),
        ("bus/event_source/devices/cpu/events/instructions", "event=0xc0\n"),
        ("bus/event_source/devices/cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
        ("bus/event_source/devices/cpu/events/asks", "event=0xc1,umask=?\n"),
        ("bus/event_source/devices/cpu/events/itself", "itself\n"),
        ("bus/event_source/devices/power/type", "23\n"),
        ("bus/event_source/devices/power/cpumask", "0,16\n"),
        ("bus/event_source/devices/power/format/event", "config:0-7\n"),
        ("bus/event_source/devices/power/events/energy-pkg", "event=0x02\n"),
        (
            "bus/event_source/devices/power/events/energy-pkg.scale",
            "2.3283064365386962890625e-10\n",
        ),
        ("bus/event_source/devices/power/events/energy-pkg.unit", "Joules\n"),
        ("bus/event_source/devices/software/type", "1\n"),
        ("bus/event_source/devices/broken/type", "no number\n"),
    ])
}

#[test]
fn units_are_described_by_their_files() {
    let root = units();
    let catalog = Catalog::for_processor(&x86("GenuineIntel", 6, 0x8f), root.path());
    for (name, kind, words) in [
        ("cpu/event=0x3c,umask=0x1/", 4, [0x13c, 0, 0]),
        ("cpu/event=0x1a0,umask=1/", 4, [0x1_0000_01a0, 0, 0]),
        ("cpu/event=60/", 4, [60, 0, 0]),
        ("cpu/event=0xc0,edge/", 4, [0x4_00c0, 0, 0]),
        ("cpu/instructions/", 4, [0xc0, 0, 0]),
        ("cpu/mem-loads/", 4, [0x1cd, 3, 0]),
        ("cpu/config=0x2f4f2e,config1=7,config2=0xffffffffffffffff/", 4, [0x2f_4f2e, 7, u64::MAX]),
        ("power/energy-pkg/", 23, [2, 0, 0]),
        ("software/config=1/", SOFTWARE, [1, 0, 0]),
    ] {
        let event = catalog.resolve(name).unwrap();
        let [config, config1, config2] = words;
        assert_eq!(event.selector, Selector { kind, config, config1, config2 }, "{name}");
        let class = if kind == SOFTWARE { Class::Software } else { Class::Hardware };
        assert_eq!((event.name.as_str(), event.class, event.is_user_only), (name, class, false));
    }
    let energy = catalog.resolve("power/energy-pkg/").unwrap();
    assert_eq!(energy.unit_cpus, [0, 16]);
    assert!(catalog.resolve("cpu/instructions/").unwrap().unit_cpus.is_empty());
    assert_eq!(energy.native.as_deref(), Some("one count is 2.3283064365386962890625e-10 Joules"));
    for name in ["cpu/event=0x3c/u", "cpu/event=0x3c/:u"] {
        let event = catalog.resolve(name).unwrap();
        assert_eq!((event.name.as_str(), event.is_user_only), ("cpu/event=0x3c/", true));
    }
}

#[test]
fn units_refuse_what_they_do_not_have() {
    let root = units();
    let catalog = Catalog::for_processor(&x86("GenuineIntel", 6, 0x8f), root.path());
    for (name, told) in [
        ("cpu/evnt=0x3c/", "did you mean event"),
        ("cpu/instructoins/", "did you mean instructions"),
        ("cpu/qqqqqq/", "available: "),
        ("cpu/event=0x1000/", "does not fit"),
        ("cpu/umask=0x100/", "does not fit"),
        ("cpu/event=/", "not a number"),
        ("cpu/event=0x/", "not a number"),
        ("cpu/event=0x+1/", "not a number"),
        ("cpu/event=x/", "not a number"),
        ("cpu/config=0x10000000000000000/", "not a number"),
        ("cpu/asks/", "needs a value"),
        ("cpu/odd=1/", "unsupported format"),
        ("cpu/worse=1/", "unsupported format"),
        ("cpu/itself/", "no term or event"),
        ("cpu/../../cpu/type=1/", "invalid term"),
        ("cpu/,/", "invalid term"),
        ("cpu//", "invalid term"),
        ("broken/event=1/", "`no number`"),
        ("cpu/event=1/k", "end in"),
        ("cpu/event=1", "end in"),
        ("/", "end in"),
        ("../cpu/event=1/", "invalid PMU name"),
        ("nowhere/event=x/", "not a number"),
        ("nowhere//", "invalid term"),
    ] {
        match catalog.resolve(name) {
            Err(NameError::Malformed { reason, .. }) => {
                assert!(reason.contains(told), "{name}: {reason}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// On x86, alignment and emulation faults are refused: a count of 0 would suggest that none
/// occurred, when in fact they are not counted.
#[test]
fn faults_that_x86_never_has_are_absent_there() {
    let intel = Catalog::for_processor(&x86("GenuineIntel", 6, 0x8f), Path::new("/nowhere"));
    let other =
        Catalog::for_processor(&Identity::Other { architecture: "none" }, Path::new("/nowhere"));
    for name in ["alignment_faults", "alignment-faults", "emulation_faults"] {
        let error = intel.resolve(name).unwrap_err();
        assert!(matches!(&error, NameError::NotInTable { .. }), "{error}");
        assert!(error.to_string().contains("x86"), "{error}");
        assert_eq!(other.resolve(name).unwrap().class, Class::Software);
    }
    let absent = |catalog: &Catalog| {
        let all = catalog.list();
        let named = all.iter().filter(|info| info.name.ends_with("n_faults"));
        named
            .chain(all.iter().filter(|info| info.name == "alignment_faults"))
            .map(|info| info.absent.is_some())
            .collect::<Vec<_>>()
    };
    assert_eq!((absent(&intel), absent(&other)), (vec![true; 2], vec![false; 2]));
}

/// An event of a missing PMU is reported differently from an unknown name: the PMU may exist on
/// another machine, and its absence must not stop counting on this one.
#[test]
fn distinguishes_a_missing_unit_from_an_unknown_name() {
    let root = units();
    let catalog = Catalog::for_processor(&x86("GenuineIntel", 6, 0x8f), root.path());
    for (name, near) in [
        ("pwoer/energy-pkg/", &["power/energy-pkg/"][..]),
        ("cpu_atom/event=0x08,umask=0x01/u", &[]),
    ] {
        let error = catalog.resolve(name).unwrap_err();
        assert!(error.to_string().contains("available: "), "{error}");
        assert!(matches!(error, NameError::NoUnit { nearest, .. } if nearest == near));
    }
    let bare = sysfs(&[("kernel/none", "")]);
    let catalog = Catalog::for_processor(&x86("GenuineIntel", 6, 0x8f), bare.path());
    let error = catalog.resolve("cpu/event=0x08/").unwrap_err();
    assert!(error.to_string().contains("no PMU `cpu`; available: none at all"), "{error}");
}

#[test]
fn tracepoints_are_numbers_in_tracefs() {
    let identity = x86("GenuineIntel", 6, 0x8f);
    let root = sysfs(&[
        ("kernel/tracing/events/net/netif_rx/id", "1523\n"),
        ("kernel/tracing/events/net/net_dev_queue/id", "1525\n"),
        ("kernel/tracing/events/napi/napi_poll/id", "damaged"),
        ("kernel/tracing/events/enable", "0\n"),
    ]);
    let catalog = Catalog::for_processor(&identity, root.path());
    let event = catalog.resolve("net:netif_rx").unwrap();
    assert_eq!((event.name.as_str(), event.class), ("net:netif_rx", Class::Tracepoint));
    assert_eq!((event.selector, event.native), (Selector::new(TRACEPOINT, 1523), None));
    let nearest = |name: &str| match catalog.resolve(name) {
        Err(NameError::Unknown { nearest, .. }) => nearest,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(nearest("net:netif_xr"), ["net:netif_rx"]);
    assert_eq!(nearest("nte:netif_rx"), ["net:netif_rx"]);
    assert_eq!(nearest("sched:sched_switch"), [""; 0]);
    for bad in
        ["net:netif_rx:u", "napi:napi_poll", "net:../net/netif_rx", "net:", ":netif_rx", "a:b:c"]
    {
        assert!(matches!(catalog.resolve(bad), Err(NameError::Malformed { .. })), "{bad}");
    }
    // Older kernels have tracefs at this path.
    let root = sysfs(&[("kernel/debug/tracing/events/net/netif_rx/id", "7\n")]);
    let catalog = Catalog::for_processor(&identity, root.path());
    assert_eq!(catalog.resolve("net:netif_rx").unwrap().selector.config, 7);
    let catalog = Catalog::for_processor(&identity, sysfs(&[]).path());
    let error = catalog.resolve("net:netif_rx").unwrap_err();
    let NameError::NoTracefs { fix, .. } = &error else { panic!("{error:?}") };
    assert!(fix.starts_with("mount -t tracefs") && error.to_string().contains(fix), "{error}");
}

/// The kernel confirms the software events: the test opens each of them.
#[test]
fn the_kernel_knows_the_software_events() {
    let catalog = Catalog::of_this_machine();
    let task_clock = catalog.resolve("task_clock_ns").unwrap();
    let open = |selector| perf::open(&Request::new(selector), Target::CurrentThread, None);
    if let Err(error) = open(task_clock.selector) {
        println!("SKIP: software events are refused: {error}");
        return;
    }
    // cgroup-switches was added in Linux 5.13; older kernels refuse it.
    let software = catalog.list().into_iter().filter(|info| info.class == Class::Software);
    let software = software.filter(|info| info.absent.is_none());
    for info in software.filter(|info| info.name != "cgroup_switches") {
        let event = catalog.resolve(info.name).unwrap();
        if let Err(error) = open(event.selector) {
            // EACCES means that counting kernel mode is forbidden, but the kernel knows the event.
            assert_eq!(error.errno, 13, "{}: {error}", info.name);
        }
    }
}

/// Returns the word in which `number` fills a format's bits one by one; `None` if it does not fit.
fn fill_slowly(ranges: &[(u32, u32)], number: u64) -> Option<u64> {
    let places: Vec<u32> = ranges.iter().flat_map(|&(first, last)| first..=last).collect();
    let mut word = 0;
    for (bit, place) in places.iter().enumerate() {
        word |= (number >> bit & 1) << place;
    }
    (places.len() >= 64 || number >> places.len() == 0).then_some(word)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn formats_are_filled_as_bit_by_bit(
        cuts in prop::collection::btree_set(0u32..64, 2..9),
        number: u64,
        shift in 0u32..64,
    ) {
        let cuts: Vec<u32> = cuts.into_iter().collect();
        let ranges: Vec<_> = cuts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let text: Vec<_> = ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        let format = format!("config:{}", text.join(","));
        let root = sysfs(&[
            ("bus/event_source/devices/unit/type", "9"),
            ("bus/event_source/devices/unit/format/term", &format),
        ]);
        let number = number >> shift;
        let catalog = Catalog::for_processor(&x86("any", 0, 0), root.path());
        let found = catalog.resolve(&format!("unit/term={number:#x}/"));
        let config = found.ok().map(|event| event.selector.config);
        prop_assert_eq!(config, fill_slowly(&ranges, number), "{} {:#x}", format, number);
    }

    #[test]
    fn no_name_is_too_odd(
        name in concat!(
            "(cpu/|net:|r|\\PC{0,6})(event|umask|u|[0-9a-fx]{0,4}|\\PC{0,5})",
            "(=|,|:|/|){0,2}(0x[0-9a-f]{0,3}|/|:u|\\PC{0,4})",
        ),
        text in "\\PC{0,12}",
    ) {
        let root = sysfs(&[
            ("bus/event_source/devices/cpu/type", "4"),
            ("bus/event_source/devices/cpu/format/event", &text),
            ("bus/event_source/devices/cpu/events/u", &text),
            ("kernel/tracing/events/net/u/id", &text),
        ]);
        let catalog = Catalog::for_processor(&x86("AuthenticAMD", 0x19, 1), root.path());
        match catalog.resolve(&name) {
            Ok(event) => prop_assert!(!event.name.is_empty()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
