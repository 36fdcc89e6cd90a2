// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `linerate stream`: its record, its server, its namespaces, and the result if a side is
//! killed. No test asserts a time.

use crate::rig::{answered, command, linerate, record, refused};
use crate::validator::Validator;
use linerate_record::Body;
use linerate_record::stream::{StreamPathKind, StreamReport};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SHORT: [&str; 7] = ["stream", "--buffer", "auto,64K", "--message", "64K", "--time", "600ms"];

/// Pause between checks of another process.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of checks of another process.
const LOOKS: u32 = 1000;

fn report(text: &str) -> StreamReport {
    match record(text).body {
        Body::Stream(report) => *report,
        other => panic!("a record of streams, not {other:?}"),
    }
}

/// Waits until `find` returns a value.
fn wait_for<T>(what: &str, find: impl Fn() -> Option<T>) -> T {
    for _ in 0..LOOKS {
        if let Some(found) = find() {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("{what} did not happen");
}

/// Returns the child of a process, which is the other side of the stream.
fn other_side(pid: u32) -> u32 {
    wait_for("a child", || {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    })
}

/// Returns whether a process has data connections. It has one thread per connection, in addition to
/// the threads that listen.
fn has_threads(pid: u32, count: usize) -> Option<()> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.count();
    (threads >= count).then_some(())
}

fn kill(pid: u32) {
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(killed.expect("kill is installed").success());
}

#[test]
fn a_short_sweep_has_all_values_for_scripts() {
    let text = answered(0, &[&SHORT[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(Validator::new(&linerate_record::schema_json()).verdict(&json), Ok(()));
    for name in ["gbps", "cpu_us_per_kb"] {
        assert!(json["summary"][name].as_f64() > Some(0.0), "{name}: {}", json["summary"]);
    }
    for name in ["limited_by", "finding", "sentence"] {
        assert!(json["summary"][name].is_string(), "{name}: {}", json["summary"]);
    }
    let report = report(&text);
    assert_eq!(report.path.kind, StreamPathKind::Loopback);
    assert!(report.path.checksum.contains("loopback"), "{}", report.path.checksum);
    assert_eq!(report.points.len(), 2);
    assert!(!report.findings.is_empty());
}

#[test]
fn the_finding_is_on_the_first_screen() {
    let text = answered(0, &SHORT);
    for word in ["finding", "wrong if", "us/KB", "checksum"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn two_new_namespaces_are_measured() {
    let done = linerate(&[&SHORT[..], &["--netns", "--json"]].concat());
    if done.status != Some(0) {
        return println!("SKIP: {}", done.stderr);
    }
    let report = report(&done.stdout);
    assert_eq!(report.path.kind, StreamPathKind::Namespaces);
    assert_eq!(report.path.interface.as_deref(), Some("stream0"));
    assert_eq!(report.path.software_checksum, Some(false), "veth pairs offload");
}

#[test]
fn when_the_other_side_is_killed_the_points_before_are_kept() {
    let arguments = ["stream", "--buffer", "auto", "--message", "1K,64K", "--rounds", "20"];
    let mut command = command(&[&arguments[..], &["--time", "20s", "--json"]].concat());
    let client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let server = other_side(client.id());
    // Two visits are complete once the third one has its threads, since the number of connections
    // grows from visit to visit.
    wait_for("a test", || has_threads(server, 3));
    std::thread::sleep(Duration::from_secs(2));
    kill(server);
    let done = client.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("closed the connection"), "{stderr}");
    let report = report(&String::from_utf8_lossy(&done.stdout));
    assert!(!report.points.is_empty() && report.ended_by.is_some(), "{report:?}");
}

#[test]
fn when_this_side_is_killed_the_other_one_ends() {
    let mut command = command(&["stream", "--time", "20s"]);
    let mut client =
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let server = other_side(client.id());
    kill(client.id());
    client.wait().expect("it ends");
    wait_for("the end of the other side", || {
        let state = fs::read_to_string(format!("/proc/{server}/stat")).unwrap_or_default();
        (state.is_empty() || state.contains(") Z ")).then_some(())
    });
}

/// A server process, which is killed on drop.
struct Server {
    child: Child,
    port: String,
}

impl Server {
    fn start(address: &str) -> Option<Self> {
        let mut command = command(&["stream", "--server", "--bind", address, "--port", "0"]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let stderr = child.stderr.take().expect("a pipe");
        BufReader::new(stderr).read_line(&mut line).expect("a line");
        let port = line.trim().rsplit_once(':').map(|(_, port)| port.to_owned());
        let port = port.filter(|_| line.starts_with("listening on"));
        let server = Self { child, port: port.clone().unwrap_or_default() };
        port.map(|_| server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_serves_clients_of_either_family() {
    for address in ["127.0.0.1", "::1"] {
        let Some(server) = Server::start(address) else {
            println!("SKIP: this machine has no {address}");
            continue;
        };
        for _ in 0..2 {
            let client = ["--client", address, "--port", &server.port, "--json"];
            let report = report(&answered(0, &[&SHORT[..], &client].concat()));
            assert_eq!(report.points.len(), 2);
        }
    }
}

#[test]
fn servers_that_cannot_be_reached_are_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port().to_string();
    let error = refused(&["stream", "--server", "--port", &port]);
    assert!(error.contains("in use") && error.contains(&port), "{error}");
    drop(listener);
    let error = refused(&["stream", "--client", "127.0.0.1", "--port", &port]);
    assert!(error.contains("cannot connect to 127.0.0.1"), "{error}");
    let error = refused(&["stream", "--client", "no.such.host.invalid"]);
    assert!(error.contains("no.such.host.invalid"), "{error}");
}

#[test]
fn a_network_without_a_route_is_named() {
    let program = env!("CARGO_BIN_EXE_linerate");
    let mut command = Command::new("unshare");
    command.args(["-Urn", program, "stream", "--client", "192.0.2.1"]);
    let Ok(done) = command.output() else { return println!("SKIP: unshare is not installed") };
    let stderr = String::from_utf8_lossy(&done.stderr);
    if stderr.starts_with("unshare:") {
        return println!("SKIP: {stderr}");
    }
    assert_eq!(done.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("no route"), "{stderr}");
}

#[test]
fn a_server_for_others_wants_a_token() {
    let error = refused(&["stream", "--server", "--bind", "0.0.0.0", "--port", "0"]);
    assert!(error.contains("--token-file"), "{error}");
    let error = refused(&["stream", "--server", "--token-file", "/nonexistent/token"]);
    assert!(error.contains("/nonexistent/token"), "{error}");
}

#[test]
fn values_out_of_range_are_refused() {
    for (arguments, word) in [
        (&["--message", "8M"][..], "8388608"),
        (&["--udp", "--message", "65508"], "65507"),
        (&["--connections", "65"], "64"),
        (&["--buffer", "1G"], "1073741824"),
        (&["--netns=one"], "A,B"),
        (&["--time", "100ms"], "--time"),
        (&["--rate", "fast"], "fast"),
        (&["--netns=no-such-one,other"], "no-such-one"),
    ] {
        let error = refused(&[&["stream"], arguments].concat());
        assert!(error.contains(word), "{arguments:?}: {error}");
    }
}
