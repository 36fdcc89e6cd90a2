// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event names for C, generated from the event tables in `counters`: one source for both.
//!
//! Only tables whose codes are written to a register unchanged: codes that only Linux understands
//! (x86's generic events, POWER8's encodings) are useless without Linux.

use crate::command::root;
use crate::fetch::write as write_file;
use std::fs;
use toml::{Table, Value};

/// A table, its path, and its prefix in the header.
struct Names {
    table: &'static str,
    folder: &'static str,
    prefix: &'static str,
}

const COUNTERS: &str = "crates/counters/data/events";
const HERE: &str = "native/pmu/events";

const TABLES: [Names; 5] = [
    Names { table: "arm1176", folder: COUNTERS, prefix: "ARM1176" },
    Names { table: "cortex_a7", folder: COUNTERS, prefix: "CORTEX_A7" },
    Names { table: "armv8", folder: COUNTERS, prefix: "ARMV8" },
    Names { table: "mpc74xx", folder: COUNTERS, prefix: "MPC74XX" },
    // Linux has no driver for this processor, so `counters` has no use for the table.
    Names { table: "mpc7400", folder: HERE, prefix: "MPC7400" },
];

/// Writes every header.
pub(crate) fn write() -> Result<(), String> {
    for names in &TABLES {
        write_file(&root().join(names.file()), &names.generated()?)?;
        println!("{}", names.file());
    }
    Ok(())
}

impl Names {
    fn file(&self) -> String {
        format!("{HERE}/{}.h", self.table)
    }

    fn generated(&self) -> Result<String, String> {
        self.header(&read(&self.source())?, &read("crates/counters/data/names.toml")?)
    }

    fn source(&self) -> String {
        format!("{}/{}.toml", self.folder, self.table)
    }

    /// Formats a table as a header: a list that a macro is applied to, and the codes by name.
    fn header(&self, table: &Table, names: &Table) -> Result<String, String> {
        let Self { prefix, .. } = self;
        let fault = |what: &str| format!("{}: {what}", self.source());
        let text = |key: &str| {
            table.get(key).and_then(Value::as_str).ok_or_else(|| fault(&format!("no `{key}`")))
        };
        let events = table.get("event").and_then(Value::as_array);
        let mut rows = String::new();
        let mut others = String::new();
        for event in events.ok_or_else(|| fault("no `event`"))? {
            let row = row(event, names).ok_or_else(|| {
                fault(&format!("an event without native name, code or prose: {event:?}"))
            })?;
            let prose = broken(&row.prose, 84).join("\" \\\n\t  \"");
            rows += &format!(" \\\n\tE({}, {:#05x}, \\\n\t  \"{prose}\")", row.name, row.codes[0]);
            for code in &row.codes[1..] {
                others += &format!(" \\\n\tA({}, {code:#05x})", row.name);
            }
        }
        if !others.is_empty() {
            others = format!(
                "/* A(name, code) for each further counter with an event of above. */\n\
                 #define LR_{prefix}_ALSO(A){others}\n\n"
            );
        }
        let lower = self.table.to_lowercase();
        Ok(format!(
            "/* SPDX-License-Identifier: MIT OR Apache-2.0 */\n\
             /*\n{}{}\
             \x20* Written by `cargo xtask events`; the place to change is\n\
             \x20* {}.\n */\n\
             #ifndef LINERATE_PMU_EVENTS_{prefix}_H\n#define LINERATE_PMU_EVENTS_{prefix}_H\n\n\
             /* E(name, code, prose) for each event. */\n\
             #define LR_{prefix}_EVENTS(E){rows}\n\n\
             {others}\
             /* LR_{prefix}_ and the name: the code. */\n\
             #define LR_{prefix}_CODE(name, code, prose) LR_{prefix}_##name = code,\n\
             enum lr_{lower}_event {{ LR_{prefix}_EVENTS(LR_{prefix}_CODE) }};\n\
             #undef LR_{prefix}_CODE\n\n#endif\n",
            comment(&format!("Events: {}. Name, what a counter takes, prose.", text("title")?)),
            comment(&format!("Source: {}.", text("manual")?)),
            self.source(),
        ))
    }
}

fn read(path: &str) -> Result<Table, String> {
    let text = fs::read_to_string(root().join(path)).map_err(|e| format!("{path}: {e}"))?;
    text.parse::<Table>().map_err(|error| format!("{path}: {error}"))
}

/// An event for C.
struct Row {
    name: String,
    /// The code in the register, and the codes for other counters.
    codes: Vec<u32>,
    /// The event's own description or that of its first portable name, and the source if there is
    /// only one.
    prose: String,
}

fn row(event: &Value, names: &Table) -> Option<Row> {
    // If Linux has its own number for the cycle counter, the register value differs.
    let code = event.get("register").or(event.get("code"))?;
    let list = |key: &str| event.get(key).and_then(Value::as_array).into_iter().flatten();
    let codes = [code].into_iter().chain(list("also"));
    let codes: Option<Vec<u32>> = codes.map(|code| code.as_integer()?.try_into().ok()).collect();
    let portable = || {
        let first = event.get("names")?.as_array()?.first()?;
        let known = names.get("name")?.as_array()?;
        known.iter().find(|name| name.get("name") == Some(first))?.get("prose")
    };
    let mut prose = event.get("prose").or_else(portable)?.as_str()?.to_owned();
    let sources: Vec<&str> = list("sources").filter_map(Value::as_str).collect();
    if let [only] = sources[..] {
        prose += &format!(" (By one source: {only}.)");
    }
    let name = event.get("native")?.as_str()?.to_owned();
    (!prose.contains(['"', '\\'])).then_some(Row { name, codes: codes?, prose })
}

/// Formats text as lines of a comment, followed by an empty line.
fn comment(text: &str) -> String {
    let line = |line: &String| format!(" * {}\n", line.trim_end());
    broken(text, 97).iter().map(line).collect::<String>() + " *\n"
}

/// Breaks text after spaces, into pieces of at most this many bytes where words allow.
fn broken(text: &str, bytes: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let last = pieces.last_mut().expect("there is a piece");
        if last.is_empty() || last.len() + word.len() <= bytes {
            last.push_str(word);
        } else {
            pieces.push(word.to_owned());
        }
    }
    pieces
}

/// An event of the PowerPC G4, with each counter that has it and the selection value there.
pub(crate) struct Placed {
    pub(crate) name: String,
    pub(crate) places: Vec<(u32, u32)>,
}

/// Returns the event table for a processor with this many counters.
pub(crate) fn powerpc(counters: u32) -> Result<Vec<Placed>, String> {
    let table = if counters > 4 { "mpc74xx" } else { "mpc7400" };
    let names = TABLES.iter().find(|names| names.table == table).ok_or("no table")?;
    let (table, portable) = (read(&names.source())?, read("crates/counters/data/names.toml")?);
    let events = table.get("event").and_then(Value::as_array).ok_or("no events")?;
    let place = |event| {
        let Row { name, codes, .. } = row(event, &portable).ok_or("an event without a code")?;
        let places = codes.iter().flat_map(|&code| places(code, counters)).collect();
        Ok(Placed { name, places })
    };
    events.iter().map(place).collect()
}

/// Returns the counters for a code, which either names one or is below 23 and means all that have
/// the number (MPC7450UM, chapter 11, and MPC7400 User's Manual, section 11.5).
fn places(code: u32, counters: u32) -> Vec<(u32, u32)> {
    let selection = code & 0xff;
    let all: &[u32] = match (code >> 8, selection, counters) {
        (0, ..=1, 6) => &[1, 2, 3, 4, 5, 6],
        (0, ..=7, 6) | (0, ..=4, 4) => &[1, 2, 3, 4],
        (0, ..=13, 6) => &[1, 2, 4],
        (0, ..=22, 6) => &[1, 2],
        (0, ..) => &[],
        (counter, ..) => return vec![(counter, selection)],
    };
    all.iter().map(|&counter| (counter, selection)).collect()
}

#[cfg(test)]
mod tests {
    use super::{COUNTERS, Names, TABLES, powerpc, read};
    use crate::command::root;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn the_headers_are_what_the_tables_make() {
        for names in &TABLES {
            let stored = std::fs::read_to_string(root().join(names.file())).expect("a header");
            let fresh = names.generated().expect("a table");
            assert!(stored == fresh, "{} is out of date: run `cargo xtask events`", names.file());
        }
    }

    #[test]
    fn an_event_without_code_is_refused() {
        let names = "[[name]]\nname = \"cycles\"\nprose = \"Cycles.\"\n".parse().expect("names");
        let table = "title = \"T\"\nmanual = \"M\"\n[[event]]\nnative = \"CYC\"\ncode = 0xff\n\
                     register = 0x11\nnames = [\"cycles\"]\n";
        let head = Names { table: "t", folder: COUNTERS, prefix: "T" };
        let made = |text: &str| head.header(&text.parse().expect("TOML"), &names);
        let text = made(table).expect("a header");
        assert!(text.contains("E(CYC, 0x011, \\\n\t  \"Cycles.\")"), "{text}");
        assert!(!text.contains("ALSO"), "{text}");
        let more = made(&format!("{table}also = [0x212]\nsources = [\"a\"]\n")).expect("a header");
        assert!(more.contains("#define LR_T_ALSO(A) \\\n\tA(CYC, 0x212)\n"), "{more}");
        assert!(more.contains("\"Cycles. (By one source: a.)\")"), "{more}");
        let hardware = table.replace("code", "hardware").replace("register", "umask");
        assert!(made(&hardware).is_err());
        assert!(made(&format!("{table}also = [-1]\n")).is_err());
        assert!(made(&table.replace("[\"cycles\"]", "[\"other\"]")).is_err(), "no prose");
    }

    /// The selection values for each counter in Apple's lists, without "nothing": ranges.
    const OF_7450: [&[(u32, u32)]; 6] = [
        &[(1, 5), (7, 68), (70, 94)],
        &[(1, 5), (7, 62)],
        &[(1, 5), (7, 31)],
        &[(1, 5), (7, 30)],
        &[(1, 11), (13, 20)],
        &[(1, 11), (13, 37), (42, 57)],
    ];
    const OF_7400: [&[(u32, u32)]; 4] =
        [&[(1, 48)], &[(1, 42)], &[(1, 8), (10, 24), (26, 30)], &[(1, 8), (10, 27)]];

    #[test]
    fn the_tables_of_the_g4_are_complete_without_duplicates() {
        for (counters, documented) in [(6, &OF_7450[..]), (4, &OF_7400[..])] {
            let table = powerpc(counters).expect("a table");
            let mut seen = BTreeMap::new();
            for event in &table {
                assert!(!event.places.is_empty(), "{} has no counter", event.name);
                for place in &event.places {
                    let other = seen.insert(*place, &event.name);
                    assert_eq!(other, None, "{place:?} is {}, too", event.name);
                }
            }
            let ranges = documented.iter().zip(1..);
            let pairs = ranges.flat_map(|(ranges, counter)| {
                ranges.iter().flat_map(move |&(a, z)| (a..=z).map(move |s| (counter, s)))
            });
            assert!(pairs.eq(seen.keys().copied()), "{counters} counters: {:?}", seen.keys());
            let names: BTreeSet<String> = table.iter().map(|e| e.name.to_lowercase()).collect();
            assert_eq!(names.len(), table.len(), "a name is used for two events");
        }
    }

    /// AN2581's matrix: what its module selects on counters 1 to 4 of an MPC7400.
    #[test]
    fn the_note_s_matrix_is_in_the_table() {
        let matrix: [(u32, &[u32]); 4] = [
            (1, &[1, 24, 4, 32, 34, 11, 21, 48, 13, 37]),
            (2, &[1, 2, 6, 25, 11, 26, 17, 37]),
            (3, &[1, 2, 15, 26, 27]),
            (4, &[1, 2, 14]),
        ];
        let table = read("native/pmu/events/mpc7400.toml").expect("a table");
        let is_by = |event: &toml::Value, source: &str| {
            let sources = event["sources"].as_array().expect("sources");
            sources.iter().any(|known| known.as_str() == Some(source))
        };
        let documented: BTreeSet<&str> = table["event"]
            .as_array()
            .expect("events")
            .iter()
            .filter(|event| is_by(event, "an2581"))
            .filter_map(|event| event["native"].as_str())
            .collect();
        let placed = powerpc(4).expect("a table");
        let mut count = 0;
        for (counter, selections) in matrix {
            for &selection in selections {
                let event = placed.iter().find(|e| e.places.contains(&(counter, selection)));
                let event = event.expect("an event of the note");
                assert!(documented.contains(event.name.as_str()), "{}", event.name);
                count += 1;
            }
        }
        assert_eq!(count, 26);
    }
}
