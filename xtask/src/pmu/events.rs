// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of events for C, written from the event tables of `counters`: one source for both.
//!
//! Only tables whose codes go into a register as they are: what Linux alone understands (x86's
//! generic events, POWER8's encodings) is no use to whoever has no Linux.

use crate::command::root;
use crate::fetch::write as write_file;
use std::fs;
use toml::{Table, Value};

/// A table, and what its header calls itself.
const TABLES: [(&str, &str); 4] = [
    ("arm1176", "ARM1176"),
    ("cortex_a7", "CORTEX_A7"),
    ("armv8", "ARMV8"),
    ("mpc74xx", "MPC74XX"),
];

/// Writes every header.
pub(crate) fn write() -> Result<(), String> {
    for (table, prefix) in TABLES {
        write_file(&root().join(file(table)), &generated(table, prefix)?)?;
        println!("{}", file(table));
    }
    Ok(())
}

fn file(table: &str) -> String {
    format!("native/pmu/events/{table}.h")
}

fn generated(table: &str, prefix: &str) -> Result<String, String> {
    let data = |path: &str| {
        let path = root().join("crates/counters/data").join(path);
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        text.parse::<Table>().map_err(|error| format!("{}: {error}", path.display()))
    };
    header(table, prefix, &data(&format!("events/{table}.toml"))?, &data("names.toml")?)
}

/// A table as a header: a list that a macro is applied to, and the codes by name.
fn header(name: &str, prefix: &str, table: &Table, names: &Table) -> Result<String, String> {
    let text = |key: &str| {
        let value = table.get(key).and_then(Value::as_str);
        value.ok_or_else(|| format!("{name}: no `{key}`"))
    };
    let events = table.get("event").and_then(Value::as_array);
    let events = events.ok_or_else(|| format!("{name}: no `event`"))?;
    let mut rows = String::new();
    for event in events {
        let (native, code, prose) = row(event, names).ok_or_else(|| {
            format!("{name}: an event without native name, code or prose: {event:?}")
        })?;
        let prose = broken(prose, 84).join("\" \\\n\t  \"");
        rows += &format!(" \\\n\tE({native}, {code:#05x}, \\\n\t  \"{prose}\")");
    }
    let lower = name.to_lowercase();
    Ok(format!(
        "/* SPDX-License-Identifier: MIT OR Apache-2.0 */\n\
         /*\n{}{}\
         \x20* Written by `cargo xtask events`; the place to change is\n\
         \x20* crates/counters/data/events/{name}.toml.\n */\n\
         #ifndef LINERATE_PMU_EVENTS_{prefix}_H\n#define LINERATE_PMU_EVENTS_{prefix}_H\n\n\
         /* E(name, code, prose) for each event. */\n\
         #define LR_{prefix}_EVENTS(E){rows}\n\n\
         /* LR_{prefix}_ and the name: the code. */\n\
         #define LR_{prefix}_CODE(name, code, prose) LR_{prefix}_##name = code,\n\
         enum lr_{lower}_event {{ LR_{prefix}_EVENTS(LR_{prefix}_CODE) }};\n\
         #undef LR_{prefix}_CODE\n\n#endif\n",
        comment(&format!("Events: {}. Name, what a counter takes, prose.", text("title")?)),
        comment(&format!("Source: {}.", text("manual")?)),
    ))
}

/// Native name, code in the register, and prose: its own or that of its first portable name.
fn row<'a>(event: &'a Value, names: &'a Table) -> Option<(&'a str, i64, &'a str)> {
    let native = event.get("native")?.as_str()?;
    // Where Linux has a number of its own for the cycle counter, the register has another.
    let code = event.get("register").or(event.get("code"))?.as_integer()?;
    let portable = || {
        let first = event.get("names")?.as_array()?.first()?;
        let known = names.get("name")?.as_array()?;
        known.iter().find(|name| name.get("name") == Some(first))?.get("prose")
    };
    let prose = event.get("prose").or_else(portable)?.as_str()?;
    (!prose.contains(['"', '\\'])).then_some((native, code, prose))
}

/// Text as lines of a comment, with an empty one behind.
fn comment(text: &str) -> String {
    let line = |line: &String| format!(" * {}\n", line.trim_end());
    broken(text, 97).iter().map(line).collect::<String>() + " *\n"
}

/// Text broken behind spaces, at most so many octets a piece where words allow.
fn broken(text: &str, octets: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let last = pieces.last_mut().expect("there is a piece");
        if last.is_empty() || last.len() + word.len() <= octets {
            last.push_str(word);
        } else {
            pieces.push(word.to_owned());
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::{TABLES, file, generated, header};
    use crate::command::root;

    #[test]
    fn the_headers_are_what_the_tables_make() {
        for (table, prefix) in TABLES {
            let stored = std::fs::read_to_string(root().join(file(table))).expect("a header");
            let fresh = generated(table, prefix).expect("a table");
            assert!(stored == fresh, "{} is out of date: run `cargo xtask events`", file(table));
        }
    }

    #[test]
    fn an_event_without_code_is_refused() {
        let names = "[[name]]\nname = \"cycles\"\nprose = \"Cycles.\"\n".parse().expect("names");
        let table = "title = \"T\"\nmanual = \"M\"\n[[event]]\nnative = \"CYC\"\ncode = 0xff\n\
                     register = 0x11\nnames = [\"cycles\"]\n";
        let made = |text: &str| header("t", "T", &text.parse().expect("TOML"), &names);
        let text = made(table).expect("a header");
        assert!(text.contains("E(CYC, 0x011, \\\n\t  \"Cycles.\")"), "{text}");
        let hardware = table.replace("code", "hardware").replace("register", "umask");
        assert!(made(&hardware).is_err());
        assert!(made(&table.replace("[\"cycles\"]", "[\"other\"]")).is_err(), "no prose");
    }
}
