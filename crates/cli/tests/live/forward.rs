// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests traffic of real programs through the forwarder.

use crate::scene::{PORTS, Scene, assert_reconciled, done, drops, interface, nat, router, run};
use std::process::{Command, Stdio};

#[test]
fn ping_and_tcp_pass_through_nat_both_ways() {
    let Some(scene) = Scene::new(&["iperf3"]) else { return };
    let path = scene.path("nat.toml", &format!("{PORTS}{}", nat()));
    let forwarder = scene.start("f", &path, &["--time", "80s"]);
    scene.wait_for_reply("a", "192.0.2.2");
    let replies = scene.run("a", &["ping", "-n", "-q", "-i", "0.05", "-c", "20", "192.0.2.2"]);
    assert!(replies.contains(" 0% packet loss"), "{replies}");

    send_over_tcp(&scene, &[]);
    let before = received_bytes(&scene, "p1");
    let bytes = send_over_tcp(&scene, &["-R"]);
    let outside = received_bytes(&scene, "p1") - before;
    assert!(outside >= bytes, "{outside} of {bytes} bytes came from host b");
    let report = forwarder.end();
    assert_reconciled(&report);
    let nat = report.workers[0].stages.iter().find(|stage| stage.name == "nat44").expect("nat44");
    assert!(nat.counts.values().sum::<u64>() > 0, "{:?}", nat.counts);
    for name in ["p0", "p1"] {
        let both = interface(&report, name);
        assert!(both.received.as_ref().is_some_and(|counts| counts.taken > 40), "{both:?}");
        assert!(both.sent.as_ref().is_some_and(|counts| counts.accepted > 40), "{both:?}");
    }
    let input = report.input.expect("live input is described");
    assert!(input.completed_checksums > 0, "veth leaves checksums to the receiver: {input:?}");
}

/// Returns the bytes that an interface of the forwarder has received.
fn received_bytes(scene: &Scene, name: &str) -> u64 {
    let file = format!("/sys/class/net/{name}/statistics/rx_bytes");
    scene.run("f", &["cat", &file]).trim().parse().expect("a number")
}

/// Sends data from host a to host b for 2 seconds, with additional iperf3 options. Returns the
/// number of bytes that arrived, which must not be 0.
fn send_over_tcp(scene: &Scene, options: &[&str]) -> u64 {
    let mut server = scene.command("b", &["iperf3", "-s", "-1", "-p", "5201"]);
    let mut server = server.stdout(Stdio::null()).spawn().expect("iperf3 starts");
    // Port 5201 in hexadecimal, in state LISTEN.
    let listens = "for i in $(seq 100); do \
                   grep -q ':1451 .* 0A ' /proc/net/tcp /proc/net/tcp6 && exit; sleep 0.1; \
                   done; exit 1";
    scene.run("b", &["sh", "-c", listens]);
    let client = [&["iperf3", "-c", "192.0.2.2", "-t", "2", "-J"], options].concat();
    let sent = scene.run("a", &client);
    server.wait().expect("it ends");
    let result: serde_json::Value = last_object(&sent);
    let bytes = result["end"]["sum_received"]["bytes"].as_u64().unwrap_or(0);
    // The rate depends on other load on the CPUs; `cargo xtask live` checks rates.
    assert!(bytes > 0, "no data in 2 seconds: {sent}");
    bytes
}

#[test]
fn a_parked_forwarder_forwards_like_one_that_polls() {
    let Some(scene) = Scene::new(&["iperf3"]) else { return };
    let path = scene.path("park.toml", &format!("{PORTS}{}", nat()));
    let forwarder = scene.start("f", &path, &["--time", "80s", "--idle", "park"]);
    scene.wait_for_reply("a", "192.0.2.2");
    let replies = scene.run("a", &["ping", "-n", "-q", "-i", "0.05", "-c", "20", "192.0.2.2"]);
    assert!(replies.contains(" 0% packet loss"), "{replies}");
    send_over_tcp(&scene, &[]);
    let report = forwarder.end();
    assert_reconciled(&report);
    let idle = report.workers[0].idle.as_ref().expect("every run reports it");
    assert_eq!(idle.policy, "park");
    // It sleeps between two pings, each of which wakes it twice.
    assert!(idle.parks > 20 && idle.wake_ups > 20, "{idle:?}");
}

#[test]
fn a_parked_forwarder_uses_little_cpu_time_while_no_packets_come() {
    let Some(scene) = Scene::new(&[]) else { return };
    for io in ["af_packet", "af_xdp"] {
        let interface = |name: &str| format!("interface = \"{name}\"\nio = \"{io}\"");
        let ports = PORTS
            .replace("interface = \"p0\"", &interface("p0"))
            .replace("interface = \"p1\"", &interface("p1"));
        let path = scene.path(&format!("{io}.toml"), &format!("{ports}{}", router()));
        let forwarder = scene.start("f", &path, &["--time", "80s", "--idle", "park"]);
        scene.wait_for_reply("a", "192.0.2.2");
        let before = forwarder.worker_cpu_ns();
        scene.run("f", &["sleep", "4"]);
        let share = (forwarder.worker_cpu_ns() - before) as f64 / 4e9;
        scene.wait_for_reply("a", "192.0.2.2");
        let report = forwarder.end();
        assert_reconciled(&report);
        // It looks for the end of the run ten times per second. This takes 0.14 % of a CPU without
        // optimization (0.06 % with it), and a multiple of that on a busy machine.
        assert!(share < 0.005, "{io}: {share} of a CPU, {:?}", report.workers[0].idle);
    }
}

/// Parses the last JSON object in the output of several attempts.
fn last_object(text: &str) -> serde_json::Value {
    let start = text.rfind("\n{").map_or(0, |at| at + 1);
    serde_json::from_str(&text[start..]).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The path that `cargo xtask live` compares with testpmd.
const COMPARED: &str = include_str!("../../../../xtask/src/live/path.toml");

#[test]
fn the_path_of_the_comparison_with_testpmd_forwards() {
    let folder = tempfile::tempdir().expect("a folder");
    for io in ["af_packet", "af_xdp"] {
        let file = folder.path().join(format!("{io}.toml"));
        std::fs::write(&file, COMPARED.replace("af_packet", io)).expect("it can be written");
        let mut check = Command::new(env!("CARGO_BIN_EXE_linerate"));
        done(&run(check.args(["run", "--check"]).arg(&file)));
    }
    let Some(scene) = Scene::new(&[]) else { return };
    let forwarder = scene.start("f", &scene.path("compared.toml", COMPARED), &["--time", "80s"]);
    scene.run(
        "f",
        &["sh", "-c", "until [ $(wc -l < /proc/net/packet) -gt 2 ]; do sleep 0.05; done"],
    );
    // The host has no neighbor that answers, but its frames leave on the other side.
    let ping = "ping -n -q -i 0.05 -c 20 -W 1 192.0.2.2; [ $? = 1 ]";
    scene.run("a", &["sh", "-c", ping]);
    let report = forwarder.end();
    assert_reconciled(&report);
    assert!(interface(&report, "p1").sent.as_ref().is_some_and(|sent| sent.accepted >= 20));
}

#[test]
fn xdp_sockets_forward_through_nat_both_ways() {
    let Some(scene) = Scene::new(&[]) else { return };
    let ports = PORTS
        .replace("interface = \"p0\"", "interface = \"p0\"\nio = \"af_xdp\"")
        .replace("interface = \"p1\"", "interface = \"p1\"\nio = \"af_xdp\"");
    let path = scene.path("xdp.toml", &format!("{ports}{}", nat()));
    let forwarder = scene.start("f", &path, &["--time", "80s"]);
    scene.wait_for_reply("a", "192.0.2.2");
    let replies = scene.run("a", &["ping", "-n", "-q", "-i", "0.05", "-c", "20", "192.0.2.2"]);
    assert!(replies.contains(" 0% packet loss"), "{replies}");
    let second = scene.start("f", &path, &["--time", "1s"]).output();
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(2), "{text}");
    assert!(text.contains("p0") && text.contains("another program"), "{text}");
    let report = forwarder.end();
    assert_reconciled(&report);
    assert_eq!(interface(&report, "p0").io, "af_xdp");
}

/// Fragments from inside are translated, in any order. Fragments addressed to the outside address
/// cannot be assigned to a host inside without reassembly, and are dropped by name.
#[test]
fn fragments_from_inside_pass_through_nat_and_those_from_outside_are_dropped_by_name() {
    const PINGS: u64 = 20;
    let Some(scene) = Scene::new(&[]) else { return };
    let path = scene.path("nat.toml", &format!("{PORTS}{}", nat()));
    let forwarder = scene.start("f", &path, &["--time", "80s"]);
    scene.wait_for_reply("a", "192.0.2.2");
    let before = reassembled(&scene);
    // 4000 bytes are three fragments each way.
    let ping = format!("ping -n -q -M dont -s 4000 -i 0.05 -c {PINGS} -W 1 192.0.2.2; [ $? = 1 ]");
    scene.run("a", &["sh", "-c", &ping]);
    assert_eq!(reassembled(&scene) - before, PINGS, "host b receives whole packets");
    let report = forwarder.end();
    assert_reconciled(&report);
    assert_eq!(drops(&report, "nat44", "fragment"), 3 * PINGS);
}

/// Returns the number of packets that host b has reassembled from fragments.
fn reassembled(scene: &Scene) -> u64 {
    let text = scene.run("b", &["cat", "/proc/net/snmp"]);
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, numbers) = (lines.next().expect("names"), lines.next().expect("numbers"));
    let mut pairs = names.split(' ').zip(numbers.split(' '));
    let found = pairs.find(|(name, _)| *name == "ReasmOKs").expect("ReasmOKs");
    found.1.parse().expect("a number")
}

#[test]
fn udp_and_fragments_pass_both_ways() {
    let Some(scene) = Scene::new(&[]) else { return };
    let path = scene.path("router.toml", &format!("{PORTS}{}", router()));
    let forwarder = scene.start("f", &path, &["--time", "80s"]);
    scene.wait_for_reply("a", "192.0.2.2");
    // 4000 bytes are three fragments each way.
    let ping = ["ping", "-n", "-q", "-M", "dont", "-s", "4000", "-i", "0.05", "-c", "20"];
    for (host, address) in [("a", "192.0.2.2"), ("b", "10.0.0.2")] {
        let replies = scene.run(host, &[&ping[..], &[address]].concat());
        assert!(replies.contains(" 0% packet loss"), "{replies}");
    }
    let report = forwarder.end();
    assert_reconciled(&report);
    let taken = interface(&report, "p0").received.as_ref().map_or(0, |counts| counts.taken);
    assert!(taken >= 40 * 3, "{taken} frames");
}
