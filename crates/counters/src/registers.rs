// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters read by their registers, which the module `kmod/pmu_user` opened: where perf counts
//! nothing, and in a few instructions.
//!
//! No system saves these registers for a thread. So counts between two reads are the thread's only
//! if it stayed on its CPU from before the first until after the second, and a [`Mark`] of each
//! tells whether it did. A register has 32 bits (that of cycles 64 on AArch64); counts are
//!
//! ```text
//! count += (register - register at the last read) modulo 2^32
//! ```
//!
//! which is right if fewer than 2^32 events happened in between; where reads are further apart than
//! [`MOST_PER_NS`] allows, the marks differ too.
//!
//! Left out: choosing events, which the module does when it is loaded; PowerPC, whose registers any
//! program reads, but for which Rust 1.85 has no inline assembly.

mod module;
mod processor;

use crate::event::{Class, Event};
use crate::refusal::{Cause, Refusal};
use crate::surroundings::Surroundings;
use crate::thread_group::{Counts, Outcome};
use linerate_linux::{allowed_cpus, kernel_release, pin_current_thread};
use linerate_machine::{Root, name_cpus};
use linerate_record::Tier;
use module::{CYCLE_COUNTER, Module};
use processor::Processor;
use std::cell::Cell;
use std::hint::black_box;

/// Where the module says what it did.
const FILE: &str = "proc/pmu_user";

/// Whether programs for this architecture can read registers that a module opened.
const CAN_BE_OPENED: bool = cfg!(any(target_arch = "aarch64", target_arch = "arm"));

/// More cycles, and more events, than there are in a nanosecond. ARMv7: no core has 4 GHz, and none
/// retires more than 3 instructions in a cycle. AArch64, whose cycles have 64 bits: 14 events in
/// each cycle of 4.5 GHz, which no core retires.
const MOST_PER_NS: [u64; 2] = [4, if cfg!(target_arch = "aarch64") { 64 } else { 16 }];

/// What the counters of a thread are read with.
pub(crate) trait Bank {
    /// A counter of the CPU that the thread is on, 31 being that of cycles; `None` where it is
    /// closed.
    fn counter(&self, number: u32) -> Option<u64>;
    /// A clock.
    fn now_ns(&self) -> u64;
    /// How often the thread has left its CPU.
    fn switches(&self) -> u64;
}

/// Taken with a read. Two reads with the same marks have the thread's own counts between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// How often the thread had left its CPU: before the first read of two, after the second.
    pub switches: u64,
    /// How often reads had been too far apart to be sure of the registers' wraps.
    pub gaps: u64,
}

/// The registers of one thread, which it alone reads.
#[derive(Debug)]
pub(crate) struct Registers<B = Processor> {
    bank: B,
    counters: Vec<Counter>,
    /// As far apart as reads may be, in ns.
    apart_ns: u64,
    read_ns: Cell<u64>,
    gaps: Cell<u64>,
}

#[derive(Debug)]
struct Counter {
    /// Which event of the caller it counts.
    place: usize,
    number: u32,
    is_wide: bool,
    seen: Cell<u64>,
    count: Cell<u64>,
}

impl Counter {
    fn new(place: usize, number: u32) -> Self {
        let is_wide = number == CYCLE_COUNTER && cfg!(target_arch = "aarch64");
        Self { place, number, is_wide, seen: Cell::new(0), count: Cell::new(0) }
    }

    #[inline]
    fn advance(&self, now: u64) -> u64 {
        let since = now.wrapping_sub(self.seen.replace(now));
        let since = if self.is_wide { since } else { u64::from(since as u32) };
        self.count.set(self.count.get().wrapping_add(since));
        self.count.get()
    }

    /// In so many ns it counts less than 2^32.
    fn apart_ns(&self) -> u64 {
        match (self.is_wide, self.number) {
            (true, _) => u64::MAX,
            (false, CYCLE_COUNTER) => (1 << 32) / MOST_PER_NS[0],
            (false, _) => (1 << 32) / MOST_PER_NS[1],
        }
    }
}

impl<B: Bank> Registers<B> {
    /// Of these counters, each with its place among the caller's events; `None` where one is
    /// closed.
    fn new(bank: B, counters: &[(usize, u32)]) -> Option<Self> {
        let counters: Vec<Counter> =
            counters.iter().map(|&(place, number)| Counter::new(place, number)).collect();
        let apart_ns = counters.iter().map(Counter::apart_ns).min().unwrap_or(u64::MAX);
        let registers =
            Self { bank, counters, apart_ns, read_ns: Cell::new(0), gaps: Cell::new(0) };
        registers.first(&mut [0; crate::thread_group::EVENTS_MAX])?;
        Some(registers)
    }

    /// The first read of two, as close as can be to what follows; `None` where a register is
    /// closed. Never inlined, like the second: what a read takes is to be the same in all places,
    /// since it is measured in one and subtracted in others.
    #[inline(never)]
    pub(crate) fn first(&self, counts: &mut Counts) -> Option<Mark> {
        let switches = self.bank.switches();
        self.step();
        self.read(counts)?;
        Some(Mark { switches, gaps: self.gaps.get() })
    }

    /// The second, as close as can be to what was before.
    #[inline(never)]
    pub(crate) fn second(&self, counts: &mut Counts) -> Option<Mark> {
        self.read(counts)?;
        self.step();
        Some(Mark { switches: self.bank.switches(), gaps: self.gaps.get() })
    }

    #[inline]
    fn read(&self, counts: &mut Counts) -> Option<()> {
        for counter in &self.counters {
            counts[counter.place] = counter.advance(self.bank.counter(counter.number)?);
        }
        Some(())
    }

    /// Notes a gap where the last read is too long ago.
    #[inline]
    fn step(&self) {
        let now = self.bank.now_ns();
        if now.wrapping_sub(self.read_ns.replace(now)) >= self.apart_ns {
            self.gaps.set(self.gaps.get().wrapping_add(1));
        }
    }

    /// Whether it reads the event at a place.
    pub(crate) fn has(&self, place: usize) -> bool {
        self.counters.iter().any(|counter| counter.place == place)
    }

    /// How long a stretch without a read may be, in ms, rounded down.
    pub(crate) fn apart_ms(&self) -> u64 {
        self.apart_ns / 1_000_000
    }
}

/// What the module says, where it is loaded.
fn module(around: &Surroundings) -> Option<Result<Module, Refusal>> {
    let path = around.root().join(FILE);
    let text = std::fs::read_to_string(&path).ok()?;
    Some(Module::read(&text).map_err(|malformed| Refusal {
        cause: Cause::RegistersClosed,
        sentence: format!("{}: {malformed}, and nothing is read on such a word", path.display()),
        fix: Some("sudo rmmod pmu_user  # and load the one of this version".to_owned()),
    }))
}

/// Whether the module holds the counters, so that perf counts nothing.
pub fn are_held(around: &Surroundings) -> bool {
    around.root().join(FILE).exists()
}

/// Whether this is worth a word here: on processors that have such registers, and wherever the
/// module says that it holds them.
pub fn can_be_opened(around: &Surroundings) -> bool {
    CAN_BE_OPENED || are_held(around)
}

/// Why perf is not asked for an event while the module holds the counters: it would open it, never
/// count it, and on AArch64 close the registers to those who read them.
pub fn held() -> Refusal {
    Refusal {
        cause: Cause::CountersBusy,
        sentence: "the module pmu_user holds the counters, and perf counts nothing meanwhile"
            .to_owned(),
        fix: Some("sudo rmmod pmu_user".to_owned()),
    }
}

/// Perf's refusal of a hardware event, with the module as a way out where that does not need what
/// perf lacks.
pub(crate) fn or_by_module(refusal: Refusal) -> Refusal {
    match CAN_BE_OPENED {
        true => with_module(refusal),
        false => refusal,
    }
}

fn with_module(mut refusal: Refusal) -> Refusal {
    let is_perfs_own = matches!(
        refusal.cause,
        Cause::NoPmuDriver
            | Cause::DeviceTreeWithoutPmu
            | Cause::NoPerfEvents
            | Cause::Paranoid
            | Cause::Seccomp
            | Cause::MissingCapability
    );
    if let Some(fix) = refusal.fix.as_mut().filter(|_| is_perfs_own) {
        let behind = if fix.contains("  # ") { ";" } else { "  #" };
        *fix += &format!("{behind} or, by the registers: sudo insmod pmu_user.ko {EVENTS}");
    }
    refusal
}

/// The registers of the hardware events among these, for the calling thread: of those whose outcome
/// is no refusal yet, each gets its tier or why there is none.
pub(crate) fn open(
    around: &Surroundings,
    events: &[Event],
    user_only: bool,
    outcomes: &mut [Outcome],
) -> Option<Registers> {
    let places: Vec<usize> = (0..events.len())
        .filter(|&place| events[place].class == Class::Hardware && outcomes[place].is_ok())
        .collect();
    if places.is_empty() {
        return None;
    }
    let opened = opened(around).and_then(|(module, cpu)| Ok((module.open_on(cpu)?, module)));
    let mut counters = Vec::new();
    for &place in &places {
        let event = &events[place];
        let user_only = user_only || event.is_user_only;
        let counter = opened.as_ref().map_err(Clone::clone);
        let counter = counter.and_then(|(cpu, module)| module.counter_of(cpu, event, user_only));
        outcomes[place] = counter.map(|(number, tier)| {
            counters.push((place, number));
            tier
        });
    }
    let refuse = |outcomes: &mut [Outcome], counters: &[(usize, u32)], why: &Refusal| {
        counters.iter().for_each(|(place, _)| outcomes[*place] = Err(why.clone()));
    };
    let processor = match Processor::new() {
        Ok(processor) => processor,
        Err(why) => {
            refuse(outcomes, &counters, &closed(&why));
            return None;
        }
    };
    let is_still = |(place, number): &(usize, u32)| {
        module::never_stops(&events[*place]) && stands_still(&processor, *number)
    };
    let (still, moving): (Vec<_>, Vec<_>) = counters.into_iter().partition(is_still);
    refuse(outcomes, &still, &not_counted());
    if moving.is_empty() {
        return None;
    }
    let registers = Registers::new(processor, &moving);
    if registers.is_none() {
        refuse(outcomes, &moving, &closed("somebody closed them just now"));
    }
    registers
}

/// Whether a counter is the same in two reads.
fn stands_still(bank: &impl Bank, number: u32) -> bool {
    let first = bank.counter(number);
    first.is_some() && first == bank.counter(number)
}

fn not_counted() -> Refusal {
    Refusal {
        cause: Cause::UnsupportedEvent,
        sentence: "the register of this event stands still where instructions are carried out: \
                   nobody counts it here (QEMU counts instructions with -icount only)"
            .to_owned(),
        fix: Some("cat /proc/pmu_user  # shows what else is selected".to_owned()),
    }
}

/// What the module says, and the one CPU that the calling thread stays on.
fn opened(around: &Surroundings) -> Result<(Module, u32), Refusal> {
    let module = module(around).unwrap_or_else(|| Err(not_loaded(around)))?;
    let allowed = allowed_cpus().map_err(|error| closed(&error.to_string()))?;
    match allowed[..] {
        [cpu] => Ok((module, cpu)),
        _ => Err(stay(&allowed, &module)),
    }
}

/// That a thread must stay where it is, and how.
fn stay(allowed: &[u32], module: &Module) -> Refusal {
    let open = module.open_cpus();
    let cpu = allowed.iter().find(|cpu| open.contains(cpu)).unwrap_or(&allowed[0]);
    Refusal {
        cause: Cause::NotOnOneCpu,
        sentence: format!(
            "no system saves the registers for a thread, so it must stay on one CPU, and this one \
             may run on {}",
            name_cpus(allowed)
        ),
        fix: Some(format!("taskset -c {cpu} COMMAND")),
    }
}

fn closed(why: &str) -> Refusal {
    Refusal {
        cause: Cause::RegistersClosed,
        sentence: format!("the registers of the counters cannot be read: {why}"),
        fix: Some("cat /proc/pmu_user  # shows which CPUs are open".to_owned()),
    }
}

/// Why there are no open registers where the module is not loaded.
fn not_loaded(around: &Surroundings) -> Refusal {
    if !CAN_BE_OPENED {
        return other_architecture();
    }
    let release = kernel_release().unwrap_or_default();
    let files = Root::new(around.root());
    let modules = files.text(&format!("lib/modules/{release}/modules.dep")).unwrap_or_default();
    let is_installed = modules.lines().any(|line| line.contains("/pmu_user.ko"));
    if is_installed { only_installed() } else { not_built(&release) }
}

fn other_architecture() -> Refusal {
    let sentence = format!(
        "programs for {} read no registers that a module opens: that is for ARMv7 and AArch64",
        std::env::consts::ARCH
    );
    Refusal { cause: Cause::RegistersClosed, sentence, fix: None }
}

fn only_installed() -> Refusal {
    Refusal {
        cause: Cause::RegistersClosed,
        sentence: "the module pmu_user, which opens the registers, is not loaded".to_owned(),
        fix: Some(format!("sudo modprobe pmu_user {EVENTS}")),
    }
}

fn not_built(release: &str) -> Refusal {
    Refusal {
        cause: Cause::RegistersClosed,
        sentence: format!(
            "the module pmu_user, which opens the registers, is neither loaded nor installed for \
             this kernel ({release})"
        ),
        fix: Some(format!(
            "make -C /lib/modules/{release}/build M=$PWD/kmod/pmu_user modules && sudo insmod \
             kmod/pmu_user/pmu_user.ko {EVENTS}  # where linerate's sources are"
        )),
    }
}

/// What the module is told to count for the events that are counted by default.
const EVENTS: &str = "events=INST_RETIRED";

/// Turns of the loop that is counted, a cycle each at least; and the least that is counted of them.
const TURNS: u64 = 20_000;
const LEAST: u64 = TURNS / 4;

/// What the registers give, tried on an open CPU with work of known size; or why they give nothing.
pub fn examine(around: &Surroundings) -> Result<(Tier, String), Refusal> {
    let module = match module(around) {
        None => return Err(not_loaded(around)),
        Some(read) => read?,
    };
    let allowed = allowed_cpus().map_err(|error| closed(&error.to_string()))?;
    let open = module.open_cpus();
    let Some(&cpu) = allowed.iter().find(|cpu| open.contains(cpu)) else {
        return Err(match module.open_on(allowed[0]) {
            Err(refusal) => refusal,
            Ok(_) => closed("no CPU that this program may run on is open"),
        });
    };
    // On a thread of its own, for this one stays free to run anywhere.
    let counted = std::thread::scope(|scope| scope.spawn(move || count_cycles(cpu)).join());
    let counted = counted.unwrap_or_else(|_| Err("the thread that tried panicked".to_owned()));
    let cycles = counted.map_err(|why| closed(&why))?;
    if cycles < LEAST {
        let why = format!("{cycles} cycles were counted where at least {LEAST} went by");
        return Err(closed(&why));
    }
    let sentence = format!(
        "regions count without perf, by the registers that the module pmu_user opened on {}: {}; \
         a thread that counts stays on one of them",
        name_cpus(&open),
        module.counted()
    );
    Ok((module.tier(), sentence))
}

fn count_cycles(cpu: u32) -> Result<u64, String> {
    pin_current_thread(cpu).map_err(|error| error.to_string())?;
    let registers = Registers::new(Processor::new()?, &[(0, CYCLE_COUNTER)]);
    let registers = registers.ok_or("they are closed")?;
    let (mut first, mut second) = (Counts::default(), Counts::default());
    let before = registers.first(&mut first);
    (0..TURNS).for_each(|turn| {
        black_box(turn);
    });
    before.and(registers.second(&mut second)).ok_or("somebody closed them just now")?;
    Ok(second[0].wrapping_sub(first[0]))
}

#[cfg(test)]
pub(crate) mod tests;
