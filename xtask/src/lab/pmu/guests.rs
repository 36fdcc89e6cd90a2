// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `kmod/pmu_user` in the guests: counts of the tutorial's programs in a Linux process with
//! the module loaded, without it, and with perf; the module's refusals; and regions, which are
//! counted by PMU registers while the module is loaded and by perf otherwise.

mod answers;

use super::super::guest::{Guest, PLAIN, Question, Variation};
use super::super::{GUESTS, Obstacle, compiler, module, note, unpack};
use super::{Extent, Page, judge, regions};
use crate::command::{output, program, root};
use crate::fetch::{TAG, write};
use answers::Answers;
use std::fs;
use std::path::{Path, PathBuf};

/// Module that gives user mode access to the counters.
const MODULE: &str = "pmu_user";
/// Program that counts.
const PROGRAM: &str = "pmu_programs";

impl Extent {
    /// Returns how many times to load and unload the module consecutively.
    fn loads(self) -> u32 {
        match self {
            Self::Brief => 10,
            Self::Full => 100,
        }
    }

    /// Returns the names of the rounds in which the module is used as intended.
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

/// Checks every guest, printing one sentence per result.
pub(super) fn check(extent: Extent, page: &mut Page) -> Result<(), Obstacle> {
    for guest in &GUESTS {
        let files = Files::prepare(guest)?;
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

/// A guest with the files that it needs.
struct Files {
    guest: &'static Guest,
    prefix: PathBuf,
    files: Vec<PathBuf>,
    /// Instructions per iteration of the C program.
    turn: u64,
}

impl Files {
    fn prepare(guest: &'static Guest) -> Result<Self, Obstacle> {
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
            "{}, {processors} processors, {MODULE}: {why}; console log: {}",
            self.guest.name,
            log.display()
        ))
    }

    /// Checks the guest in rounds: with access closed, open, open while perf counts too, revoked
    /// and reopened, and closed again. Then checks that wrong module loads are refused, and that
    /// repeated loads leak nothing.
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
            true => "counts from the registers and from perf agree exactly, in regions too",
            false => {
                "programs run, and cycles advance in the registers and in perf; instructions are \
                 null, because this emulator does not count them with several processors"
            }
        };
        note(&format!(
            "RESULT PASS {}, processors {processors}, rounds {}: {MODULE} opens the counters and \
             closes them; {counted}; the module refuses to load while perf counts, and was loaded \
             {loads} times without a warning",
            self.guest.name,
            rounds.len()
        ));
        Ok(())
    }

    /// Starts the guest several times. The whole console, including the kernel's timestamps, must
    /// be the same.
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
                return Err(self.fault(how, "the console output of two runs differs"));
            }
        }
        let name = format!("{}, processors {}", self.guest.name, how.processors);
        page.repeats(&name, extent.runs(), first.len());
        Ok(())
    }

    /// Checks a board whose device tree does not describe the PMU, so that there is no driver to
    /// coordinate with.
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

    /// Checks a processor that reports having no counters.
    fn check_without_counters(&self) -> Result<(), Obstacle> {
        let how = Variation { properties: ",pmu=off", names_counters: false, ..PLAIN };
        let plan = [command("load", &load("")), command("log", "dmesg")];
        let answers = self.ask(&how, &plan)?;
        let judged = answers
            .fails("load")
            .and_then(|()| answers.says("log", "pmu_user: this processor reports no"));
        judged.map_err(|why| self.fault(&how, &why))?;
        note(&format!("RESULT PASS {} without counters: {MODULE} reports this", self.guest.name));
        Ok(())
    }
}

/// Returns a tool from the guest's toolchain.
fn tool(guest: &Guest, name: &str, arguments: &[&str]) -> std::process::Command {
    program(&format!("{}{name}", guest.toolchain.prefix), arguments)
}

/// Builds the counting program for the guest.
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

/// Returns a command that calls the counting program.
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
        question("perf alongside", "perf 0"),
        question("open alongside", "registers 0"),
        regions::asked("regions alongside", 0),
    ];
    if processors > 1 {
        plan.push(command("regions anywhere", "known regions"));
        plan.push(question("registers on CPU 1", "registers 1"));
        plan.push(command("hotplug of CPU 1", OFF));
        plan.push(question("registers on CPU 1 after hotplug", "registers 1"));
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

/// Returns commands whose output must be equal at every start: counts, states, and the kernel's
/// timestamps.
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

/// Returns module loads that must fail, followed by commands that print the kernel log and show
/// that user access is still closed.
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

/// Command that prints the amounts of resources that a load might leak: the kernel's vmalloc areas
/// (each module has several), per-CPU memory in KiB, and allocated perf events.
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
