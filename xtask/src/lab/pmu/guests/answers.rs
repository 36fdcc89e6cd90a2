// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks a guest's answers.

use super::super::super::guest::{Answer, Guest};
use super::super::{Page, judge, regions};
use super::MODULE;

/// Answers of a guest.
pub(super) struct Answers {
    pub(super) answers: Vec<Answer>,
    /// Instructions per iteration of the C program's loop.
    pub(super) turn: u64,
    pub(super) is_exact: bool,
}

impl Answers {
    pub(super) fn of(&self, name: &str) -> Result<&Answer, String> {
        let name = name.replace(' ', "_");
        let found = self.answers.iter().find(|answer| answer.name == name);
        found.ok_or_else(|| format!("no answer to `{name}`"))
    }

    /// Returns the output of a command that must succeed.
    pub(super) fn done(&self, name: &str) -> Result<&str, String> {
        match self.of(name)? {
            Answer { status: 0, output, .. } => Ok(output),
            Answer { status, output, errors, .. } => {
                Err(format!("`{name}` ended with {status}: {output}{errors}"))
            }
        }
    }

    /// Adds the first round to the page, as it would appear on a terminal.
    pub(super) fn show(&self, guest: &Guest, page: &mut Page) {
        let heading = format!("{}, with the module {MODULE}", guest.name);
        let asked = [
            ("closed", "pmu_programs registers 0"),
            ("load", "insmod pmu_user.ko events=inst_retired,SW_INCR user_only=1"),
            ("state", "cat /proc/pmu_user"),
            ("open", "pmu_programs registers 0"),
            ("perf alongside", "pmu_programs perf 0"),
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

    pub(super) fn fails(&self, name: &str) -> Result<(), String> {
        match self.of(name)?.status {
            0 => Err(format!("`{name}` succeeded, but must fail")),
            _ => Ok(()),
        }
    }

    pub(super) fn says(&self, name: &str, what: &str) -> Result<(), String> {
        let Answer { output, .. } = self.of(name)?;
        match output.contains(what) {
            true => Ok(()),
            false => Err(format!("the output of `{name}` does not contain `{what}`: {output}")),
        }
    }

    pub(super) fn is_closed(&self, name: &str) -> Result<(), String> {
        match self.of(name)?.output.as_str() {
            "SIGILL\n" => Ok(()),
            other => Err(format!("`{name}`: user access was not closed: {other}")),
        }
    }

    /// Checks that the programs ran, and that their counts, if any, are exact.
    pub(super) fn counts(&self, name: &str) -> Result<(), String> {
        let console = self.done(name)?;
        let judged = match self.is_exact {
            true => judge::programs(console, self.turn).map(drop),
            false => judge::uncounted(console),
        };
        judged.map_err(|why| format!("`{name}`: {why}"))
    }

    /// Returns the programs' counts, excluding read overhead.
    pub(super) fn programs(&self, name: &str) -> Result<String, String> {
        let lines = self.done(name)?.lines().filter(|line| !line.starts_with("program reads "));
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }

    pub(super) fn round(&self, turn: &str, processors: u32, guest: &Guest) -> Result<(), String> {
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
        self.says(&name("perf alongside"), "perf does not count")?;
        match guest.has_user_reads {
            // On this guest, Linux's driver controls user access to the counters, and revokes
            // access that others have enabled.
            true => self.is_closed(&name("open alongside"))?,
            false => self.counts(&name("open alongside"))?,
        }
        if processors > 1 {
            self.counts(&name("registers on CPU 1"))?;
            self.counts(&name("registers on CPU 1 after hotplug"))?;
            let seen = self.done(&name("hotplug of CPU 1"))?;
            let lines = seen.lines().filter(|line| line.starts_with("cpu 1 open 1 PMUSERENR 0x1"));
            if lines.count() != 1 {
                return Err(format!("CPU 1 did not go offline and come back unchanged: {seen}"));
            }
        }
        self.done(&name("unload"))?;
        self.is_closed(&name("closed again"))?;
        self.done(&name("load again"))?;
        self.regions_of(name, processors, guest)
    }

    /// Checks the results of the regions in a round.
    fn regions_of(
        &self,
        name: impl Fn(&str) -> String,
        processors: u32,
        guest: &Guest,
    ) -> Result<(), String> {
        self.says(&name("doctor"), "user registers works  regions are counted without perf")?;
        self.says(&name("doctor again"), "hw registers -      the pmu_user module")?;
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
                self.says(&name("regions"), "absent instructions 1 this event's register")?;
            }
        }
        if guest.has_user_reads {
            self.regions(&name("regions alongside"), regions::closed)?;
        }
        if processors > 1 {
            self.regions(&name("regions anywhere"), regions::anywhere)?;
        }
        self.regions(&name("closing"), regions::closing)
    }

    pub(super) fn regions(
        &self,
        name: &str,
        judge: fn(&str) -> Result<(), String>,
    ) -> Result<(), String> {
        judge(self.done(name)?).map_err(|why| format!("`{name}`: {why}"))
    }

    /// Checks that the instruction counter has wrapped since it was set.
    pub(super) fn wrapped(&self, name: &str) -> Result<(), String> {
        let said = self.done(name)?;
        let count = said.split(' ').nth(1).and_then(|count| count.parse::<u64>().ok());
        match count.is_some_and(|count| count < 1 << 31) {
            true => Ok(()),
            false => Err(format!("`{name}`: the counter did not wrap: {said}")),
        }
    }

    pub(super) fn refusals(&self) -> Result<(), String> {
        for name in ["busy", "unknown", "too many", "no event"] {
            self.fails(name)?;
        }
        for said in [
            "perf or another program holds the counters",
            "the nearest is INST_RETIRED",
            "8 events for ",
            "event numbers go up to 0xffff",
        ] {
            self.says("log", said)?;
        }
        self.is_closed("still closed")
    }

    fn numbers(&self, name: &str) -> Result<Vec<u32>, String> {
        let said = self.done(name)?;
        let numbers: Result<Vec<u32>, _> = said.lines().map(|line| line.trim().parse()).collect();
        numbers.map_err(|_| format!("`{name}` did not print numbers: {said}"))
    }

    /// Checks that all loads worked, that they leaked less than one object per load, and that the
    /// kernel printed no warning.
    pub(super) fn repeated(&self, loads: u32) -> Result<(), String> {
        match self.done("loads")? {
            "" => {}
            other => return Err(format!("not every load succeeded: {other}")),
        }
        let (before, then) = (self.numbers("memory")?, self.numbers("memory then")?);
        let grew = before.iter().zip(&then).any(|(before, then)| *then >= before + loads);
        if grew || before.len() != 3 || then.len() != 3 {
            return Err(format!("memory leaked: {before:?} before the loads, {then:?} after them"));
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
