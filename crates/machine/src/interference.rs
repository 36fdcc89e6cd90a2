// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much slower a CPU is while others work.
//!
//! Two hardware threads of one core share its execution units; two virtual CPUs may do so without
//! the guest being told. So it is measured: one CPU runs a load that keeps a core's units busy,
//! in turn with the other CPUs asleep and with all of them running the same load.
//!
//! ```text
//! until the time is up, in rounds, every other round in reverse order:
//!     others asleep:   count what the first CPU gets done in a window    -> alone
//!     others working:  the same                                         -> together
//!     keep the round when neither window was disturbed
//! answer: the median over the rounds of together / alone
//! ```
//!
//! A window is disturbed when the kernel took the first CPU away from it (involuntary switches,
//! less than 96 % of the time on the CPU), or when any of the CPUs stood still for 50 us, which is
//! also how a host shows that it took a virtual CPU away.
//!
//! Other programs on the other CPUs would spoil `alone`, and make the answer too near to 1. The
//! median bears with that in less than half of the rounds; when they took more than a third of the
//! time of one of these CPUs, there is no answer.
//!
//! Left out: contention for what lies beyond the first-level cache (shared caches, memory), and
//! programs on siblings that are not among the CPUs named.

use crate::Error;
use crate::idle::IdleWatch;
use crate::ticks::{ticks, ticks_per_second};
use linerate_linux as linux;
use linerate_record::stats::{Estimate, paired_ratio};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle, Thread};
use std::time::Duration;

/// How much slower the first CPU is while the others work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowdown {
    /// What the first CPU gets done while all work, over what it gets done alone: about 1 on cores
    /// of their own, 0.5 to 0.7 on hardware threads of one core. 95 % interval; `n` rounds kept.
    pub throughput_ratio: Estimate,
    /// Rounds measured.
    pub rounds: u64,
    /// Rounds dropped because a window was disturbed.
    pub rounds_dropped: u64,
}

/// Length of a window. Some 150 bursts of the load, and short enough that most windows of a busy
/// machine see no preemption.
const WINDOW_NS: f64 = 200_000.0;

/// A CPU that stands still for longer was taken away: a burst takes some microseconds, an
/// interrupt seldom more than ten, the shortest slice of a scheduler hundreds.
const STILL_NS: f64 = 50_000.0;

/// How long the other CPUs may take to wake up or fall asleep; then the round is given up.
const CHANGE_NS: f64 = 5_000_000.0;

/// Bursts before a window begins: 30 to 100 us, several times what falling asleep takes.
const SETTLING_BURSTS: u32 = 30;

/// Share of the time of one of the other CPUs that other programs may take.
const OTHERS_SHARE: f64 = 1.0 / 3.0;

/// Least share of a window the thread must have been on its CPU.
const CLEAN_CPU_SHARE: f64 = 0.96;

/// How much slower `cpus[0]` is while all of `cpus` work, measured for `duration` and a millisecond
/// or two beyond; 50 to 100 ms give an interval of a few percent. The threads it starts keep all of
/// these CPUs busy about half of that time. The calling thread waits and keeps its affinity.
///
/// # Errors
/// Fewer than two CPUs, one named twice, one that this process may not use; or too few undisturbed
/// rounds (less than 6) to give an interval; or other programs used these CPUs.
pub fn pair_slowdown(cpus: &[u32], duration: Duration) -> Result<Slowdown, Error> {
    let refuse = |reason| Err(Error::Cpus { cpus: cpus.to_vec(), reason });
    if cpus.len() < 2 {
        return refuse("to slow each other down takes two at least; name more");
    }
    if (1..cpus.len()).any(|i| cpus[..i].contains(&cpus[i])) {
        return refuse("the same CPU twice shares everything; name each once");
    }
    slowdown(&measure(cpus, duration)?)
}

/// What was done in a window, and whether the figure is fit for use.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Window {
    /// Bursts per tick.
    speed: f64,
    is_clean: bool,
}

/// One round.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Round {
    alone: Window,
    together: Window,
}

/// What was measured.
#[derive(Clone, Debug)]
struct Measurement {
    rounds: Vec<Round>,
    /// The share of its time that other programs took at least, of the other CPU where that is
    /// most.
    others_share: f64,
}

fn slowdown(measurement: &Measurement) -> Result<Slowdown, Error> {
    let cannot_tell = |reason| {
        let advice = "stop other programs, or measure for longer";
        Err(Error::CannotTell { what: "how CPUs slow each other down", reason, advice })
    };
    let Measurement { rounds, others_share } = measurement;
    if *others_share > OTHERS_SHARE {
        let percent = others_share * 100.0;
        return cannot_tell(format!("other programs took {percent:.0} % of one of them"));
    }
    let clean = rounds.iter().filter(|round| round.alone.is_clean && round.together.is_clean);
    let (alone, together): (Vec<f64>, Vec<f64>) =
        clean.map(|round| (round.alone.speed, round.together.speed)).unzip();
    let throughput_ratio = paired_ratio(&alone, &together, 0.95);
    if !throughput_ratio.low.is_finite() || !throughput_ratio.high.is_finite() {
        let (kept, of) = (alone.len(), rounds.len());
        return cannot_tell(format!("{kept} of {of} rounds were undisturbed"));
    }
    let kept = alone.len();
    let rounds = rounds.len() as u64;
    Ok(Slowdown { throughput_ratio, rounds, rounds_dropped: rounds - kept as u64 })
}

const ASLEEP: u8 = 0;
const WORKING: u8 = 1;
const ENDED: u8 = 2;

/// What the measuring thread and the helpers, one per other CPU, share.
struct Signals {
    /// What the helpers are to do.
    wanted: AtomicU8,
    /// A helper could not start.
    has_failed: AtomicBool,
    helpers: Vec<Signal>,
}

/// What one helper tells; on a cache line of its own (128 octets: some processors fetch in pairs).
#[repr(align(128))]
#[derive(Default)]
struct Signal {
    /// The counter at its last burst; 0 while it does not work.
    last_burst: AtomicU64,
    /// How often it stood still since it began.
    stills: AtomicU64,
}

fn measure(cpus: &[u32], duration: Duration) -> Result<Measurement, Error> {
    let lengths = Lengths::of(ticks_per_second(), duration);
    let signals = Signals {
        wanted: AtomicU8::new(ASLEEP),
        has_failed: AtomicBool::new(false),
        helpers: cpus[1..].iter().map(|_| Signal::default()).collect(),
    };
    // Fails for CPUs that are not there, which pinning then says better.
    let idle = IdleWatch::start(&cpus[1..]);
    let (rounds, helped_ns) = run_threads(cpus, &signals, lengths)?;
    Ok(Measurement { rounds, others_share: idle?.others_share(&helped_ns)? })
}

/// The rounds, and how long each helper was on its CPU, in nanoseconds.
fn run_threads(
    cpus: &[u32],
    signals: &Signals,
    lengths: Lengths,
) -> Result<(Vec<Round>, Vec<u64>), Error> {
    thread::scope(|scope| {
        let with_signal = cpus[1..].iter().zip(&signals.helpers);
        let helpers: Vec<ScopedJoinHandle<'_, Result<u64, Error>>> = with_signal
            .map(|(&cpu, own)| scope.spawn(move || help(cpu, own, signals, lengths)))
            .collect();
        let threads = helpers.iter().map(|helper| helper.thread().clone()).collect();
        let conductor = Conductor { signals, threads, lengths };
        let rounds = scope.spawn(move || conductor.measure(cpus[0])).join();
        // Also when the measuring thread panicked: the scope waits for the helpers.
        signals.wanted.store(ENDED, Ordering::Release);
        helpers.iter().for_each(|helper| helper.thread().unpark());
        let helped = helpers.into_iter().map(|helper| joined(helper.join()));
        let helped_ns = helped.collect::<Result<Vec<u64>, Error>>()?;
        Ok((joined(rounds)?, helped_ns))
    })
}

/// What a thread returned; its panic goes on in this one.
fn joined<T>(result: thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The lengths of time that matter, in ticks.
#[derive(Clone, Copy)]
struct Lengths {
    total: u64,
    window: u64,
    still: u64,
    change: u64,
    ticks_per_ns: f64,
}

impl Lengths {
    fn of(ticks_per_second: f64, total: Duration) -> Self {
        let ticks = |ns: f64| (ns * ticks_per_second / 1e9) as u64;
        Self {
            total: ticks(total.as_nanos() as f64),
            window: ticks(WINDOW_NS),
            still: ticks(STILL_NS),
            change: ticks(CHANGE_NS),
            ticks_per_ns: ticks_per_second / 1e9,
        }
    }
}

/// The thread of one of the other CPUs. Returns its processor time in nanoseconds.
fn help(cpu: u32, own: &Signal, signals: &Signals, lengths: Lengths) -> Result<u64, Error> {
    let pinned = linux::pin_current_thread(cpu);
    if pinned.is_err() {
        signals.has_failed.store(true, Ordering::Relaxed);
    }
    pinned?;
    let mut load = Load::new();
    loop {
        match signals.wanted.load(Ordering::Acquire) {
            ASLEEP => thread::park(),
            WORKING => {
                let mut last = ticks();
                while signals.wanted.load(Ordering::Relaxed) == WORKING {
                    load.burst();
                    let now = ticks();
                    if now.saturating_sub(last) > lengths.still {
                        own.stills.fetch_add(1, Ordering::Relaxed);
                    }
                    last = now;
                    own.last_burst.store(now, Ordering::Relaxed);
                }
                own.last_burst.store(0, Ordering::Release);
            }
            _ => return Ok(linux::thread_cpu_time_ns()),
        }
    }
}

/// The measuring thread's view.
struct Conductor<'a> {
    signals: &'a Signals,
    threads: Vec<Thread>,
    lengths: Lengths,
}

impl Conductor<'_> {
    fn tell(&self, wanted: u8) {
        self.signals.wanted.store(wanted, Ordering::Release);
        self.threads.iter().for_each(Thread::unpark);
    }

    fn measure(&self, cpu: u32) -> Result<Vec<Round>, Error> {
        linux::pin_current_thread(cpu)?;
        let mut load = Load::new();
        let mut rounds = Vec::new();
        let start = ticks();
        while ticks().saturating_sub(start) < self.lengths.total {
            if self.signals.has_failed.load(Ordering::Relaxed) {
                break;
            }
            let mut window = |wanted| self.window(wanted, &mut load);
            rounds.push(if rounds.len() % 2 == 0 {
                let alone = window(ASLEEP);
                Round { alone, together: window(WORKING) }
            } else {
                let together = window(WORKING);
                Round { together, alone: window(ASLEEP) }
            });
        }
        Ok(rounds)
    }

    /// One window with the helpers asleep or working.
    fn window(&self, wanted: u8, load: &mut Load) -> Window {
        self.tell(wanted);
        let is_ready = self.wait_until_all(wanted);
        // The others' last steps into sleep, and our own caches after the system calls.
        (0..SETTLING_BURSTS).for_each(|_| load.burst());
        let stills = || -> u64 {
            self.signals.helpers.iter().map(|h| h.stills.load(Ordering::Relaxed)).sum()
        };
        let (before, switches) = (stills(), linux::involuntary_switches());
        let cpu_ns = linux::thread_cpu_time_ns();
        let start = ticks();
        let (mut bursts, mut now, mut longest) = (0u64, start, 0);
        while now.saturating_sub(start) < self.lengths.window {
            load.burst();
            bursts += 1;
            let last = std::mem::replace(&mut now, ticks());
            longest = longest.max(now.saturating_sub(last));
        }
        let length = (now - start) as f64;
        let cpu_share =
            (linux::thread_cpu_time_ns() - cpu_ns) as f64 * self.lengths.ticks_per_ns / length;
        let is_clean = is_ready
            && longest <= self.lengths.still
            && cpu_share >= CLEAN_CPU_SHARE
            && linux::involuntary_switches() == switches
            && stills() == before
            && self.are_all(wanted);
        Window { speed: bursts as f64 / length, is_clean }
    }

    fn wait_until_all(&self, wanted: u8) -> bool {
        let start = ticks();
        while !self.are_all(wanted) {
            if ticks().saturating_sub(start) > self.lengths.change {
                return false;
            }
            spin_loop();
        }
        true
    }

    /// Whether every helper does what is wanted: has stopped, or has finished a burst just now.
    fn are_all(&self, wanted: u8) -> bool {
        let last = |helper: &Signal| helper.last_burst.load(Ordering::Acquire);
        self.signals.helpers.iter().map(last).all(|last| match wanted {
            WORKING => last != 0 && ticks().saturating_sub(last) <= self.lengths.still,
            _ => last == 0,
        })
    }
}

/// Words of the load's buffer: 8 KiB, so that two threads of a core leave room in its first-level
/// cache, 32 KiB and more on today's processors.
const WORDS: usize = 1024;

/// Sums kept side by side: enough independent work to keep the units of a wide core busy.
const LANES: usize = 8;

/// The work: for each word a load, a rotation, an exclusive or, a multiplication and a store, eight
/// words independent of each other.
struct Load {
    words: Box<[u64; WORDS]>,
    sums: [u64; LANES],
}

impl Load {
    fn new() -> Self {
        let lane = |i: usize| i as u64 + 1;
        let words = Box::new(std::array::from_fn(lane));
        Self { words, sums: std::array::from_fn(lane) }
    }

    /// Four passes over the buffer, 1 to 3 us: the reading of the counter that follows weighs
    /// little.
    fn burst(&mut self) {
        // Odd, so that no sum degenerates to 0; 2^64 over the golden ratio (Knuth, TAOCP 6.4).
        const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
        for _ in 0..4 {
            for words in black_box(&mut *self.words).chunks_exact_mut(LANES) {
                for (sum, word) in self.sums.iter_mut().zip(words) {
                    *sum = (sum.rotate_left(7) ^ *word).wrapping_mul(FACTOR);
                    *word = *sum;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(n: usize, round: impl Fn(usize) -> Round) -> Measurement {
        Measurement { rounds: (0..n).map(round).collect(), others_share: 0.0 }
    }

    fn clean(speed: f64) -> Window {
        Window { speed, is_clean: true }
    }

    #[test]
    fn the_ratio_is_that_of_undisturbed_rounds() {
        // The machine drifts by a factor of 2 over the rounds; every fifth round is disturbed.
        let made_up = measurement(40, |i| {
            let speed = 1.0 + i as f64 / 40.0;
            let mut round = Round { alone: clean(speed), together: clean(0.6 * speed) };
            if i % 10 == 0 {
                round.together = Window { speed: 9.0, is_clean: false };
            } else if i % 10 == 5 {
                round.alone = Window { speed: 0.01, is_clean: false };
            }
            round
        });
        let slowdown = slowdown(&made_up).unwrap();
        let ratio = slowdown.throughput_ratio;
        assert!((ratio.low..=ratio.high).contains(&ratio.value), "{ratio:?}");
        assert!((ratio.low - 0.6).abs() < 1e-9 && (ratio.high - 0.6).abs() < 1e-9, "{ratio:?}");
        assert_eq!((slowdown.rounds, slowdown.rounds_dropped, ratio.n), (40, 8, 32));
    }

    #[test]
    fn too_few_undisturbed_rounds_or_too_many_others_tell_nothing() {
        let good = |_| Round { alone: clean(1.0), together: clean(1.0) };
        let refuses = |m: &Measurement| matches!(slowdown(m), Err(Error::CannotTell { .. }));
        assert!(refuses(&measurement(0, good)) && refuses(&measurement(5, good)));
        assert!(slowdown(&measurement(6, good)).is_ok());
        assert!(slowdown(&Measurement { others_share: 0.3, ..measurement(6, good) }).is_ok());
        assert!(refuses(&Measurement { others_share: 0.4, ..measurement(6, good) }));
    }

    #[test]
    fn questions_that_make_no_sense_are_refused() {
        let ask = |cpus: &[u32]| pair_slowdown(cpus, Duration::from_millis(1));
        assert!(matches!(ask(&[]), Err(Error::Cpus { .. })));
        assert!(matches!(ask(&[0]), Err(Error::Cpus { .. })));
        assert!(matches!(ask(&[0, 1, 0]), Err(Error::Cpus { .. })));
        let own = linux::allowed_cpus().unwrap()[0];
        assert!(matches!(ask(&[own, 65_000]), Err(Error::System(_))));
        assert!(matches!(ask(&[65_000, own]), Err(Error::System(_))));
    }

    /// The known truth that needs one CPU only: a helper on the CPU that is measured never works
    /// while it is measured, so no round may pass for undisturbed.
    #[test]
    fn threads_in_turns_on_one_cpu_are_not_taken_for_working_together() {
        let cpu = linux::allowed_cpus().unwrap()[0];
        let rounds = measure(&[cpu, cpu], Duration::from_millis(60)).unwrap().rounds;
        assert!(!rounds.is_empty());
        assert!(rounds.iter().all(|round| !round.together.is_clean), "{rounds:?}");
    }

    /// Another program on the second CPU: whatever was measured, it is not what it is alone.
    #[test]
    fn a_cpu_that_others_use_gives_no_answer() {
        let allowed = linux::allowed_cpus().unwrap();
        let [first, second, ..] = allowed[..] else {
            return assert_eq!(allowed.len(), 1);
        };
        let stop = AtomicBool::new(false);
        let answer = thread::scope(|scope| {
            scope.spawn(|| {
                linux::pin_current_thread(second).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
            let answer = pair_slowdown(&[first, second], Duration::from_millis(150));
            stop.store(true, Ordering::Relaxed);
            answer
        });
        assert!(matches!(answer, Err(Error::CannotTell { .. })), "{answer:?}");
    }

    #[test]
    fn two_cpus_of_this_machine_give_a_share_or_a_reason() {
        let allowed = linux::allowed_cpus().unwrap();
        let cpus = crate::topology::pick_cpus(2, &allowed);
        if cpus.len() < 2 {
            return assert!(pair_slowdown(&cpus, Duration::from_millis(1)).is_err());
        }
        match pair_slowdown(&cpus, Duration::from_millis(90)) {
            Ok(Slowdown { throughput_ratio: ratio, rounds, rounds_dropped }) => {
                assert!((0.2..1.3).contains(&ratio.value), "{ratio:?}");
                assert!((ratio.low..=ratio.high).contains(&ratio.value), "{ratio:?}");
                assert_eq!(ratio.n, rounds - rounds_dropped);
            }
            Err(error) => assert!(matches!(error, Error::CannotTell { .. }), "{error}"),
        }
        assert_eq!(linux::allowed_cpus().unwrap(), allowed);
    }
}
