// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests faults of interfaces and of a path's environment: each fault is reported, and no packet is
//! lost silently.

use crate::scene::{PORTS, Scene, assert_reconciled, drops, interface, router};
use linerate_record::interfaces::InterfaceDoubt;
use linerate_record::run::RunReport;
use linerate_record::{Body, Figure, Record, Warning};
use std::process::Stdio;

/// Returns the warning about an interface.
fn doubt(report: &RunReport, name: &str) -> String {
    let doubt = InterfaceDoubt::of(interface(report, name)).expect("the interface has a warning");
    Warning::InterfaceInDoubt(doubt).to_string()
}

fn started(scene: &Scene) -> crate::scene::Running {
    started_with(scene, &[])
}

fn started_with(scene: &Scene, options: &[&str]) -> crate::scene::Running {
    let path = scene.path("router.toml", &format!("{PORTS}{}", router()));
    let forwarder = scene.start("f", &path, &[&["--time", "80s"], options].concat());
    scene.wait_for_reply("a", "192.0.2.2");
    forwarder
}

#[test]
fn an_interface_that_goes_down_and_comes_back_is_reported_and_used_again() {
    let Some(scene) = Scene::new(&[]) else { return };
    for idle in ["pause", "park"] {
        let forwarder = started_with(&scene, &["--idle", idle]);
        scene.ip("f", &["link", "set", "p1", "down"]);
        // Without replies, ping exits with status 1.
        let silence = "ping -n -q -i 0.05 -c 20 -W 1 192.0.2.2; [ $? = 1 ]";
        scene.run("a", &["sh", "-c", silence]);
        scene.ip("f", &["link", "set", "p1", "up"]);
        scene.wait_for_reply("a", "192.0.2.2");
        let report = forwarder.end();
        assert_reconciled(&report);
        assert!(drops(&report, "sink", "tx_down") >= 20, "{:?}", report.workers[0].stages);
        let text = doubt(&report, "p1");
        assert!(text.contains("p1 went down") && text.contains("during the run"), "{text}");
    }
}

#[test]
fn a_renamed_interface_stays_in_use() {
    let Some(scene) = Scene::new(&[]) else { return };
    let forwarder = started(&scene);
    scene.ip("f", &["link", "set", "p1", "down"]);
    scene.ip("f", &["link", "set", "p1", "name", "other"]);
    scene.ip("f", &["link", "set", "other", "up"]);
    scene.wait_for_reply("a", "192.0.2.2");
    let report = forwarder.end();
    assert_reconciled(&report);
    let text = doubt(&report, "p1");
    assert!(text.contains("was renamed to other"), "{text}");
}

#[test]
fn a_path_ends_when_its_only_interface_is_gone() {
    for idle in ["pause", "park"] {
        let Some(scene) = Scene::new(&[]) else { return };
        let text = format!(
            "[source]\nkind = \"interface\"\nname = \"p0\"\n\n[sink]\nkind = \"interface\"\nname = \
             \"p1\"\n\n{}",
            router()
        );
        let path = scene.path("gone.toml", &text);
        let forwarder = scene.start("f", &path, &["--time", "80s", "--idle", idle]);
        let wait = "until [ $(wc -l < /proc/net/packet) -gt 2 ]; do sleep 0.05; done; sleep 0.5";
        scene.run("f", &["sh", "-c", wait]);
        scene.ip("f", &["link", "delete", "p0"]);
        let report = forwarder.report();
        assert!(interface(&report, "p0").changes.is_gone, "{:?}", report.interfaces);
        let text = doubt(&report, "p0");
        assert!(text.contains("p0 disappeared during the run"), "{text}");
    }
}

#[test]
fn frames_beyond_a_smaller_mtu_are_dropped_by_name() {
    let Some(scene) = Scene::new(&[]) else { return };
    let forwarder = started(&scene);
    scene.ip("f", &["link", "set", "p1", "mtu", "600"]);
    let silence = "ping -n -q -i 0.05 -c 20 -W 1 -s 1000 192.0.2.2; [ $? = 1 ]";
    scene.run("a", &["sh", "-c", silence]);
    scene.wait_for_reply("a", "192.0.2.2");
    let report = forwarder.end();
    assert_reconciled(&report);
    assert_eq!(drops(&report, "sink", "tx_too_long"), 20);
    let text = doubt(&report, "p1");
    assert!(text.contains("changed its MTU from 1500 to 600"), "{text}");
}

#[test]
fn a_request_to_end_under_load_loses_no_count() {
    let Some(scene) = Scene::new(&["iperf3"]) else { return };
    let forwarder = started(&scene);
    let mut server = scene.command("b", &["iperf3", "-s", "-1"]);
    let mut server = server.stdout(Stdio::null()).spawn().expect("iperf3 starts");
    let client = "for i in $(seq 100); do iperf3 -u -b 200M -l 200 -c 192.0.2.2 -t 20 && exit; \
                  sleep 0.1; done";
    let mut client = scene.command("a", &["sh", "-c", client]);
    let mut client = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sh starts");
    let busy = "until [ $(cat /sys/class/net/p1/statistics/tx_packets) -gt 20000 ]; do sleep 0.05; \
                done";
    scene.run("f", &["sh", "-c", busy]);
    let report = forwarder.end();
    for child in [&mut client, &mut server] {
        crate::scene::run(std::process::Command::new("kill").arg(child.id().to_string()));
        child.wait().expect("it ends");
    }
    assert_reconciled(&report);
    assert!(interface(&report, "p1").sent.as_ref().is_some_and(|sent| sent.accepted > 10_000));
}

#[test]
fn two_programs_on_one_interface_both_account_for_every_packet() {
    let Some(scene) = Scene::new(&[]) else { return };
    let forwarder = started(&scene);
    let text = "[source]\nkind = \"interface\"\nname = \"p0\"\n\n[[stage]]\nkind = \"parse\"\n";
    let watcher = scene.start("f", &scene.path("watch.toml", text), &["--time", "80s"]);
    let wait = "until [ $(wc -l < /proc/net/packet) -gt 5 ]; do sleep 0.05; done; sleep 0.5";
    scene.run("f", &["sh", "-c", wait]);
    scene.run("a", &["ping", "-n", "-q", "-i", "0.05", "-c", "20", "192.0.2.2"]);
    let (watched, report) = (watcher.end(), forwarder.end());
    assert_reconciled(&watched);
    assert_reconciled(&report);
    assert!(interface(&watched, "p0").received.as_ref().is_some_and(|counts| counts.taken >= 20));
}

#[test]
fn a_missing_interface_or_right_is_an_error_with_its_remedy() {
    let Some(scene) = Scene::new(&[]) else { return };
    let text = "[source]\nkind = \"interface\"\nname = \"p9\"\n\n[[stage]]\nkind = \"parse\"\n";
    let path = scene.path("missing.toml", text);
    let missing = scene.start("f", &path, &[]).output();
    let error = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(missing.status.code(), Some(2), "{error}");
    assert!(error.contains("p9") && error.contains("ip link"), "{error}");

    // In its own user namespace, the program has no privileges in this network namespace.
    let path = scene.path("right.toml", &text.replace("p9", "p0"));
    let program = env!("CARGO_BIN_EXE_linerate");
    let line = ["unshare", "-U", program, "run", &path, "--quiet"];
    let refused = scene.command("f", &line).output().expect("it starts");
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    if error.starts_with("unshare:") {
        return println!("SKIP: no user namespaces here");
    }
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("CAP_NET_RAW"), "{error}");
}

/// Starts a path that sends generated packets on p1, and returns its exit status, standard error,
/// and report.
fn sending(scene: &Scene, options: &[&str]) -> (Option<i32>, String, RunReport) {
    let text = "[source]\nkind = \"generator\"\nsizes = [60, 1000]\n\n[sink]\n\
                kind = \"interface\"\nname = \"p1\"\n\n[[stage]]\nkind = \"parse\"\n";
    let path = scene.path("send.toml", text);
    let output = scene.start("f", &path, &[&["--time", "1s"], options].concat()).output();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = String::from_utf8(output.stdout).expect("UTF-8");
    let record = Record::from_json(&json).unwrap_or_else(|wrong| panic!("{wrong}: {json} {error}"));
    let Body::Run(report) = record.body else { panic!("{json}") };
    (output.status.code(), error, *report)
}

#[test]
fn packets_that_an_interface_refuses_do_not_reach_the_goal() {
    let Some(scene) = Scene::new(&[]) else { return };
    // Of the two sizes, one fits.
    scene.ip("f", &["link", "set", "p1", "mtu", "600"]);
    let (status, error, report) = sending(&scene, &["--goal", "1pps"]);
    assert_eq!(status, Some(0), "{error}");
    let kpps = |figure: &Figure| figure.as_number().expect("a rate");
    let taken = report.workers[0].stages[0].kpps.expect("times are known");
    let share = kpps(&report.processed_kpps) / taken;
    assert!((0.3..0.7).contains(&share), "{share} of {taken} kpps");
    assert!(kpps(&report.delivered_kpps()) < 0.7 * taken);
    assert_reconciled(&report);

    scene.ip("f", &["link", "set", "p1", "down"]);
    let (status, error, report) = sending(&scene, &["--goal", "1pps"]);
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("no packet was sent") && error.contains("tx_down"), "{error}");
    assert_eq!(report.processed_kpps.as_number(), Some(0.0));
}
