// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of an `answers` record: questions about another record, and the answers derived from
//! its contents.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Questions about another record, with their answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswersReport {
    /// File name of the record that was queried.
    pub of: String,
    /// Kind of the queried record: `run`, `workers`, ...
    pub kind_of: String,
    /// The answers, in the order of the questions.
    pub answers: Vec<Answer>,
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// Keyword of the question.
    pub id: String,
    /// The question in words.
    pub question: String,
    /// Whether the question could be answered.
    pub verdict: AnswerVerdict,
    /// The answer in a sentence, or the reason why there is none.
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
    /// The record answers the question.
    Answered,
    /// The question does not apply: its premise is false.
    DoesNotArise,
    /// The question cannot be answered, because a required measurement is missing.
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
    /// Description of the figure.
    pub name: String,
    /// Value of the figure.
    #[serde(serialize_with = "crate::finite")]
    pub value: f64,
    /// Unit of the value.
    pub unit: String,
    /// Source of the figure: a tier or a document.
    pub source: String,
}
