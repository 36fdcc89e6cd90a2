// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `linerate why` on real processes: the demo, and effects on observed programs.

use crate::rig::{Done, Folder, a_share_of_the_processors, command, linerate, record, refused};
use linerate_record::Body;
use linerate_record::why::{Observation, ThreadActivity};
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Returns whether users may create namespaces here; prints a note if not.
fn has_namespaces() -> bool {
    let tried = Command::new("unshare").args(["-Urn", "true"]).stderr(Stdio::null()).status();
    let has = tried.is_ok_and(|status| status.success());
    if !has {
        println!("SKIP: no user namespaces here, or no unshare(1)");
    }
    has
}

/// Runs a line of `sh` script in a new user and network namespace, with the file name of `linerate`
/// as `$0`.
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
    if done.stdout.contains("repeat the demo while they are idle") {
        return println!("SKIP: the CPUs are busy with other tests");
    }
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(done.stdout.starts_with("finding     socket_buffer: "), "{}", done.stdout);
    assert!(done.stdout.contains("The diagnosis agrees"), "{}", done.stdout);
    let done = linerate(&["why", "--demo", "--time", "1s", "--json", "--quiet"]);
    let finding = "\"finding\": \"socket_buffer\"";
    assert!(done.stdout.contains(finding) && done.stderr.contains("truth"), "{done:?}");
    let folder = Folder::new();
    let file = folder.file("demo.txt");
    linerate(&["why", "--demo", "--time", "1s", "--quiet", "-o", &file]);
    let text = std::fs::read_to_string(&file).expect("it was written");
    assert!(text.starts_with("finding ") && text.contains("\ntruth "), "{text}");
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

/// A process that is killed at the end of the test, with the processes of its group.
pub(crate) struct Started(pub(crate) Child);

impl Started {
    pub(crate) fn new(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.process_group(0);
        Self(command.spawn().unwrap_or_else(|error| panic!("{program}: {error}")))
    }

    /// Like [`Self::new`], but returns after the process's first line of output.
    fn after_a_line(program: &str, arguments: &[&str]) -> Self {
        let mut started = Self::new(program, arguments);
        let stdout = started.0.stdout.as_mut().expect("a pipe");
        let mut byte = [0];
        while stdout.read(&mut byte).is_ok_and(|bytes| bytes == 1) && byte != *b"\n" {}
        started
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Kill its children as well, such as nginx's workers, which may have exited already.
        let group = format!("-{}", self.pid());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the observation of `linerate why` with these arguments, which must have a finding.
fn observed(arguments: &[&str]) -> Observation {
    let done = linerate(&[&["why", "--json", "--quiet"], arguments].concat());
    assert_eq!(done.status, Some(0), "{done:?}");
    // With a command, the result goes to stderr.
    let json = if done.stdout.is_empty() { &done.stderr } else { &done.stdout };
    let Body::Why(report) = record(json).body else { panic!("{json}") };
    assert!(!report.findings.is_empty());
    report.observation
}

fn reasons(observation: &Observation, what: &str) -> Vec<String> {
    let of = observation.unread.iter().filter(|unread| unread.what == what);
    of.map(|unread| unread.reason.clone()).collect()
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

pub(crate) fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let has = found.is_ok_and(|output| output.status.success());
    if !has {
        println!("SKIP: no {program}(1) here");
    }
    has
}

#[test]
fn what_cannot_be_watched_is_refused_in_a_sentence() {
    let mut ended = Started::new("true", &[]);
    ended.0.wait().expect("it ends");
    assert!(refused(&["why", &ended.pid()]).contains("it has ended, or never existed"));
    // A process that has exited, but has not been waited for.
    let zombie = Started::new("true", &[]);
    let stat = format!("/proc/{}/stat", zombie.pid());
    while !fs::read_to_string(&stat).expect("it is not waited for").contains(") Z ") {
        std::thread::yield_now();
    }
    assert!(refused(&["why", &zombie.pid()]).contains("zombie"));
    let is_kernel_thread =
        fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n");
    if is_kernel_thread {
        assert!(refused(&["why", "2"]).contains("kernel thread; watch an interface instead"));
    } else {
        println!("SKIP: kernel threads are not visible in this container");
    }
    assert!(refused(&["why", "--name", "no-such-name"]).contains("`ps -e` lists the names"));
    assert!(refused(&["why", "--iface", "no-such-if"]).contains("no interface 'no-such-if' here"));
    assert!(refused(&["why", "--", "no-such-command"]).contains("cannot start"));
}

#[test]
fn another_users_process_is_refused_or_read() {
    if !is_root() || !has("setpriv") {
        return println!("SKIP: only root can run processes as two users");
    }
    let other = Started::new("sleep", &["60"]);
    let linerate = command(&["why", "--time", "200ms", &other.pid()]);
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let mut as_nobody = Command::new("setpriv");
    as_nobody.args(nobody).arg(linerate.get_program()).args(linerate.get_args());
    let output = as_nobody.output().expect("setpriv starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if stderr.contains("Permission denied") && !stderr.contains("linerate:") {
        return println!("SKIP: another user cannot reach this program: {stderr}");
    }
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("belongs to user 0; run as that user or as root"), "{stderr}");
    // Root may watch another user's process.
    let user = Started::new("setpriv", &[&nobody[..], &["sleep", "60"]].concat());
    assert_eq!(observed(&["--time", "200ms", &user.pid()]).threads.len(), 1);
}

#[test]
fn a_command_that_fails_at_once_has_no_threads_but_its_end() {
    for (line, how) in [("exit 1", "exit status 1"), ("kill -9 $$", "SIGKILL")] {
        let done = linerate(&["why", "--time", "2s", "--json", "--", "sh", "-c", line]);
        if done.status == Some(2) {
            assert!(
                done.stderr.contains("exited immediately") && done.stderr.contains(how),
                "{done:?}"
            );
            continue;
        }
        // The command was observed in one or two slices.
        let Body::Why(report) = record(&done.stderr).body else { panic!("{done:?}") };
        let observation = report.observation;
        assert!(observation.threads.len() <= 1, "{:?}", observation.threads);
        assert_eq!(observation.watched.ended.as_deref(), Some(how));
    }
}

#[test]
fn a_process_that_forks_execs_and_exits_is_followed() {
    // The child lives for several slices of 400 ms.
    let line = "sleep 0.1; (sleep 1.5; exit 3) & wait; exec sh -c 'sleep 0.2; exit 4'";
    let observation = observed(&["--time", "20s", "--", "sh", "-c", line]);
    assert_eq!(observation.watched.ended.as_deref(), Some("exit status 4"));
    assert!(observation.watched.pids.len() >= 2, "{:?}", observation.watched.pids);
    let shares = |thread: &ThreadActivity| -> f64 {
        thread.time.iter().filter_map(|time| time.share.as_number()).sum()
    };
    assert!(observation.threads.iter().all(|thread| (shares(thread) - 1.0).abs() < 1e-6));
}

#[test]
fn thousands_of_threads_are_watched() {
    if !has("python3") {
        return;
    }
    let script = "import threading,sys\ne=threading.Event()\nthreading.stack_size(65536)\n\
                  for i in range(2000): threading.Thread(target=e.wait,daemon=True).start()\n\
                  print('ready',flush=True)\nsys.stdin.read()";
    let crowd = Started::after_a_line("python3", &["-c", script]);
    let observation = observed(&["--time", "1s", &crowd.pid()]);
    assert_eq!(observation.threads.len() as u32 + observation.threads_left_out, 2001);
    assert_eq!(observation.threads.len(), 256);
}

#[test]
fn an_interface_that_vanishes_keeps_the_rest() {
    if !has_namespaces() || !has("ip") {
        return;
    }
    let line = "ip link add v0 type veth peer name v1 && { (sleep 0.5; ip link del v0) & \
                $0 why --iface v0 --time 1500ms --json --quiet; }";
    let done = in_namespaces(line);
    if done.stderr.contains("Unknown device type") {
        return println!("SKIP: no veth here");
    }
    assert_eq!(done.status, Some(0), "{done:?}");
    let Body::Why(report) = record(&done.stdout).body else { panic!("{done:?}") };
    let reasons = reasons(&report.observation, "interface_counters");
    assert!(reasons.len() == 1 && reasons[0].contains("v0"), "{:?}", report.observation.unread);
    assert!(!report.observation.cpus.is_empty());
}

#[test]
fn of_processes_in_several_namespaces_the_first_is_read() {
    if !has_namespaces() {
        return;
    }
    // Processes without sockets would miss nothing.
    let script = "import socket,sys\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
                  s.bind(('127.0.0.1',0))\nprint(flush=True)\nsys.stdin.read()";
    let own = Started::after_a_line("python3", &["-c", script]);
    let other = Started::after_a_line("unshare", &["-Urn", "python3", "-c", script]);
    let observation = observed(&["--time", "200ms", &own.pid(), &other.pid()]);
    let reasons = reasons(&observation, "other_namespaces");
    assert_eq!(reasons.len(), 1, "{:?}", observation.unread);
    assert!(reasons[0].contains(&format!("process {}", other.pid())), "{reasons:?}");
    assert_eq!(observation.threads.len(), 2);
    // If only the other process is named, its namespace is read, which does not have the interfaces
    // of this process's namespace.
    let observation = observed(&["--time", "200ms", &other.pid()]);
    assert!(observation.interfaces.is_empty(), "{:?}", observation.interfaces);
}

#[test]
fn where_netlink_is_refused_proc_lists_the_sockets() {
    if !is_root() || !has("setpriv") || !has("unshare") {
        return println!("SKIP: only root can move a user's process to another namespace");
    }
    let script = "import socket,sys\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
                  s.bind(('127.0.0.1',5353))\nprint(flush=True)\nsys.stdin.read()";
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    // Use the system's Python: one in a user's home directory may not be readable by another user.
    let server = [&["-n"], &nobody[..], &["/usr/bin/python3", "-c", script]].concat();
    let mut server = Started::after_a_line("unshare", &server);
    if server.0.try_wait().is_ok_and(|ended| ended.is_some()) {
        return println!("SKIP: another user has no /usr/bin/python3 here");
    }
    let linerate = command(&["why", "--time", "300ms", "--json", "--quiet", &server.pid()]);
    let output = Command::new(nobody[0])
        .args(&nobody[1..])
        .arg(linerate.get_program())
        .args(linerate.get_args())
        .output()
        .expect("setpriv starts");
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if stderr.contains("Permission denied") && stdout.is_empty() {
        return println!("SKIP: another user cannot reach this program: {stderr}");
    }
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let Body::Why(report) = record(&stdout).body else { panic!("{stdout}") };
    let sockets = &report.observation.sockets;
    assert_eq!(reasons(&report.observation, "sockets_and_drivers").len(), 1);
    assert_eq!(sockets.len(), 1, "{sockets:?}");
    let (socket, none) = (&sockets[0], None);
    assert_eq!((socket.local.as_str(), socket.drops), ("127.0.0.1:5353", Some(0)));
    assert_eq!((socket.receive_buffer, socket.send_buffer), (none, none));
}

/// A fake DPDK program that answers telemetry requests for its port counters.
const TELEMETRY: &str = r#"
import os, socket, sys, time
kind, folder = sys.argv[1], sys.argv[2]
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.bind(folder + '/dpdk_telemetry.v2.' + kind)
server.listen(1)
print(flush=True)
if kind == 'deaf': time.sleep(60)
peer, _ = server.accept()
peer.send(b'{"version":"DPDK 1","pid":1,"max_output_len":16384}')
count = 1000
while True:
    question = peer.recv(1024).decode()
    if not question: break
    if question == '/ethdev/list': answer = '{"/ethdev/list":%s}' % list(range(16))
    elif question.startswith('/ethdev/info'): answer = '{"/ethdev/info":{"name":"net_ring0"}}'
    elif kind == 'hangs' and count > 1400: time.sleep(60)
    elif kind == 'slow': time.sleep(0.15)
    elif kind == 'garbage' and count > 1400: answer = os.urandom(60000)
    elif kind == 'backwards' and count > 1400: count = 0
    count += 10
    if question.startswith('/ethdev/stats') and not isinstance(answer, bytes):
        n = count if kind != 'lies' else 2**64 - 1
        answer = '{"/ethdev/stats":{"ipackets":%d,"opackets":%d,"imissed":0}}' % (n, n)
    peer.send(answer if isinstance(answer, bytes) else answer.encode())
    answer = ''
"#;

#[test]
fn a_telemetry_socket_that_misbehaves_is_asked_no_more() {
    if !has("python3") {
        return;
    }
    // The exact wording is tested elsewhere, where load on the machine cannot delay an answer.
    for kind in ["deaf", "hangs", "slow", "garbage", "backwards"] {
        let folder = Folder::new();
        let arguments = ["-c", TELEMETRY, kind, &folder.file("")];
        let program = Started::after_a_line("python3", &arguments);
        let observation = observed(&["--time", "1s", &program.pid()]);
        let reasons = reasons(&observation, "program_counters");
        let is_said =
            |reason: &String| reason.contains("no usable reply from the program's socket");
        assert!(reasons.len() == 1 && reasons.iter().all(is_said), "{kind}: {reasons:?}");
        assert!(observation.elapsed_s < 10.0, "{kind}: {}", observation.elapsed_s);
    }
    // Extreme values that are not provably wrong are accepted, and must not cause an overflow.
    let folder = Folder::new();
    let arguments = ["-c", TELEMETRY, "lies", &folder.file("")];
    let program = Started::after_a_line("python3", &arguments);
    let counts = observed(&["--time", "500ms", &program.pid()]).program.expect("counters");
    assert_eq!((counts.received, counts.missed), (Some(0), Some(0)));
}

/// Returns a port that is probably free.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address of this machine");
    listener.local_addr().expect("it is bound").port()
}

/// Waits until a program listens on the port.
fn connected(port: u16, program: &mut Started) -> bool {
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if program.0.try_wait().is_ok_and(|ended| ended.is_some()) {
            println!("SKIP: the program does not start here");
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Starts nginx with these directives and a page of its own counts; `None` if it does not start.
fn nginx_with_counts(folder: &Folder, directives: &str) -> Option<Started> {
    if !has("nginx") {
        return None;
    }
    let port = free_port();
    let text = format!(
        "daemon off; {directives} pid {0}; error_log {1}; events {{}}\n\
         http {{ access_log off; server {{ listen 127.0.0.1:{port};\n \
         location = /counts {{\n stub_status;\n }} }} }}\n",
        folder.file("pid"),
        folder.file("log")
    );
    let file = folder.write("nginx.conf", text);
    let mut nginx = Started::new("nginx", &["-p", &folder.file(""), "-c", &file]);
    connected(port, &mut nginx).then_some(nginx)
}

#[test]
fn nginx_is_asked_where_its_configuration_says() {
    let folder = Folder::new();
    let Some(nginx) = nginx_with_counts(&folder, "master_process off;") else { return };
    let observation = observed(&["--time", "500ms", &nginx.pid()]);
    let program = observation.program.unwrap_or_else(|| panic!("{:?}", observation.unread));
    // Only `linerate` sent requests, which are not counted.
    assert_eq!((program.adapter.as_str(), program.received), ("nginx", Some(0)));
    assert_eq!((program.unit.as_str(), program.missed), ("requests", None));
}

#[test]
fn a_worker_of_nginx_is_asked_where_the_masters_command_line_says() {
    let folder = Folder::new();
    let Some(nginx) = nginx_with_counts(&folder, "worker_processes 1;") else { return };
    let children = format!("/proc/{0}/task/{0}/children", nginx.pid());
    let worker = std::fs::read_to_string(children).unwrap_or_default();
    let Some(worker) = worker.split_whitespace().next() else {
        println!("SKIP: the kernel does not list child processes");
        return;
    };
    let observation = observed(&["--time", "500ms", worker]);
    let program = observation.program.unwrap_or_else(|| panic!("{:?}", observation.unread));
    assert_eq!(program.adapter, "nginx");
}

#[test]
fn haproxy_is_asked_on_its_stats_socket() {
    if !has("haproxy") {
        return;
    }
    let (folder, port) = (Folder::new(), free_port());
    let text = format!(
        "global\n stats socket {}\ndefaults\n mode http\n timeout client 1s\n timeout server 1s\n \
         timeout connect 1s\nfrontend f\n bind 127.0.0.1:{port}\n http-request return status 200\n",
        folder.file("s")
    );
    let file = folder.write("haproxy.cfg", text);
    let mut haproxy = Started::new("haproxy", &["-db", "-f", &file]);
    if !connected(port, &mut haproxy) {
        return;
    }
    let observation = observed(&["--time", "500ms", &haproxy.pid()]);
    let program = observation.program.unwrap_or_else(|| panic!("{:?}", observation.unread));
    assert_eq!((program.adapter.as_str(), program.received), ("haproxy", Some(0)));
}
