// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines the format and colour of results; environment variables set the defaults.

use crate::failure::Failure;
use clap::ValueEnum;
use std::sync::OnceLock;

/// Format of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Human-readable report
    #[value(alias = "table")]
    Text,
    /// The record, as JSON
    Json,
    /// All tables, as GitHub Markdown
    Markdown,
    /// One figure per line, as CSV
    Csv,
    /// The format of rpistat, with its nine events; for stat records
    Rpistat,
    /// Top-down call tree; for profiles
    Icicle,
    /// Instructions of a function; for profiles with --annotate
    Annotated,
    /// Samples and packet losses over time; for profiles with --timeline
    Timeline,
}

/// Record kind of `stat`, which has a format of its own.
pub(crate) const STAT: &str = "stat";
/// Record kind of `profile`, which has formats of its own.
pub(crate) const PROFILE: &str = "profile";

impl Form {
    /// Returns the only kind of record that has this format; `None` if all have it.
    pub(crate) fn kind(self) -> Option<&'static str> {
        match self {
            Self::Text | Self::Json | Self::Markdown | Self::Csv => None,
            Self::Rpistat => Some(STAT),
            Self::Icicle | Self::Annotated | Self::Timeline => Some(PROFILE),
        }
    }

    /// Returns the format's name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// When to colour results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR or TERM=dumb is set
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

static COLOR: OnceLock<Color> = OnceLock::new();

/// Sets the colour mode for the rest of the process, from `--color` or its default.
///
/// # Errors
/// Returns an error if an environment variable has a value that the corresponding option would
/// reject. The error lists the formats that the command has, those for which `has` is true.
pub(crate) fn set(color: Option<Color>, has: impl Fn(Form) -> bool) -> Result<(), Failure> {
    let of_color = || of_variable("LINERATE_COLOR", |_| true);
    let color = color.map_or_else(of_color, |color| Ok(Some(color)))?;
    let _ = COLOR.set(color.unwrap_or(Color::Auto));
    of_variable("LINERATE_FORMAT", has).map(|_| ())
}

/// Returns whether to colour the output, given whether the output goes to a terminal.
pub(crate) fn is_colored(is_terminal: bool) -> bool {
    let is_set = |name, is: fn(&std::ffi::OsStr) -> bool| {
        std::env::var_os(name).is_some_and(|value| is(&value))
    };
    match COLOR.get() {
        Some(Color::Always) => true,
        Some(Color::Never) => false,
        Some(Color::Auto) | None => {
            let is_refused = is_set("NO_COLOR", |value| !value.is_empty());
            is_terminal && !is_refused && !is_set("TERM", |term| term == "dumb")
        }
    }
}

/// Returns the format named by `LINERATE_FORMAT`.
pub(crate) fn form() -> Option<Form> {
    of_variable("LINERATE_FORMAT", |_| true).ok().flatten()
}

/// Returns whether `LINERATE_DETAILS` requests all tables, that is, is neither empty nor 0.
pub(crate) fn details() -> bool {
    std::env::var_os("LINERATE_DETAILS").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Returns the value of an environment variable; `None` if it is unset or empty. Rejects invalid
/// values with an error that lists those for which `is_listed` is true.
fn of_variable<T: ValueEnum + Copy>(
    name: &str,
    is_listed: impl Fn(T) -> bool,
) -> Result<Option<T>, Failure> {
    let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let value = value.to_string_lossy();
    T::from_str(&value, false).map(Some).map_err(|_| {
        let listed = T::value_variants().iter().filter(|value| is_listed(**value));
        let values = listed.filter_map(T::to_possible_value);
        let values: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
        Failure::new(format!("invalid {name} '{value}': expected one of {}", values.join(", ")))
    })
}
