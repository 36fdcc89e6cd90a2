// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the counts by function in a callgrind file, which follow the header.
//!
//! ```text
//! fn=(7) look_up          from here on, counts are those of this function; later only fn=(7)
//! 0 120 3 2 0 1           position, then counts in the order of `events:`, without trailing zeros
//! calls=1 0               the next line has the counts of a callee, which are also under its fn=
//! ```

use super::collect::DUMP;
use super::{Geometry, Sim, SimError, Simulation};
use linerate_linux::child::fork_held_apart;
use linerate_record::profile::{SimulatedFunction, SimulatedRun};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Time that a simulated command has to write its counts after SIGTERM.
const GRACE: Duration = Duration::from_secs(20);
/// Maximum number of functions returned.
const MAX_FUNCTIONS: usize = 4096;

impl Sim {
    /// Simulates a command for at most `limit` of wall time or until `stop` is set, and returns the
    /// counts of its functions by name. Then, the command is ended by SIGTERM. Processes that it
    /// leaves behind are killed.
    ///
    /// # Errors
    /// As for [`Sim::run`].
    pub fn functions(
        &self,
        argv: &[OsString],
        geometry: &Geometry,
        limit: Duration,
        stop: Option<&AtomicBool>,
    ) -> Result<SimulatedRun, SimError> {
        let simulation = self.prepare(argv, geometry)?;
        let (program, arguments) = simulation.command();
        let held = fork_held_apart(program, arguments).map_err(SimError::System)?;
        let mut child = held.release().map_err(SimError::Command)?;
        child.wait_for(limit, stop);
        child.end_group(GRACE);
        let functions = simulation.functions()?;
        if functions.is_empty() {
            simulation.collect(child.pid())?;
        }
        Ok(SimulatedRun { caches: geometry.caches().clone(), functions })
    }
}

impl Simulation {
    /// Reads the counts of all functions, by descending number of instructions.
    fn functions(&self) -> Result<Vec<SimulatedFunction>, SimError> {
        let failed = |error: std::io::Error| SimError::Folder {
            path: self.folder.path().display().to_string(),
            reason: error.to_string(),
        };
        let mut sums = HashMap::<String, SimulatedFunction>::new();
        for entry in fs::read_dir(self.folder.path()).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.split('.').next() == Some(DUMP) {
                let file = File::open(&path).map_err(failed)?;
                add(&mut sums, BufReader::new(file)).map_err(failed)?;
            }
        }
        let mut functions: Vec<SimulatedFunction> = sums.into_values().collect();
        functions.sort_by(|a, b| b.instructions.cmp(&a.instructions).then(a.name.cmp(&b.name)));
        functions.truncate(MAX_FUNCTIONS);
        Ok(functions)
    }
}

/// Adds the counts of one file. Lines that are not understood are skipped.
fn add(
    sums: &mut HashMap<String, SimulatedFunction>,
    mut file: impl BufRead,
) -> std::io::Result<()> {
    let mut names = HashMap::<String, String>::new();
    let mut events: Vec<String> = Vec::new();
    let mut current: Option<String> = None;
    let mut is_of_callee = false;
    let mut line = Vec::new();
    loop {
        line.clear();
        if file.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if let Some(names) = text.strip_prefix("events:") {
            events = names.split_whitespace().map(str::to_owned).collect();
        } else if let Some(name) = text.strip_prefix("fn=") {
            current = resolve(&mut names, name);
        } else if let Some(name) = text.strip_prefix("cfn=") {
            resolve(&mut names, name);
        } else if text.starts_with("calls=") {
            is_of_callee = true;
        } else if text.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            if let (false, Some(name)) = (is_of_callee, &current) {
                add_line(sums, name, &events, text);
            }
            is_of_callee = false;
        }
    }
}

/// Returns the name of a function from `(7) look_up` or `(7)`, without a recursion number such as
/// the 2 of `look_up'2`.
fn resolve(names: &mut HashMap<String, String>, text: &str) -> Option<String> {
    let (number, name) = text.split_once(')')?;
    let name = name.trim();
    if !name.is_empty() {
        let is_number = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
        let name = match name.rsplit_once('\'') {
            Some((name, rest)) if is_number(rest) => name,
            _ => name,
        };
        names.insert(number.to_owned(), name.to_owned());
    }
    names.get(number).cloned()
}

fn add_line(
    sums: &mut HashMap<String, SimulatedFunction>,
    name: &str,
    events: &[String],
    text: &str,
) {
    let counts: Vec<u64> =
        text.split_whitespace().skip(1).filter_map(|count| count.parse().ok()).collect();
    let count = |wanted: &[&str]| -> u64 {
        let pairs = events.iter().zip(&counts);
        pairs.filter(|(event, _)| wanted.contains(&event.as_str())).map(|(_, count)| count).sum()
    };
    let none = || SimulatedFunction {
        name: name.to_owned(),
        instructions: 0,
        mispredictions: 0,
        l1i_misses: 0,
        l1d_misses: 0,
        last_level_misses: 0,
    };
    let sum = sums.entry(name.to_owned()).or_insert_with(none);
    sum.instructions += count(&["Ir"]);
    sum.mispredictions += count(&["Bcm", "Bim"]);
    sum.l1i_misses += count(&["I1mr"]);
    sum.l1d_misses += count(&["D1mr", "D1mw"]);
    sum.last_level_misses += count(&["ILmr", "DLmr", "DLmw"]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "\
positions: line
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim
summary: 1000

fl=(1) a.c
fn=(7) look_up
0 100 30 0 1 5 0 0 2 0 20 3 1 1
+3 10
cfn=(9) hash'2
calls=4 0
0 400 1 1

fn=(9)
0 50 0 0 0 0 4
fn=(7)
* 5
";

    fn parse(text: &str) -> HashMap<String, SimulatedFunction> {
        let mut sums = HashMap::new();
        add(&mut sums, text.as_bytes()).unwrap();
        sums
    }

    #[test]
    fn counts_of_callees_are_not_those_of_the_caller() {
        let found = parse(FILE);
        let one = &found["look_up"];
        assert_eq!((one.instructions, one.mispredictions), (115, 4));
        assert_eq!((one.l1i_misses, one.l1d_misses, one.last_level_misses), (1, 5, 2));
        assert_eq!((found["hash"].instructions, found["hash"].l1d_misses), (50, 4));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn survives_damage(lines in prop::collection::vec((0..16usize, 0..60usize), 0..40)) {
            let whole: Vec<&str> = FILE.lines().collect();
            let damaged = |&(line, at): &(usize, usize)| {
                let line = whole.get(line).copied().unwrap_or("fn=(");
                line.get(..at).unwrap_or(line).to_owned() + "\n"
            };
            parse(&lines.iter().map(damaged).collect::<String>());
        }
    }
}
