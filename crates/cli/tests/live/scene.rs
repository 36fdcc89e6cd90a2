// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two hosts and a forwarder, each in a network namespace, connected by veth pairs:
//!
//! ```text
//! host a (10.0.0.2) a0 --- p0  forwarder  p1 --- b0 host b (192.0.2.2)
//! ```
//!
//! The forwarder's namespace has no IP addresses. The hosts are configured with the forwarder's
//! Ethernet address, and the forwarder with theirs.

use linerate_record::run::{InterfaceReport, RunReport};
use linerate_record::{Body, Record};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// Ethernet address of host a's interface.
pub(crate) const MAC_A: &str = "02:00:00:00:00:0a";
/// Ethernet address of host b's interface.
pub(crate) const MAC_B: &str = "02:00:00:00:00:0b";
/// Ethernet address of the forwarder, on both sides.
pub(crate) const MAC: &str = "02:00:00:00:00:01";

/// Time limit of a child in seconds, for a machine that is busy with other tests.
const LIMIT_S: &str = "90";

/// Lock that allows only one scene at a time, because its workers spin.
static ONE: Mutex<()> = Mutex::new(());

/// Returns the stages of a router without address translation.
pub(crate) fn router() -> String {
    format!(
        "[[stage]]\nkind = \"parse\"\n\n[[stage]]\nkind = \"forward\"\nsource_mac = \"{MAC}\"\n\
         routes = [\"10.0.0.0/24 via {MAC_A}\", \"192.0.2.0/24 via {MAC_B}\"]\n"
    )
}

/// Returns the stages of a router that translates the addresses of host a's network.
pub(crate) fn nat() -> String {
    let nat = "[[stage]]\nkind = \"nat44\"\ninside = \"10.0.0.0/24\"\noutside = \"192.0.2.1\"\n\n";
    router()
        .replace("[[stage]]\nkind = \"forward\"", &format!("{nat}[[stage]]\nkind = \"forward\""))
}

/// Both ports of the forwarder as source and sink.
pub(crate) const PORTS: &str = "[[port]]\nname = \"inside\"\ninterface = \"p0\"\n\n\
                                [[port]]\nname = \"outside\"\ninterface = \"p1\"\n\n\
                                [source]\nkind = \"ports\"\n\n[sink]\nkind = \"ports\"\n\n";

pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    name: String,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    /// Builds the scene; `None`, with a note, if this is not possible here. `needs` are the
    /// programs that the test uses.
    pub(crate) fn new(needs: &[&str]) -> Option<Self> {
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        for program in ["ip", "timeout", "ping"].iter().chain(needs) {
            let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
            if !found.is_ok_and(|found| found.status.success()) {
                println!("SKIP: no {program} on this machine");
                return None;
            }
        }
        let name = format!("linerate{}", std::process::id());
        let folder = tempfile::tempdir().expect("a folder");
        let scene = Self { folder, name, _alone: alone };
        for host in ["a", "f", "b"] {
            let made = run(Command::new("ip").args(["netns", "add", &scene.namespace(host)]));
            if !made.status.success() {
                let why = String::from_utf8_lossy(&made.stderr).trim().to_owned();
                println!("SKIP: network namespaces cannot be created here ({why})");
                return None;
            }
        }
        scene.connect("a", "a0", MAC_A, "p0");
        scene.connect("b", "b0", MAC_B, "p1");
        for (host, interface, address, gateway) in
            [("a", "a0", "10.0.0.2/24", "10.0.0.1"), ("b", "b0", "192.0.2.2/24", "192.0.2.1")]
        {
            scene.ip(host, &["address", "add", address, "dev", interface]);
            let neighbour = ["neigh", "add", gateway, "lladdr", MAC, "dev", interface];
            scene.ip(host, &neighbour);
            scene.ip(host, &["route", "add", "default", "via", gateway]);
        }
        Some(scene)
    }

    fn connect(&self, host: &str, near: &str, mac: &str, far: &str) {
        let (host_ns, forwarder) = (self.namespace(host), self.namespace("f"));
        let pair = ["-n", &host_ns, "link", "add", near, "address", mac, "type", "veth"];
        let peer = ["peer", "name", far, "netns", &forwarder];
        done(&run(Command::new("ip").args(pair).args(peer)));
        self.ip(host, &["link", "set", near, "up"]);
        self.ip("f", &["link", "set", far, "up"]);
    }

    fn namespace(&self, host: &str) -> String {
        format!("{}{host}", self.name)
    }

    /// Runs `ip` in the namespace of a host: `a`, `b`, or `f` for the forwarder.
    pub(crate) fn ip(&self, host: &str, arguments: &[&str]) {
        done(&run(Command::new("ip").args(["-n", &self.namespace(host)]).args(arguments)));
    }

    /// Returns a command in the namespace of a host, with a time limit after which it is killed.
    pub(crate) fn command(&self, host: &str, line: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        // Signals go only to the program: if they went to its group, it would get each one twice.
        command.args([
            "--foreground",
            "-k",
            "30",
            LIMIT_S,
            "ip",
            "netns",
            "exec",
            &self.namespace(host),
        ]);
        command.args(line).stdin(Stdio::null());
        command
    }

    /// Runs a command, which must succeed. Returns its standard output.
    pub(crate) fn run(&self, host: &str, line: &[&str]) -> String {
        let output = run(&mut self.command(host, line));
        done(&output);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Pings from a host until the first reply, which shows that the forwarder is ready.
    pub(crate) fn wait_for_reply(&self, host: &str, address: &str) {
        self.run(host, &["ping", "-n", "-q", "-i", "0.2", "-c", "1", "-w", "60", address]);
    }

    /// Writes a packet path to a file and returns its name.
    pub(crate) fn path(&self, name: &str, text: &str) -> String {
        let file: PathBuf = self.folder.path().join(name);
        fs::write(&file, text).expect("it can be written");
        file.display().to_string()
    }

    /// Starts the program in a namespace. It will print its record as JSON.
    pub(crate) fn start(&self, host: &str, path: &str, options: &[&str]) -> Running {
        self.start_by(&[], host, path, options)
    }

    /// Starts the program like [`Self::start`], by a command that executes its other arguments.
    pub(crate) fn start_by(
        &self,
        by: &[&str],
        host: &str,
        path: &str,
        options: &[&str],
    ) -> Running {
        let program = env!("CARGO_BIN_EXE_linerate");
        let line = [by, &[program, "run", path, "--json", "--quiet", "--oversubscribe"], options];
        let mut command = self.command(host, &line.concat());
        command.env("XDG_STATE_HOME", "/dev/null/state");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().expect("the program starts")))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for host in ["a", "f", "b"] {
            run(Command::new("ip").args(["netns", "delete", &self.namespace(host)]));
        }
    }
}

/// A running path.
pub(crate) struct Running(Option<Child>);

impl Running {
    /// Stops the path with SIGTERM, as `kill` does. Returns its report.
    pub(crate) fn end(self) -> RunReport {
        let child = self.0.as_ref().expect("it runs").id().to_string();
        done(&run(Command::new("kill").args(["-TERM", &child])));
        self.report()
    }

    /// Sends a signal to the program, which timeout(1) would not pass on.
    pub(crate) fn signal(&self, name: &str) {
        done(&run(Command::new("kill").args([&format!("-{name}"), &self.program()])));
    }

    /// Returns the CPU time that the program's workers have used, in nanoseconds.
    pub(crate) fn worker_cpu_ns(&self) -> u64 {
        let threads = fs::read_dir(format!("/proc/{}/task", self.program())).expect("it runs");
        let read = |thread: &fs::DirEntry, file: &str| {
            fs::read_to_string(thread.path().join(file)).expect("the thread runs")
        };
        let threads = threads.map(|thread| thread.expect("it runs"));
        let workers = threads.filter(|thread| read(thread, "comm").starts_with("worker "));
        let times = workers.map(|worker| {
            let times = read(&worker, "schedstat");
            times.split(' ').next().and_then(|time| time.parse::<u64>().ok()).expect("a time")
        });
        times.sum()
    }

    /// Returns the process ID of the program.
    fn program(&self) -> String {
        let timeout = self.0.as_ref().expect("it runs").id();
        let children = fs::read_to_string(format!("/proc/{timeout}/task/{timeout}/children"));
        children.expect("timeout runs").trim().to_owned()
    }

    /// Waits for the path to end, which must succeed; returns its report.
    pub(crate) fn report(self) -> RunReport {
        let output = self.output();
        done(&output);
        conserved(output.stdout)
    }

    /// Waits for the path to end, which must fail; returns the error and the report on what was
    /// measured before.
    pub(crate) fn failure(self) -> (String, RunReport) {
        let Output { status, stdout, stderr } = self.output();
        let error = String::from_utf8(stderr).expect("UTF-8");
        assert_eq!(status.code(), Some(2), "{error}");
        (error, conserved(stdout))
    }

    /// Waits for the program to exit.
    pub(crate) fn output(mut self) -> Output {
        self.0.take().expect("it runs").wait_with_output().expect("it can be waited for")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // timeout(1) forwards SIGTERM to the program.
            run(Command::new("kill").args(["-TERM", &child.id().to_string()]));
            let _ = child.wait();
        }
    }
}

/// Returns the report of a record, whose packets must be conserved.
fn conserved(record: Vec<u8>) -> RunReport {
    let json = String::from_utf8(record).expect("UTF-8");
    let record = Record::from_json(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
    let Body::Run(report) = record.body else { panic!("{json}") };
    assert!(report.is_conserved(), "packets are conserved: {json}");
    *report
}

pub(crate) fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Asserts that a command succeeded.
pub(crate) fn done(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{}: {}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// Returns the report on an interface.
pub(crate) fn interface<'r>(report: &'r RunReport, name: &str) -> &'r InterfaceReport {
    let found = report.interfaces.iter().find(|interface| interface.interface == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", report.interfaces))
}

/// Requires that every packet of every interface is explained, from counters that could be read.
pub(crate) fn assert_reconciled(report: &RunReport) {
    for interface in &report.interfaces {
        let received = interface.received.as_ref().map(|received| received.interface);
        let sent = interface.sent.as_ref().map(|sent| sent.interface);
        assert!(received != Some(None) && sent != Some(None), "{interface:#?}");
        assert_eq!(interface.unexplained(), 0, "{interface:#?}");
    }
}

/// Returns the number of packets that a part of the path dropped for `cause`, over all workers.
pub(crate) fn drops(report: &RunReport, part: &str, cause: &str) -> u64 {
    let stages = report.workers.iter().flat_map(|worker| &worker.stages);
    let stages = stages.filter(|stage| stage.name == part);
    stages.filter_map(|stage| stage.drops.get(cause)).sum()
}
