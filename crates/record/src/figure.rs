// SPDX-License-Identifier: MIT OR Apache-2.0
//! One figure: a value with its unit, interval, tier and method.

use crate::stats::Estimate;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Evidence tier of a figure, ordered from strongest to weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Hardware counters that count both kernel and user mode.
    Hw,
    /// Hardware counters that count user mode only.
    User,
    /// Software events, the timestamp counter, tracepoints.
    Sw,
    /// Simulation with a given cache geometry.
    Sim,
    /// Computed by a model; nothing was measured.
    Model,
}

impl Tier {
    /// Returns the tier's keyword in JSON and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hw => "hw",
            Self::User => "user",
            Self::Sw => "sw",
            Self::Sim => "sim",
            Self::Model => "model",
        }
    }
}

/// A record's headline figures by name, for users and scripts to quote.
pub type Figures = BTreeMap<String, Figure>;

/// A figure's value: a number, a string, or nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Scalar {
    /// A finite number in the figure's unit.
    Number(#[serde(serialize_with = "crate::finite")] f64),
    /// A string.
    Text(String),
    /// No value is available; the figure's `reason` says why.
    Absent,
}

impl Scalar {
    /// Creates a number. Replaces -0.0, which Rust returns as the sum of an empty float iterator,
    /// with 0.0.
    fn unsigned_zero(value: f64) -> Self {
        Self::Number(value + 0.0)
    }
}

/// Returns whether two numbers are equal up to rounding. Two builds may compute results that differ
/// in the last bits, because C libraries differ in their logarithms and powers.
pub(crate) fn is_same_number(a: f64, b: f64) -> bool {
    const TOLERANCE: f64 = 1e-9;
    a == b || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
}

/// Returns whether two values of a summary are equal; floating-point numbers are compared by
/// [`is_same_number`].
pub(crate) fn is_same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| is_same_number(a, b))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same_value(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let has = |(name, value): (&String, &Value)| {
                b.get(name).is_some_and(|b| is_same_value(value, b))
            };
            a.len() == b.len() && a.iter().all(has)
        }
        _ => a == b,
    }
}

/// A value along with everything needed to judge it: unit, sample count, interval, evidence tier
/// and method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figure {
    /// The value, in `unit`.
    pub value: Scalar,
    /// The unit, as printed: `kpps`, `ticks/packet`, `ratio`, `text`, ...
    pub unit: String,
    /// Number of samples behind the value.
    pub n: u64,
    /// Lower end of the interval, in `unit`; `null` if there is no interval.
    pub low: Option<f64>,
    /// Upper end of the interval, in `unit`; `null` if there is no interval.
    pub high: Option<f64>,
    /// Nominal coverage of the interval, 0 to 1; `null` for texts, absent values, and numbers of
    /// unknown spread.
    pub confidence: Option<f64>,
    /// Evidence tier of the value.
    pub tier: Tier,
    /// How the value was measured, in a few words.
    pub method: String,
    /// Why the value is absent; `null` if it is present.
    pub reason: Option<String>,
}

impl Figure {
    /// Returns whether both figures state the same facts. Ignores rounding ([`is_same_number`]) and
    /// the wording of the method and reason, which may change between versions.
    pub(crate) fn has_facts_of(&self, other: &Self) -> bool {
        let facts = |one: &Self| Self {
            value: Scalar::Absent,
            low: None,
            high: None,
            method: String::new(),
            reason: one.reason.as_ref().map(|_| String::new()),
            ..one.clone()
        };
        let is_same_end = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => is_same_number(a, b),
            (a, b) => a == b,
        };
        let is_same_value = match (&self.value, &other.value) {
            (Scalar::Number(a), Scalar::Number(b)) => is_same_number(*a, *b),
            (a, b) => a == b,
        };
        let is_same_interval =
            is_same_end(self.low, other.low) && is_same_end(self.high, other.high);
        is_same_value && is_same_interval && facts(self) == facts(other)
    }

    /// Creates a figure from an estimate. A non-finite value makes the figure absent; a non-finite
    /// interval end becomes `None`.
    pub fn number(unit: &str, estimate: Estimate, tier: Tier, method: &str) -> Self {
        if !estimate.value.is_finite() {
            return Self::absent(unit, tier, method, "the estimate is not a finite number");
        }
        let finite = |x: f64| x.is_finite().then_some(x + 0.0);
        Self {
            value: Scalar::unsigned_zero(estimate.value),
            unit: unit.to_owned(),
            n: estimate.n,
            low: finite(estimate.low),
            high: finite(estimate.high),
            confidence: Some(estimate.confidence),
            tier,
            method: method.to_owned(),
            reason: None,
        }
    }

    /// Creates a figure without an interval, for a number that is exact or of unknown spread. A
    /// non-finite number makes the figure absent.
    pub fn exact(unit: &str, value: f64, tier: Tier, method: &str) -> Self {
        if !value.is_finite() {
            return Self::absent(unit, tier, method, "not a finite number");
        }
        Self {
            value: Scalar::unsigned_zero(value),
            unit: unit.to_owned(),
            n: 1,
            low: None,
            high: None,
            confidence: None,
            tier,
            method: method.to_owned(),
            reason: None,
        }
    }

    /// Creates a figure whose value is a string.
    pub fn text(text: &str, tier: Tier, method: &str) -> Self {
        Self {
            value: Scalar::Text(text.to_owned()),
            unit: "text".to_owned(),
            n: 1,
            low: None,
            high: None,
            confidence: None,
            tier,
            method: method.to_owned(),
            reason: None,
        }
    }

    /// Creates a figure without a value; `reason` says why.
    pub fn absent(unit: &str, tier: Tier, method: &str, reason: &str) -> Self {
        Self {
            value: Scalar::Absent,
            unit: unit.to_owned(),
            n: 0,
            low: None,
            high: None,
            confidence: None,
            tier,
            method: method.to_owned(),
            reason: Some(reason.to_owned()),
        }
    }

    /// Returns the value if it is a number.
    pub fn as_number(&self) -> Option<f64> {
        match self.value {
            Scalar::Number(x) => Some(x),
            Scalar::Text(_) | Scalar::Absent => None,
        }
    }

    /// Returns the value and its interval as an estimate ([`Estimate::of_ends`]); `None` if the
    /// value is not a number.
    pub fn estimate(&self) -> Option<Estimate> {
        let estimate = Estimate::of_ends(self.as_number()?, self.low, self.high, self.n);
        Some(Estimate { confidence: self.confidence.unwrap_or(estimate.confidence), ..estimate })
    }

    /// Multiplies the value and interval by a non-negative `factor`, converting the figure to
    /// another unit.
    #[must_use]
    pub fn scaled(&self, factor: f64, unit: &str, method: &str) -> Self {
        if self.as_number().is_none() {
            let reason = self.reason.as_deref().unwrap_or("not a number");
            return Self::absent(unit, self.tier, method, reason);
        }
        let scaled = |x: Option<f64>| x.map(|x| x * factor);
        Self {
            value: self.as_number().map_or(Scalar::Absent, |x| Scalar::Number(x * factor)),
            unit: unit.to_owned(),
            low: scaled(self.low),
            high: scaled(self.high),
            method: method.to_owned(),
            ..self.clone()
        }
    }
}

/// Returns a figure's bare value as JSON, as in `summary`.
pub(crate) fn bare(figure: &Figure) -> serde_json::Value {
    serde_json::to_value(&figure.value).unwrap_or(serde_json::Value::Null)
}
