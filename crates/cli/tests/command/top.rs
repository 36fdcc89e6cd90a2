// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `linerate top` as plain text, and on a terminal (tmux): keys, resizing, and exiting.

use crate::rig::{Folder, command, linerate, refused};
use crate::why::{Started, has};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// A program that is always busy.
fn busy() -> Started {
    Started::new("sha256sum", &["/dev/zero"])
}

#[test]
fn without_a_terminal_one_window_is_printed() {
    let busy = busy();
    for words in [&["top", "-d", "300ms"][..], &["top", "--once", "-q", "-d", "300ms"]] {
        let done = linerate(&[words, &[&busy.pid()]].concat());
        assert_eq!((done.status, done.stderr.as_str()), (Some(0), ""), "{done:?}");
        let text = &done.stdout;
        assert!(text.starts_with("sha256sum, pid ") && !text.contains('\u{1b}'), "{text}");
        // On a busy machine, the thread may not have run, in which case it has no samples.
        for word in ["1 thread", "wait%", "asleep%", "ns/packet", "linerate itself: "] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}

#[test]
fn an_interface_is_shown_by_its_cpus() {
    let done = linerate(&["top", "--once", "-d", "300ms", "--iface", "lo"]);
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(done.stdout.contains("CPUs busy") && done.stdout.contains("packets/s"), "{done:?}");
}

#[test]
fn what_cannot_be_watched_is_refused_as_by_why() {
    let mut ended = Started::new("true", &[]);
    ended.0.wait().expect("it ends");
    assert!(refused(&["top", &ended.pid()]).contains("it has ended, or never existed"));
    let zombie = Started::new("true", &[]);
    let stat = format!("/proc/{}/stat", zombie.pid());
    while !std::fs::read_to_string(&stat).expect("it is not waited for").contains(") Z ") {
        std::thread::yield_now();
    }
    assert!(refused(&["top", &zombie.pid()]).contains("zombie"));
    assert!(refused(&["top", "--name", "no-such-name"]).contains("`ps -e` lists the names"));
    assert!(refused(&["top", "--iface", "no-such-if"]).contains("no interface 'no-such-if' here"));
}

/// Expected [`Terminal::modes`] without the live view.
const CLEAN: &str = "0 1 1\n";
/// Expected [`Terminal::modes`] with the live view.
const ENTERED: &str = "1 0 0\n";

/// A terminal with its own tmux server.
struct Terminal {
    socket: String,
    // Removed after the server has ended.
    _folder: Folder,
}

impl Terminal {
    /// Starts a shell with 80 columns and 24 lines; `None` without tmux.
    fn new() -> Option<Self> {
        if !has("tmux") {
            return None;
        }
        let folder = Folder::new();
        let socket = folder.file("tmux");
        let terminal = Self { socket, _folder: folder };
        let shell = "env PS1='ready> ' LC_ALL=C.UTF-8 TERM=screen sh -i";
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", shell]);
        // Set the size explicitly, because there are no clients to determine it.
        terminal.tmux(&["set-option", "-g", "window-size", "manual"]);
        terminal.until("ready>", |text| text.contains("ready>"));
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let done = Command::new("tmux").arg("-S").arg(&self.socket).args(arguments).output();
        let done = done.expect("tmux starts");
        assert!(done.status.success(), "{arguments:?}: {done:?}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a command line into the shell.
    fn run(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.keys(&["Enter"]);
    }

    fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits for at most a minute until `is_so` accepts the text on the screen.
    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        for _ in 0..600 {
            let text = self.text();
            if is_so(&text) {
                return text;
            }
            sleep(Duration::from_millis(100));
        }
        panic!("{what}: not seen in\n{}", self.text());
    }

    /// Starts `linerate top` and waits for its first window.
    fn top(&self, arguments: &str) -> String {
        let program = command(&[]);
        self.run(&format!("{} top {arguments}", program.get_program().to_string_lossy()));
        self.until("a window", |text| text.contains("function (module)"))
    }

    /// Returns whether the alternate screen is on, the cursor is visible, and lines are wrapped.
    fn modes(&self) -> String {
        self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag} #{wrap_flag}"])
    }

    /// Waits for the shell prompt, and checks that the terminal has been restored.
    fn is_clean(&self) {
        for _ in 0..600 {
            if self.modes() == CLEAN {
                break;
            }
            sleep(Duration::from_millis(100));
        }
        // The command line must not contain the words that it prints.
        self.run(
            "stty -a | tr ' ' '\\n' | grep -xE 'icanon|echo|ixon' | tr '\\n' +; echo st''atus",
        );
        let text = self.until("the shell", |text| text.contains("+status\n"));
        assert!(text.contains("ixon+icanon+echo+status"), "{text}");
        assert_eq!(self.modes(), CLEAN, "{text}");
        // Nothing is left of the live view.
        assert!(!text.contains("function (module)"), "{text}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = Command::new("tmux").args(["-S", &self.socket, "kill-server"]).output();
    }
}

#[test]
fn the_screen_follows_keys_and_the_size_of_the_terminal() {
    let Some(terminal) = Terminal::new() else { return };
    let busy = busy();
    let text = terminal.top(&busy.pid());
    assert!(text.starts_with("sha256sum, pid "), "{text}");
    assert_eq!(terminal.modes(), ENTERED, "{text}");
    let last = |text: &str| text.trim_end().lines().count();
    terminal.until("a footer on line 24", |text| last(text) == 24 && text.contains("q: quit"));
    for (columns, lines) in [("100", 30), ("60", 12), ("20", 5), ("120", 40)] {
        terminal.tmux(&["resize-window", "-x", columns, "-y", &lines.to_string()]);
        let is_full = |text: &str| last(text) == lines && text.starts_with("sha256sum, pid ");
        terminal.until("the new size", is_full);
    }
    terminal.keys(&["Space"]);
    terminal.until("a pause", |text| text.contains("PAUSED"));
    terminal.keys(&["Space", "Up", "F5", "-"]);
    terminal.until("no pause, and windows of 1 s", |text| {
        !text.contains("PAUSED") && text.contains(", last 1 s")
    });
    terminal.keys(&["q"]);
    terminal.is_clean();
}

#[test]
fn the_terminal_is_clean_after_signals_and_the_end_of_the_program() {
    let Some(terminal) = Terminal::new() else { return };
    let busy = busy();
    terminal.top(&busy.pid());
    terminal.keys(&["C-c"]);
    terminal.is_clean();
    terminal.run("clear");
    terminal.top(&format!("{} -t 1s", busy.pid()));
    terminal.is_clean();
    terminal.run("clear");
    // After Ctrl-Z, the shell has the terminal; after `fg`, the live view is back.
    terminal.top(&busy.pid());
    terminal.keys(&["C-z"]);
    terminal.is_clean();
    terminal.run("clear; fg");
    terminal.until("the screen", |text| text.contains("q: quit"));
    assert_eq!(terminal.modes(), ENTERED);
    terminal.run("q");
    terminal.is_clean();
    terminal.run("clear");
    terminal.top(&busy.pid());
    drop(busy);
    let text = terminal.until("the end", |text| text.contains("sha256sum: "));
    assert!(text.contains("ended") || text.contains("SIGKILL"), "{text}");
    terminal.is_clean();
}
