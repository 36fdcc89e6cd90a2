// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests live paths that are too slow, lose their CPU, have a stage that misbehaves, or run out of
//! memory or disk space: what happened is named, and every packet is accounted for.

use crate::scene::{Running, Scene, assert_reconciled, done, drops, interface, router};
use crate::wires::{flood, wait_for_socket};
use linerate_record::run::RunReport;
use std::path::Path;
use std::process::Command;

const PARSE: &str = "[[stage]]\nkind = \"parse\"\n";

/// Returns the ends of a path from p0 to p1, with the given I/O method.
fn ends(io: &str) -> String {
    let end = |kind: &str, name: &str| {
        format!("[{kind}]\nkind = \"interface\"\nname = \"{name}\"\nio = \"{io}\"\n\n")
    };
    end("source", "p0") + &end("sink", "p1")
}

/// Waits until a path in the forwarder's namespace receives on p0.
fn wait_for(scene: &Scene, io: &str) {
    match io {
        "af_xdp" => {
            let line = "until ip link show p0 | grep -q xdp; do sleep 0.05; done; sleep 1";
            drop(scene.run("f", &["sh", "-c", line]));
        }
        _ => wait_for_socket(scene, "f", 1),
    }
}

/// Starts a path in the forwarder's namespace, and waits until it receives on p0.
fn start(scene: &Scene, io: &str, text: &str) -> Running {
    let running = scene.start("f", &scene.path("f.toml", text), &["--time", "80s"]);
    wait_for(scene, io);
    running
}

/// Sends packets from host a at `rate`, and returns how many its interface accepted.
fn send(scene: &Scene, packets: u64, rate: &str) -> u64 {
    accepted(&sending(scene, packets, rate).report(), "a0")
}

fn sending(scene: &Scene, packets: u64, rate: &str) -> Running {
    let run = format!("packets = {packets}\nrate = \"{rate}\"");
    scene.start("a", &flood(scene, "af_packet", &run), &[])
}

fn accepted(report: &RunReport, name: &str) -> u64 {
    interface(report, name).sent.as_ref().map_or(0, |counts| counts.accepted)
}

/// Returns the packets that a path took from p0.
fn taken(report: &RunReport) -> u64 {
    interface(report, "p0").received.as_ref().map_or(0, |counts| counts.taken)
}

/// Requires that every packet that was taken from p0 was sent on p1, or dropped by name.
fn assert_no_silent_loss(report: &RunReport) {
    assert_reconciled(report);
    let stages = report.workers.iter().flat_map(|worker| &worker.stages);
    let named: u64 = stages.flat_map(|stage| stage.drops.values()).sum();
    // These were never taken.
    let before = drops(report, "source", "rx_ring_full");
    let sent = accepted(report, "p1");
    assert_eq!(taken(report), sent + named - before, "{:#?}", report.workers);
}

#[test]
fn frames_that_find_a_packet_ring_full_are_counted_by_cause() {
    let Some(scene) = Scene::new(&[]) else { return };
    let receiver = start(&scene, "af_packet", &(ends("af_packet") + PARSE));
    receiver.signal("STOP");
    // The ring has 32 blocks; the kernel closes one after 1 to 10 ms.
    let sent = send(&scene, 20_000, "20kpps");
    receiver.signal("CONT");
    scene.run("f", &["sleep", "0.5"]);
    let report = receiver.end();
    assert_no_silent_loss(&report);
    let received = interface(&report, "p0").received.as_ref().expect("it receives");
    assert!(sent > 10_000 && received.ring_full > 0, "{sent}: {received:?}");
    assert!(received.taken + received.ring_full >= sent, "{sent}: {received:?}");
    assert_eq!(drops(&report, "source", "rx_ring_full"), received.ring_full);
}

#[test]
fn packets_that_a_slow_worker_leaves_no_room_for_are_dropped_by_name() {
    let Some(scene) = Scene::new(&[]) else { return };
    // At most a few thousand packets per second.
    let text = format!(
        "{}{PARSE}\n[[stage]]\nkind = \"work\"\nadds = 1000000\n\n[mapping]\nworkers = [\
         {{ stages = [\"parse\"] }}, {{ stages = [\"work\"] }}]\n\n[run]\nring = 64\n\
         full_ring = \"drop\"\n",
        ends("af_packet")
    );
    let forwarder = start(&scene, "af_packet", &text);
    let sent = send(&scene, 20_000, "20kpps");
    let report = forwarder.end();
    assert_no_silent_loss(&report);
    let stages = report.workers[0].stages.iter();
    let lost: u64 = stages.filter_map(|stage| stage.drops.get("ring_full")).sum();
    assert!(sent > 10_000 && lost > 1_000, "{lost} of {sent}: {:#?}", report.workers);
    assert!(accepted(&report, "p1") > 0);
}

#[test]
fn a_worker_that_loses_its_cpu_for_a_tenth_of_a_second_loses_no_packet_silently() {
    let Some(scene) = Scene::new(&[]) else { return };
    for io in ["af_packet", "af_xdp"] {
        let forwarder = start(&scene, io, &(ends(io) + &router()));
        let sender = sending(&scene, 10_000, "10kpps");
        let busy = "until [ $(cat /sys/class/net/p1/statistics/tx_packets) -gt 500 ]; do sleep \
                    0.02; done";
        scene.run("f", &["sh", "-c", busy]);
        for _ in 0..3 {
            forwarder.signal("STOP");
            scene.run("f", &["sleep", "0.1"]);
            forwarder.signal("CONT");
            scene.run("f", &["sleep", "0.1"]);
        }
        let sent = accepted(&sender.report(), "a0");
        scene.run("f", &["sleep", "0.5"]);
        let report = forwarder.end();
        assert_no_silent_loss(&report);
        let lost = drops(&report, "source", "rx_ring_full");
        assert!(sent > 5_000 && taken(&report) + lost >= sent, "{io}: {lost} of {sent}");
    }
}

/// A C stage that misbehaves as specified by its parameter `act`.
const ROGUE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/stages/rogue.c");

fn compile(scene: &Scene) -> String {
    let object = scene.folder.path().join("librogue.so").display().to_string();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../plugin/include");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O2", "-fPIC", "-shared", include, "-o", &object, ROGUE]);
    done(&crate::scene::run(&mut cc));
    object
}

#[test]
fn a_stage_that_panics_or_crashes_on_live_packets_is_named() {
    let Some(scene) = Scene::new(&["cc"]) else { return };
    let object = compile(&scene);
    let rogue = |act: &str| {
        format!("kind = \"plugin\"\nfile = \"{object}\"\nact = \"{act}\"\nfrom = 100\n")
    };
    let cases = [
        ("fault", "kind = \"fault\"\npacket = 100\n".to_owned(), "requested fault at packet 100"),
        ("rogue", rogue("segv"), "SIGSEGV at address 0x10"),
        ("rogue", rogue("abort"), "SIGABRT"),
        ("rogue", rogue("verdict"), "invalid verdict 7"),
    ];
    let _sender = sending(&scene, 400_000, "5kpps");
    for io in ["af_packet", "af_xdp"] {
        for (name, stage, expected) in &cases {
            let text = format!("{}{PARSE}\n[[stage]]\n{stage}", ends(io));
            let path = scene.path("crash.toml", &text);
            let (error, report) = scene.start("f", &path, &["--time", "80s"]).failure();
            let stage = format!("stage `{name}` on worker 0.0");
            assert!(error.contains(&stage) && error.contains("packet 100"), "{io}: {error}");
            assert!(error.contains(expected), "{io}: {error}");
            assert!(taken(&report) > 100, "{io}: {:?}", report.interfaces);
            assert_reconciled(&report);
        }
    }
}

#[test]
fn a_full_disk_ends_a_live_recording_with_its_name() {
    let Some(scene) = Scene::new(&["mount"]) else { return };
    let disk = scene.folder.path().join("disk").display().to_string();
    std::fs::create_dir(&disk).expect("a folder");
    let text = format!(
        "[source]\nkind = \"interface\"\nname = \"p0\"\n\n{PARSE}\n[sink]\nkind = \"capture\"\n\
         file = \"{disk}/out.pcap\"\n"
    );
    // `ip netns exec` runs its command in a mount namespace of its own.
    let mount = format!("mount -t tmpfs -o size=64k none {disk} && exec \"$@\"");
    let mounted = crate::scene::run(&mut scene.command("f", &["sh", "-c", &mount, "sh", "true"]));
    if !mounted.status.success() {
        return println!("SKIP: no tmpfs can be mounted here");
    }
    let _sender = sending(&scene, 400_000, "5kpps");
    let path = scene.path("record.toml", &text);
    let recorder = scene.start_by(&["sh", "-c", &mount, "sh"], "f", &path, &["--time", "5s"]);
    let (error, report) = recorder.failure();
    assert!(error.contains("out.pcap") && error.contains("No space left"), "{error}");
    assert_reconciled(&report);
    assert!(taken(&report) > 0, "{:?}", report.interfaces);
    assert!(!Path::new(&disk).join("out.pcap").exists(), "the disk is private to the recorder");
}

#[test]
fn refused_memory_is_an_error_that_names_it() {
    let Some(scene) = Scene::new(&["setpriv", "prlimit"]) else { return };
    let locked = ["setpriv", "--bounding-set=-ipc_lock", "prlimit", "--memlock=65536"];
    let little = ["prlimit", "--as=268435456"];
    let queues = "\n[mapping]\nworkers = [{ stages = [\"parse\"], replicas = 64 }]\n";
    for (by, text, expected) in [
        (&locked[..], ends("af_xdp") + PARSE, "ulimit -l"),
        (&little[..], ends("af_packet") + PARSE + queues, "Cannot allocate memory"),
    ] {
        let path = scene.path("memory.toml", &text);
        let output = scene.start_by(by, "f", &path, &["--time", "1s"]).output();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{by:?}: {error}");
        assert!(error.contains(expected), "{by:?}: {error}");
    }
}
