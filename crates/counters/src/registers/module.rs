// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the module `kmod/pmu_user` says of itself in /proc/pmu_user, and what follows from it:
//! which CPU's registers are open, and which counter counts an event.
//!
//! ```text
//! cpu N open B PMUSERENR X PMCR X counting X before PMUSERENR X PMCR X holder perf|none
//! ...                                                           one for each CPU that is online
//! counters N
//! counter N event X NAME|- [user]                              one for each event
//! counter 31 event 0x11 NAME|- [user]                          the cycle counter, always last
//! ```
//!
//! Nothing else is taken: a register is read on the word of this text, and where it is closed the
//! read is an illegal instruction. Left out: reading them ([`registers`](crate::registers)).

use crate::event::Event;
use crate::refusal::{Cause, Refusal};
use linerate_linux::perf::{HARDWARE, RAW, Selector};
use linerate_record::Tier;
use std::fmt;

/// The number of the cycle counter among counters, and of cycles and instructions among events (ARM
/// Architecture Reference Manual ARMv7, C12.8; Arm ARM for A-profile, D13).
pub(crate) const CYCLE_COUNTER: u32 = 31;
const CYCLES: u32 = 0x11;
const INSTRUCTIONS: u32 = 0x08;

/// Bits of PMUSERENR and PMCR, as `native/pmu/armv7.h` has them: programs may; counters count; the
/// cycle counter counts every 64th.
const USER_ENABLE: u32 = 0x1;
const ENABLE: u32 = 0x1;
const DIVIDE: u32 = 0x8;
/// AArch64's alone: cycles in 64 bits, for which there is no divider.
const LONG_CYCLES: u32 = 0x40;

/// What the module says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) cpus: Vec<Cpu>,
    /// How many event counters a CPU has.
    pub(crate) counters: u32,
    /// The event counters in use, and the cycle counter.
    pub(crate) selected: Vec<Selected>,
}

/// A CPU that is online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub(crate) number: u32,
    /// Whether the module opened it; somebody else may have closed it since.
    is_opened: bool,
    user_enable: u32,
    control: u32,
    /// A bit for each counter.
    counting: u32,
}

/// A counter and what it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    pub(crate) counter: u32,
    event: u32,
    /// `None` where the module has no names for this core.
    name: Option<String>,
    is_user_only: bool,
}

/// Text that the module does not write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// From 1.
    line: usize,
    reason: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} {}", self.line, self.reason)
    }
}

const CPU: &str = "cpu * open * PMUSERENR * PMCR * counting * before PMUSERENR * PMCR * holder *";
const COUNTER: &str = "counter * event * *";
const COUNTER_OF_USER: &str = "counter * event * * user";

/// The words at the stars of a pattern, if the others are the line's.
fn matched<'a, const N: usize>(line: &'a str, pattern: &str) -> Option<[&'a str; N]> {
    let (mut words, mut found, mut at) = (line.split(' '), [""; N], 0);
    for expected in pattern.split(' ') {
        let word = words.next()?;
        match expected {
            "*" => {
                *found.get_mut(at)? = word;
                at += 1;
            }
            _ if word != expected => return None,
            _ => {}
        }
    }
    (words.next().is_none() && at == N).then_some(found)
}

fn decimal(word: &str) -> Option<u32> {
    word.parse().ok().filter(|_| word.bytes().all(|digit| digit.is_ascii_digit()))
}

fn hexadecimal(word: &str) -> Option<u32> {
    let digits = word.strip_prefix("0x")?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| is_number)
}

impl Cpu {
    fn read(line: &str) -> Option<Self> {
        let [number, open, user_enable, control, counting, user_before, control_before, holder] =
            matched(line, CPU)?;
        hexadecimal(user_before).and(hexadecimal(control_before))?;
        let is_opened = match open {
            "0" => false,
            "1" => true,
            _ => return None,
        };
        matches!(holder, "perf" | "none").then_some(())?;
        Some(Self {
            number: decimal(number)?,
            is_opened,
            user_enable: hexadecimal(user_enable)?,
            control: hexadecimal(control)?,
            counting: hexadecimal(counting)?,
        })
    }

    /// Whether a program on this CPU may read now, and there is something to read.
    fn is_open(&self) -> bool {
        self.is_opened && self.user_enable & USER_ENABLE != 0 && self.control & ENABLE != 0
    }

    fn counts(&self, counter: u32) -> bool {
        self.counting >> counter & 1 == 1
    }
}

impl Selected {
    fn read(line: &str) -> Option<Self> {
        let ([counter, event, name], is_user_only) = match matched(line, COUNTER) {
            Some(words) => (words, false),
            None => (matched(line, COUNTER_OF_USER)?, true),
        };
        let is_name = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
        let name = match name {
            "-" => None,
            name if !name.is_empty() && name.bytes().all(is_name) => Some(name.to_owned()),
            _ => return None,
        };
        let (counter, event) = (decimal(counter)?, hexadecimal(event)?);
        (event <= 0xffff).then_some(Self { counter, event, name, is_user_only })
    }

    /// As a load of the module takes it.
    fn parameter(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("{:#x}", self.event))
    }
}

impl Module {
    /// Reads what the module says.
    pub(crate) fn read(text: &str) -> Result<Self, Malformed> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let whole: Vec<&str> = lines.iter().filter_map(|line| line.strip_suffix('\n')).collect();
        let at = |line: usize, reason| Malformed { line: line + 1, reason };
        if whole.len() < lines.len() {
            return Err(at(whole.len(), "does not end"));
        }
        let cpus = whole.iter().take_while(|line| line.starts_with("cpu "));
        let cpus: Vec<Option<Cpu>> = cpus.map(|line| Cpu::read(line)).collect();
        if let Some(wrong) = cpus.iter().position(Option::is_none) {
            return Err(at(wrong, "is not that of a CPU"));
        }
        let cpus: Vec<Cpu> = cpus.into_iter().flatten().collect();
        let next = cpus.len();
        if next == 0 || !cpus.is_sorted_by(|a, b| a.number < b.number) {
            return Err(at(next, "comes without its CPUs, or they are in no order"));
        }
        let counters = whole.get(next).and_then(|line| matched(line, "counters *"));
        let counters = counters.and_then(|[count]| decimal(count));
        let counters = counters.filter(|count| *count <= CYCLE_COUNTER);
        let counters = counters.ok_or(at(next, "does not say how many counters there are"))?;
        let mut selected: Vec<Selected> = Vec::new();
        for (index, line) in whole.iter().enumerate().skip(next + 1) {
            let read = Selected::read(line).ok_or(at(index, "is not that of a counter"))?;
            let is_in_order = match read.counter {
                CYCLE_COUNTER => index + 1 == whole.len() && read.event == CYCLES,
                counter => counter < counters && counter as usize == selected.len(),
            };
            if !is_in_order {
                return Err(at(index, "is of a counter that does not come there"));
            }
            selected.push(read);
        }
        match selected.last() {
            Some(Selected { counter: CYCLE_COUNTER, .. }) => Ok(Self { cpus, counters, selected }),
            _ => Err(at(whole.len(), "is missing: that of the cycle counter")),
        }
    }

    /// The CPUs whose registers are open now.
    pub(crate) fn open_cpus(&self) -> Vec<u32> {
        self.cpus.iter().filter(|cpu| cpu.is_open()).map(|cpu| cpu.number).collect()
    }

    /// The CPU of this number, if its registers are open.
    pub(crate) fn open_on(&self, number: u32) -> Result<Cpu, Refusal> {
        let found = self.cpus.iter().find(|cpu| cpu.number == number);
        let why = match found {
            Some(cpu) if cpu.is_open() => return Ok(*cpu),
            Some(cpu) if cpu.is_opened => {
                format!("somebody closed the counters of CPU {number} behind the module's back")
            }
            _ => format!("the module did not open the counters of CPU {number}"),
        };
        Err(Refusal {
            cause: Cause::RegistersClosed,
            sentence: format!("{why} (perf does when it is asked to count there)"),
            fix: Some(self.reload(None, false)),
        })
    }

    /// The counter of an event on this CPU, and what it rests on. `user_only`: that of kernel mode
    /// is not wanted.
    pub(crate) fn counter_of(
        &self,
        cpu: &Cpu,
        event: &Event,
        user_only: bool,
    ) -> Result<(u32, Tier), Refusal> {
        let refused =
            |sentence: String, fix| Refusal { cause: Cause::NotSelected, sentence, fix: Some(fix) };
        let name = &event.name;
        let Some(code) = code_of(event.selector) else {
            let sentence = format!("`{name}` has no number that a counter's register takes");
            return Err(refused(sentence, "linerate stat --list".to_owned()));
        };
        let chosen = match code {
            CYCLES => self.selected.iter().find(|s| s.counter == CYCLE_COUNTER),
            _ => self.selected.iter().find(|selected| selected.event == code),
        };
        let Some(chosen) = chosen else {
            let sentence = format!("the module pmu_user has no counter select `{name}`");
            return Err(refused(sentence, self.selecting(event, code, user_only)));
        };
        if user_only && !chosen.is_user_only {
            let sentence =
                format!("the module pmu_user counts `{name}` in the kernel too, unlike asked for");
            return Err(refused(sentence, self.reload(None, true)));
        }
        let is_divided = chosen.counter == CYCLE_COUNTER
            && cpu.control & DIVIDE != 0
            && cpu.control & LONG_CYCLES == 0;
        if !cpu.counts(chosen.counter) || is_divided {
            return Err(Refusal {
                cause: Cause::RegistersClosed,
                sentence: format!(
                    "somebody stopped or slowed the counter of `{name}` on CPU {} behind the \
                     module's back",
                    cpu.number
                ),
                fix: Some(self.reload(None, false)),
            });
        }
        let tier = if chosen.is_user_only { Tier::User } else { Tier::Hw };
        Ok((chosen.counter, tier))
    }

    /// The commands that select an event besides those that are, or instead where there is no room.
    fn selecting(&self, event: &Event, code: u32, user_only: bool) -> String {
        let has_names = self.selected.iter().any(|selected| selected.name.is_some());
        let native = event.native.as_deref().and_then(|native| native.split(' ').next());
        let parameter = native.filter(|_| has_names).map(str::to_owned);
        let parameter = parameter.unwrap_or_else(|| format!("{code:#x}"));
        let is_full = self.selected.len() > self.counters as usize;
        match is_full {
            true => format!(
                "{} events={parameter}  # and at most {} more, for each takes a counter",
                self.unload_and_load(user_only),
                self.counters.saturating_sub(1)
            ),
            false => self.reload(Some(&parameter), user_only),
        }
    }

    /// The commands that load the module anew, with this event as well.
    fn reload(&self, adding: Option<&str>, user_only: bool) -> String {
        let events = self.selected.iter().filter(|selected| selected.counter != CYCLE_COUNTER);
        let events: Vec<String> =
            events.map(Selected::parameter).chain(adding.map(str::to_owned)).collect();
        match events.is_empty() {
            true => self.unload_and_load(user_only),
            false => format!("{} events={}", self.unload_and_load(user_only), events.join(",")),
        }
    }

    fn unload_and_load(&self, user_only: bool) -> String {
        let is_user_only = user_only || self.selected.iter().any(|s| s.is_user_only);
        let mode = if is_user_only { " user_only=1" } else { "" };
        format!("sudo rmmod pmu_user && sudo insmod pmu_user.ko{mode}")
    }

    /// What is counted, in words: `CPU_CYCLES, INST_RETIRED in user mode`.
    pub(crate) fn counted(&self) -> String {
        let names: Vec<String> = self.selected.iter().rev().map(Selected::parameter).collect();
        let is_user_only = self.selected.iter().all(|selected| selected.is_user_only);
        names.join(", ") + if is_user_only { " in user mode" } else { "" }
    }

    /// What counts rest on.
    pub(crate) fn tier(&self) -> Tier {
        match self.selected.iter().all(|selected| selected.is_user_only) {
            true => Tier::User,
            false => Tier::Hw,
        }
    }
}

/// Whether an event happens wherever instructions of a program are carried out.
pub(crate) fn never_stops(event: &Event) -> bool {
    matches!(code_of(event.selector), Some(CYCLES | INSTRUCTIONS))
}

/// The architecture's number of an event.
fn code_of(selector: Selector) -> Option<u32> {
    match (selector.kind, selector.config) {
        (HARDWARE, 0) => Some(CYCLES),
        (HARDWARE, 1) => Some(INSTRUCTIONS),
        // Linux' own number for ARMv7's cycle counter (ARMV7_PERFCTR_CPU_CYCLES of its driver).
        (RAW, 0xff) if cfg!(target_arch = "arm") => Some(CYCLES),
        (RAW, code) => u32::try_from(code).ok().filter(|code| *code <= 0xffff),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::event::Class;
    use proptest::prelude::*;

    /// As the guest with a Cortex-A57 and two CPUs showed it, the second closed by perf.
    pub(crate) const TEXT: &str = concat!(
        "cpu 0 open 1 PMUSERENR 0x1 PMCR 0x41013041 counting 0x80000003 before PMUSERENR 0x0 ",
        "PMCR 0x41013040 holder perf\n",
        "cpu 1 open 1 PMUSERENR 0x0 PMCR 0x41013041 counting 0x80000003 before PMUSERENR 0x0 ",
        "PMCR 0x41013040 holder none\n",
        "counters 6\n",
        "counter 0 event 0x8 INST_RETIRED user\n",
        "counter 1 event 0x11f - user\n",
        "counter 31 event 0x11 CPU_CYCLES user\n",
    );

    fn module() -> Module {
        Module::read(TEXT).unwrap()
    }

    pub(crate) fn event(name: &str, selector: Selector) -> Event {
        Event {
            name: name.to_owned(),
            native: Some(format!("{} ({:#04x})", name.to_uppercase(), selector.config)),
            unit: "events",
            class: Class::Hardware,
            selector,
            is_user_only: false,
        }
    }

    #[test]
    fn what_the_module_says_is_understood() {
        let module = module();
        assert_eq!((module.counters, module.open_cpus()), (6, vec![0]));
        assert_eq!(module.cpus[1].number, 1);
        let selected: Vec<_> =
            module.selected.iter().map(|s| (s.counter, s.event, s.name.as_deref())).collect();
        let names = [(0, 8, Some("INST_RETIRED")), (1, 0x11f, None), (31, 17, Some("CPU_CYCLES"))];
        assert_eq!(selected, names);
        assert_eq!(module.counted(), "CPU_CYCLES, 0x11f, INST_RETIRED in user mode");
        assert_eq!(module.tier(), Tier::User);
        let kernel = Module::read(&TEXT.replace(" user", "")).unwrap();
        assert_eq!((kernel.tier(), kernel.counted().contains("user")), (Tier::Hw, false));
    }

    #[test]
    fn text_that_is_cut_anywhere_is_refused() {
        for end in 0..TEXT.len() {
            assert!(Module::read(&TEXT[..end]).is_err(), "{}", &TEXT[..end]);
        }
    }

    #[test]
    fn text_that_the_module_does_not_write_is_refused_with_its_line() {
        for (from, to, line) in [
            ("cpu 0 open", "cpu 1 open", 3),
            ("cpu 0 open", "cpu +0 open", 1),
            ("cpu 1 open 1", "cpu 1 open 2", 2),
            ("open 1 PMUSERENR", "open 1  PMUSERENR", 1),
            ("PMUSERENR 0x1 ", "PMUSERENR 1 ", 1),
            ("PMUSERENR 0x1 ", "PMUSERENR 0x+1 ", 1),
            ("PMUSERENR 0x1 ", "PMUSERENR 0x ", 1),
            ("PMCR 0x41013041", "PMCR 0x410130410", 1),
            ("holder none", "holder me", 2),
            ("holder perf", "holder perf again", 1),
            ("counters 6", "counters 1", 5),
            ("counters 6", "counters 60", 3),
            ("counters 6\n", "", 3),
            ("counter 0 ", "counter 1 ", 4),
            ("counter 1 ", "counter 31 ", 5),
            ("event 0x8 ", "event 0x10008 ", 4),
            ("INST_RETIRED user", "INST_RETIRED kernel", 4),
            ("INST_RETIRED", "INST-RETIRED", 4),
            ("event 0x11 ", "event 0x8 ", 6),
            ("counter 31 event 0x11 CPU_CYCLES user\n", "", 6),
            ("CPU_CYCLES user\n", "CPU_CYCLES user\n\n", 6),
            ("CPU_CYCLES user", "CPU_CYCLES user\r", 6),
        ] {
            assert!(TEXT.contains(from), "{from}");
            let found = Module::read(&TEXT.replacen(from, to, 1));
            assert_eq!(found.as_ref().map_err(|wrong| wrong.line), Err(line), "{from}, {to}");
        }
        assert_eq!(Module::read("").unwrap_err().line, 1);
        let cut = Module::read("cpu 0").unwrap_err();
        assert_eq!(cut.to_string(), "line 1 does not end");
    }

    #[test]
    fn a_closed_cpu_is_refused_with_what_opens_it() {
        let module = module();
        assert!(module.open_on(0).is_ok());
        let closed = module.open_on(1).unwrap_err();
        assert!(closed.sentence.contains("behind the module's back"), "{closed:?}");
        let fix = "sudo rmmod pmu_user && sudo insmod pmu_user.ko user_only=1 \
                   events=INST_RETIRED,0x11f";
        assert_eq!((closed.cause, closed.fix.as_deref()), (Cause::RegistersClosed, Some(fix)));
        let unknown = module.open_on(7).unwrap_err();
        assert!(unknown.sentence.contains("did not open the counters of CPU 7"), "{unknown:?}");
        let stopped = Module::read(&TEXT.replace("PMCR 0x41013041", "PMCR 0x41013040")).unwrap();
        assert!(stopped.open_on(0).is_err());
    }

    #[test]
    fn an_event_is_found_by_its_number() {
        let module = module();
        let cpu = module.open_on(0).unwrap();
        let counter = |selector| module.counter_of(&cpu, &event("e", selector), true);
        let found = |selector| counter(selector).map_err(|refusal| refusal.cause);
        let user = |counter| Ok((counter, Tier::User));
        assert_eq!(found(Selector::new(RAW, 8)), user(0));
        assert_eq!(found(Selector::new(HARDWARE, 1)), user(0));
        assert_eq!(found(Selector::new(RAW, 0x11f)), user(1));
        assert_eq!(found(Selector::new(RAW, 0x11)), user(31));
        assert_eq!(found(Selector::new(HARDWARE, 0)), user(31));
        // The kernel's own numbers, and more than a register takes.
        for other in [Selector::new(HARDWARE, 3), Selector::new(3, 8), Selector::new(RAW, 1 << 20)]
        {
            assert_eq!(found(other), Err(Cause::NotSelected));
        }
    }

    #[test]
    fn an_event_that_is_not_selected_is_refused_with_the_line_that_selects_it() {
        let missing = event("l1d_cache_refill", Selector::new(RAW, 3));
        let fix = |text: &str, user_only| {
            let module = Module::read(text).unwrap();
            let cpu = module.open_on(0).unwrap();
            let refusal = module.counter_of(&cpu, &missing, user_only).unwrap_err();
            assert_eq!(refusal.cause, Cause::NotSelected);
            assert!(refusal.sentence.contains("no counter select `l1d_cache_refill`"));
            refusal.fix.unwrap()
        };
        assert_eq!(
            fix(TEXT, true),
            "sudo rmmod pmu_user && sudo insmod pmu_user.ko user_only=1 \
             events=INST_RETIRED,0x11f,L1D_CACHE_REFILL"
        );
        let kernel = TEXT.replace(" user", "");
        assert!(
            fix(&kernel, false).ends_with("pmu_user.ko events=INST_RETIRED,0x11f,L1D_CACHE_REFILL")
        );
        let nameless = kernel.replace("CPU_CYCLES", "-").replace("INST_RETIRED", "-");
        assert!(fix(&nameless, false).ends_with("events=0x8,0x11f,0x3"));
        let full = kernel.replace("counters 6", "counters 2");
        assert!(fix(&full, false).contains("events=L1D_CACHE_REFILL  # and at most 1 more"));
    }

    #[test]
    fn what_counts_otherwise_than_asked_is_refused() {
        let instructions = event("instructions", Selector::new(RAW, 8));
        let cycles = event("cycles", Selector::new(RAW, 0x11));
        let refused = |text: &str, event: &Event, user_only| {
            let module = Module::read(text).unwrap();
            let cpu = module.open_on(0).unwrap();
            module.counter_of(&cpu, event, user_only).unwrap_err()
        };
        let kernel = refused(&TEXT.replace(" user", ""), &instructions, true);
        assert!(kernel.fix.unwrap().contains("user_only=1 events=INST_RETIRED"));
        let stopped = TEXT.replace("counting 0x80000003", "counting 0x80000002");
        assert_eq!(refused(&stopped, &instructions, true).cause, Cause::RegistersClosed);
        // 32 bits by the divider; with 64 there is none.
        let divided = TEXT.replace("PMCR 0x41013041", "PMCR 0x41013009");
        assert_eq!(refused(&divided, &cycles, true).cause, Cause::RegistersClosed);
        let long = Module::read(&TEXT.replace("PMCR 0x41013041", "PMCR 0x41013049")).unwrap();
        assert!(long.counter_of(&long.open_on(0).unwrap(), &cycles, true).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        /// A letter changed is never an open register that was closed, or another counter.
        #[test]
        fn text_survives_anything(at in 0..TEXT.len(), to in "[ -~\n]") {
            let mut text = TEXT.to_owned();
            text.replace_range(at..=at, &to);
            if let Ok(read) = Module::read(&text) {
                prop_assert_eq!(read.cpus.len(), 2);
                prop_assert_eq!(read.selected.last().unwrap().counter, CYCLE_COUNTER);
            }
        }
    }
}
