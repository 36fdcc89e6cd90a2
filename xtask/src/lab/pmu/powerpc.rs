// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `kmod/pmc74xx` in Linux on an emulated MPC7455: checks that the registers hold the
//! selected events. Counts cannot be checked, because the emulator implements the registers but
//! does not count.

use super::super::linux_7455::{Linux, NAME};
use super::super::{Answer, Obstacle, note};
use super::{Extent, Page};
use crate::pmu::events::{Placed, powerpc};

const MODULE: &str = "pmc74xx";

/// One module load, whether it must succeed, and the expected messages.
struct Load {
    parameters: &'static str,
    works: bool,
    says: &'static [&'static str],
}

/// Module loads to try, with the expected messages.
const LOADS: [Load; 13] = [
    Load {
        parameters: "",
        works: true,
        says: &[
            "counter 1 selects 0x01 PM_CYC",
            "counter 2 selects 0x00 nothing",
            AS_WRITTEN,
            ZERO,
        ],
    },
    // Six events at once. An event that any counter can count leaves its counter to an event that
    // only one or two counters can count.
    Load {
        parameters: "events=PM_CYC,PM_INST_CMPL,PM_ST_CMPL,PM_L1_DCACHE_MISS,PM_L2_HIT,0x61d",
        works: true,
        says: &[
            "counter 1 selects 0x14 PM_ST_CMPL",
            "counter 2 selects 0x17 PM_L1_DCACHE_MISS",
            "counter 3 selects 0x01 PM_CYC",
            "counter 4 selects 0x02 PM_INST_CMPL",
            "counter 5 selects 0x02 PM_L2_HIT",
            "counter 6 selects 0x1d PM_L2_MISS",
            // Register values: 0x14 << 6 | 0x17; 1 << 27 | 2 << 22 | 2 << 17 | 0x1d << 11.
            "MMCR0 0x00000517 MMCR1 0x0884e800",
            "user's UMMCR0 0x00000517 UMMCR1 0x0884e800",
            AS_WRITTEN,
            "/proc: counter 6 selects 0x1d PM_L2_MISS count 0",
            ZERO,
        ],
    },
    // Two events that both counter 5 and counter 6 can count: each gets one of these counters,
    // whatever the order of assignment.
    Load {
        parameters: "events=PM_L2_HIT,0x505,PM_L1_DCACHE_MISS,PM_LD_CMPL",
        works: true,
        says: &[
            "counter 2 selects 0x1a PM_LD_CMPL",
            "counter 3 selects 0x17 PM_L1_DCACHE_MISS",
            "counter 5 selects 0x05 PM_L3_ICACHE_MISS",
            "counter 6 selects 0x02 PM_L2_HIT",
            AS_WRITTEN,
        ],
    },
    // MMCR0 holds 9 << 16 | 0x2b << 6 and the bit that stops counting in supervisor state.
    Load {
        parameters: "events=PM_LD_MISS_EXCEED_L1_CYC threshold=9 threshold_by_32=1 user_only=1",
        works: true,
        says: &["MMCR0 0x40090ac0", "MMCR2 0x80000000", AS_WRITTEN],
    },
    Load { parameters: "threshold=64", works: false, says: &["threshold=64: 0 to 63"] },
    Load {
        parameters: "events=pm_br_mpred,user_only=1",
        works: false,
        says: &["no event `user_only=1`"],
    },
    // The list in the message is complete: it ends with the table's last event.
    Load {
        parameters: "events=PM_BR_MPRD",
        works: false,
        says: &["the nearest is PM_BR_MPRED", "there are:", " PM_PREFETCH_FULL\n"],
    },
    Load {
        parameters: "events=1,1,1,1,1,1,1",
        works: false,
        says: &["7 events for 6 counters; leave 1 out"],
    },
    Load {
        parameters: "events=PM_ST_CMPL,PM_DATA_SNOOP,PM_MTVSCR_CMPL,PM_LD_CMPL",
        works: false,
        says: &["PM_LD_CMPL: only on 2, which earlier events use"],
    },
    Load {
        parameters: "events=0x17",
        works: false,
        says: &["no counter of this processor counts it"],
    },
    Load {
        parameters: "events=0x720",
        works: false,
        says: &["no counter of this processor counts it"],
    },
    Load {
        parameters: "events=0x33f",
        works: false,
        says: &["no counter of this processor counts it"],
    },
    // A valid load after the refused ones: those left nothing behind, and the registers were
    // restored.
    Load {
        parameters: "events=PM_BR_FOLDED",
        works: true,
        says: &["counter 4 selects 0x1d PM_BR_FOLDED", AS_WRITTEN, ZERO],
    },
];

const AS_WRITTEN: &str = ": as written";
const ZERO: &str = "all counts are 0, as an emulator's are; MMCR0 0x00000000 MMCR1 0x00000000";

/// Loads the module with each set of parameters in [`LOADS`], with every event, and on a processor
/// that lacks these counters.
pub(super) fn check(_: Extent, page: &mut Page) -> Result<(), Obstacle> {
    let linux = Linux::with(MODULE)?;
    let lines: Vec<String> =
        LOADS.iter().map(|load| format!("{MODULE}\t{}", load.parameters)).collect();
    let answers = linux.load("7455", &lines)?;
    for (load, answer) in LOADS.iter().zip(&answers) {
        judge(load, answer).map_err(|why| linux.fault("7455", &why))?;
    }
    let mut counted = Vec::new();
    for (processor, counters) in EVERY_EVENT {
        let table = powerpc(counters)?;
        check_every_event(&linux, processor, &table)?;
        counted.push(format!("{} events of a {processor}", table.len()));
    }
    let none =
        Load { parameters: "", works: false, says: &["has no counters that are supported here"] };
    let on_another = linux.load("750", &[MODULE.to_owned()])?;
    judge(&none, &on_another[0]).map_err(|why| linux.fault("750", &why))?;
    // The emulator counts nothing, so the counts are shown as null rather than 0.
    let output = answers[1].output.replace(" count 0\n", " count null\n");
    let shown = format!("# insmod {MODULE}.ko {}\n{output}", LOADS[1].parameters);
    page.add(format!("{NAME}, with the module {MODULE}"), &shown);
    note(&format!(
        "RESULT PASS linux-7455: {MODULE} finds a counter for each of {}, reads registers back as \
         written, leaks no memory and causes no warnings in repeated loads, refuses {} wrong \
         parameters, and refuses to load on a 750; counts are null, because the emulator counts \
         nothing",
        counted.join(" and for each of "),
        LOADS.iter().filter(|load| !load.works).count()
    ));
    Ok(())
}

/// Processors with their number of counters.
const EVERY_EVENT: [(&str, u32); 2] = [("7455", 6), ("7400", 4)];

/// Loads the module once per event; the first load lists all events. Reads the kernel's memory use
/// before and after.
fn check_every_event(linux: &Linux, processor: &str, table: &[Placed]) -> Result<(), Obstacle> {
    let line = |event: &Placed| format!("{MODULE}\tevents={}", event.name);
    let mut lines: Vec<String> = table.iter().map(line).collect();
    lines[0] += &format!("\t{MODULE}_events");
    let memory = format!("{MODULE}\t\tvmallocinfo");
    lines.insert(0, memory.clone());
    lines.push(memory);
    let answers = linux.load(processor, &lines)?;
    let (before, events, then) =
        (&answers[0], &answers[1..=table.len()], &answers[lines.len() - 1]);
    let mut judged = table.iter().zip(events).map(|(event, answer)| selects(event, answer));
    let judged = judged.find(Result::is_err).unwrap_or(Ok(()));
    judged
        .and_then(|()| table.iter().try_for_each(|event| lists(event, &events[0])))
        .and_then(|()| keeps_nothing(before, then, table.len()))
        .and_then(|()| answers.iter().try_for_each(warns_of_nothing))
        .map_err(|why| linux.fault(processor, &why))
}

/// Checks that `loads` loads leaked fewer than `loads` kernel memory areas; a module has several.
fn keeps_nothing(before: &Answer, then: &Answer, loads: usize) -> Result<(), String> {
    let areas = |answer: &Answer| {
        answer.output.lines().filter(|line| line.starts_with("/proc: 0x")).count()
    };
    match (areas(before), areas(then)) {
        (0, _) | (_, 0) => Err("the kernel does not report its memory use".to_owned()),
        (before, then) if then >= before + loads => {
            Err(format!("memory leak: {before} vmalloc areas before the test, {then} after it"))
        }
        _ => Ok(()),
    }
}

fn warns_of_nothing(answer: &Answer) -> Result<(), String> {
    let warning = |line: &&str| {
        ["WARNING", "BUG", "Oops", "Call Trace"].iter().any(|word| line.contains(word))
    };
    match answer.output.lines().find(warning) {
        Some(line) => Err(format!("the kernel warned: {line}")),
        None => Ok(()),
    }
}

/// Checks that a counter was found for an event, and that the registers contain its selection.
fn selects(event: &Placed, answer: &Answer) -> Result<(), String> {
    let Answer { status, output, errors, .. } = answer;
    let is_place = |(counter, selection): &(u32, u32)| {
        output.contains(&format!("counter {counter} selects {selection:#04x} {}\n", event.name))
    };
    let is_right = *status == 0 && event.places.iter().any(is_place);
    match is_right && output.contains(AS_WRITTEN) && output.contains(ZERO) {
        true => Ok(()),
        false => Err(format!("{} was not selected: {output}{errors}", event.name)),
    }
}

/// Checks that the list of events contains `event` with all its counters.
fn lists(event: &Placed, answer: &Answer) -> Result<(), String> {
    let mut places = event.places.clone();
    places.sort_unstable();
    let places = places.iter().map(|(counter, selection)| format!(" {counter}:{selection:#04x}"));
    let begin = format!("/proc: {}{} ", event.name, places.collect::<String>());
    match answer.output.lines().any(|line| line.starts_with(&begin) && line.ends_with(['.', ')'])) {
        true => Ok(()),
        false => Err(format!("no line begins with `{begin}`")),
    }
}

fn judge(load: &Load, answer: &Answer) -> Result<(), String> {
    let Answer { status, output, errors, .. } = answer;
    let said = || format!("`{}` printed {output}{errors}", load.parameters);
    if (*status == 0) != load.works {
        return Err(format!("status {status}; {}", said()));
    }
    match load.says.iter().find(|what| !output.contains(**what)) {
        Some(what) => Err(format!("the output lacks `{what}`; {}", said())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        AS_WRITTEN, Answer, LOADS, Placed, ZERO, judge, keeps_nothing, lists, selects,
        warns_of_nothing,
    };

    fn answer(status: i32, output: &str) -> Answer {
        Answer { status, output: output.to_owned(), ..Answer::default() }
    }

    #[test]
    fn silence_and_a_wrong_status_are_found() {
        let load = LOADS.iter().find(|load| !load.works).expect("a load that fails");
        let output = load.says.concat();
        assert_eq!(judge(load, &answer(1, &output)), Ok(()));
        assert!(judge(load, &answer(0, &output)).is_err());
        assert!(judge(load, &answer(1, "")).is_err());
    }

    #[test]
    fn an_event_on_a_counter_that_lacks_it_is_found() {
        let event = Placed { name: "PM_A".to_owned(), places: vec![(6, 0x1d), (5, 0x13)] };
        let said = |counter: &str| answer(0, &format!("counter {counter}\n{AS_WRITTEN}\n{ZERO}\n"));
        assert_eq!(selects(&event, &said("5 selects 0x13 PM_A")), Ok(()));
        assert_eq!(selects(&event, &said("6 selects 0x1d PM_A")), Ok(()));
        for wrong in ["5 selects 0x1d PM_A", "4 selects 0x13 PM_A", "5 selects 0x13 PM_AB"] {
            assert!(selects(&event, &said(wrong)).is_err(), "{wrong}");
        }
        let list = |line: &str| lists(&event, &answer(0, line));
        assert_eq!(list("/proc: PM_A 5:0x13 6:0x1d What it counts.\n"), Ok(()));
        assert!(list("/proc: PM_A 5:0x13 What it counts.\n").is_err());
        assert!(list("/proc: PM_A 5:0x13 6:0x1d What it\n").is_err(), "cut");
    }

    #[test]
    fn memory_that_is_kept_and_warnings_are_found() {
        let areas = |count: usize| answer(0, &"/proc: 0xc9000000-0xc9002000 8192\n".repeat(count));
        assert_eq!(keeps_nothing(&areas(40), &areas(45), 10), Ok(()));
        assert!(keeps_nothing(&areas(40), &areas(50), 10).is_err());
        assert!(keeps_nothing(&areas(40), &areas(0), 10).is_err());
        assert_eq!(warns_of_nothing(&answer(0, "<6>pmc74xx: counter 1\n")), Ok(()));
        assert!(warns_of_nothing(&answer(0, "<4>WARNING: CPU: 0 at\n")).is_err());
    }
}
