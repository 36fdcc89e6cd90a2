// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the seeds from `lab/why/seeds.toml`, which also explains its terms.

use crate::command::root;
use linerate_record::random::Random;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Directory with the list of seeds and the C sources of their programs.
pub(super) const FOLDER: &str = "lab/why";

/// Entry in a seed's `needs` list: a cgroup with a CPU quota, which requires root.
pub(super) const QUOTA: &str = "quota";
/// Entry in a seed's `needs` list: a change of a system-wide setting, which requires root and
/// `--settings`.
pub(super) const SETTINGS: &str = "settings";
/// Entry in a seed's `needs` list: a choice of the receiving CPU, which requires root.
pub(super) const RECEIVING_CPU: &str = "receiving-cpu";

/// A bottleneck with a known cause, and the control run without that cause.
#[derive(Clone, Debug)]
pub(super) struct Seed {
    pub id: String,
    pub name: String,
    pub causes: Vec<String>,
    pub control: Vec<String>,
    pub is_null: bool,
    pub line: Option<String>,
    pub prepare: Option<String>,
    pub watched: Option<String>,
    pub watch: Option<String>,
    /// Maximum number of processes to explain, those with the lowest PIDs; 1 if the others may exit
    /// during the run.
    pub at_most: u32,
    pub watch_interface: Option<String>,
    pub load: Option<String>,
    pub disturb: Option<String>,
    pub counter: Option<String>,
    pub setting: Option<String>,
    pub put_back: Option<String>,
    pub from: String,
    pub needs: Vec<String>,
    draw: BTreeMap<String, Vec<String>>,
    with: BTreeMap<String, String>,
    without: BTreeMap<String, String>,
}

/// Returns all seeds, in file order.
pub(super) fn all() -> Result<Vec<Seed>, String> {
    let file = root().join(FOLDER).join("seeds.toml");
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    parse(&text).map_err(|error| format!("{}: {error}", file.display()))
}

fn parse(text: &str) -> Result<Vec<Seed>, String> {
    let file: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let seeds = file.get("seed").and_then(Value::as_array).ok_or("no [[seed]]")?;
    seeds.iter().map(|seed| Seed::of(seed.as_table().ok_or("a seed is not a table")?)).collect()
}

const KEYS: [&str; 21] = [
    "id",
    "name",
    "causes",
    "control",
    "is_null",
    "line",
    "prepare",
    "watched",
    "watch",
    "watch_first",
    "watch_interface",
    "load",
    "disturb",
    "counter",
    "setting",
    "put_back",
    "from",
    "needs",
    "draw",
    "with",
    "without",
];

impl Seed {
    fn of(table: &Table) -> Result<Self, String> {
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(format!("unknown key `{key}`"));
        }
        let text = |key: &str| table.get(key).and_then(Value::as_str).map(str::to_owned);
        let needed = |key: &str| text(key).ok_or(format!("a seed lacks `{key}`"));
        let list = |key: &str| table.get(key).map_or_else(Vec::new, texts);
        let map = |key: &str| -> BTreeMap<String, Value> {
            let map = table.get(key).and_then(Value::as_table).cloned().unwrap_or_default();
            map.into_iter().collect()
        };
        let plain = |key: &str| {
            let entries = map(key).into_iter();
            entries.filter_map(|(k, v)| Some((k, v.as_str()?.to_owned()))).collect()
        };
        Ok(Self {
            id: needed("id")?,
            name: needed("name")?,
            causes: list("causes"),
            control: list("control"),
            is_null: table.get("is_null").and_then(Value::as_bool).unwrap_or(false),
            line: text("line"),
            prepare: text("prepare"),
            watched: text("watched"),
            watch: text("watch"),
            at_most: match table.get("watch_first").and_then(Value::as_bool) {
                Some(true) => 1,
                _ => 8,
            },
            watch_interface: text("watch_interface"),
            load: text("load"),
            disturb: text("disturb"),
            counter: text("counter"),
            setting: text("setting"),
            put_back: text("put_back"),
            from: needed("from")?,
            needs: list("needs"),
            draw: map("draw").into_iter().map(|(k, v)| (k, texts(&v))).collect(),
            with: plain("with"),
            without: plain("without"),
        })
    }

    /// Returns a run's variables: one value from each list, the same with the seed and without it.
    pub(super) fn variables(&self, is_seeded: bool, random: u64) -> BTreeMap<String, String> {
        let mut draws = Random::new(random);
        let mut pick = |values: &Vec<String>| values[draws.below(values.len())].clone();
        let mut all: BTreeMap<_, _> =
            self.draw.iter().map(|(name, values)| (name.clone(), pick(values))).collect();
        let more = if is_seeded { &self.with } else { &self.without };
        for (name, value) in more {
            let value = value.strip_prefix('$').and_then(|name| all.get(name)).unwrap_or(value);
            let value = value.clone();
            all.insert(name.clone(), value);
        }
        all.insert("SEEDED".to_owned(), if is_seeded { "1" } else { "" }.to_owned());
        all
    }
}

fn texts(value: &Value) -> Vec<String> {
    let values = value.as_array().map_or(&[][..], Vec::as_slice);
    values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_file_of_the_tree() {
        let seeds = all().unwrap();
        assert_eq!(seeds.len(), 66);
        for seed in &seeds {
            assert!(!seed.causes.is_empty(), "{}", seed.id);
            let watched = seed.watched.is_some() && seed.watch.is_some();
            assert!(watched != seed.watch_interface.is_some(), "{}", seed.id);
        }
    }

    #[test]
    fn refuses_a_key_that_it_does_not_know() {
        let error = parse("[[seed]]\nid = '1'\ncauzes = []\n").unwrap_err();
        assert_eq!(error, "unknown key `cauzes`");
    }

    #[test]
    fn draws_the_same_values_with_the_seed_and_without() {
        let seed = parse(
            "[[seed]]\nid = 'x'\nname = 'x'\nfrom = 'u1'\ndraw = { a = ['1', '2', '3'] }\n\
             with = { b = '$a' }\nwithout = { b = '9' }\n",
        )
        .unwrap()
        .remove(0);
        for random in 0..20 {
            let (with, without) = (seed.variables(true, random), seed.variables(false, random));
            assert_eq!(with["a"], without["a"]);
            assert_eq!(with["b"], with["a"]);
            assert_eq!(without["b"], "9");
        }
    }
}
