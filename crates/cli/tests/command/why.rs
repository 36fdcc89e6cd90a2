// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate why` on real processes: the demo, and what happens to programs while they are watched.

use crate::rig::{Done, a_share_of_the_processors, command, linerate};
use std::process::{Command, Stdio};

/// Whether this machine lets users have namespaces of their own; says so where it does not.
fn has_namespaces() -> bool {
    let tried = Command::new("unshare").args(["-Urn", "true"]).stderr(Stdio::null()).status();
    let has = tried.is_ok_and(|status| status.success());
    if !has {
        println!("SKIP: no user namespaces here, or no unshare(1)");
    }
    has
}

/// A line of `sh` in a user and a network namespace of its own; `linerate` is `$0`.
fn in_namespaces(line: &str) -> Done {
    let _share = a_share_of_the_processors();
    let linerate = command(&[]);
    let output = Command::new("unshare")
        .args(["-Urn", "sh", "-c", line])
        .arg(linerate.get_program())
        .env("XDG_STATE_HOME", "/dev/null/state")
        .stdin(Stdio::null())
        .output()
        .expect("unshare starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Done { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn the_demo_finds_what_it_was_made_to_lose_packets_by() {
    if !has_namespaces() {
        return;
    }
    let done = linerate(&["why", "--demo", "--time", "2s", "--quiet"]);
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(done.stdout.contains("\nfinding     socket_buffer: "), "{}", done.stdout);
    assert!(done.stdout.contains("The answer agrees"), "{}", done.stdout);
    let done = linerate(&["why", "--demo", "--time", "1s", "--json", "--quiet"]);
    let finding = "\"finding\": \"socket_buffer\"";
    assert!(done.stdout.contains(finding) && done.stderr.contains("truth"), "{done:?}");
}

#[test]
fn a_demo_without_namespaces_names_the_setting() {
    if !has_namespaces() {
        return;
    }
    let done = in_namespaces("echo 0 > /proc/sys/user/max_user_namespaces && $0 why --demo");
    if done.stderr.contains("max_user_namespaces: ") {
        return println!("SKIP: the limit of user namespaces cannot be set here");
    }
    assert_eq!((done.status, done.stdout.as_str()), (Some(2), ""), "{}", done.stderr);
    let setting = "user.max_user_namespaces is 0";
    assert!(done.stderr.contains(setting), "{}", done.stderr);
    assert!(done.stderr.contains("sudo sysctl user.max_user_namespaces=15000"), "{}", done.stderr);
}
