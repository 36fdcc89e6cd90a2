// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from an `answers` record.

use super::{Derive, Lists, word};
use crate::answers::{Answer, AnswerVerdict, AnswersReport};
use crate::figure::{Figure, Figures, Tier};
use serde_json::json;

impl Derive for AnswersReport {
    /// Returns the answers, keyed by question. Unanswered questions yield an absent figure whose
    /// reason names the missing measurement.
    fn figures(&self) -> Figures {
        const METHOD: &str = "rules applied to the queried record's figures";
        let of = |answer: &Answer| {
            let figure = match answer.verdict {
                AnswerVerdict::CannotTell => {
                    Figure::absent("text", Tier::Model, METHOD, &answer.sentence)
                }
                _ => Figure::text(&answer.sentence, Tier::Model, METHOD),
            };
            (word(&answer.id), figure)
        };
        self.answers.iter().map(of).collect()
    }

    /// Returns the verdict, answer and suggested next command for each question.
    fn lists(&self) -> Lists {
        let of = |answer: &Answer| {
            json!({
                "id": answer.id,
                "verdict": answer.verdict,
                "sentence": answer.sentence,
                "next": answer.next,
            })
        };
        Lists::from([("answers", self.answers.iter().map(of).collect())])
    }
}
