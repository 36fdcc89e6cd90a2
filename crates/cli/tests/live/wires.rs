// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests captures, interfaces and several queues in one chain, with the program as sender,
//! forwarder and receiver.

use crate::scene::{MAC, Scene, assert_reconciled, drops, interface, router};
use linerate_dataplane::traffic::Traffic;
use linerate_path::model::CaptureRules;
use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;

/// Number of the sender's flows.
const FLOWS: u8 = 40;
/// Number of packets per flow.
const EACH: u16 = 100;

/// Returns an Ethernet frame with a UDP packet of a flow. Its last two bytes are its number within
/// the flow.
fn frame(flow: u8, number: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x0a, 8, 0];
    let mut ip = vec![0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0];
    ip.extend(Ipv4Addr::new(10, 0, 0, 10 + flow).octets());
    ip.extend(Ipv4Addr::new(192, 0, 2, 2).octets());
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let sum = !((folded & 0xffff) + (folded >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(ip);
    frame.extend([0, 7, 0, 9, 0, 26, 0, 0]);
    frame.extend([0; 16]);
    frame.extend(number.to_be_bytes());
    frame
}

/// Returns a capture of all flows, interleaved.
fn capture() -> Vec<u8> {
    let mut writer = linerate_dataplane::capture::PcapWriter::new(Vec::new()).expect("memory");
    for number in 0..EACH {
        for flow in 0..FLOWS {
            let time_ns = u64::from(number) * u64::from(FLOWS) + u64::from(flow);
            writer.write(time_ns, &frame(flow, number)).expect("memory");
        }
    }
    writer.finish().expect("memory")
}

/// Returns the numbers of each flow's packets in a capture, in order.
fn numbers(file: &[u8]) -> BTreeMap<u8, Vec<u16>> {
    let traffic = Traffic::from_capture(file, 2048, CaptureRules::WHOLE, &[]).expect("packets");
    let mut flows: BTreeMap<u8, Vec<u16>> = BTreeMap::new();
    for index in 0..traffic.len() {
        let bytes = traffic.frame(index);
        if bytes.len() == 60 && bytes[23] == 17 && bytes[26..29] == [10, 0, 0] {
            let number = u16::from_be_bytes([bytes[58], bytes[59]]);
            flows.entry(bytes[29] - 10).or_default().push(number);
        }
    }
    flows
}

/// Waits until a packet socket is open in the namespace of a host.
pub(crate) fn wait_for_socket(scene: &Scene, host: &str, sockets: u32) {
    let line = format!(
        "until [ $(wc -l < /proc/net/packet) -gt {sockets} ]; do sleep 0.05; done; sleep 0.5"
    );
    scene.run(host, &["sh", "-c", &line]);
}

#[test]
fn two_queues_keep_the_order_of_each_flow_and_every_packet_is_explained() {
    let Some(scene) = Scene::new(&[]) else { return };
    fs::write(scene.folder.path().join("in.pcap"), capture()).expect("it can be written");
    let out = scene.folder.path().join("out.pcap");
    let parse = "[[stage]]\nkind = \"parse\"\n";
    let receiver = format!(
        "[source]\nkind = \"interface\"\nname = \"b0\"\n\n[sink]\nkind = \"capture\"\nfile = \
         \"{}\"\n\n{parse}",
        out.display()
    );
    let forwarder = format!(
        "[source]\nkind = \"interface\"\nname = \"p0\"\n\n[sink]\nkind = \"interface\"\nname = \
         \"p1\"\n\n{}\n[mapping]\nworkers = [{{ stages = [\"parse\", \"forward\"], replicas = 2 \
         }}]\n",
        router()
    );
    let sender = format!(
        "[source]\nkind = \"capture\"\nfile = \"in.pcap\"\n\n[sink]\nkind = \"interface\"\nname = \
         \"a0\"\n\n{parse}\n[run]\npackets = {}\nrate = \"20kpps\"\n",
        u64::from(FLOWS) * u64::from(EACH)
    );
    let receiver = scene.start("b", &scene.path("b.toml", &receiver), &["--time", "80s"]);
    let forwarder = scene.start("f", &scene.path("f.toml", &forwarder), &["--time", "80s"]);
    wait_for_socket(&scene, "b", 1);
    wait_for_socket(&scene, "f", 4);
    let sent = scene.start("a", &scene.path("a.toml", &sender), &[]).report();
    // A reply from host b shows that what was sent before has passed.
    scene.run("b", &["sh", "-c", "sleep 0.5"]);
    let (forwarded, received) = (forwarder.end(), receiver.end());
    for report in [&sent, &forwarded, &received] {
        assert_reconciled(report);
    }
    let accepted = interface(&sent, "a0").sent.as_ref().map_or(0, |counts| counts.accepted);
    let lost = drops(&sent, "sink", "tx_full") + drops(&sent, "source", "rx_missed");
    assert_eq!(accepted + lost, u64::from(FLOWS) * u64::from(EACH));
    assert_eq!(interface(&forwarded, "p0").queues, 2);
    let busy = forwarded.workers.iter().filter(|worker| worker.stages[0].packets > 0).count();
    assert_eq!(busy, 2, "flows are spread over both queues");

    let flows = numbers(&fs::read(&out).expect("the receiver wrote it"));
    let arrived: usize = flows.values().map(Vec::len).sum();
    assert!(arrived > usize::from(FLOWS), "{arrived} packets of {accepted} arrived");
    for (flow, numbers) in flows {
        assert!(numbers.is_sorted_by(|a, b| a < b), "flow {flow}: {numbers:?}");
    }
}

/// Writes a path that sends packets of one flow from host a; `run` holds its run settings.
pub(crate) fn flood(scene: &Scene, io: &str, run: &str) -> String {
    let mut writer = linerate_dataplane::capture::PcapWriter::new(Vec::new()).expect("memory");
    writer.write(0, &frame(0, 0)).expect("memory");
    let capture = writer.finish().expect("memory");
    fs::write(scene.folder.path().join("flow.pcap"), capture).expect("it can be written");
    let text = format!(
        "[source]\nkind = \"capture\"\nfile = \"flow.pcap\"\n\n[sink]\nkind = \"interface\"\nname \
         = \"a0\"\nio = \"{io}\"\n\n[[stage]]\nkind = \"parse\"\n\n[run]\n{run}\n"
    );
    scene.path("flood.toml", &text)
}

#[test]
fn a_packet_limit_ends_a_run_whose_second_queue_gets_nothing() {
    const PACKETS: u64 = 1_000;
    let Some(scene) = Scene::new(&[]) else { return };
    let parse = "[[stage]]\nkind = \"parse\"\n";
    let receiver = format!(
        "[source]\nkind = \"interface\"\nname = \"p0\"\n\n{parse}\n[run]\npackets = \
         {PACKETS}\n\n[mapping]\nworkers = [{{ stages = [\"parse\"], replicas = 2 }}]\n"
    );
    let receiver = scene.path("f.toml", &receiver);
    let endless = "time = \"80s\"\nrate = \"2kpps\"";
    let _sender = scene.start("a", &flood(&scene, "af_packet", endless), &[]);
    // Several runs: whether one queue disturbs the other depends on when they poll.
    for _ in 0..4 {
        let report = scene.start("f", &receiver, &[]).report();
        assert_reconciled(&report);
        let taken = report.workers.iter().map(|worker| worker.stages[0].packets);
        assert_eq!(taken.sum::<u64>(), PACKETS);
    }
}

#[test]
fn frames_that_an_xdp_socket_loses_are_counted_once_and_by_cause() {
    // More than the receive ring and the fill ring hold.
    const PACKETS: u64 = 5_000;
    let Some(scene) = Scene::new(&[]) else { return };
    for interface in [("a", "a0"), ("f", "p0")] {
        scene.ip(interface.0, &["link", "set", interface.1, "mtu", "5000"]);
    }
    let text = "[source]\nkind = \"interface\"\nname = \"p0\"\nio = \"af_xdp\"\n\n\
                [[stage]]\nkind = \"parse\"\n";
    let receiver = scene.start("f", &scene.path("xdp.toml", text), &["--time", "80s"]);
    scene.run("f", &["sh", "-c", "until ip link show p0 | grep -q xdp; do sleep 0.05; done"]);
    scene.run("f", &["sleep", "1"]);
    receiver.signal("STOP");
    let run = format!("packets = {PACKETS}\nrate = \"50kpps\"");
    let sent = scene.start("a", &flood(&scene, "af_packet", &run), &[]).report();
    receiver.signal("CONT");
    let silence = "ping -n -q -i 0.05 -c 7 -W 1 -s 4500 192.0.2.2; [ $? = 1 ]";
    scene.run("a", &["sh", "-c", silence]);
    let report = receiver.end();
    assert_reconciled(&sent);
    assert_reconciled(&report);
    let accepted = interface(&sent, "a0").sent.as_ref().map_or(0, |counts| counts.accepted);
    let received = interface(&report, "p0").received.as_ref().expect("it receives");
    assert!(received.ring_full > 0, "{received:?}");
    assert!(received.taken + received.ring_full >= accepted, "{received:?}");
    assert_eq!(drops(&report, "source", "rx_ring_full"), received.ring_full);
    assert_eq!(drops(&report, "source", "xdp_too_long"), 7);
}

#[test]
fn an_xdp_socket_sends_all_of_a_burst() {
    // The kernel sends 32 frames of an AF_XDP socket per call.
    const PACKETS: u64 = 256;
    let Some(scene) = Scene::new(&[]) else { return };
    let run = format!("packets = {PACKETS}\nburst = {PACKETS}");
    let sent = scene.start("a", &flood(&scene, "af_xdp", &run), &[]).report();
    assert_reconciled(&sent);
    let counts = interface(&sent, "a0").sent.as_ref().expect("it sends");
    assert_eq!(counts.accepted, PACKETS);
}

#[test]
fn packets_that_could_not_be_sent_have_no_latency() {
    const PACKETS: u64 = 2_000;
    let Some(scene) = Scene::new(&[]) else { return };
    scene.ip("a", &["link", "set", "a0", "down"]);
    let run = format!("packets = {PACKETS}\nrate = \"50kpps\"");
    let report = scene.start("a", &flood(&scene, "af_packet", &run), &[]).report();
    let lost = drops(&report, "sink", "tx_down") + drops(&report, "source", "rx_missed");
    assert_eq!(lost, PACKETS);
    assert_eq!(report.latency.p50.as_number(), None);
}

#[test]
fn a_tap_interface_receives_and_sends() {
    let Some(scene) = Scene::new(&[]) else { return };
    if !std::path::Path::new("/dev/net/tun").exists() {
        return println!("SKIP: no /dev/net/tun here");
    }
    // The tap is a third interface of host a, with host b's network behind it.
    scene.ip("f", &["tuntap", "add", "t0", "mode", "tap"]);
    scene.ip("f", &["link", "set", "t0", "up", "address", "02:00:00:00:00:0c"]);
    scene.ip("f", &["address", "add", "10.0.9.2/24", "dev", "t0"]);
    scene.ip("f", &["neigh", "add", "10.0.9.1", "lladdr", MAC, "dev", "t0"]);
    scene.ip("f", &["route", "add", "192.0.2.0/24", "via", "10.0.9.1"]);
    let ports = "[[port]]\nname = \"tap\"\ninterface = \"t0\"\nio = \"tap\"\n\n\
                 [[port]]\nname = \"outside\"\ninterface = \"p1\"\n\n\
                 [source]\nkind = \"ports\"\n\n[sink]\nkind = \"ports\"\n\n";
    let routes =
        router().replace("10.0.0.0/24 via 02:00:00:00:00:0a", "10.0.9.0/24 via 02:00:00:00:00:0c");
    let path = scene.path("tap.toml", &format!("{ports}{routes}"));
    let forwarder = scene.start("f", &path, &["--time", "80s"]);
    scene.wait_for_reply("f", "192.0.2.2");
    let replies = scene.run("f", &["ping", "-n", "-q", "-i", "0.05", "-c", "20", "192.0.2.2"]);
    assert!(replies.contains(" 0% packet loss"), "{replies}");
    let second = scene.start("f", &path, &["--time", "1s"]).output();
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(2), "{text}");
    assert!(text.contains("t0") && text.contains("another program"), "{text}");
    let report = forwarder.end();
    assert_reconciled(&report);
    let tap = interface(&report, "t0");
    assert!(tap.received.as_ref().is_some_and(|counts| counts.taken >= 20), "{tap:?}");
}
