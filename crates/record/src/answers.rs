// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of an `answers` record: questions about another record, and the answers derived from
//! it.

use crate::stats::Estimate;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Questions about another record and their answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswersReport {
    /// File name of the record that was queried.
    pub of: String,
    /// Kind of the queried record: `run`, `tune`, ...
    pub kind_of: String,
    /// The answers, in the order of the questions.
    pub answers: Vec<Answer>,
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// Keyword that identifies the question.
    pub id: String,
    /// The question in words.
    pub question: String,
    /// Whether the question could be answered.
    pub verdict: AnswerVerdict,
    /// The answer in one sentence, or why the question could not be answered.
    pub sentence: String,
    /// The figures on which the answer is based.
    pub evidence: Vec<Evidence>,
    /// Suggested actions, in the order to try them; may be empty.
    pub advice: Vec<String>,
    /// Command that takes the missing measurement or verifies the answer; `null` if there is none.
    pub next: Option<String>,
}

/// Whether a question could be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AnswerVerdict {
    /// The record answers the question.
    Answered,
    /// The question does not apply because its premise is false.
    DoesNotArise,
    /// The question cannot be answered because a required measurement is missing.
    CannotTell,
}

impl AnswerVerdict {
    /// Returns the verdict as printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::DoesNotArise => "does not arise",
            Self::CannotTell => "cannot tell",
        }
    }
}

impl fmt::Display for AnswerVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A figure on which an answer is based.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Description of the figure.
    pub name: String,
    /// Value of the figure.
    #[serde(serialize_with = "crate::finite")]
    pub value: f64,
    /// Unit of the value.
    pub unit: String,
    /// Where the figure comes from: an evidence tier or a document.
    pub source: String,
    /// Lower end of the value's interval; `null` if there is none, and in older records.
    #[serde(default)]
    pub low: Option<f64>,
    /// Upper end of the value's interval; `null` if there is none, and in older records.
    #[serde(default)]
    pub high: Option<f64>,
}

impl Evidence {
    /// Creates evidence from an estimate. Infinite ends of its interval become `None`, as do both
    /// ends if the value is exact.
    pub fn of(name: &str, estimate: Estimate, unit: &str, source: &str) -> Self {
        let Estimate { value, low, high, .. } = estimate;
        let end =
            |end: f64| Some(end).filter(|end| end.is_finite() && (low < value || value < high));
        Self {
            name: name.to_owned(),
            value,
            unit: unit.to_owned(),
            source: source.to_owned(),
            low: end(low),
            high: end(high),
        }
    }
}
