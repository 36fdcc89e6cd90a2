// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats the report of an `answers` record: questions, answers, supporting figures and advice.

use crate::layout::{Paint, labelled, limited, painted, stacked};
use crate::value::{clean, significant};
use crate::{Style, paragraph};
use linerate_record::answers::{Answer, AnswerVerdict, AnswersReport};

/// Formats the answers to questions about a record.
pub fn answers(report: &AnswersReport, style: &Style) -> String {
    stacked(&report.answers.iter().map(|one| answer(one, style)).collect::<Vec<_>>())
}

/// Formats one screen: each answer with its first piece of advice, unanswered questions last.
pub(crate) fn screen(report: &AnswersReport, style: &Style) -> String {
    let mut known = String::new();
    let mut unknown: Vec<&str> = Vec::new();
    for one in &report.answers {
        match one.verdict {
            AnswerVerdict::CannotTell => unknown.push(&one.id),
            AnswerVerdict::DoesNotArise | AnswerVerdict::Answered => {
                known += &paragraph(&format!("{}: {}", one.id, one.sentence), 0, style);
            }
        }
        if let Some(advice) = one.advice.first() {
            known += &paragraph(&format!("do: {advice}"), 2, style);
        }
    }
    let missing = match unknown.is_empty() {
        true => String::new(),
        false => paragraph(
            &format!("cannot tell: {}; --details explains why", unknown.join(", ")),
            0,
            style,
        ),
    };
    stacked(&[limited(&known, 34), missing])
}

fn answer(answer: &Answer, style: &Style) -> String {
    let line = |label: &str, text: &str| labelled(label, Paint::Head, &clean(text), style);
    let question = clean(&format!("{} ({})", answer.question, answer.id));
    let mut text = painted(Paint::Head, &question, style) + "\n";
    text += &match answer.verdict {
        AnswerVerdict::Answered => labelled("answer", Paint::Good, &clean(&answer.sentence), style),
        AnswerVerdict::DoesNotArise => line("no", &answer.sentence),
        AnswerVerdict::CannotTell => labelled("-", Paint::Warning, &clean(&answer.sentence), style),
    };
    if !answer.evidence.is_empty() {
        let quoted = answer.evidence.iter().map(|evidence| {
            let value = significant(evidence.value);
            format!("{} {value} {} ({})", evidence.name, evidence.unit, evidence.source)
        });
        text += &line("because", &quoted.collect::<Vec<_>>().join("; "));
    }
    for advice in &answer.advice {
        text += &line("do", advice);
    }
    if let Some(next) = &answer.next {
        text += &line("next", next);
    }
    text
}
