// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `stat` does not interfere with the measured command: input, output, signals,
//! children, exit.

use super::*;
use linerate_linux::signal::{INTERRUPT, TERMINATE};

#[test]
fn the_command_keeps_its_input_and_output() {
    let folder = Folder::new();
    let report = folder.file("report");
    let _share = a_share_of_the_processors();
    let script = "cat; echo noted >&2";
    let mut child = command(&["stat", "-q", "-o", &report, "--", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    child.stdin.take().expect("a pipe").write_all(b"given\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"given\n"[..], &b"noted\n"[..]));
    let text = std::fs::read_to_string(&report).expect("the report is in the file");
    assert!(text.starts_with("counted     `sh -c 'cat; echo noted >&2'`\n"), "{text}");
}

#[test]
fn the_command_has_the_usual_signals() {
    // If SIGPIPE were ignored, `yes` would print an error.
    let script = "yes | head -n 1";
    assert!(answered(0, &["--", "sh", "-c", script]).starts_with("y\ncounted"));
}

#[test]
fn forks_daemons_and_closed_descriptors_leave_a_report() {
    let scripts = [
        "for i in 1 2 3 4 5 6 7 8 9 10; do (for j in 1 2 3 4; do (:) & done; wait) & done; wait",
        "exec 0<&- 1>&- 2>&-; :",
        "setsid sleep 0.2 >/dev/null 2>&1 </dev/null &",
    ];
    for script in scripts {
        let record = counted(0, &["--", "sh", "-c", script]);
        assert!(count(report_of(&record), "page_faults") > 0.0, "{script}");
    }
    let forks = counted(0, &["--", "sh", "-c", scripts[0]]);
    let one = counted(0, &["--", "sh", "-c", ":"]);
    let faults = |record: &Record| count(report_of(record), "page_faults");
    assert!(faults(&forks) > 4.0 * faults(&one), "children are counted: {forks:?} {one:?}");
}

/// If the parent of `linerate` ignored SIGCHLD, the kernel would discard children as soon as they
/// exit.
#[test]
fn a_command_is_waited_for_where_the_end_of_children_is_ignored() {
    for (program, status) in [("true", 0), ("no-such-command-anywhere", 127)] {
        let stat = command(&["stat", "-q", "--", program]);
        let ignoring = Command::new("env")
            .arg("--ignore-signal=CHLD")
            .arg(stat.get_program())
            .args(stat.get_args())
            .output()
            .expect("env");
        let said = String::from_utf8_lossy(&ignoring.stderr);
        if said.contains("unrecognized option") || said.contains("unknown option") {
            println!("SKIP: this env(1) has no --ignore-signal");
            return;
        }
        assert_eq!(ignoring.status.code(), Some(status), "{said}");
    }
}

#[test]
fn a_closed_progress_output_does_not_affect_the_report() {
    let _share = a_share_of_the_processors();
    let mut child =
        command(&["stat", "-i", "20ms", "-o", "-", "--", "sh", "-c", "sleep 0.2; exit 4"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
    drop(child.stderr.take());
    let done = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(4), "{text}");
    assert!(text.contains("task_clock_ns"), "{text}");
}

/// A command that runs under `linerate stat`, prints `ready` and then waits.
struct Waiting<'a> {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    _share: RwLockReadGuard<'a, ()>,
}

impl Waiting<'_> {
    fn start(script: &str) -> Self {
        let share = a_share_of_the_processors();
        let mut child = command(&["stat", "-q", "-o", "-", "--", "sh", "-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("the command says it is ready");
        assert_eq!(line, "ready\n");
        Self { child, stdout, _share: share }
    }

    /// Sends the signal. Returns the status and the remaining output.
    fn signalled(mut self, signal: &str) -> (Status, String) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().expect("kill");
        assert!(sent.success());
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).expect("UTF-8");
        (self.child.wait().expect("it ends"), text)
    }
}

#[test]
fn signals_are_passed_on_and_the_report_is_printed() {
    if is_ignored(INTERRUPT) || is_ignored(TERMINATE) {
        return;
    }
    for (signal, status, name) in [("INT", 130, "SIGINT"), ("TERM", 143, "SIGTERM")] {
        let waiting = Waiting::start("echo ready; exec sleep 60");
        let (ended, text) = waiting.signalled(signal);
        assert_eq!(ended.code(), Some(status), "{text}");
        assert!(text.contains("task_clock_ns") && text.contains(name), "{text}");
    }
    // A command that handles the signal chooses its own exit status.
    let script = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let (ended, text) = Waiting::start(script).signalled("TERM");
    assert_eq!(ended.code(), Some(3), "{text}");
    assert!(text.contains("\nended       with status 3; interrupted"), "{text}");
}
