// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests each evidence tier on work of known size.

use crate::host_facts::{CoreUnit, Facts, HostFacts};
use crate::refusal::{self, Cause, Explainer, Explanation};
use linerate_counters::catalog::Catalog;
use linerate_counters::event::{Class, Event};
use linerate_counters::opener::Opener;
use linerate_counters::refusal::{Attempt, Refusal};
use linerate_linux::perf::{self, HARDWARE, Reading, Request, SOFTWARE, Selector, Target};
use linerate_linux::{allow_current_thread, allowed_cpus, pin_current_thread};
use linerate_record::Tier;
use linerate_record::doctor::TierState;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Results of testing each evidence tier.
pub(super) struct Trial {
    /// Whether instructions can be counted in user and kernel mode together, or why not.
    pub(super) both: Result<(), Explanation>,
    /// Whether instructions can be counted in user mode only, or why not.
    pub(super) user: Result<(), Explanation>,
    /// Tier and sentence if events can be counted without perf, by reading counter registers that a
    /// module made readable; otherwise, why not. `None` on processors without such registers.
    pub(super) registers: Option<Result<(Tier, String), Explanation>>,
    /// Whether CPU time can be counted, at least in user mode, or why not.
    pub(super) software: Result<(), Explanation>,
    /// Whether CPU time can be counted in kernel mode too, or why not. This requires the same
    /// permission as counting events inside the kernel.
    pub(super) software_both: Result<(), Explanation>,
    /// Valgrind version, or why Valgrind is not available.
    pub(super) valgrind: Result<String, Explanation>,
    /// Name of QEMU's user-mode emulator, if installed.
    pub(super) qemu: Option<String>,
    /// Number of hardware events that can be counted simultaneously; `None` if hardware events
    /// cannot be counted.
    pub(super) at_once: Option<usize>,
    /// Whether this program can read a counter from user space; `None` if no hardware event
    /// can be counted.
    pub(super) reads_counters: Option<bool>,
}

impl Trial {
    pub(super) fn run(
        opener: &dyn Opener,
        around: &HostFacts,
        catalog: &Catalog,
        valgrind: VersionQuery,
    ) -> Self {
        let explainer = Explainer::new(around, catalog.is_known_processor());
        let probe = Probe { opener, explainer };
        let instructions = catalog.resolve("instructions").ok();
        let instructions = instructions.filter(|event| event.class == Class::Hardware);
        let instructions =
            instructions.unwrap_or_else(|| event("instructions", Class::Hardware, HARDWARE, 1));
        let request = Request::new(instructions.selector);
        let user_only = Request { exclude_kernel: true, ..request };
        // Must be first: opening perf events may disable access to the registers.
        let registers = refusal::examine(around);
        let _stay = Stay::where_counted(&probe, &instructions, [&request, &user_only]);
        let held = || Err(explainer.explain(&Refusal::HeldByModule, &instructions));
        let (both, user) = match around.pmu_user().is_some() {
            true => (held(), held()),
            false => (probe.count(&instructions, &request), probe.count(&instructions, &user_only)),
        };
        let granted = match (&both, &user) {
            (Ok(()), _) => Some(request),
            (_, Ok(())) => Some(user_only),
            _ => None,
        };
        let (software, software_both) = probe.count_software();
        Self {
            both,
            user,
            registers,
            software,
            software_both,
            valgrind: valgrind.answer(),
            qemu: around
                .facts()
                .qemu
                .as_ref()
                .map(|file| file.file_name().unwrap_or_default().to_string_lossy().into_owned()),
            at_once: granted.map(|request| count_at_once(opener, &request, gets_counters)),
            reads_counters: granted.map(|request| probe.reads_counters(&request)),
        }
    }

    /// Returns the state of each tier, best tier first.
    pub(super) fn tiers(&self) -> Vec<TierState> {
        let at_once = match self.at_once {
            Some(1) => "1 event at a time".to_owned(),
            Some(n) => format!("{n} events at a time, more with multiplexing"),
            None => "unknown number of events at a time".to_owned(),
        };
        let both = format!("hardware counters, kernel and user mode: {at_once}");
        let mut tiers = vec![state(Tier::Hw, &self.both, &both)];
        tiers.extend(self.registers_state());
        tiers.extend([
            state(Tier::User, &self.user, &format!("hardware counters, user mode: {at_once}")),
            self.software_state(),
            self.simulator_state(),
            works(Tier::Model, "predictions by `tune` and `plan`, not measurements"),
        ]);
        tiers
    }

    fn registers_state(&self) -> Option<TierState> {
        let way = Some(REGISTERS.to_owned());
        Some(match self.registers.as_ref()? {
            Ok((tier, sentence)) => TierState { way, ..works(*tier, sentence) },
            Err(refusal) => TierState { way, ..state(Tier::Hw, &Err(refusal.clone()), "") },
        })
    }

    /// Returns the state of the software tier. It is always at least partially available, because
    /// the timestamp counter is.
    fn software_state(&self) -> TierState {
        match (&self.software, &self.software_both) {
            (Ok(()), Ok(())) => {
                works(Tier::Sw, "kernel software events, tracepoints, timestamp counter")
            }
            (Ok(()), Err(refusal)) => {
                let sentence = "kernel clock events, user-mode page faults, timestamp counter";
                TierState { fix: refusal.fix.clone(), ..works(Tier::Sw, sentence) }
            }
            (Err(refusal), _) => {
                let sentence = format!("timestamp counter only: {}", refusal.sentence);
                TierState { fix: refusal.fix.clone(), ..works(Tier::Sw, &sentence) }
            }
        }
    }

    fn simulator_state(&self) -> TierState {
        if let Some(emulator) = &self.qemu {
            let sentence = format!(
                "{emulator} simulates instructions, branches, and cache and TLB misses; programs \
                 run 20 to 100 times slower, and it reports no cycles"
            );
            return works(Tier::Sim, &sentence);
        }
        let version = self.valgrind.as_ref().map_or("Valgrind", |version| version);
        let sentence = format!(
            "{version} simulates instructions, branches and cache misses; programs run 30 to 100 \
             times slower, and it reports neither cycles nor TLB misses"
        );
        state(Tier::Sim, &self.valgrind.clone().map(|_| ()), &sentence)
    }
}

/// Name of the method that reads counter registers to which a module has enabled user access.
const REGISTERS: &str = "registers";

fn works(tier: Tier, sentence: &str) -> TierState {
    let sentence = sentence.to_owned();
    TierState { tier, way: None, works: true, sentence, cause: None, fix: None }
}

fn state(tier: Tier, tried: &Result<(), Explanation>, sentence: &str) -> TierState {
    match tried {
        Ok(()) => works(tier, sentence),
        Err(refusal) => TierState {
            tier,
            way: None,
            works: false,
            sentence: refusal.sentence.clone(),
            cause: Some(refusal.cause.word().to_owned()),
            fix: refusal.fix.clone(),
        },
    }
}

fn event(name: &str, class: Class, kind: u32, config: u64) -> Event {
    Event {
        name: name.to_owned(),
        native: None,
        unit: "events",
        class,
        selector: Selector::new(kind, config),
        is_user_only: false,
        unit_cpus: Vec::new(),
    }
}

/// Iterations of the counted loop. Each iteration executes at least one instruction, and the whole
/// loop takes at least a microsecond, so the counts of instructions and of nanoseconds are at least
/// [`LEAST`].
const TURNS: u64 = 20_000;

/// Minimum number of instructions, and of nanoseconds, that the counted loop takes. An iteration
/// contains a jump, so it takes at least a quarter of a cycle on any core, and no core runs at 20
/// GHz.
const LEAST: u64 = TURNS / 100;

fn work() {
    for turn in 0..TURNS {
        black_box(turn);
    }
}

/// Maximum number of events to open simultaneously; no core has that many counters.
const AT_ONCE_MAX: usize = 24;

/// Keeps the thread on a CPU until dropped.
struct Stay {
    /// CPUs that the thread was allowed to run on before; restored on drop.
    allowed: Vec<u32>,
}

impl Stay {
    /// Pins the thread to a CPU on which `event` counts in one of the ways requested, if there are
    /// several types of cores, since an event may count on only one of them. `None` if there is
    /// only one type, or if the event counts on none.
    fn where_counted(probe: &Probe<'_>, event: &Event, requests: [&Request; 2]) -> Option<Self> {
        let host = probe.explainer.host_facts;
        let units = &host.facts().core_units;
        if units.len() < 2 || host.pmu_user().is_some() {
            return None;
        }
        let stay = Self { allowed: allowed_cpus().ok()? };
        let first = |unit: &CoreUnit| {
            let is_of_unit = |cpu: &&u32| unit.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu));
            stay.allowed.iter().find(is_of_unit).copied()
        };
        let counts = |cpu: &u32| {
            pin_current_thread(*cpu).is_ok()
                && requests.iter().any(|request| probe.count(event, request).is_ok())
        };
        units.iter().filter_map(first).any(|cpu| counts(&cpu)).then_some(stay)
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        // If a CPU has been taken offline or out of the cpuset, the kernel ignores it.
        let _ = allow_current_thread(&self.allowed);
    }
}

struct Probe<'a> {
    opener: &'a dyn Opener,
    explainer: Explainer<'a>,
}

impl Probe<'_> {
    /// Checks that the event opens, gets a counter, and counts at least the known minimum.
    fn count(&self, event: &Event, request: &Request) -> Result<(), Explanation> {
        let why = |refusal: Refusal| self.explainer.explain(&refusal, event);
        let target = Target::CurrentThread;
        let opened = self.opener.open(request, target, None).map_err(|error| {
            let attempt = Attempt { error, request: *request, target, group_len: 0 };
            why(Refusal::NotOpened(attempt))
        })?;
        let reading = counted(&opened).map_err(|_| why(Refusal::NeverScheduled))?;
        if reading.running_ns == 0 {
            return Err(why(Refusal::NeverScheduled));
        }
        let count = reading.values().first().copied().unwrap_or(0);
        if count < LEAST { Err(self.counts_too_little(event, count)) } else { Ok(()) }
    }

    /// Counts CPU time in both modes, and in user mode only, because restrictions on kernel mode
    /// also apply to software events.
    fn count_software(&self) -> (Result<(), Explanation>, Result<(), Explanation>) {
        let task_clock = event("task_clock_ns", Class::Software, SOFTWARE, 1);
        let both = Request::new(task_clock.selector);
        let user_only = Request { exclude_kernel: true, ..both };
        let tried = self.count(&task_clock, &both);
        (tried.clone().or_else(|_| self.count(&task_clock, &user_only)), tried)
    }

    /// Explains why an event that can be opened counts too little, as happens with emulators and
    /// with drivers for other cores.
    fn counts_too_little(&self, event: &Event, count: u64) -> Explanation {
        Explanation {
            cause: Cause::UnsupportedEvent,
            sentence: format!(
                "`{}` could be opened but counted only {count} (expected at least {LEAST}), so the \
                 event is not implemented here",
                event.name
            ),
            fix: Some(refusal::instead_of_nothing(self.explainer.host_facts.facts())),
        }
    }

    /// Returns whether the kernel lets this program read a running counter without a system call.
    fn reads_counters(&self, request: &Request) -> bool {
        let request = Request { disabled: false, ..*request };
        let Ok(event) = self.opener.open(&request, Target::CurrentThread, None) else {
            return false;
        };
        event.map().is_ok_and(|page| page.fields().can_read_counter)
    }
}

/// Returns the number of events that can be counted in one group, which consists of cycles (some
/// processors have a dedicated counter for these) and as many instances of the requested event as
/// fit. The kernel accepts as many events as the processor has counters, even if its watchdog holds
/// one, so `counts` checks that the group really counts.
pub(super) fn count_at_once(
    opener: &dyn Opener,
    request: &Request,
    counts: impl Fn(&[perf::Event]) -> bool,
) -> usize {
    let cycles = Request { selector: Selector::new(HARDWARE, 0), ..*request };
    let leader = opener.open(&cycles, Target::CurrentThread, None);
    let mut group: Vec<perf::Event> = leader.into_iter().collect();
    while group.len() < AT_ONCE_MAX {
        let request = Request { disabled: group.is_empty(), ..*request };
        match opener.open(&request, Target::CurrentThread, group.first()) {
            Ok(event) => group.push(event),
            Err(_) => break,
        }
    }
    while !group.is_empty() && !counts(&group) {
        group.pop();
    }
    group.len()
}

/// Returns whether a group was scheduled on the counters within its time slice.
fn gets_counters(group: &[perf::Event]) -> bool {
    let reading = group.first().and_then(|leader| counted(leader).ok());
    reading.is_some_and(|reading| reading.running_ns > 0)
}

fn counted(event: &perf::Event) -> std::io::Result<Reading> {
    event.enable()?;
    work();
    event.disable()?;
    event.read()
}

/// A Valgrind version query that runs in parallel with other checks.
pub(super) struct VersionQuery(Result<(PathBuf, std::io::Result<Child>), Explanation>);

impl VersionQuery {
    pub(super) fn start(facts: &Facts) -> Self {
        if let Some(refusal) = refusal::no_valgrind(facts) {
            return Self(Err(refusal));
        }
        let program = facts.valgrind.clone().unwrap_or("valgrind".into());
        let asked = Command::new(&program)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Self(Ok((program, asked)))
    }

    /// Waits for the query and returns the version.
    fn answer(self) -> Result<String, Explanation> {
        let (program, asked) = self.0?;
        let said = match asked.and_then(Child::wait_with_output) {
            Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        if said.starts_with("valgrind-") {
            return Ok(said);
        }
        Err(Explanation {
            cause: Cause::NoValgrind,
            sentence: format!("{} does not report its version: {said}", program.display()),
            fix: Some(format!("{} --version", program.display())),
        })
    }
}
