// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the TOML lists of figures to print.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    pub(crate) rounds: Option<usize>,
    #[serde(default)]
    pub(crate) machine: bool,
    #[serde(default)]
    pub(crate) each: bool,
    pub(crate) command: Vec<Command>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Command {
    pub(crate) run: String,
    name: Option<String>,
    pub(crate) page: Option<String>,
    pub(crate) figure: Vec<Figure>,
}

impl Command {
    /// Returns the name of this command in the table.
    pub(crate) fn name(&self) -> String {
        let plain = || self.run.replace(" --json", "").replace(" --quiet", "");
        self.name.clone().unwrap_or_else(|| format!("`{}`", plain()))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    pub(crate) at: String,
    what: Option<String>,
    #[serde(default = "one")]
    pub(crate) scale: f64,
    #[serde(default)]
    digits: usize,
    #[serde(default)]
    unit: String,
    pub(crate) wanted: Option<f64>,
    pub(crate) within: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    pub(crate) truth: Option<Truth>,
}

/// The true value, which a figure's interval should contain.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Truth {
    /// A number in the record's unit, before applying `scale`.
    Number(f64),
    Place(String),
}

fn one() -> f64 {
    1.0
}

impl Figure {
    pub(crate) fn name(&self) -> &str {
        self.what.as_deref().unwrap_or(&self.at)
    }

    /// Formats a value for the table.
    pub(crate) fn shown(&self, value: f64) -> String {
        format!("{value:.*}{}", self.digits, self.unit)
    }

    /// Returns the figure's lower and upper limits, each `None` if not set.
    pub(crate) fn range(&self) -> (Option<f64>, Option<f64>) {
        let around = self.wanted.zip(self.within);
        let low = self.low.or(around.map(|(wanted, within)| wanted - within));
        let high = self.high.or(around.map(|(wanted, within)| wanted + within));
        (low, high)
    }

    /// Returns whether a value is within the limits; `None` if there are none.
    pub(crate) fn holds(&self, value: f64) -> Option<bool> {
        let (low, high) = self.range();
        let is_in = |x: f64| low.is_none_or(|low| x >= low) && high.is_none_or(|high| x <= high);
        let has_range = low.is_some() || high.is_some();
        has_range.then(|| is_in(value) && self.wanted.is_none_or(is_in))
    }
}

#[cfg(test)]
mod tests {
    use super::List;
    use std::path::Path;

    /// Reads the lists next to the result pages. Other TOML files there contain no commands and are
    /// skipped.
    #[test]
    fn the_lists_of_the_pages_can_be_read() {
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
        let folders = ["", "netra", "rlp", "tcp"].map(|folder| results.join(folder).read_dir());
        let mut read = 0;
        for file in folders.into_iter().flatten().flatten().map(|entry| entry.unwrap().path()) {
            let is_toml = file.extension().is_some_and(|extension| extension == "toml");
            let text = if is_toml { std::fs::read_to_string(&file).unwrap() } else { continue };
            if text.contains("[[command]]") {
                let list: List =
                    toml::from_str(&text).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
                assert!(list.command.iter().all(|command| !command.figure.is_empty()));
                read += 1;
            }
        }
        assert!(read > 7, "{read} lists");
    }
}
