// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of an `answers` record: questions about another record, answered from its contents.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Questions and answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswersReport {
    /// The record that was queried.
    pub of: String,
    /// Kind of that record: `run`, `workers`, ...
    pub kind_of: String,
    /// The answers, in the order of the questions.
    pub answers: Vec<Answer>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// Keyword of the question.
    pub id: String,
    /// The question.
    pub question: String,
    /// Whether it could be answered.
    pub verdict: AnswerVerdict,
    /// The answer, or the reason why there is none.
    pub sentence: String,
    /// The figures on which the answer is based.
    pub evidence: Vec<Evidence>,
    /// Suggested actions, in the order in which to try them; empty if there are none.
    pub advice: Vec<String>,
    /// The command that takes the missing measurement or checks the answer; `null` if there is
    /// none.
    pub next: Option<String>,
}

/// Whether a question could be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AnswerVerdict {
    /// The record answers it.
    Answered,
    /// The question does not apply: its premise is false.
    DoesNotArise,
    /// A required measurement is missing.
    CannotTell,
}

impl AnswerVerdict {
    /// Returns the verdict in words.
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
    /// Its description.
    pub name: String,
    /// Its value.
    #[serde(serialize_with = "crate::finite")]
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Source of the figure: a tier or a document.
    pub source: String,
}
