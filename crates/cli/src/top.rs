// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate top`: a live view of a running program.

use crate::emit::{self, Answer, Notices};
use crate::failure::Failure;
use crate::help_text::{examples, paragraphs};
use crate::parse::{TIME_SYNONYMS, duration, pid};
use clap::{ArgGroup, Args};
use linerate_linux::signal::stop_flag_of_screen;
use linerate_linux::terminal::{Keys, Screen};
use linerate_observe::{Live, Target};
use linerate_record::why::Observation;
use linerate_report::{Style, TopView, top as lines_of};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const AFTER: &str = "\
Shows the last window: the threads' time as in `linerate why`, packets and losses layer by layer,
and the hottest functions of the last 10 windows. Work and polling are separated once the load has
varied for a few seconds; until then, both count as user time. `linerate why` finds the cause of
a loss, and `linerate profile` measures functions with their callers. Users can watch their own
processes; root also sees kernel functions.

Keys: q quits, space pauses, + and - change the interval, Ctrl-Z suspends. If stdout is not a
terminal, or with --once, one window is printed as plain text. Examples:

  linerate top $(pidof dpdk-testpmd)
  linerate top --name nginx -d 1s
  linerate top --iface eth0
  ssh -t router linerate top --name haproxy
  linerate top --once PID > now.txt

For scripts: `linerate why --every 2s --json`. Exit status: 0, or 2 if there is nothing to watch.";

/// Default interval between refreshes.
const DELAY: Duration = Duration::from_millis(500);
/// Shortest and longest refresh interval that can be set with keys.
const DELAYS: [Duration; 2] = [Duration::from_millis(125), Duration::from_secs(8)];
/// Window of `--once`; the default interval would yield too few samples of functions.
const ONCE: Duration = Duration::from_secs(2);
/// Maximum time between checks for signals and for changes of the terminal size.
const TICK: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(
    after_help = examples(AFTER),
    after_long_help = paragraphs(AFTER),
    override_usage = "linerate top [OPTIONS] <PID...|--name NAME|--iface IF>",
    group(ArgGroup::new("what").required(true).args(["pids", "name", "interface"]))
)]
pub(crate) struct TopArgs {
    /// Watch these processes and their descendants
    #[arg(value_name = "PID", value_parser = pid)]
    pids: Vec<u32>,
    /// Watch the processes with this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Watch an interface and the CPUs that handle its receive traffic
    #[arg(long = "iface", value_name = "IF")]
    interface: Option<String>,
    /// Refresh at this interval, which is also the window shown (default: 500ms; 2s with --once)
    #[arg(long, short = 'd', value_name = "TIME", value_parser = duration)]
    delay: Option<f64>,
    /// Exit after this time
    #[arg(
        long, short = 't', value_name = "TIME", value_parser = duration, aliases = TIME_SYNONYMS
    )]
    time: Option<f64>,
    /// Print one window as plain text, then exit
    #[arg(long, conflicts_with = "time")]
    once: bool,
    #[command(flatten)]
    _notices: Notices,
}

impl TopArgs {
    fn target(&self) -> Target {
        match (&self.name, &self.interface) {
            (Some(name), _) => Target::Name(name.clone()),
            (None, Some(name)) => Target::Interface(name.clone()),
            (None, None) => Target::Pids(self.pids.clone()),
        }
    }

    fn delay(&self, default: Duration) -> Duration {
        self.delay.map_or(default, Duration::from_secs_f64)
    }
}

/// Shows a live view of a program until the user quits or the program exits.
pub(crate) fn top(args: &TopArgs) -> Result<Answer, Failure> {
    let stop = stop_flag_of_screen()
        .map_err(|error| Failure::new(format!("cannot install signal handlers: {error}")))?;
    let mut live = Live::start(&args.target()).map_err(Failure::new)?;
    let cannot = |error| Failure::new(format!("cannot use the terminal: {error}"));
    let screen = if args.once { None } else { Screen::enter().map_err(cannot)? };
    let Some(screen) = screen else { return once(args, &mut live, stop) };
    let mut view = View {
        screen,
        delay: args.delay(DELAY),
        is_paused: false,
        shown: None,
        ends: args.time.map(|time| Instant::now() + Duration::from_secs_f64(time)),
        stop,
        has_quit: Ok(false),
    };
    let ended = view.run(&mut live);
    let View { screen, has_quit, .. } = view;
    // The terminal is restored before anything is printed.
    drop(screen);
    if let Some(ended) = ended {
        emit::say(&format!("{ended}\n"));
    }
    emit::ended(has_quit.map(|_| ()))
}

/// Prints one window.
fn once(args: &TopArgs, live: &mut Live, stop: &AtomicBool) -> Result<Answer, Failure> {
    let observation = live.next(args.delay(ONCE), &mut |left| {
        linerate_linux::child::sleep(left.min(TICK));
        !stop.load(Ordering::Relaxed)
    });
    let view = TopView { lines: None, is_paused: false };
    let text = lines_of(&observation, &view, &emit::style()).join("\n") + "\n";
    emit::print(&text)
}

/// The state of the screen.
struct View {
    screen: Screen,
    delay: Duration,
    is_paused: bool,
    /// The observation on the screen.
    shown: Option<Observation>,
    ends: Option<Instant>,
    stop: &'static AtomicBool,
    /// Whether the user has quit, or the terminal error that ended the view.
    has_quit: io::Result<bool>,
}

impl View {
    /// Shows one window after another. If the observed program exits, returns how it ended.
    fn run(&mut self, live: &mut Live) -> Option<String> {
        self.draw();
        while self.goes_on() {
            let delay = self.delay;
            let seen = live.next(delay, &mut |left| {
                self.wait(left.min(TICK));
                self.goes_on() && self.delay == delay
            });
            let ended =
                seen.watched.ended.as_ref().map(|how| format!("{}: {how}", seen.watched.name));
            if !self.is_paused && !seen.watched.interrupted {
                self.shown = Some(seen);
                self.draw();
            }
            if ended.is_some() {
                return ended;
            }
        }
        None
    }

    fn goes_on(&self) -> bool {
        let is_over = self.ends.is_some_and(|ends| Instant::now() >= ends);
        !is_over && !self.stop.load(Ordering::Relaxed) && matches!(self.has_quit, Ok(false))
    }

    /// Waits for keys, and redraws if the terminal size has changed.
    fn wait(&mut self, at_most: Duration) {
        let before = size();
        match self.screen.keys(at_most) {
            Ok(Keys::Pressed(keys)) => self.press(&keys),
            Ok(Keys::None) => {}
            Ok(Keys::Gone) => self.has_quit = Ok(true),
            Err(error) => self.has_quit = Err(error),
        }
        if size() != before {
            self.draw();
        }
    }

    fn press(&mut self, keys: &[u8]) {
        let [shortest, longest] = DELAYS;
        for key in characters(keys) {
            match key {
                b'q' | b'Q' => self.has_quit = Ok(true),
                b' ' | b'p' => self.is_paused = !self.is_paused,
                b'+' | b'=' => self.delay = (self.delay / 2).max(shortest.min(self.delay)),
                b'-' => self.delay = (self.delay * 2).min(longest.max(self.delay)),
                _ => {}
            }
        }
        self.draw();
    }

    fn draw(&mut self) {
        let (columns, lines) = size();
        let style = Style { width: columns, ..emit::style() };
        let frame = match &self.shown {
            Some(observation) => {
                let view = TopView { lines: Some(lines), is_paused: self.is_paused };
                lines_of(observation, &view, &style)
            }
            None => {
                vec!["linerate top: measuring the first window ...".chars().take(columns).collect()]
            }
        };
        let frame: Vec<String> = frame
            .iter()
            .map(|line| crate::terminal::safe(line, style.color).into_owned())
            .collect();
        if let Err(error) = self.screen.draw(&frame) {
            self.has_quit = Err(error);
        }
    }
}

/// Returns the characters in the terminal's input. Skips the escape sequences of function and
/// cursor keys (ECMA-48): ESC, `[`, parameters and a final byte, or ESC, `O` and a byte.
fn characters(mut keys: &[u8]) -> Vec<u8> {
    const ESCAPE: u8 = 0x1b;
    let mut found = Vec::new();
    while let Some((&key, behind)) = keys.split_first() {
        keys = match (key, behind) {
            (ESCAPE, [b'[', parameters @ ..]) => {
                let last = parameters.iter().position(|byte| (0x40..=0x7e).contains(byte));
                last.map_or(&[][..], |last| &parameters[last + 1..])
            }
            (ESCAPE, [b'O', _, behind @ ..]) => behind,
            (ESCAPE, _) => behind,
            (character, _) => {
                found.push(character);
                behind
            }
        };
    }
    found
}

/// Returns the terminal's columns and lines, or a common size if the terminal reports none.
fn size() -> (usize, usize) {
    let size = terminal_size::terminal_size_of(io::stdout());
    size.map_or((80, 24), |(columns, lines)| (columns.0.into(), lines.0.into()))
}

#[cfg(test)]
mod tests {
    use super::characters;
    use crate::args::Cli;
    use clap::Parser;

    #[test]
    fn arrows_and_function_keys_are_not_characters() {
        assert_eq!(characters(b" \x1b[A\x1b[15~-\x1bOPq\x1b"), b" -q");
        assert_eq!(characters(b"\x1b[1;5"), b"");
        assert_eq!(characters(b"\x1bO"), b"O");
    }

    #[test]
    fn one_thing_is_watched() {
        let is_accepted =
            |words: &[&str]| Cli::try_parse_from(["linerate", "top"].iter().chain(words)).is_ok();
        for good in [
            &["1"][..],
            &["1", "2", "-d", "1s", "-t", "10s"],
            &["--name", "nginx", "--once"],
            &["--iface", "eth0"],
        ] {
            assert!(is_accepted(good), "{good:?}");
        }
        for bad in [
            &[][..],
            &["0"],
            &["1", "--name", "nginx"],
            &["1", "--once", "-t", "1s"],
            &["1", "-d", "0"],
        ] {
            assert!(!is_accepted(bad), "{bad:?}");
        }
    }
}
