// SPDX-License-Identifier: MIT OR Apache-2.0
//! State of the kernel module `kmod/pmu_user`, read from /proc/pmu_user: which CPUs have accessible
//! PMU registers, and each counter's event.
//!
//! ```text
//! cpu N open B PMUSERENR X PMCR X counting X before PMUSERENR X PMCR X holder perf|none
//! ...                                                           one for each CPU that is online
//! counters N
//! counter N event X NAME|- [user]                              one for each event
//! counter 31 event 0x11 NAME|- [user]                          the cycle counter, always last
//! ```
//!
//! No other format is accepted: this text decides which registers are read, and reading an
//! inaccessible register raises SIGILL. [`registers`](crate::registers) reads the registers
//! themselves.

use crate::event::Event;
use crate::refusal::RegisterRefusal;
use linerate_linux::perf::{HARDWARE, RAW, Selector};
use linerate_record::Tier;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// Number of the cycle counter.
pub const CYCLE_COUNTER: u32 = 31;
/// Event number of cycles (ARM Architecture Reference Manual ARMv7, C12.8; Arm ARM for A-profile,
/// D13).
const CYCLES: u32 = 0x11;
/// Event number of instructions (in the same manuals as [`CYCLES`]).
const INSTRUCTIONS: u32 = 0x08;

/// PMUSERENR bit, as in `native/pmu/armv7.h`: user access is enabled.
const USER_ENABLE: u32 = 0x1;
/// PMCR bit, as in `native/pmu/armv7.h`: the counters are enabled.
const ENABLE: u32 = 0x1;
/// PMCR bit, as in `native/pmu/armv7.h`: the cycle counter counts every 64th cycle.
const DIVIDE: u32 = 0x8;
/// PMCR bit on AArch64 only: the cycle counter has 64 bits and ignores the divider.
const LONG_CYCLES: u32 = 0x40;

/// State of the `pmu_user` kernel module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Online CPUs, ascending.
    pub cpus: Vec<Cpu>,
    /// Event counters per CPU.
    pub counters: u32,
    /// Counters started by the module, in ascending order; the cycle counter is last.
    pub selected: Vec<Selected>,
}

/// PMU register state of an online CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// CPU number.
    pub number: u32,
    /// Whether the module enabled user access; other code may have disabled it since.
    is_opened: bool,
    user_enable: u32,
    control: u32,
    /// Bit mask of the counters that are counting.
    counting: u32,
}

/// A counter and its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// Counter number, or [`CYCLE_COUNTER`].
    pub counter: u32,
    /// Architectural event number.
    pub event: u32,
    /// Event name; `None` if the module has no names for this core.
    pub name: Option<String>,
    /// Whether kernel mode is excluded.
    pub is_user_only: bool,
}

/// The module's status file has an unexpected format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Number of the first invalid line, counted from 1.
    pub line: usize,
    /// Problem with the first invalid line.
    pub reason: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} {}", self.line, self.reason)
    }
}

/// The module's status file, relative to the root directory.
pub const FILE: &str = "proc/pmu_user";

/// Module state parsed from the status file [`FILE`], which exists while the module is loaded.
pub type PmuUser = Result<Module, Malformed>;

const CPU: &str = "cpu * open * PMUSERENR * PMCR * counting * before PMUSERENR * PMCR * holder *";
const COUNTER: &str = "counter * event * *";
const COUNTER_OF_USER: &str = "counter * event * * user";

/// Matches a line against a pattern. Returns the words at the pattern's wildcards (`*`); `None` if
/// the rest of the line differs.
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

    /// Returns whether programs on this CPU can currently read the counters.
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
}

impl Module {
    /// Reads the module's current state from /proc under the directory `root`; `None` if it is not
    /// loaded.
    pub fn loaded(root: &Path) -> Option<PmuUser> {
        match std::fs::read_to_string(root.join(FILE)) {
            Ok(text) => Some(Self::read(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            // The file exists but cannot be read, so the module is loaded and holds the counters.
            Err(_) => Some(Err(Malformed { line: 1, reason: "cannot be read" })),
        }
    }

    /// Parses the text of the status file.
    ///
    /// # Errors
    /// Returns [`Malformed`] with the first unexpected line.
    pub fn read(text: &str) -> Result<Self, Malformed> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let whole: Vec<&str> = lines.iter().filter_map(|line| line.strip_suffix('\n')).collect();
        let at = |line: usize, reason| Malformed { line: line + 1, reason };
        if whole.len() < lines.len() {
            return Err(at(whole.len(), "is incomplete"));
        }
        let cpus = whole.iter().take_while(|line| line.starts_with("cpu "));
        let cpus: Vec<Option<Cpu>> = cpus.map(|line| Cpu::read(line)).collect();
        if let Some(wrong) = cpus.iter().position(Option::is_none) {
            return Err(at(wrong, "does not describe a CPU"));
        }
        let cpus: Vec<Cpu> = cpus.into_iter().flatten().collect();
        let next = cpus.len();
        if next == 0 || !cpus.is_sorted_by(|a, b| a.number < b.number) {
            return Err(at(next, "must follow the CPU lines, in order"));
        }
        let counters = whole.get(next).and_then(|line| matched(line, "counters *"));
        let counters = counters.and_then(|[count]| decimal(count));
        let counters = counters.filter(|count| *count <= CYCLE_COUNTER);
        let counters = counters.ok_or(at(next, "does not give the number of counters"))?;
        let mut selected: Vec<Selected> = Vec::new();
        for (index, line) in whole.iter().enumerate().skip(next + 1) {
            let read = Selected::read(line).ok_or(at(index, "does not describe a counter"))?;
            let is_in_order = match read.counter {
                CYCLE_COUNTER => index + 1 == whole.len() && read.event == CYCLES,
                counter => counter < counters && counter as usize == selected.len(),
            };
            if !is_in_order {
                return Err(at(index, "describes a counter that does not belong there"));
            }
            selected.push(read);
        }
        match selected.last() {
            Some(Selected { counter: CYCLE_COUNTER, .. }) => Ok(Self { cpus, counters, selected }),
            _ => Err(at(whole.len(), "is missing; it should describe the cycle counter")),
        }
    }

    /// Returns the CPUs whose PMU registers are currently accessible.
    pub fn open_cpus(&self) -> Vec<u32> {
        self.cpus.iter().filter(|cpu| cpu.is_open()).map(|cpu| cpu.number).collect()
    }

    /// Returns the CPU with this number if its PMU registers are currently accessible.
    ///
    /// # Errors
    /// Returns [`RegisterRefusal::Closed`] if they are not, or if the CPU is not listed.
    pub fn open_on(&self, number: u32) -> Result<Cpu, RegisterRefusal> {
        let found = self.cpus.iter().find(|cpu| cpu.number == number);
        match found {
            Some(cpu) if cpu.is_open() => Ok(*cpu),
            found => Err(RegisterRefusal::Closed {
                cpu: number,
                was_opened: found.is_some_and(|cpu| cpu.is_opened),
            }),
        }
    }

    /// Returns which counter counts an event on this CPU, and the tier of its counts. With
    /// `user_only`, kernel mode must be excluded.
    ///
    /// # Errors
    /// Returns [`RegisterRefusal`] if the event has no number, if no counter is set to count it, or
    /// if its counter is stopped, uses the divider, or includes kernel mode although the request
    /// excludes it.
    pub fn counter_of(
        &self,
        cpu: &Cpu,
        event: &Event,
        user_only: bool,
    ) -> Result<(u32, Tier), RegisterRefusal> {
        let code = event_number(event.selector).ok_or(RegisterRefusal::NoNumber)?;
        let chosen = match code {
            CYCLES => self.selected.iter().find(|s| s.counter == CYCLE_COUNTER),
            _ => self.selected.iter().find(|selected| selected.event == code),
        };
        let chosen = chosen.ok_or(RegisterRefusal::NotSelected { user_only })?;
        if user_only && !chosen.is_user_only {
            return Err(RegisterRefusal::CountsKernelMode);
        }
        let is_divided = chosen.counter == CYCLE_COUNTER
            && cpu.control & DIVIDE != 0
            && cpu.control & LONG_CYCLES == 0;
        if !cpu.counts(chosen.counter) || is_divided {
            return Err(RegisterRefusal::Stopped { cpu: cpu.number });
        }
        let tier = if chosen.is_user_only { Tier::User } else { Tier::Hw };
        Ok((chosen.counter, tier))
    }

    /// Returns the evidence tier: `user` if every counter excludes kernel mode, otherwise `hw`.
    pub fn tier(&self) -> Tier {
        match self.selected.iter().all(|selected| selected.is_user_only) {
            true => Tier::User,
            false => Tier::Hw,
        }
    }
}

/// Returns whether an event occurs whenever a program executes instructions.
pub(crate) fn never_stops(event: &Event) -> bool {
    matches!(event_number(event.selector), Some(CYCLES | INSTRUCTIONS))
}

/// Returns an event's architectural number; `None` if no number selects it in a counter register.
pub fn event_number(selector: Selector) -> Option<u32> {
    match (selector.kind, selector.config) {
        (HARDWARE, 0) => Some(CYCLES),
        (HARDWARE, 1) => Some(INSTRUCTIONS),
        // Linux's own number for ARMv7's cycle counter (ARMV7_PERFCTR_CPU_CYCLES in Linux's
        // driver).
        (RAW, 0xff) if cfg!(target_arch = "arm") => Some(CYCLES),
        (RAW, code) => u32::try_from(code).ok().filter(|code| *code <= 0xffff),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests;
