// SPDX-License-Identifier: MIT OR Apache-2.0
//! A complete record and its JSON form: writing it, reading it back, and rejecting it with a
//! reason.
//!
//! A record consists of its provenance and its body; figures, summary and warnings are derived from
//! these. In JSON, the fields of the body are at the same level as those of the envelope, and
//! `kind` says to which body they belong. Derived values are included for scripts: every complete
//! figure is under `figures`, and its bare value under `summary`, together with bare values from
//! the body's lists. The reader derives all of them again and rejects a record in which they
//! differ.

use crate::answers::AnswersReport;
use crate::budget::BudgetReport;
use crate::doctor::DoctorReport;
use crate::figure::{Figure, Figures, Scalar, bare};
use crate::kernels::KernelsReport;
use crate::memory::MemoryReport;
use crate::plan::PlanReport;
use crate::profile::ProfileReport;
use crate::profile_diff::ProfileDiffReport;
use crate::provenance::Provenance;
use crate::regions::RegionsReport;
use crate::run::RunReport;
use crate::stat::StatReport;
use crate::strands::StrandsReport;
use crate::tcp::TcpReport;
use crate::tune::TuneReport;
use crate::upgrade;
use crate::warning::Warning;
use crate::why::WhyReport;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Value of the `schema` field in every record.
const SCHEMA: &str = "linerate-record";
/// Major version of the records that this program writes. When reading, records of 1.x are
/// upgraded, records of other major versions are rejected, and unknown fields of newer minor
/// versions are ignored.
const MAJOR: u32 = 2;
const MINOR: u32 = 0;

/// A record: the measurements, and the context needed to interpret them.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Origin of the record.
    pub provenance: Provenance,
    /// Full report of the command that made the record.
    pub body: Body,
}

/// Full report of a command.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Body {
    /// `linerate run`: measurements of a path with one mapping of stages to workers, as given.
    Run(Box<RunReport>),
    /// `linerate tune`: a mapping that was measured, explained and, if a better one was found,
    /// replaced.
    Tune(Box<TuneReport>),
    /// `linerate kernels`: the speed of checksum, copy, copy+checksum and fill, with their bounds.
    Kernels(Box<KernelsReport>),
    /// `linerate stat`: event counts for a command, a process or processors.
    Stat(Box<StatReport>),
    /// `linerate doctor`: what this machine can measure, and what would enable the rest.
    Doctor(Box<DoctorReport>),
    /// Measurements that a program made of its own regions, through `liblinerate_regions`.
    Regions(Box<RegionsReport>),
    /// `linerate memory`: the memory hierarchy as seen by loads.
    Memory(Box<MemoryReport>),
    /// `linerate budget`: the per-packet budget at line rate.
    Budget(Box<BudgetReport>),
    /// `linerate import`: measurements that another program made, per strand (hardware thread or
    /// worker thread).
    Strands(Box<StrandsReport>),
    /// `linerate explain`: answers to questions about a record.
    Answers(Box<AnswersReport>),
    /// `linerate plan`: predictions for a mapping, and recommended changes.
    Plan(Box<PlanReport>),
    /// Speed of TCP stacks under traffic patterns, with every set of checksum and copy routines.
    Tcp(Box<TcpReport>),
    /// `linerate why`: what limits a running program.
    Why(Box<WhyReport>),
    /// `linerate profile`: the functions in which a program spends its on-CPU time.
    Profile(Box<ProfileReport>),
    /// `linerate diff`: two profiles compared.
    ProfileDiff(Box<ProfileDiffReport>),
}

/// An entry of `summary`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Bare<'a> {
    /// The value of a figure.
    Figure(&'a Scalar),
    /// Values from the body: an object with named values, or a list of such objects.
    Body(Value),
}

/// A linerate record: the measurements, with the context needed to interpret them.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "linerate record"))]
struct Wire<'a> {
    /// Always `linerate-record`.
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    schema: &'a str,
    /// Version of the record format as `major.minor`; the README of the published schema lists the
    /// guarantees.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = r"^2\.[0-9]+$")))]
    version: String,
    /// Origin of the record.
    provenance: &'a Provenance,
    /// The value of each figure under the same name, for scripts, without unit and interval. A
    /// `memory` record also has `levels`, `tlb`, `pages`, `noise`, `timer` and `os_view`; a record
    /// of strands has `strands`, a record of answers `answers`, a `why` record `threads`, `cpus`,
    /// `findings` and `ledger`, a `profile` record `functions` and `classes`, and a `profile_diff`
    /// record `functions`.
    summary: BTreeMap<&'a str, Bare<'a>>,
    /// The main figures of the record, by name: those that users and scripts quote.
    figures: &'a BTreeMap<String, Figure>,
    /// Reasons to doubt the figures.
    warnings: &'a [Warning],
    #[serde(flatten)]
    body: &'a Body,
}

/// The stored part of a record that all kinds have in common.
#[derive(Deserialize)]
struct Envelope {
    provenance: Provenance,
}

/// Derived values as stored in a record's JSON.
#[derive(Deserialize)]
struct Stated {
    summary: BTreeMap<String, Value>,
    figures: Figures,
    warnings: Vec<Warning>,
}

impl Record {
    /// Returns the main figures of the record, by name: those that users and scripts quote. The
    /// names are those used in `summary`.
    pub fn figures(&self) -> Figures {
        self.body.derive().figures()
    }

    /// Returns reasons to doubt the figures.
    pub fn warnings(&self) -> Vec<Warning> {
        self.body.derive().warnings(&self.provenance)
    }

    /// Returns values for scripts, by name: the bare values of the figures, and lists from the
    /// body.
    pub fn summary(&self) -> BTreeMap<String, Value> {
        let figures = self.figures();
        let figures = figures.iter().map(|(name, figure)| (name.clone(), bare(figure)));
        let lists = self.body.derive().lists().into_iter();
        figures.chain(lists.map(|(name, list)| (name.to_owned(), list))).collect()
    }

    /// Returns the record as indented JSON, ending in a newline.
    ///
    /// # Errors
    /// [`WriteError`] if a required number is infinite or NaN.
    pub fn to_json_pretty(&self) -> Result<String, WriteError> {
        self.to_json(serde_json::ser::PrettyFormatter::new())
    }

    /// Returns the record as one line of JSON, ending in a newline.
    ///
    /// # Errors
    /// [`WriteError`] if a required number is infinite or NaN.
    pub fn to_json_line(&self) -> Result<String, WriteError> {
        self.to_json(serde_json::ser::CompactFormatter)
    }

    fn to_json(&self, formatter: impl serde_json::ser::Formatter) -> Result<String, WriteError> {
        let (figures, warnings) = (self.figures(), self.warnings());
        let lists = self.body.derive().lists().into_iter();
        let bare = figures.iter().map(|(name, f)| (name.as_str(), Bare::Figure(&f.value)));
        let wire = Wire {
            schema: SCHEMA,
            version: format!("{MAJOR}.{MINOR}"),
            provenance: &self.provenance,
            summary: bare.chain(lists.map(|(name, list)| (name, Bare::Body(list)))).collect(),
            figures: &figures,
            warnings: &warnings,
            body: &self.body,
        };
        let mut json = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut json, formatter);
        serde_path_to_error::serialize(&wire, &mut serializer).map_err(|error| WriteError {
            field: error.path().to_string(),
            message: error.into_inner().to_string(),
        })?;
        json.push(b'\n');
        Ok(String::from_utf8(json).expect("serde_json writes UTF-8"))
    }

    /// Reads a record of this or the previous major version from its JSON text. Unknown fields are
    /// ignored.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn from_json(json: &str) -> Result<Self, ReadError> {
        match upgrade::to_current(json, MAJOR) {
            (json, None) => Self::from_current(&json, false),
            (json, Some(version)) => Self::from_current(&json, true).map_err(|error| match error {
                // The positions refer to the upgraded text, which the user does not have.
                ReadError::Field { field, message, .. } => {
                    ReadError::NotUpgraded { version, field, message }
                }
                other => other,
            }),
        }
    }

    /// Reads a record with current field names. The derived values in an upgraded record come from
    /// an earlier version and may differ from those of this version.
    fn from_current(json: &str, is_upgraded: bool) -> Result<Self, ReadError> {
        let Head { minor, kind } = check_head(json)?;
        let Envelope { provenance } = read(json)?;
        let stated: Stated = read(json)?;
        let body: Body = match kind.as_str() {
            "run" => Body::Run(read(json)?),
            "tune" => Body::Tune(read(json)?),
            "kernels" => Body::Kernels(read(json)?),
            "stat" => Body::Stat(read(json)?),
            "doctor" => Body::Doctor(read(json)?),
            "regions" => Body::Regions(read(json)?),
            "memory" => Body::Memory(read(json)?),
            "budget" => Body::Budget(read(json)?),
            "strands" => Body::Strands(read(json)?),
            "answers" => Body::Answers(read(json)?),
            "plan" => Body::Plan(read(json)?),
            "tcp" => Body::Tcp(read(json)?),
            "why" => Body::Why(read(json)?),
            "profile" => Body::Profile(read(json)?),
            "profile_diff" => Body::ProfileDiff(read(json)?),
            _ => return Err(ReadError::UnknownKind { kind }),
        };
        let record = Self { provenance, body };
        match minor {
            MINOR if !is_upgraded => stated.check_against(&record)?,
            _ => stated.check_alone()?,
        }
        Ok(record)
    }
}

/// Minor version and kind of a record, as stated in its JSON.
struct Head {
    minor: u32,
    kind: String,
}

/// Checks that the text is a record of a supported version.
fn check_head(json: &str) -> Result<Head, ReadError> {
    let value: Value = serde_json::from_str(json).map_err(|error| ReadError::syntax(&error))?;
    let no_record = |found: &str| ReadError::NotARecord { found: found.to_owned() };
    let text = |field| match value.get(field) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(no_record(&format!("`{field}` is not a string"))),
        None => Err(no_record(&format!("`{field}` is missing"))),
    };
    if !value.is_object() {
        return Err(no_record("not a JSON object"));
    }
    let schema = text("schema")?;
    if schema != SCHEMA {
        return Err(no_record(&format!("`schema` is `{schema}`")));
    }
    let version = text("version")?;
    match parse_version(&version) {
        Some((MAJOR, minor)) => Ok(Head { minor, kind: text("kind")? }),
        Some(_) => Err(ReadError::OtherVersion { version }),
        None => Err(no_record(&format!("`version` is `{version}`"))),
    }
}

fn parse_version(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Reads the fields of `T` from a record and ignores the others. Parses the text again, because the
/// position of an invalid field is known only from the text.
fn read<T: DeserializeOwned>(json: &str) -> Result<T, ReadError> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let field = error.path().to_string();
        let error = error.into_inner();
        let (line, column) = (error.line(), error.column());
        ReadError::Field { field, message: without_position(&error), line, column }
    })
}

impl Stated {
    /// Checks that the stored derived values match those derived from the rest of the record.
    fn check_against(&self, record: &Record) -> Result<(), ReadError> {
        differing(&self.figures, &record.figures(), Figure::has_facts_of)
            .map_or(Ok(()), |name| changed("figures", &name))?;
        differing(&self.summary, &record.summary(), Value::eq)
            .map_or(Ok(()), |name| changed("summary", &name))?;
        if self.warnings != record.warnings() {
            return Err(ReadError::Changed { field: "warnings".to_owned() });
        }
        Ok(())
    }

    /// Checks only that `summary` agrees with `figures`: the derived values of another version
    /// cannot be recomputed here.
    fn check_alone(&self) -> Result<(), ReadError> {
        let agrees = |(name, figure): (&String, &Figure)| {
            self.summary.get(name).and_then(as_scalar).as_ref() == Some(&figure.value)
        };
        match self.figures.iter().find(|entry| !agrees(*entry)) {
            Some((name, _)) => changed("summary", name),
            None => Ok(()),
        }
    }
}

fn changed(part: &str, name: &str) -> Result<(), ReadError> {
    Err(ReadError::Changed { field: format!("{part}.{name}") })
}

/// Returns the first name that is missing from one map, or whose two values are not the `same`.
fn differing<T>(
    a: &BTreeMap<String, T>,
    b: &BTreeMap<String, T>,
    same: fn(&T, &T) -> bool,
) -> Option<String> {
    let agree = |name: &String| a.get(name).zip(b.get(name)).is_some_and(|(a, b)| same(a, b));
    a.keys().chain(b.keys()).find(|name| !agree(name)).cloned()
}

fn as_scalar(value: &Value) -> Option<Scalar> {
    Scalar::deserialize(value).ok()
}

/// Returns the message of `error` without its trailing position.
fn without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.rfind(" at line ") {
        Some(end) => message[..end].to_owned(),
        None => message,
    }
}

/// Error for a record that cannot be written because a required number was computed incorrectly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// The field, as a path: `workers[0].stages[2].kpps`.
    pub field: String,
    /// Description of the error.
    pub message: String,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, message } = self;
        write!(f, "the record cannot be written: `{field}`: {message}; please report this")
    }
}

impl std::error::Error for WriteError {}

/// Error for text that cannot be read as a record. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The text ends in the middle of a record.
    Truncated {
        /// Number of the last line.
        line: usize,
        /// Number of the last column.
        column: usize,
    },
    /// The text is not JSON.
    Syntax {
        /// Line of the error.
        line: usize,
        /// Column of the error.
        column: usize,
        /// Description of the error.
        message: String,
    },
    /// The text is JSON, but not a record.
    NotARecord {
        /// What was found instead of a record.
        found: String,
    },
    /// The record has another major version, which cannot be read.
    OtherVersion {
        /// Version of the record.
        version: String,
    },
    /// The record has the previous major version and lacks a required field.
    NotUpgraded {
        /// Version of the record.
        version: String,
        /// Path of the field, or of the object that lacks it; `.` is the record itself.
        field: String,
        /// Description of the error.
        message: String,
    },
    /// The record is of a kind that this version does not know.
    UnknownKind {
        /// Kind of the record.
        kind: String,
    },
    /// A field of the record is missing or of the wrong type.
    Field {
        /// Path of the field, or of the object that lacks it; `.` is the record itself.
        field: String,
        /// Description of the error.
        message: String,
        /// Line of the error.
        line: usize,
        /// Column of the error.
        column: usize,
    },
    /// `figures`, `summary` or `warnings` contradict the rest of the record.
    Changed {
        /// Path of the first contradictory field: `summary.throughput_kpps`.
        field: String,
    },
}

impl ReadError {
    fn syntax(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        if error.is_eof() {
            return Self::Truncated { line, column };
        }
        Self::Syntax { line, column, message: without_position(error) }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { line, column } => write!(
                f,
                "the record is truncated at line {line}, column {column}; copy it again, or \
                 recreate it with --record"
            ),
            Self::Syntax { line, column, message } => {
                write!(f, "line {line}, column {column}: not JSON: {message}")
            }
            Self::NotARecord { found } => {
                write!(f, "not a linerate record: {found}; make one with --record FILE")
            }
            Self::OtherVersion { version } => write!(
                f,
                "the record has version {version}, but this linerate reads {MAJOR}.x and 1.x; read \
                 it with the version named in its `provenance.program`"
            ),
            Self::NotUpgraded { version, field, message } => write!(
                f,
                "the record has version {version} and cannot be converted to {MAJOR}.{MINOR}: \
                 `{field}`: {message}; measure again, or read it with the version named in its \
                 `provenance.program`"
            ),
            Self::UnknownKind { kind } => {
                write!(f, "unknown kind of record `{kind}`; a newer linerate may read it")
            }
            Self::Field { field, message, line, column } => {
                write!(f, "line {line}, column {column}: `{field}`: {message}")
            }
            Self::Changed { field } => write!(
                f,
                "`{field}` contradicts the rest of the record, which was edited: use the original \
                 record, or measure again"
            ),
        }
    }
}

impl std::error::Error for ReadError {}

/// Returns the published JSON Schema (draft 2020-12) for records of the current version, ending in
/// a newline.
#[cfg(feature = "schema")]
pub fn schema_json() -> String {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Wire<'_>>();
    let mut json = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    json.push('\n');
    json
}
