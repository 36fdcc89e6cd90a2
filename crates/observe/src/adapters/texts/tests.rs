// SPDX-License-Identifier: MIT OR Apache-2.0
use super::configuration::location_in;
use super::*;
use proptest::prelude::*;

fn adapter(counter: &str) -> Description {
    let found = description::all().into_iter().find(|one| one.counter.contains(counter));
    found.expect("an adapter")
}

/// HAProxy 2.6 format with columns left out; the counts are examples.
const HAPROXY: &str = "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,\
    last_chk,dcon,req_tot,\nstats,FRONTEND,,,1,1,4096,3,720,0,0,0,0,,0,,\nweb,FRONTEND,,,4,9,4096,\
    120,48000,90000,2,0,1,\"a, \"\"b\"\"\",0,480,\nweb,s1,0,0,0,4,,118,1,1,,0,,,,118,\n\n";

/// nginx 1.22 format; the counts are examples.
const NGINX: &str = "HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\nActive connections: 2 \n\
    server accepts handled requests\n 7 6 31 \nReading: 0 Writing: 1 Waiting: 1 \n";

/// Open vSwitch 3.1.0 without DPDK; synthetic output for two PMD threads; and with the kernel
/// datapath.
const MAIN: &str = "{\"id\":0,\"result\":\"main thread:\\n  packets received: 12\\n  packet \
    recirculations: 0\\n  avg. datapath passes per packet: 0.00\\n  phwol hits: 0\\n  miss with \
    failed upcall: 0\\n  avg. packets per output batch: 0.00\\n\",\"error\":null}";
const PMD: &str = "{\"id\":0,\"result\":\"pmd thread numa_id 0 core_id 1:\\n  packets received: \
    100\\n  miss with failed upcall: 3\\npmd thread numa_id 0 core_id 2:\\n  packets received: \
    23\\n  miss with failed upcall: 0\\nmain thread:\\n  packets received: 0\\n\",\"error\":null}";
const DPCTL: &str = "{\"id\":0,\"result\":\"system@ovs-system:\\n  lookups: hit:9 missed:5 \
    lost:2\\n  flows: 0\\n  port 0: ovs-system (internal)\\n\",\"error\":null}";

const VPP: &str = "              Name   Idx State  MTU (L3/IP4/IP6/MPLS)  Counter          Count\n\
    host-v2              1   up      9000/0/0/0           rx packets                    77\n\
                                                          rx bytes                    7700\n\
                                                          drops                          7\n\
    local0               0  down      0/0/0/0             drops                          1\n";

/// wireguard-go 0.0.20220316, with shortened keys.
const WIREGUARD: &str = "private_key=e84b\nlisten_port=59290\npublic_key=b859\n\
    preshared_key=0000\nprotocol_version=1\nlast_handshake_time_sec=0\n\
    last_handshake_time_nsec=0\ntx_bytes=1212\nrx_bytes=2224\n\
    persistent_keepalive_interval=0\nallowed_ip=192.0.2.9/32\npublic_key=5840\ntx_bytes=0\n\
    rx_bytes=6\nerrno=0\n\n";

#[test]
fn recorded_answers_are_read() {
    let of = |answer: &str, counter| parse(answer, &adapter(counter));
    let haproxy = of(HAPROXY, "HAProxy");
    assert_eq!((haproxy.received, haproxy.bytes, haproxy.missed), (Some(480), Some(48_720), None));
    assert_eq!((haproxy.others["sessions"], haproxy.others["requests_denied"]), (123, 2));
    let nginx = of(NGINX, "nginx");
    assert_eq!(
        (nginx.received, nginx.others["accepted"], nginx.others["handled"]),
        (Some(31), 7, 6)
    );
    let main = of(MAIN, "pmd-stats-show");
    assert_eq!((main.received, main.others["failed_upcalls"]), (Some(12), 0));
    let pmd = of(PMD, "pmd-stats-show");
    assert_eq!((pmd.received, pmd.others["failed_upcalls"], pmd.missed), (Some(123), 3, None));
    let dpctl = of(DPCTL, "dpctl");
    assert_eq!((dpctl.received, dpctl.missed, dpctl.others["kernel_hits"]), (Some(5), Some(2), 9));
    let vpp = of(VPP, "VPP");
    assert_eq!((vpp.received, vpp.sent, vpp.others["drops"]), (Some(77), None, 8));
    assert_eq!(vpp.others.get("rx_miss"), None);
    let wireguard = of(WIREGUARD, "WireGuard");
    assert_eq!((wireguard.received, wireguard.bytes), (None, Some(2230)));
    assert!(!format!("{wireguard:?}").contains("e84b"));
}

#[test]
fn vpp_counts_a_packet_at_the_lowest_interface() {
    let rows = |names: &[&str]| -> String {
        let row = |(number, name): (usize, &&str)| {
            format!("{name}  {number}  up  9000/0/0/0  rx packets  100\n  drops  1\n")
        };
        names.iter().enumerate().map(row).collect()
    };
    let of = |names: &[&str]| {
        let vpp = parse(&rows(names), &adapter("VPP"));
        (vpp.received, vpp.others["drops"])
    };
    let (port, sub) = ("GigabitEthernet0/8/0", "GigabitEthernet0/8/0.100");
    assert_eq!(of(&[port, "memif1/0"]), (Some(200), 2));
    assert_eq!(of(&[port, sub, "loop0", "local0"]), (Some(200), 4));
    assert_eq!(of(&["BondEthernet0", port, "vxlan_tunnel3", "BondEthernet0.5"]), (Some(100), 4));
    // A VLAN interface of the kernel, whose parent VPP does not use; a name given by the operator.
    assert_eq!(of(&["host-eth0.100", "green1"]), (Some(200), 2));
    assert_eq!(of(&["wg0"]), (None, 1));
}

#[test]
fn an_answer_of_another_program_has_no_counters() {
    for description in description::all() {
        assert!(parse("500 no\n{\"error\":\"no\"}", &description).is_empty());
    }
}

#[test]
fn the_page_is_where_the_configuration_says() {
    let text = "server {\n  location / { root /srv; }\n  # location /x { stub_status; }\n  \
                location = /basic_status {\n    stub_status;\n  }\n}\n";
    assert_eq!(location_in(text, "stub_status").as_deref(), Some("/basic_status"));
    assert_eq!(location_in("location /s { stub_status; }", "stub_status").as_deref(), Some("/s"));
    assert_eq!(location_in("location / { root /srv; }", "stub_status"), None);
}

fn texts(first: Option<u64>, last: Option<u64>) -> Texts {
    let counters = |received| Counters { received, ..Counters::default() };
    let socket = Listening {
        pid: 7,
        program: "nginx".to_owned(),
        kind: Kind::Stream,
        path: "/run/x".to_owned(),
    };
    Texts {
        description: adapter("nginx"),
        root: Root::new(Path::new("/nowhere")),
        place: Place::Unix(below_root(&socket)),
        asked: 3,
        first: counters(first),
        last: counters(last),
        trouble: None,
    }
}

#[test]
fn questions_are_taken_off_and_what_is_not_counted_is_null() {
    let mut unread = Vec::new();
    let mut texts_read = texts(Some(5), Some(58));
    let counts = texts_read.finish(&mut unread);
    assert_eq!(
        (counts.received, counts.missed, counts.unit.as_str()),
        (Some(50), None, "requests")
    );
    assert_eq!(texts(None, None).finish(&mut unread).received, None);
    // The next window begins with the last reading and without requests.
    assert_eq!(texts_read.finish(&mut unread).received, Some(0));
    assert!(unread.is_empty());
}

#[test]
fn counters_that_go_backwards_or_a_socket_that_is_gone_end_the_questions() {
    let backwards = Counters { received: Some(4), ..Counters::default() };
    assert!(texts(Some(1), Some(5)).check(backwards).unwrap_err().contains("backwards"));
    assert!(texts(Some(1), Some(5)).check(Counters::default()).is_err());
    let mut gone = texts(Some(1), Some(5));
    assert_eq!((gone.read(), gone.read(), gone.asked), (None, None, 4));
    let mut unread = Vec::new();
    assert_eq!(gone.finish(&mut unread).received, Some(0));
    assert!(
        unread[0].reason.contains("no usable reply from the program's socket /run/x"),
        "{unread:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn garbage_is_survived(
        text in r#"[\{\}\[\]",:#=0-9a-z/\-\n ]{0,120}|.{0,60}"#, of in 0usize..5,
        cut in 0usize..400, at in 0usize..400, byte in 32u8..127,
    ) {
        let mut damaged = [HAPROXY, NGINX, PMD, VPP, WIREGUARD][of].as_bytes().to_vec();
        let at = at % damaged.len();
        damaged[at] = byte;
        damaged.truncate(cut);
        let damaged = String::from_utf8(damaged).expect("ASCII");
        for text in [text, damaged] {
            for description in description::all() {
                parse(&text, &description);
            }
            location_in(&text, "stub_status");
        }
    }
}
