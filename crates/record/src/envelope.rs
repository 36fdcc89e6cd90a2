// SPDX-License-Identifier: MIT OR Apache-2.0
//! A complete record and its JSON form: serialisation, parsing, and validation.
//!
//! A record consists of its provenance and its body; figures, summary and warnings are derived from
//! them. In JSON, the body's fields are at the same level as the envelope's, and `kind` identifies
//! the type of body. Derived values are included for scripts: `figures` holds the complete figures,
//! and `summary` their bare values along with lists from the body. The reader recomputes all of
//! them and rejects the record if any differ.

mod errors;
mod unknown;

pub use errors::{ReadError, WriteError};

use crate::answers::AnswersReport;
use crate::budget::BudgetReport;
use crate::doctor::DoctorReport;
use crate::figure::{Figure, Figures, Scalar, bare, is_same_value};
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
use crate::stream::StreamReport;
use crate::tcp::TcpReport;
use crate::tune::TuneReport;
use crate::upgrade;
use crate::warning::Warning;
use crate::why::WhyReport;
use errors::without_position;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Value of the `schema` field in every record.
const SCHEMA: &str = "linerate-record";
/// Major version that this program writes. When read, records of version 1.x are upgraded, and
/// other major versions are rejected. In records of newer minor versions, unknown fields are
/// ignored, and an unknown value of an enumeration with a variant `Unknown` becomes that variant.
const MAJOR: u32 = 2;
const MINOR: u32 = 10;

/// A record: the measurements and the context needed to interpret them.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Origin of the record.
    pub provenance: Provenance,
    /// The complete report of the command that made the record.
    pub body: Body,
}

/// The complete report of one command.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Body {
    /// `linerate run`: a path measured under the given mapping of stages to workers.
    Run(Box<RunReport>),
    /// `linerate tune`: a mapping that was measured, explained and, if a better one was found,
    /// replaced.
    Tune(Box<TuneReport>),
    /// `linerate kernels`: the speed of checksum, copy, copy+checksum and fill, relative to bounds.
    Kernels(Box<KernelsReport>),
    /// `linerate stat`: event counts for a command, a process or processors.
    Stat(Box<StatReport>),
    /// `linerate doctor`: what this machine can measure, and what would enable the rest.
    Doctor(Box<DoctorReport>),
    /// Regions that a program measured in itself with `liblinerate_regions`.
    Regions(Box<RegionsReport>),
    /// `linerate memory`: the memory hierarchy as seen by loads.
    Memory(Box<MemoryReport>),
    /// `linerate budget`: the per-packet budget at line rate.
    Budget(Box<BudgetReport>),
    /// `linerate import`: per-strand (hardware thread or worker thread) measurements from another
    /// program.
    Strands(Box<StrandsReport>),
    /// `linerate explain`: answers to questions about a record.
    Answers(Box<AnswersReport>),
    /// `linerate plan`: predictions for a mapping, and recommended changes.
    Plan(Box<PlanReport>),
    /// TCP stack speed under several traffic patterns, for every set of checksum and copy routines.
    Tcp(Box<TcpReport>),
    /// `linerate why`: what limits a running program.
    Why(Box<WhyReport>),
    /// `linerate profile`: the functions in which a program spends its on-CPU time.
    Profile(Box<ProfileReport>),
    /// `linerate diff`: a comparison of two profiles.
    ProfileDiff(Box<ProfileDiffReport>),
    /// `linerate stream`: throughput, CPU time and limits of streams between two sockets.
    Stream(Box<StreamReport>),
}

impl Body {
    /// Returns the value of `kind` in the record's JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Tune(_) => "tune",
            Self::Kernels(_) => "kernels",
            Self::Stat(_) => "stat",
            Self::Doctor(_) => "doctor",
            Self::Regions(_) => "regions",
            Self::Memory(_) => "memory",
            Self::Budget(_) => "budget",
            Self::Strands(_) => "strands",
            Self::Answers(_) => "answers",
            Self::Plan(_) => "plan",
            Self::Tcp(_) => "tcp",
            Self::Why(_) => "why",
            Self::Profile(_) => "profile",
            Self::ProfileDiff(_) => "profile_diff",
            Self::Stream(_) => "stream",
        }
    }
}

/// An entry of `summary`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Bare<'a> {
    /// A figure's value.
    Figure(&'a Scalar),
    /// Other values from the body: a list, an object, a number or `null`.
    Body(Value),
}

/// A linerate record: measurements and the context needed to interpret them.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "linerate record"))]
struct Wire<'a> {
    /// Always `linerate-record`.
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    schema: &'a str,
    /// Version of the record format as `major.minor`; the README of the published schema lists the
    /// compatibility guarantees.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = r"^2\.[0-9]+$")))]
    version: String,
    /// Origin of the record.
    provenance: &'a Provenance,
    /// The figures' bare values for scripts, under the same names. Some kinds of record have
    /// further entries: `answers` has `answers`; `budget` has `frames`; `memory` has `levels`,
    /// `tlb`, `pages`, `noise`, `timer` and `os_view`; `plan` has `recommendations` and `workers`;
    /// `profile` has `functions` and `classes`; `profile_diff` has `functions`; `strands` has
    /// `strands`, `faults` and `first_fault_line`; `stream` has `points`, `methods` and `findings`;
    /// `tcp` has an entry per stack; `why` has `threads`, `cpus`, `findings` and `ledger`.
    summary: BTreeMap<&'a str, Bare<'a>>,
    /// The record's headline figures by name, for users and scripts to quote.
    figures: &'a BTreeMap<String, Figure>,
    /// Reasons to doubt the figures.
    warnings: &'a [Warning],
    #[serde(flatten)]
    body: &'a Body,
}

/// The fields common to records of all kinds.
#[derive(Deserialize)]
struct Envelope {
    provenance: Provenance,
}

/// Derived values as stored in the JSON.
#[derive(Deserialize)]
struct Stated {
    summary: BTreeMap<String, Value>,
    figures: Figures,
    warnings: Vec<Warning>,
}

impl Record {
    /// Returns the record's headline figures, by name. `summary` uses the same names.
    pub fn figures(&self) -> Figures {
        self.body.derive().figures()
    }

    /// Returns the reasons to doubt the figures.
    pub fn warnings(&self) -> Vec<Warning> {
        self.body.derive().warnings(&self.provenance)
    }

    /// Returns values for scripts, by name: bare values of the figures, and lists from the body.
    pub fn summary(&self) -> BTreeMap<String, Value> {
        let figures = self.figures();
        let figures = figures.iter().map(|(name, figure)| (name.clone(), bare(figure)));
        let lists = self.body.derive().lists().into_iter();
        figures.chain(lists.map(|(name, list)| (name.to_owned(), list))).collect()
    }

    /// Serialises the record as indented JSON with a trailing newline.
    ///
    /// # Errors
    /// Returns an error if a required number is infinite or NaN.
    pub fn to_json_pretty(&self) -> Result<String, WriteError> {
        self.to_json(serde_json::ser::PrettyFormatter::new())
    }

    /// Serialises the record as a single line of JSON with a trailing newline.
    ///
    /// # Errors
    /// Returns an error if a required number is infinite or NaN.
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

    /// Parses a record of the current or previous major version. Unknown fields are ignored.
    ///
    /// # Errors
    /// Returns an error if the text is not a valid record of a supported version.
    pub fn from_json(json: &str) -> Result<Self, ReadError> {
        match upgrade::to_current(json, MAJOR) {
            (json, None) => Self::from_current(&json, false),
            (json, Some(version)) => Self::from_current(&json, true).map_err(|error| match error {
                // Line and column refer to the upgraded text, which the user never sees.
                ReadError::Field { field, message, .. } => {
                    ReadError::NotUpgraded { version, field, message }
                }
                other => other,
            }),
        }
    }

    /// Parses a record that uses current field names. An upgraded record's derived values come from
    /// an older version and may legitimately differ from this version's.
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
            "stream" => Body::Stream(read(json)?),
            _ => return Err(ReadError::UnknownKind { kind }),
        };
        if minor <= MINOR {
            unknown::check(json, &body)?;
        }
        let record = Self { provenance, body };
        match minor {
            MINOR if !is_upgraded => stated.check_against(&record)?,
            _ => stated.check_alone()?,
        }
        Ok(record)
    }
}

/// Minor version and kind stated in a record's JSON.
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

/// Deserialises `T` from a record, ignoring other fields. Parses the text again, because only the
/// parser knows the position of an invalid field.
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
    /// Checks that the stored derived values match those recomputed from the record.
    fn check_against(&self, record: &Record) -> Result<(), ReadError> {
        differing(&self.figures, &record.figures(), Figure::has_facts_of)
            .map_or(Ok(()), |name| changed("figures", &name))?;
        differing(&self.summary, &record.summary(), is_same_value)
            .map_or(Ok(()), |name| changed("summary", &name))?;
        if self.warnings != record.warnings() {
            return Err(ReadError::Changed { field: "warnings".to_owned() });
        }
        Ok(())
    }

    /// Checks only that `summary` agrees with `figures`, since another version's derived values
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

/// Returns the first name that is missing from one map or whose values differ according to `same`.
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

/// Returns the published JSON Schema (draft 2020-12) for the current record version, with a
/// trailing newline.
#[cfg(feature = "schema")]
pub fn schema_json() -> String {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Wire<'_>>();
    let mut json =
        serde_json::to_string_pretty(&schema).expect("a schema can be serialized to JSON");
    json.push('\n');
    json
}
