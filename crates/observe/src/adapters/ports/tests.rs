// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use proptest::prelude::*;
use std::path::Path;

/// Reply in the format of DPDK 22.11.
const STATS: &str = r#"{"/ethdev/stats":{"ipackets":100302,"opackets":100300,"ibytes":6018120,
    "obytes":6018000,"imissed":0,"ierrors":0,"oerrors":2,"rx_nombuf":0,"q_ipackets":[100302,0]}}"#;

#[test]
fn answers_of_dpdk_are_read() {
    let dpdk = description::dpdk();
    let counters = parse_counters(STATS, &dpdk).unwrap();
    assert_eq!(
        (counters.received, counters.sent, counters.others["oerrors"]),
        (100_302, 100_300, 2)
    );
    assert_eq!(parse_list(r#"{"/ethdev/list":[0,3]}"#, &dpdk.list), Some(vec![0, 3]));
    let greeting = r#"{"version":"DPDK 22.11.11","pid":7,"max_output_len":16384}"#;
    assert_eq!(parse_field(greeting, None, &dpdk.program).as_deref(), Some("DPDK 22.11.11"));
    let about = r#"{"/ethdev/info":{"name":"net_af_packet0","state":1}}"#;
    let name = parse_field(about, Some(&dpdk.about), &dpdk.name);
    assert_eq!(name.as_deref(), Some("net_af_packet0"));
    assert_eq!(question(&dpdk.counters, 3), "/ethdev/stats,3");
}

#[test]
fn zero_missed_is_an_answer_of_drivers_that_count_it_only() {
    let dpdk = description::dpdk();
    let folder = tempfile::tempdir().expect("a folder");
    let root = Root::new(folder.path());
    assert!(dpdk.is_missed_counted(&root, "net_ring0"));
    assert!(!dpdk.is_missed_counted(&root, "net_af_packet0"));
    let place = folder.path().join("sys/bus/pci/devices/0000:03:00.0");
    std::fs::create_dir_all(&place).expect("a folder");
    std::os::unix::fs::symlink("/sys/bus/pci/drivers/mlx5_core", place.join("driver")).unwrap();
    assert!(dpdk.is_missed_counted(&root, "0000:03:00.0"));
    assert!(!dpdk.is_missed_counted(&root, "../devices/0000:03:00.0"));
    let counts = |first: u64, last: u64, is_known: bool| {
        let totals = |missed| Totals {
            counters: Counters { missed, ..Counters::default() },
            is_missed_known: is_known,
        };
        let mut program = Ports {
            description: description::dpdk(),
            connection: None,
            says: None,
            ports: Vec::new(),
            first: totals(first),
            last: totals(last),
            trouble: None,
            until_ns: 0,
        };
        program.finish(&mut Vec::new()).missed
    };
    assert_eq!(counts(5, 5, false), None);
    assert_eq!(counts(5, 5, true), Some(0));
    assert_eq!(counts(5, 8, false), Some(3));
}

#[test]
fn packets_of_a_bond_are_counted_at_its_members() {
    let dpdk = description::dpdk();
    let left = |names: &[&str]| {
        let port = |(number, name): (usize, &&str)| Port {
            number: number as u64,
            is_missed_counted: false,
            is_upper: dpdk.is_upper(name),
        };
        let mut ports: Vec<Port> = names.iter().enumerate().map(port).collect();
        leave_out_upper(&mut ports);
        ports.iter().map(|port| port.number).collect::<Vec<_>>()
    };
    assert_eq!(left(&["0000:03:00.0", "0000:03:00.1", "net_bonding0"]), [0, 1]);
    // The members have an owner, which hides them.
    assert_eq!(left(&["net_bonding0"]), [0]);
}

#[test]
fn counters_that_go_backwards_end_the_questions() {
    let mut program = Ports {
        description: description::dpdk(),
        connection: None,
        says: None,
        ports: Vec::new(),
        first: Totals::default(),
        last: Totals {
            counters: parse_counters(STATS, &description::dpdk()).unwrap(),
            ..Totals::default()
        },
        trouble: None,
        until_ns: 0,
    };
    assert!(program.check(Totals::default()).unwrap_err().contains("backwards"));
    program.trouble = program.check(Totals::default()).err();
    assert_eq!(program.read(), None);
    let mut unread = Vec::new();
    assert_eq!(program.finish(&mut unread).received, Some(100_302));
    assert_eq!(program.finish(&mut Vec::new()).received, Some(0));
    assert_eq!(unread[0].what, "program_counters");
}

#[test]
fn a_program_that_does_not_answer_is_an_entry() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = Listening {
        pid: 7,
        program: "dpdk-testpmd".to_owned(),
        kind: Kind::Messages,
        path: "/run/dpdk/rte/dpdk_telemetry.v2".to_owned(),
    };
    let mut unread = Vec::new();
    assert!(find(&Root::new(folder.path()), &[socket], &mut unread).is_none());
    assert_eq!(unread.len(), 1);
    let mut unread = Vec::new();
    assert!(find(&Root::new(Path::new("/")), &[], &mut unread).is_none());
    assert!(unread.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn garbage_is_survived(
        text in r#"[\{\}\[\]",:0-9a-z/\-]{0,80}|.{0,60}"#, cut in 0usize..240, at in 0usize..240,
        byte in 32u8..127,
    ) {
        let dpdk = description::dpdk();
        let mut damaged = STATS.as_bytes().to_vec();
        let at = at % damaged.len();
        damaged[at] = byte;
        damaged.truncate(cut);
        let damaged = String::from_utf8(damaged).expect("ASCII");
        for text in [text, damaged] {
            parse_counters(&text, &dpdk);
            parse_list(&text, &dpdk.list);
            parse_field(&text, None, "version");
        }
    }
}
