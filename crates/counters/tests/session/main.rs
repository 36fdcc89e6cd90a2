// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests sessions on a synthetic processor. No test asserts a time: the counted events are page
//! faults caused by the test. The accuracy suite checks the error of scaling by time.

mod pmu;
mod units;

use linerate_counters::event::{Class, Event};
use linerate_counters::opener::{Kernel, Opener};
use linerate_counters::refusal::{Attempt, Refusal};
use linerate_counters::scripted::Scripted;
use linerate_counters::session::{Options, Scope, Session};
use linerate_linux::perf::{RAW, Request, SOFTWARE, Selector, Target};
use linerate_linux::{child, errno, thread_cpu_time_ns, thread_id};
use linerate_record::Tier;
use pmu::{CLOCK, FAULTS, OWN, event, hardware, pmu, pmu_refusing, software};
use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::hint::black_box;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const ROOT: &str = "/";

const TASK_CLOCK: u64 = 1;
const PAGE_FAULTS: u64 = 2;
const CONTEXT_SWITCHES: u64 = 3;

/// Serializes tests, because the scripted kernel identifies events by descriptor number. `None` if
/// this process may not even count its own page faults.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let probe = Request::new(Selector::new(SOFTWARE, PAGE_FAULTS));
    match Kernel.open(&probe, Target::CurrentThread, None) {
        Ok(_) => Some(guard),
        Err(error) => {
            println!("SKIP: {error}");
            None
        }
    }
}

fn open(pmu: &dyn Opener, events: &[Event], options: &Options) -> Session {
    Session::open(pmu, Path::new(ROOT), events, &Scope::CurrentThread, options)
}

/// Touches this many new pages, which stay mapped, so that later calls touch new pages too.
fn fault(pages: usize) {
    let mut memory = Vec::<u8>::with_capacity(pages * 4096);
    for at in (0..pages * 4096).step_by(4096) {
        memory.spare_capacity_mut()[at].write(1);
    }
    std::mem::forget(memory);
}

/// Spins until this thread has used another `cpu_ns` of CPU time.
fn work(cpu_ns: u64) {
    let begin = thread_cpu_time_ns();
    while thread_cpu_time_ns() - begin < cpu_ns {
        black_box(0);
    }
}

#[test]
fn events_that_fit_are_one_set_and_counted_exactly() {
    let Some(_alone) = alone() else { return };
    let mut events = hardware(FAULTS, 3);
    events.push(software("page_faults", PAGE_FAULTS));
    let mut session = open(&pmu(3), &events, &Options::default());
    assert!(session.outcomes().iter().all(Result::is_ok), "{:?}", session.outcomes());
    assert_eq!((&session.plan().sets, &session.plan().always), (&vec![vec![0, 1, 2]], &vec![3]));
    assert!(!session.plan().is_rotating());
    session.start().unwrap();
    for _ in 0..5 {
        fault(300);
        session.turn();
    }
    let counts = session.finish();
    let tallies: Vec<_> = counts.events.iter().map(|tally| tally.unwrap()).collect();
    // All events count the same faults, except for faults while groups are started or stopped.
    let faults = tallies[3].raw;
    assert!(tallies.iter().all(|tally| tally.raw.abs_diff(faults) <= 16), "{tallies:?}");
    assert!(tallies.iter().all(|tally| !tally.is_scaled && tally.duty == 1.0), "{tallies:?}");
    assert!(tallies.iter().all(|tally| tally.estimate.high == tally.raw as f64), "{tallies:?}");
}

/// Each page fault is counted by exactly one event set, and a scaled count is the raw count divided
/// by the fraction of time that the event was on a counter.
#[test]
fn events_that_do_not_fit_take_turns() {
    const SLICES: u64 = 600;
    const PAGES_PER_SLICE: u64 = 10;
    let Some(_alone) = alone() else { return };
    let mut events = hardware(FAULTS, 5);
    events.push(software("page_faults", PAGE_FAULTS));
    let mut session = open(&pmu(2), &events, &Options::default());
    assert_eq!(session.plan().sets, [vec![0, 1], vec![2, 3], vec![4]]);
    session.start().unwrap();
    for slice in 0..SLICES {
        fault(PAGES_PER_SLICE as usize);
        if slice + 1 < SLICES {
            session.turn();
        }
    }
    let counts = session.finish();
    assert_eq!(counts.slices, SLICES);
    let all = counts.events[5].unwrap();
    let tallies: Vec<_> = counts.events[..5].iter().map(|tally| tally.unwrap()).collect();
    for tally in &tallies {
        assert!(tally.is_scaled && tally.periods.abs_diff(SLICES / 3) <= 2, "{tally:?}");
        let scaled = tally.raw as f64 / tally.duty;
        assert!((tally.estimate.value / scaled - 1.0).abs() < 1e-6, "{tally:?} {scaled}");
        assert!(tally.estimate.low.is_finite() && tally.estimate.high.is_finite());
    }
    // The two events in a set are started one after the other; their counts differ only by the
    // faults in between.
    assert!(tallies[0].raw.abs_diff(tallies[1].raw) <= SLICES, "{tallies:?}");
    let each_once = tallies[0].raw + tallies[2].raw + tallies[4].raw;
    assert!(each_once <= all.raw && all.raw - each_once <= SLICES / 10, "{tallies:?} {all:?}");
    // The first page of an allocation may already have been touched with the previous one.
    assert!(all.raw >= SLICES * (PAGES_PER_SLICE - 1), "{all:?}");
    let duties = tallies[0].duty + tallies[2].duty + tallies[4].duty;
    assert!(duties > 0.0 && duties <= 1.0, "{tallies:?}");
}

/// Two sessions need twice as many counters as one, so each may use half of them, here of six.
#[test]
fn sessions_that_count_the_same_threads_share_the_counters() {
    let Some(_alone) = alone() else { return };
    let sessions = |sessions| Options { sessions, ..Options::default() };
    let plan = |counters, events, sessions| {
        let session = open(&pmu(counters), &hardware(FAULTS, events), &sessions);
        (session.plan().always.clone(), session.plan().sets.clone())
    };
    assert_eq!(plan(6, 3, sessions(2)), (vec![], vec![vec![0, 1, 2]]));
    assert_eq!(plan(6, 4, sessions(1)), (vec![], vec![vec![0, 1, 2, 3]]));
    // With the two that are always counted, either of the others takes six counters.
    assert_eq!(plan(6, 4, sessions(2)), (vec![0, 1], vec![vec![2], vec![3]]));
    // An event that does not even fit alone is alone.
    assert_eq!(plan(1, 2, sessions(2)), (vec![], vec![vec![0], vec![1]]));
}

#[test]
fn an_event_with_its_own_counter_is_always_counted() {
    let Some(_alone) = alone() else { return };
    let mut events = hardware(FAULTS, 4);
    events.insert(1, event("own", Class::Hardware, RAW, OWN));
    let session = open(&pmu(2), &events, &Options::default());
    assert_eq!((&session.plan().always, session.plan().sets.len()), (&vec![1], 2));
    assert_eq!(session.plan().sets, [vec![0, 2], vec![3, 4]]);
}

#[test]
fn the_base_of_scaling_is_counted_with_every_set() {
    let Some(_alone) = alone() else { return };
    let events = hardware(FAULTS, 4);
    let options = Options { scale_by: Some(2), ..Options::default() };
    let mut session = open(&pmu(2), &events, &options);
    assert_eq!((&session.plan().always, session.scaled_by()), (&vec![2], Some(2)));
    assert_eq!(session.plan().sets, [vec![0], vec![1], vec![3]]);
    session.start().unwrap();
    for _ in 0..60 {
        fault(50);
        session.turn();
    }
    let counts = session.finish();
    let faults = counts.events[2].unwrap();
    assert!(!faults.is_scaled && faults.raw >= 3000, "{faults:?}");
    for event in [0, 1, 3] {
        let tally = counts.events[event].unwrap();
        // Both events count page faults, so their estimated counts must agree.
        let share = tally.estimate.value / faults.raw as f64;
        assert!(tally.is_scaled && (0.9..1.1).contains(&share), "{tally:?} {faults:?}");
    }
    // With one counter, the scaling base does not fit alongside a set, so time is used instead.
    let session = open(&pmu(1), &events, &options);
    assert_eq!((session.scaled_by(), session.plan().sets.len()), (None, 4));
}

#[test]
fn the_watchdog_has_a_counter_of_its_own() {
    let Some(_alone) = alone() else { return };
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("proc/sys/kernel");
    std::fs::create_dir_all(&folder).unwrap();
    let sets = |watchdog: &str| {
        std::fs::write(folder.join("nmi_watchdog"), watchdog).unwrap();
        let pmu = pmu(3);
        let events = hardware(FAULTS, 3);
        let scope = Scope::CurrentThread;
        let session = Session::open(&pmu, root.path(), &events, &scope, &Options::default());
        session.plan().sets.len()
    };
    assert_eq!((sets("0\n"), sets("1\n")), (1, 2));
}

#[test]
fn a_refused_event_keeps_no_other_from_being_counted() {
    let Some(_alone) = alone() else { return };
    let pmu =
        pmu_refusing(4, |request| (request.selector.config == FAULTS + 1).then_some(errno::ENOENT));
    let mut session = open(&pmu, &hardware(FAULTS, 3), &Options::default());
    let refused: Vec<bool> = session.outcomes().iter().map(Result::is_err).collect();
    assert_eq!(refused, [false, true, false]);
    session.start().unwrap();
    fault(100);
    let counts = session.finish();
    assert!(counts.events[1].is_none());
    assert!([0, 2].iter().all(|&event| counts.events[event].unwrap().raw >= 100));
    assert_eq!(session.tier(), Some(Tier::Hw));
}

#[test]
fn where_the_kernel_may_not_be_counted_user_mode_is() {
    let Some(_alone) = alone() else { return };
    let forbidden: fn(&Request) -> Option<i32> =
        |request| (!request.exclude_kernel).then_some(errno::EACCES);
    let mut events = hardware(FAULTS, 1);
    events.push(software("task_clock_ns", TASK_CLOCK));
    events.push(software("page_faults", PAGE_FAULTS));
    events.push(software("context_switches", CONTEXT_SWITCHES));
    let session = open(&pmu_refusing(4, forbidden), &events, &Options::default());
    assert_eq!(session.tier(), Some(Tier::User));
    let user_only: Vec<bool> = (0..3).map(|event| session.is_user_only(event)).collect();
    assert_eq!(user_only, [true, false, true]);
    // Context switches happen in the kernel, so a count of 0 would be wrong.
    let refused: Vec<bool> = session.outcomes().iter().map(Result::is_err).collect();
    assert_eq!(refused, [false, false, false, true]);
    let asked = Options { user_only: Some(false), ..Options::default() };
    let session = open(&pmu_refusing(4, forbidden), &events, &asked);
    assert!(session.outcomes()[0].is_err() && session.tier().is_none());
}

#[test]
fn user_mode_of_what_happens_in_the_kernel_is_refused() {
    let Some(_alone) = alone() else { return };
    let events = [Event { is_user_only: true, ..software("context_switches", CONTEXT_SWITCHES) }];
    let session = open(&pmu(1), &events, &Options::default());
    assert_eq!(session.outcomes(), [Err(Refusal::KernelOnly)]);
    let asked = Options { user_only: Some(true), ..Options::default() };
    let session = open(&pmu(1), &hardware(FAULTS, 1), &asked);
    assert_eq!((session.tier(), session.is_user_only(0)), (Some(Tier::User), true));
}

/// Like an ARM1176, the processor refuses to exclude modes. All events are then counted in all
/// modes.
#[test]
fn a_processor_that_cannot_leave_modes_out_counts_all_of_them() {
    let Some(_alone) = alone() else { return };
    let pmu = pmu_refusing(2, |request| {
        let leaves_out = request.exclude_hypervisor && request.selector.kind == RAW;
        leaves_out.then_some(errno::EOPNOTSUPP)
    });
    let session = open(&pmu, &hardware(FAULTS, 3), &Options::default());
    assert!(session.outcomes().iter().all(Result::is_ok), "{:?}", session.outcomes());
    assert_eq!(session.plan().sets.len(), 2);
}

#[test]
fn a_set_never_counted_is_not_zero() {
    let Some(_alone) = alone() else { return };
    let mut session = open(&pmu(1), &hardware(FAULTS, 3), &Options::default());
    session.start().unwrap();
    fault(100);
    let counts = session.finish();
    let counted: Vec<bool> = counts.events.iter().map(Option::is_some).collect();
    assert_eq!(counted.iter().filter(|&&counted| counted).count(), 1);
    for (outcome, counted) in session.outcomes().iter().zip(counted) {
        let expected = if counted { Ok(()) } else { Err(Refusal::NeverScheduled) };
        assert_eq!(*outcome, expected);
    }
}

#[test]
fn laps_add_up() {
    let Some(_alone) = alone() else { return };
    let mut events = hardware(FAULTS, 2);
    events.push(software("page_faults", PAGE_FAULTS));
    let mut session = open(&pmu(2), &events, &Options::default());
    session.start().unwrap();
    let laps: Vec<u64> = [100, 300, 0]
        .map(|pages| {
            fault(pages);
            session.lap().events[2].unwrap().raw
        })
        .to_vec();
    assert!(laps[0] >= 100 && laps[1] >= 300 && laps[2] < 100, "{laps:?}");
    let whole = session.finish().events[2].unwrap().raw;
    assert!(whole.abs_diff(laps.iter().sum()) <= 16, "{whole} {laps:?}");
}

fn held(script: &str) -> child::Held {
    let arguments: Vec<OsString> = ["-c", script].map(OsString::from).to_vec();
    child::fork_held(OsStr::new("sh"), &arguments).unwrap()
}

/// Counts four hardware events and page faults while a shell script runs on a synthetic processor
/// with this many counters. Returns the session and the raw counts.
fn counted(script: &str, counters: usize, slice: Duration) -> (Session, Vec<u64>) {
    let child = held(script);
    let mut events = hardware(CLOCK, 4);
    events.push(software("page_faults", PAGE_FAULTS));
    let options = Options { slice, ..Options::default() };
    let (pmu, root) = (pmu(counters), Path::new(ROOT));
    let mut session = Session::open(&pmu, root, &events, &Scope::Held(child.pid()), &options);
    let mut length = session.start().unwrap();
    let mut child = child.release().unwrap();
    while child.wait_timeout(length).is_none() {
        length = session.turn();
    }
    let counts = session.finish();
    let raw = counts.events.iter().map(|tally| tally.map_or(0, |tally| tally.raw)).collect();
    (session, raw)
}

#[test]
fn a_command_is_counted_from_its_first_instruction_with_its_children() {
    let Some(_alone) = alone() else { return };
    let (session, one) = counted("exec sh -c :", 4, Duration::from_millis(2));
    assert!(session.outcomes().iter().all(Result::is_ok));
    let (_, four) = counted("for i in 1 2 3; do sh -c :; done; :", 4, Duration::from_millis(2));
    // A shell causes some 60 page faults when it starts, during which the clocks run.
    assert!(one[4] >= 30 && one[..4].iter().all(|&ns| ns > 100_000), "{one:?}");
    assert!(four[4] > one[4] && four[0] > one[0], "{one:?} {four:?}");
}

#[test]
fn sets_take_turns_on_a_command_and_its_children() {
    let Some(_alone) = alone() else { return };
    let script = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; sh -c 'exit 3'";
    let (session, raw) = counted(script, 2, Duration::from_micros(500));
    assert_eq!(session.plan().sets.len(), 2);
    assert!(session.outcomes().iter().all(Result::is_ok), "{:?}", session.outcomes());
    assert!(raw.iter().all(|&count| count > 0), "{raw:?}");
}

#[test]
fn a_process_is_counted_with_all_its_threads() {
    let Some(_alone) = alone() else { return };
    let (go, wait) = std::sync::mpsc::channel();
    let spinner = std::thread::spawn(move || {
        let id = thread_id();
        wait.recv().unwrap();
        work(60_000_000);
        id
    });
    let events = [software("task_clock_ns", TASK_CLOCK)];
    let (root, options) = (Path::new(ROOT), Options::default());
    let of = |scope| Session::open(&Kernel, root, &events, &scope, &options);
    let mut process = of(Scope::Process(std::process::id()));
    let mut this = of(Scope::CurrentThread);
    process.start().unwrap();
    this.start().unwrap();
    go.send(()).unwrap();
    assert_ne!(spinner.join().unwrap(), thread_id());
    let raw = |session: &mut Session| session.finish().events[0].unwrap().raw;
    let (all, own) = (raw(&mut process), raw(&mut this));
    assert!(all > own + 10_000_000, "{all} {own}");
}

/// A waiting thread, and the sender that releases it when dropped.
type Waiting = (Sender<()>, JoinHandle<()>);

const PAGES: usize = 1000;

/// Spawns a thread when the `left`-th event is opened. The thread waits to be released, then
/// touches new pages.
fn spawn_at(left: u32, opened: &Cell<u32>, thread: &RefCell<Option<Waiting>>) {
    if opened.replace(opened.get() + 1) == left {
        let (go, wait) = channel();
        let touch = move || {
            let _ = wait.recv();
            fault(PAGES);
        };
        thread.replace(Some((go, std::thread::spawn(touch))));
    }
}

#[test]
fn a_thread_that_appears_while_events_are_opened_is_counted_once() {
    let Some(_alone) = alone() else { return };
    let events = [software("page_faults", PAGE_FAULTS), software("task_clock_ns", TASK_CLOCK)];
    let (root, options) = (Path::new(ROOT), Options::default());
    let scope = Scope::Process(std::process::id());
    for left in 0..6 {
        let (opened, thread) = (Cell::new(0), RefCell::new(None));
        let opener = Scripted::new(|_: &Request, _: &[Selector]| {
            spawn_at(left, &opened, &thread);
            None
        });
        let mut session = Session::open(&opener, root, &events, &scope, &options);
        session.start().unwrap();
        let (go, thread) = thread.into_inner().expect("a thread per event");
        drop(go);
        thread.join().unwrap();
        let counts = session.finish();
        let Some(faults) = counts.events[0] else { panic!("{left}: {:?}", session.outcomes()) };
        assert!((PAGES..2 * PAGES).contains(&(faults.raw as usize)), "{left}: {faults:?}");
    }
}

#[test]
fn a_process_that_is_gone_says_so() {
    let Some(_alone) = alone() else { return };
    let mut child = held("exit 0").release().unwrap();
    let pid = child.pid();
    child.wait();
    let events = [software("task_clock_ns", TASK_CLOCK), hardware(CLOCK, 1).remove(0)];
    let (root, options) = (Path::new(ROOT), Options::default());
    let session = Session::open(&pmu(2), root, &events, &Scope::Process(pid), &options);
    for outcome in session.outcomes() {
        let Err(Refusal::NotOpened(Attempt { error, target, .. })) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!((error.errno, *target), (errno::ESRCH, Target::Thread(pid)));
    }
}
