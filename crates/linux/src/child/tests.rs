// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

/// Time limit of waits that end earlier unless the test fails.
const LONG: Duration = Duration::from_secs(50);

fn words(arguments: &[&str]) -> Vec<OsString> {
    arguments.iter().map(OsString::from).collect()
}

fn held(command: &str, arguments: &[&str]) -> Held {
    fork_held(OsStr::new(command), &words(arguments)).unwrap()
}

/// Starts a command in its own process group.
fn apart(command: &str, arguments: &[&str]) -> Child {
    fork_held_apart(OsStr::new(command), &words(arguments)).unwrap().release().unwrap()
}

#[test]
fn status_and_signal_come_back() {
    let ended = held("sh", &["-c", "exit 7"]).release().unwrap().wait();
    assert_eq!((ended.status, ended.signal), (Some(7), None));
    let ended = held("sh", &["-c", "kill -9 $$"]).release().unwrap().wait();
    assert_eq!((ended.status, ended.signal), (None, Some(9)));
}

#[test]
fn what_cannot_be_started_says_why() {
    let errno = |command| held(command, &[]).release().unwrap_err().errno;
    assert_eq!(errno("no-such-command-anywhere"), libc::ENOENT);
    assert_eq!(errno("/etc/passwd"), libc::EACCES);
    assert!(fork_held(OsStr::new("a\0b"), &[]).is_err());
}

#[test]
fn a_held_child_runs_nothing_before_it_is_let_go() {
    let folder = std::env::temp_dir().join(format!("linerate-held-{}", std::process::id()));
    let file = folder.to_str().unwrap();
    drop(held("mkdir", &[file]));
    assert!(!folder.exists());
    held("mkdir", &[file]).release().unwrap().wait();
    assert!(folder.exists());
    std::fs::remove_dir(folder).unwrap();
}

#[test]
fn waiting_ends_when_the_child_does_or_the_time_is_over() {
    let mut child = held("sleep", &["60"]).release().unwrap();
    assert_eq!(child.wait_timeout(Duration::from_millis(20)), None);
    child.signal(libc::SIGTERM);
    let ended = child.wait_timeout(LONG).expect("it was terminated");
    assert_eq!(ended.signal, Some(libc::SIGTERM));
}

#[test]
fn without_a_descriptor_the_end_is_seen_too() {
    let mut child = Child { watch: None, ..held("sleep", &["0.05"]).release().unwrap() };
    let began_ns = monotonic_ns();
    assert_eq!(child.wait_timeout(LONG), None);
    let ended = child.wait_for(LONG, None).expect("it sleeps for 50 ms");
    assert_eq!(ended.status, Some(0));
    assert!(ended.at_ns - began_ns < 50_000_000_000);
}

#[test]
fn waiting_ends_when_it_is_stopped_or_the_time_is_over() {
    let mut child = held("sleep", &["60"]).release().unwrap();
    assert_eq!(child.wait_for(Duration::from_secs(3600), Some(&AtomicBool::new(true))), None);
    assert_eq!(child.wait_for(Duration::from_millis(20), Some(&AtomicBool::new(false))), None);
    assert_eq!(child.wait_for(Duration::ZERO, None), None);
    child.signal(signal::KILL);
    let ended = child.wait_for(Duration::MAX, Some(&AtomicBool::new(false)));
    assert_eq!(ended.and_then(|ended| ended.signal), Some(signal::KILL));
    assert_eq!(Some(child.wait()), ended, "an end is remembered");
}

#[test]
fn a_group_is_asked_to_end() {
    let ended = apart("sleep", &["60"]).end_group(LONG);
    assert_eq!(ended.signal, Some(signal::TERMINATE));
}

#[test]
fn what_a_command_leaves_behind_ends_with_its_group() {
    let file = std::env::temp_dir().join(format!("linerate-left-{}", std::process::id()));
    let script = "sleep 60 & echo $! > \"$0\"; exit 7";
    let mut child = apart("sh", &["-c", script, file.to_str().unwrap()]);
    assert_eq!(child.wait_for(LONG, None).and_then(|ended| ended.status), Some(7));
    let left = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    std::fs::remove_file(file).unwrap();
    let left = Stranger::find(left).unwrap();
    assert_eq!(child.end_group(LONG).status, Some(7));
    assert!(left.wait_timeout(LONG));
}

/// Of two children held at once, the later one inherits the earlier one's gate (pipe).
#[test]
fn held_children_may_be_dropped_in_any_order() {
    let (first, second) = (held("true", &[]), held("true", &[]));
    drop(first);
    assert_eq!(second.release().unwrap().wait().status, Some(0));
}

#[test]
fn a_signal_ends_a_held_child_and_the_command_never_runs() {
    let held = held("sh", &["-c", "exit 7"]);
    held.child.signal(libc::SIGTERM);
    let ended = held.release().unwrap().wait();
    assert_eq!((ended.status, ended.signal), (None, Some(libc::SIGTERM)));
}

#[test]
fn distinguishes_groups() {
    let mut child = held("sleep", &["60"]).release().unwrap();
    assert!(child.is_in_own_group());
    child.signal(libc::SIGKILL);
    child.wait();
    let mut child = held("setsid", &["sleep", "60"]).release().unwrap();
    while child.is_in_own_group() {
        std::thread::yield_now();
    }
    child.signal(libc::SIGKILL);
    child.wait();
}

#[test]
fn the_end_of_a_stranger_is_seen() {
    let mut child = held("sleep", &["60"]).release().unwrap();
    let pid = child.pid();
    let stranger = Stranger::find(pid).unwrap();
    assert!(!stranger.wait_timeout(Duration::from_millis(20)));
    child.signal(libc::SIGKILL);
    assert!(stranger.wait_timeout(LONG));
    child.wait();
    let error = Stranger::find(pid).unwrap_err().to_string();
    let expected = format!("no process {pid}: it has ended, or never existed");
    assert!(error.starts_with(&expected), "{error}");
    assert!(Stranger::find(u32::MAX).is_err());
}
