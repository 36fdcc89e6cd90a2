// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kmod/pmu_user` in the guests: what the tutorial's programs count in a process of Linux while it
//! is loaded and while it is not, beside perf, and what it refuses; and regions, which count by the
//! registers while it is loaded and by perf otherwise.

use super::super::guest::{Answer, Guest, PLAIN, Question, Variation};
use super::super::{GUESTS, Obstacle, compiler, module, note, unpack};
use super::{Extent, Page, judge, regions};
use crate::command::{output, program, root};
use crate::fetch::{TAG, write};
use std::fs;
use std::path::{Path, PathBuf};

/// The module, and the program that counts.
const MODULE: &str = "pmu_user";
const PROGRAM: &str = "pmu_programs";

impl Extent {
    /// How often the module is loaded and unloaded in a row.
    fn loads(self) -> u32 {
        match self {
            Self::Brief => 10,
            Self::Full => 100,
        }
    }

    /// The rounds of what the module is for.
    fn rounds(self) -> &'static [&'static str] {
        match self {
            Self::Brief => &["a"],
            Self::Full => &["a", "b"],
        }
    }

    fn processors(self, guest: &Guest) -> &'static [u32] {
        match self {
            Self::Brief if guest.yields => &[2],
            Self::Brief => &[1],
            Self::Full => &[1, 2],
        }
    }
}

/// Checks every guest; what held, a sentence each.
pub(super) fn check(extent: Extent, page: &mut Page) -> Result<(), Obstacle> {
    for guest in &GUESTS {
        let files = Files::of(guest)?;
        for &processors in extent.processors(guest) {
            let is_exact = processors == 1 || guest.yields;
            let how = Variation { processors, is_exact, ..PLAIN };
            files.check(&how, extent, page)?;
            if is_exact {
                files.check_repeats(&how, extent, page)?;
            }
        }
        if guest.counters.is_some() {
            files.check_without_driver()?;
        }
        if matches!(extent, Extent::Brief) {
            continue;
        }
        files.check_without_counters()?;
    }
    Ok(())
}

/// A guest with what it is given.
struct Files {
    guest: &'static Guest,
    prefix: PathBuf,
    files: Vec<PathBuf>,
    /// Instructions of a turn of the program in C.
    turn: u64,
}

impl Files {
    fn of(guest: &'static Guest) -> Result<Self, Obstacle> {
        let (mut packages, prefix) = unpack(guest)?;
        let module = module::build_for(&mut packages, guest, &prefix, MODULE)?;
        let mut files = compiler::build(&mut packages, guest.triple, guest.busybox.architecture)?;
        let program = build_program(guest)?;
        let mut objdump = tool(guest, "objdump", &["--disassemble=program_c_loop"]);
        objdump.arg(&program);
        let listing = String::from_utf8_lossy(&output(objdump)?).into_owned();
        let turn = judge::loop_of("program_c_loop", &listing)?;
        files.extend([module, program]);
        Ok(Self { guest, prefix, files, turn })
    }

    fn ask(&self, how: &Variation, plan: &[Question]) -> Result<Answers, Obstacle> {
        let answers = self.guest.ask_varied(&self.prefix, &self.files, plan, how)?;
        Ok(Answers { answers, turn: self.turn, is_exact: how.is_exact })
    }

    fn fault(&self, how: &Variation, why: &str) -> Obstacle {
        let log = self.prefix.with_extension("log");
        let Variation { processors, .. } = how;
        Obstacle::Failed(format!(
            "{}, {processors} processors, {MODULE}: {why}; its console is in {}",
            self.guest.name,
            log.display()
        ))
    }

    /// In rounds: closed, open, beside perf, off and on again, closed. Then what must be refused.
    fn check(&self, how: &Variation, extent: Extent, page: &mut Page) -> Result<(), Obstacle> {
        let Variation { processors, .. } = *how;
        let (rounds, loads) = (extent.rounds(), extent.loads());
        let mut plan = Vec::new();
        plan.extend(rounds.iter().flat_map(|name| round(name, processors)));
        plan.extend(refusals());
        plan.extend(repeated(loads));
        let answers = self.ask(how, &plan)?;
        let judged = rounds
            .iter()
            .try_for_each(|name| answers.round(name, processors, self.guest))
            .and_then(|()| answers.refusals())
            .and_then(|()| answers.repeated(loads));
        judged.map_err(|why| self.fault(how, &why))?;
        if processors == 1 {
            answers.show(self.guest, page);
        }
        let counted = match how.is_exact {
            true => "counts by registers and by perf are equal, to the instruction, in regions too",
            false => {
                "programs run and cycles move on both, instructions null: the emulator counts none \
                 of several processors here"
            }
        };
        note(&format!(
            "RESULT PASS {}, processors {processors}, rounds {}: {MODULE} opens the counters and \
             closes them; {counted}; refuses while perf counts; loaded {loads} times without a \
             warning",
            self.guest.name,
            rounds.len()
        ));
        Ok(())
    }

    /// Starts it several times: the whole console, the kernel's times included, must be the same.
    fn check_repeats(
        &self,
        how: &Variation,
        extent: Extent,
        page: &mut Page,
    ) -> Result<(), Obstacle> {
        let log = self.prefix.with_extension("log");
        let start = || {
            self.ask(how, &repeated_start())?.counts("open")?;
            fs::read(&log).map_err(|error| Obstacle::Failed(format!("{}: {error}", log.display())))
        };
        let first = start()?;
        for _ in 1..extent.runs() {
            if start()? != first {
                return Err(self.fault(how, "two runs differ"));
            }
        }
        let name = format!("{}, processors {}", self.guest.name, how.processors);
        page.repeats(&name, extent.runs(), first.len());
        Ok(())
    }

    /// As on a board whose device tree does not name the counters: nobody to agree with.
    fn check_without_driver(&self) -> Result<(), Obstacle> {
        let how = Variation { names_counters: false, ..PLAIN };
        let plan = [
            question("closed", "registers 0"),
            command("load", &load("events=INST_RETIRED user_only=1")),
            command("state", "cat /proc/pmu_user"),
            question("open", "registers 0"),
            regions::asked("regions", 0),
            command("unload", "rmmod pmu_user"),
            question("closed again", "registers 0"),
            regions::asked("regions closed", 0),
        ];
        let answers = self.ask(&how, &plan)?;
        let judged = answers
            .is_closed("closed")
            .and_then(|()| answers.says("state", "holder none"))
            .and_then(|()| answers.counts("open"))
            .and_then(|()| answers.regions("regions", regions::exact))
            .and_then(|()| answers.is_closed("closed again"))
            .and_then(|()| answers.regions("regions closed", regions::no_driver));
        judged.map_err(|why| self.fault(&how, &why))?;
        let name = self.guest.name;
        note(&format!(
            "RESULT PASS {name} counters without perf: {MODULE} opens them, and regions are exact"
        ));
        Ok(())
    }

    /// A processor that says it has none.
    fn check_without_counters(&self) -> Result<(), Obstacle> {
        let how = Variation { properties: ",pmu=off", names_counters: false, ..PLAIN };
        let plan = [command("load", &load("")), command("log", "dmesg")];
        let answers = self.ask(&how, &plan)?;
        let judged = answers
            .fails("load")
            .and_then(|()| answers.says("log", "pmu_user: this processor says that it has no"));
        judged.map_err(|why| self.fault(&how, &why))?;
        note(&format!("RESULT PASS {} without counters: {MODULE} says so", self.guest.name));
        Ok(())
    }
}

/// A tool of the guest's compiler.
fn tool(guest: &Guest, name: &str, arguments: &[&str]) -> std::process::Command {
    program(&format!("{}{name}", guest.toolchain.prefix), arguments)
}

/// Builds the program that counts, for the guest.
fn build_program(guest: &Guest) -> Result<PathBuf, String> {
    let folder = root().join("native/build/pmu").join(guest.name);
    write(&root().join("native/build/pmu/CACHEDIR.TAG"), TAG)?;
    write(&folder.join("CACHEDIR.TAG"), TAG)?;
    let file = folder.join(PROGRAM);
    let flags = ["-std=gnu11", "-O2", "-static", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-o"];
    let mut compile = tool(guest, "gcc", &flags);
    let sources = ["programs.S", "programs.c", "user.c"];
    compile.arg(&file).args(sources.map(|source| Path::new("lab/pmu").join(source)));
    if guest.toolchain.architecture == "arm" {
        compile.args(["-marm", "-march=armv7ve+simd"]);
    }
    output(compile)?;
    Ok(file)
}

fn command(name: &str, command: &str) -> Question {
    Question { name: name.replace(' ', "_"), command: command.to_owned() }
}

/// The program that counts.
fn question(name: &str, arguments: &str) -> Question {
    command(name, &format!("{PROGRAM} {arguments}"))
}

fn load(parameters: &str) -> String {
    format!("insmod /bin/{MODULE}.ko {parameters}")
}

const OFF: &str = "sh -c 'cd /sys/devices/system/cpu/cpu1; echo 0 >online; cat /proc/pmu_user; \
                   echo 1 >online; cat /proc/pmu_user'";

fn round(turn: &str, processors: u32) -> Vec<Question> {
    let named = |question: Question| Question { name: question.name + "_" + turn, ..question };
    let mut plan = vec![
        question("closed", "registers 0"),
        question("perf", "perf 0"),
        regions::asked("regions by perf", 0),
        command("load", &load("events=inst_retired,SW_INCR user_only=1")),
        command("state", "cat /proc/pmu_user"),
        command("doctor", "linerate-probe doctor"),
        question("open", "registers 0"),
        regions::asked("regions", 0),
        question("near", "near 0"),
        regions::asked("regions over a wrap", 0),
        question("raw", "raw 0"),
        question("perf beside", "perf 0"),
        question("open beside", "registers 0"),
        regions::asked("regions beside", 0),
    ];
    if processors > 1 {
        plan.push(command("regions anywhere", "known regions"));
        plan.push(question("open on 1", "registers 1"));
        plan.push(command("off and on", OFF));
        plan.push(question("open on 1 again", "registers 1"));
    }
    plan.push(command("unload", "rmmod pmu_user"));
    plan.push(question("closed again", "registers 0"));
    plan.push(question("perf again", "perf 0"));
    plan.push(command("load again", &load("events=INST_RETIRED user_only=1")));
    plan.push(command("closing", &format!("known closing 0 rmmod {MODULE}")));
    plan.push(regions::asked("regions by perf again", 0));
    plan.push(command("doctor again", "linerate-probe doctor"));
    plan.into_iter().map(named).collect()
}

/// What is the same at every start: counts, states, and when the kernel said what.
fn repeated_start() -> Vec<Question> {
    vec![
        question("closed", "registers 0"),
        command("load", &load("events=INST_RETIRED,SW_INCR user_only=1")),
        command("state", "cat /proc/pmu_user"),
        question("open", "registers 0"),
        command("unload", "rmmod pmu_user"),
        command("log", "dmesg"),
    ]
}

/// Loads that must fail, what the kernel says of each, and that one without faults works then.
fn refusals() -> Vec<Question> {
    vec![
        command("busy", &format!("{PROGRAM} hold {}", load(""))),
        command("unknown", &load("events=INST_RETIRD")),
        command("too many", &load("events=8,8,8,8,8,8,8,8")),
        command("no event", &load("events=0x10000")),
        command("log", "dmesg"),
        question("still closed", "registers 0"),
    ]
}

/// What a load could keep, in numbers: areas of the kernel's memory, of which each module has
/// some; KiB of each processor; events of perf that are allocated.
const MEMORY: &str = "sh -c 'wc -l </proc/vmallocinfo; sed -n s/Percpu:.//p /proc/meminfo | \
                      tr -dc 0-9; echo; sed -n \"s/^perf_event *\\([0-9]*\\) .*/\\1/p\" \
                      /proc/slabinfo'";

fn repeated(loads: u32) -> Vec<Question> {
    let turn = format!("insmod /bin/{MODULE}.ko && rmmod {MODULE} || echo no");
    vec![
        command("memory", MEMORY),
        command("loads", &format!("sh -c 'for i in $(seq {loads}); do {turn}; done'")),
        command("memory then", MEMORY),
        command("warnings", "sh -c 'dmesg | grep -e WARNING -e BUG -e Oops -e \"Call trace\"'"),
    ]
}

/// What a guest said.
struct Answers {
    answers: Vec<Answer>,
    turn: u64,
    is_exact: bool,
}

impl Answers {
    fn of(&self, name: &str) -> Result<&Answer, String> {
        let name = name.replace(' ', "_");
        let found = self.answers.iter().find(|answer| answer.name == name);
        found.ok_or_else(|| format!("no answer to `{name}`"))
    }

    /// What a command that must work wrote.
    fn done(&self, name: &str) -> Result<&str, String> {
        match self.of(name)? {
            Answer { status: 0, output, .. } => Ok(output),
            Answer { status, output, errors, .. } => {
                Err(format!("`{name}` ended with {status}: {output}{errors}"))
            }
        }
    }

    /// The first round, as one would have seen it on a terminal.
    fn show(&self, guest: &Guest, page: &mut Page) {
        let heading = format!("{}, by {MODULE}", guest.name);
        let asked = [
            ("closed", "pmu_programs registers 0"),
            ("load", "insmod pmu_user.ko events=inst_retired,SW_INCR user_only=1"),
            ("state", "cat /proc/pmu_user"),
            ("open", "pmu_programs registers 0"),
            ("perf beside", "pmu_programs perf 0"),
            ("unload", "rmmod pmu_user"),
            ("closed again", "pmu_programs registers 0"),
            ("perf again", "pmu_programs perf 0"),
        ];
        let said = |(name, command): &(&str, &str)| {
            let output = self.of(&format!("{name} a")).map_or("", |answer| &answer.output);
            format!("# {command}\n{output}")
        };
        page.add(heading, &asked.iter().map(said).collect::<String>());
    }

    fn fails(&self, name: &str) -> Result<(), String> {
        match self.of(name)?.status {
            0 => Err(format!("`{name}` worked, and must not")),
            _ => Ok(()),
        }
    }

    fn says(&self, name: &str, what: &str) -> Result<(), String> {
        let Answer { output, .. } = self.of(name)?;
        match output.contains(what) {
            true => Ok(()),
            false => Err(format!("`{name}` does not say `{what}`: {output}")),
        }
    }

    fn is_closed(&self, name: &str) -> Result<(), String> {
        match self.of(name)?.output.as_str() {
            "SIGILL\n" => Ok(()),
            other => Err(format!("`{name}` was not closed: {other}")),
        }
    }

    /// Whether the programs ran, and have their counts, to the instruction, where there are any.
    fn counts(&self, name: &str) -> Result<(), String> {
        let console = self.done(name)?;
        let judged = match self.is_exact {
            true => judge::programs(console, self.turn).map(drop),
            false => judge::uncounted(console),
        };
        judged.map_err(|why| format!("`{name}`: {why}"))
    }

    /// What the programs counted, without what the reads themselves take.
    fn programs(&self, name: &str) -> Result<String, String> {
        let lines = self.done(name)?.lines().filter(|line| !line.starts_with("program reads "));
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }

    fn round(&self, turn: &str, processors: u32, guest: &Guest) -> Result<(), String> {
        let name = |name: &str| format!("{name} {turn}");
        self.is_closed(&name("closed"))?;
        for counted in ["perf", "open", "perf again"] {
            self.counts(&name(counted))?;
        }
        if self.is_exact && self.programs(&name("perf"))? != self.programs(&name("open"))? {
            return Err("perf and the registers count differently".to_owned());
        }
        for said in ["open 1 PMUSERENR 0x1", "holder perf", "event 0x8 INST_RETIRED user"] {
            self.says(&name("state"), said)?;
        }
        self.says(&name("perf beside"), "perf does not count")?;
        match guest.has_user_reads {
            // Linux' driver decides who reads there, and closes what others opened.
            true => self.is_closed(&name("open beside"))?,
            false => self.counts(&name("open beside"))?,
        }
        if processors > 1 {
            self.counts(&name("open on 1"))?;
            self.counts(&name("open on 1 again"))?;
            let seen = self.done(&name("off and on"))?;
            let lines = seen.lines().filter(|line| line.starts_with("cpu 1 open 1 PMUSERENR 0x1"));
            if lines.count() != 1 {
                return Err(format!("CPU 1 did not go and come back as it was: {seen}"));
            }
        }
        self.done(&name("unload"))?;
        self.is_closed(&name("closed again"))?;
        self.done(&name("load again"))?;
        self.regions_of(name, processors, guest)
    }

    /// What regions showed in a round.
    fn regions_of(
        &self,
        name: impl Fn(&str) -> String,
        processors: u32,
        guest: &Guest,
    ) -> Result<(), String> {
        self.says(&name("doctor"), "user registers works  regions count without perf")?;
        self.says(&name("doctor again"), "hw registers -      the module pmu_user")?;
        let [by_registers, by_perf] = match processors {
            1 => [regions::exact, regions::exact_by_perf],
            _ => [regions::least_exact, regions::least_exact_by_perf],
        };
        match self.is_exact {
            true => {
                self.regions(&name("regions"), by_registers)?;
                self.regions(&name("regions over a wrap"), by_registers)?;
                self.wrapped(&name("raw"))?;
                self.regions(&name("regions by perf"), by_perf)?;
                self.regions(&name("regions by perf again"), by_perf)?;
            }
            false => {
                self.says(&name("regions"), "absent instructions 1 the register of this event")?;
            }
        }
        if guest.has_user_reads {
            self.regions(&name("regions beside"), regions::closed)?;
        }
        if processors > 1 {
            self.regions(&name("regions anywhere"), regions::anywhere)?;
        }
        self.regions(&name("closing"), regions::closing)
    }

    fn regions(&self, name: &str, judge: fn(&str) -> Result<(), String>) -> Result<(), String> {
        judge(self.done(name)?).map_err(|why| format!("`{name}`: {why}"))
    }

    /// Whether the counter of instructions wrapped since it was set.
    fn wrapped(&self, name: &str) -> Result<(), String> {
        let said = self.done(name)?;
        let count = said.split(' ').nth(1).and_then(|count| count.parse::<u64>().ok());
        match count.is_some_and(|count| count < 1 << 31) {
            true => Ok(()),
            false => Err(format!("`{name}`: the counter did not wrap: {said}")),
        }
    }

    fn refusals(&self) -> Result<(), String> {
        for name in ["busy", "unknown", "too many", "no event"] {
            self.fails(name)?;
        }
        for said in [
            "perf or another holds counters",
            "the nearest is INST_RETIRED",
            "8 events for ",
            "events have numbers up to 0xffff",
        ] {
            self.says("log", said)?;
        }
        self.is_closed("still closed")
    }

    fn numbers(&self, name: &str) -> Result<Vec<u32>, String> {
        let said = self.done(name)?;
        let numbers: Result<Vec<u32>, _> = said.lines().map(|line| line.trim().parse()).collect();
        numbers.map_err(|_| format!("`{name}` is not numbers: {said}"))
    }

    /// Whether all loads worked, and kept less than one thing each.
    fn repeated(&self, loads: u32) -> Result<(), String> {
        match self.done("loads")? {
            "" => {}
            other => return Err(format!("not every load worked: {other}")),
        }
        let (before, then) = (self.numbers("memory")?, self.numbers("memory then")?);
        let grew = before.iter().zip(&then).any(|(before, then)| *then >= before + loads);
        if grew || before.len() != 3 || then.len() != 3 {
            return Err(format!("memory is kept: {before:?}, then {then:?}"));
        }
        match self.of("warnings")?.output.as_str() {
            "" => Ok(()),
            warnings => Err(format!("the kernel warned: {warnings}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Answers};

    fn answers(said: &[(&str, i32, &str)]) -> Answers {
        let answer = |&(name, status, output): &(&str, i32, &str)| Answer {
            name: name.to_owned(),
            status,
            output: output.to_owned(),
            ..Answer::default()
        };
        Answers { answers: said.iter().map(answer).collect(), turn: 6, is_exact: true }
    }

    #[test]
    fn what_is_open_is_not_closed() {
        let said =
            answers(&[("closed_a", 1, "SIGILL\n"), ("open_a", 0, "program empty 1 0 0 1\n")]);
        assert_eq!(said.is_closed("closed a"), Ok(()));
        assert!(said.is_closed("open a").is_err());
        assert!(said.is_closed("gone").is_err());
        assert!(said.counts("open a").is_err(), "programs are missing");
        assert!(said.fails("open a").is_err());
    }

    #[test]
    fn memory_that_is_kept_and_warnings_are_found() {
        let repeated = |then: &str, loads: &str, warnings: &str| {
            let said = [("memory", 0, "90\n264\n41\n"), ("memory_then", 0, then)];
            let rest = [("loads", 0, loads), ("warnings", 1, warnings)];
            answers(&[said, rest].concat()).repeated(10)
        };
        assert_eq!(repeated("95\n264\n41\n", "", ""), Ok(()));
        assert!(repeated("90\n264\n51\n", "", "").is_err(), "an event of each load");
        assert!(repeated("100\n264\n41\n", "", "").is_err(), "a module's memory of each load");
        assert!(repeated("90\n264\n", "", "").is_err(), "a number is missing");
        assert!(repeated("95\n264\n41\n", "no\n", "").is_err());
        assert!(repeated("95\n264\n41\n", "", "[ 1.0] WARNING: at\n").is_err());
    }
}
