// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observes a measurement: progress, stop requests, and hung contestants.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;

/// Connects a measurement with its observer, which may request a stop and is notified of progress
/// and of hung contestants.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    stop: &'a AtomicBool,
    progress: &'a dyn Fn(&str, f64),
    hung: Option<&'a (dyn Fn(&str) + Sync)>,
}

static NEVER: AtomicBool = AtomicBool::new(false);

impl Watch<'static> {
    /// Creates a watch without an observer, so the measurement cannot be stopped early.
    pub fn unattended() -> Self {
        Self::new(&NEVER, &|_, _| {})
    }
}

impl<'a> Watch<'a> {
    /// Creates a watch. Setting `stop` ends the measurement; results obtained by then are valid.
    /// `progress` receives the name of the current part, and the completed fraction of the whole, 0
    /// to 1.
    pub fn new(stop: &'a AtomicBool, progress: &'a dyn Fn(&str, f64)) -> Self {
        Self { stop, progress, hung: None }
    }

    /// Adds an observer for hangs: `hung` is called, from another thread, for each contestant that
    /// is in the same window at two polls, which are [`HUNG`] apart.
    #[must_use]
    pub fn reporting(self, hung: &'a (dyn Fn(&str) + Sync)) -> Self {
        Self { hung: Some(hung), ..self }
    }

    /// Returns a copy with another progress observer, for one part of the measurement.
    #[must_use]
    pub fn with_progress<'b>(self, progress: &'b dyn Fn(&str, f64)) -> Watch<'b>
    where
        'a: 'b,
    {
        Watch { progress, ..self }
    }

    /// Returns whether a stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the stop flag, for threads that cannot hold a watch.
    pub fn stop(&self) -> &'a AtomicBool {
        self.stop
    }

    /// Reports the name of the current part, and the completed fraction of the whole, 0 to 1.
    pub fn progress(&self, what: &str, share: f64) {
        (self.progress)(what, share);
    }
}

/// Interval between polls for hung contestants; longer than any window.
pub const HUNG: Duration = Duration::from_secs(10);

/// Identifies the current window for the watchdog: 0 if there is none, otherwise a unique number
/// combined with the contestant.
#[derive(Debug, Default)]
pub(crate) struct Beat(AtomicU64);

/// Maximum number of contestants that a beat can distinguish.
const CONTESTANTS_MAX: u64 = 1 << 20;

impl Beat {
    /// Starts window `number` (1-based) of a contestant.
    pub(crate) fn begin(&self, number: u64, contestant: usize) {
        let contestant = (contestant as u64).min(CONTESTANTS_MAX - 1);
        self.0.store(number * CONTESTANTS_MAX + contestant, Ordering::Relaxed);
    }

    /// Ends the current window. Until the next one starts, the watchdog has nothing to check.
    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Detects hung contestants by polling the [`Beat`].
#[derive(Debug, Default)]
struct Watchdog {
    last: u64,
    reported: u64,
}

impl Watchdog {
    /// Takes the current beat. Returns the contestant if its window was already running at the
    /// previous call and has not been reported yet.
    fn read(&mut self, beat: u64) -> Option<usize> {
        let is_hung = beat != 0 && beat == self.last && beat != self.reported;
        self.last = beat;
        if is_hung {
            self.reported = beat;
        }
        is_hung.then_some((beat % CONTESTANTS_MAX) as usize)
    }
}

/// Starts the thread that reads `beat` every [`HUNG`], if there is an observer. The thread ends
/// when the returned guard is dropped.
pub(crate) fn guard<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    watch: &Watch<'env>,
    beat: &'env Beat,
    contestants: &'env [&'env str],
) -> Option<Sender<()>> {
    let hung = watch.hung?;
    let (ends, ended) = channel();
    let body = move || {
        let mut dog = Watchdog::default();
        while ended.recv_timeout(HUNG) == Err(RecvTimeoutError::Timeout) {
            if let Some(which) = dog.read(beat.now()) {
                let name = contestants.get(which).copied().unwrap_or("?");
                let seconds = HUNG.as_secs();
                hung(&format!("`{name}` has been in the same window for at least {seconds} s"));
            }
        }
    };
    // If no thread can be started, hangs go unreported, but the measurement is not affected.
    let started = std::thread::Builder::new().name("watchdog".to_owned());
    started.spawn_scoped(scope, body).ok().map(|_| ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_window_that_is_seen_twice_is_reported_once() {
        let (beat, mut dog) = (Beat::default(), Watchdog::default());
        let mut read = |beat: &Beat| dog.read(beat.now());
        assert_eq!((read(&beat), read(&beat)), (None, None));
        beat.begin(1, 5);
        assert_eq!([read(&beat), read(&beat), read(&beat)], [None, Some(5), None]);
        beat.begin(2, 5);
        assert_eq!((read(&beat), read(&beat)), (None, Some(5)));
        beat.end();
        assert_eq!((read(&beat), read(&beat)), (None, None));
        // The same contestant in a different window each time: slow, but not hung.
        for number in 3..9 {
            beat.begin(number, 0);
            assert_eq!(read(&beat), None);
        }
    }

    #[test]
    fn the_watchdog_ends_with_its_guard() {
        let hung = |what: &str| panic!("{what}");
        let (beat, watch) = (Beat::default(), Watch::unattended().reporting(&hung));
        std::thread::scope(|scope| {
            drop(guard(scope, &watch, &beat, &["one"]).expect("a thread"));
        });
        std::thread::scope(|scope| {
            assert!(guard(scope, &Watch::unattended(), &beat, &["one"]).is_none());
        });
    }

    #[test]
    fn a_part_has_its_own_progress_and_the_same_stop() {
        let (stop, seen) = (AtomicBool::new(false), RefCell::new(Vec::new()));
        let put = |what: &str, share: f64| seen.borrow_mut().push((what.to_owned(), share));
        let whole = Watch::new(&stop, &put);
        let half = |what: &str, share: f64| whole.progress(what, 0.5 + share / 2.0);
        let part = whole.with_progress(&half);
        part.progress("second half", 0.5);
        assert_eq!(*seen.borrow(), [("second half".to_owned(), 0.75)]);
        stop.store(true, Ordering::Relaxed);
        assert!(part.is_stopped() && whole.is_stopped() && !Watch::unattended().is_stopped());
    }
}
