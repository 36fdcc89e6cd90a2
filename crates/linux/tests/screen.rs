// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the terminal is restored, however a full-screen program ends. This program starts
//! itself on a pseudoterminal, so it does not use the test harness.

use linerate_linux::signal::stop_flag_of_screen;
use linerate_linux::terminal::{Keys, Screen};
use std::fs::File;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn main() {
    if let Some(how) =
        std::env::args().skip(1).find_map(|word| word.strip_prefix("end=").map(str::to_owned))
    {
        return end(&how);
    }
    for (how, then, status) in [
        ("key", Then::Press(b"q"), Some(0)),
        ("key", Then::Press(b"\x1b[A\x1b[Bq"), Some(0)),
        ("exit", Then::Wait, Some(0)),
        ("panic", Then::Wait, Some(101)),
        ("signal", Then::Signal(libc::SIGTERM), Some(0)),
        ("signal", Then::Signal(libc::SIGHUP), Some(0)),
        ("signal", Then::Signal(libc::SIGQUIT), Some(0)),
        ("signal", Then::Press(b"\x03"), Some(0)),
        ("second signal", Then::Signals(libc::SIGINT), Some(130)),
    ] {
        let seen = Seen::of(how, then);
        let text = String::from_utf8_lossy(&seen.output);
        assert_eq!(seen.status, status, "{how} {then:?}: {text:?}");
        assert!(seen.is_as_before, "{how} {then:?}: the modes differ");
        let left = text.split_once("\x1b[?1049h").expect("the screen was entered").1;
        let (drawn, behind) = left.split_once("\x1b[?25h\x1b[?1049l").expect("it was left");
        assert!(drawn.contains("drawn"), "{how} {then:?}: {text:?}");
        assert!(!behind.contains("\x1b[?1049"), "once: {text:?}");
        // Text printed at the end is on the normal screen.
        let last = match how {
            "panic" => "as asked",
            "second signal" => "",
            _ => "the end",
        };
        assert!(behind.contains(last), "{how} {then:?}: {text:?}");
    }
    println!("screen: ok");
}

/// Restores the default action of signals that this program inherits as ignored from `nohup` or
/// from a shell that runs it in the background.
fn receive_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: no handler is installed yet, and the default one touches no memory.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Runs as the full-screen program on the pseudoterminal, and ends as `how` says.
fn end(how: &str) {
    receive_signals();
    let stop = stop_flag_of_screen().expect("signals can be handled");
    let screen = Screen::enter().expect("the modes can be set").expect("it is a terminal");
    screen.draw(&["drawn".to_owned()]).expect("it can be written");
    let wait = |is_over: &dyn Fn() -> bool| {
        while !is_over() {
            match screen.keys(Duration::from_millis(20)).expect("keys can be read") {
                Keys::Pressed(keys) if keys.ends_with(b"q") => return,
                Keys::Gone => return,
                Keys::Pressed(_) | Keys::None => {}
            }
        }
    };
    match how {
        "panic" => panic!("as asked"),
        "exit" => {}
        "second signal" => wait(&|| false),
        _ => wait(&|| stop.load(Ordering::Relaxed)),
    }
    drop(screen);
    println!("the end");
}

/// What happens after the screen is drawn.
#[derive(Clone, Copy, Debug)]
enum Then {
    Wait,
    Press(&'static [u8]),
    Signal(i32),
    /// A signal, sent repeatedly.
    Signals(i32),
}

/// Observed behaviour of a program.
struct Seen {
    output: Vec<u8>,
    status: Option<i32>,
    /// Whether the terminal modes are the same as before the program ran.
    is_as_before: bool,
}

impl Seen {
    fn of(how: &str, then: Then) -> Self {
        let (mut terminal, slave) = pseudoterminal();
        let before = modes(&slave);
        let mut child = start(how, &slave);
        let mut output = Vec::new();
        let mut has_acted = false;
        // One minute at most: each read waits for up to 100 ms.
        for _ in 0..600 {
            read(&mut terminal, &mut output);
            let is_drawn = output.windows(5).any(|bytes| bytes == b"drawn");
            match then {
                Then::Signals(number) if is_drawn => signal(&child, number),
                Then::Press(keys) if is_drawn && !has_acted => {
                    terminal.write_all(keys).expect("it can be written");
                }
                Then::Signal(number) if is_drawn && !has_acted => signal(&child, number),
                _ => {}
            }
            has_acted |= is_drawn;
            if let Some(status) = child.try_wait().expect("it is a child") {
                read(&mut terminal, &mut output);
                let is_as_before = modes(&slave) == before;
                return Self { output, status: status.code(), is_as_before };
            }
        }
        child.kill().expect("a child can be ended");
        child.wait().expect("a child can be waited for");
        panic!("{how} {then:?}: did not end: {:?}", String::from_utf8_lossy(&output));
    }
}

fn signal(child: &Child, number: i32) {
    // SAFETY: the call takes only numbers; the child has not been reaped.
    unsafe { libc::kill(child.id() as i32, number) };
}

/// Both ends of a new pseudoterminal.
fn pseudoterminal() -> (File, File) {
    let (mut master, mut slave) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: both numbers are writable; null pointers stand for the default modes.
    let status =
        unsafe { libc::openpty(&raw mut master, &raw mut slave, none, none.cast(), none.cast()) };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the call has just opened the descriptor, and nothing else uses it.
    let master = unsafe { File::from_raw_fd(master) };
    // SAFETY: as above.
    (master, unsafe { File::from_raw_fd(slave) })
}

/// Starts this program with the pseudoterminal as its controlling terminal.
fn start(how: &str, slave: &File) -> Child {
    let stream = || Stdio::from(slave.try_clone().expect("it can be duplicated"));
    let mut command = Command::new(std::env::current_exe().expect("it has a name"));
    command.arg(format!("end={how}")).stdin(stream()).stdout(stream()).stderr(stream());
    let take_terminal = || {
        // SAFETY: the calls take only numbers and are async-signal-safe.
        match unsafe { libc::setsid() >= 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0 } {
            true => Ok(()),
            false => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the function only makes system calls.
    unsafe { command.pre_exec(take_terminal) };
    command.spawn().expect("it starts")
}

/// Waits up to 100 ms for output, then reads until there is no more.
fn read(terminal: &mut File, output: &mut Vec<u8>) {
    let mut wait_ms = 100;
    loop {
        let mut asked = libc::pollfd { fd: terminal.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, valid during the call.
        if unsafe { libc::poll(&raw mut asked, 1, wait_ms) } <= 0 {
            return;
        }
        let mut bytes = [0; 4096];
        let Ok(read @ 1..) = terminal.read(&mut bytes) else { return };
        output.extend_from_slice(&bytes[..read]);
        wait_ms = 0;
    }
}

/// The modes of a terminal: flags and control characters.
fn modes(terminal: &File) -> ([u32; 4], [u8; libc::NCCS]) {
    let mut modes = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the value is writable during the call.
    let status = unsafe { libc::tcgetattr(terminal.as_raw_fd(), modes.as_mut_ptr()) };
    assert_eq!(status, 0);
    // SAFETY: initialized by the successful call above.
    let modes = unsafe { modes.assume_init() };
    ([modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag], modes.c_cc)
}
