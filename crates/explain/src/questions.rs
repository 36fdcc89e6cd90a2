// SPDX-License-Identifier: MIT OR Apache-2.0
//! Common questions about missed line rate, answered from a record.
//!
//! The questions are from chapter 10 of "Netra Data Plane Software Suite 2.0": those in its
//! troubleshooting section, and others from its sections on pipelining and parking. Every answer
//! quotes its evidence. If the record lacks a figure, the answer is "cannot tell", with the command
//! that measures it.
//!
//! Predicting other mappings is left to [`linerate_plan::model`], and measuring them to
//! `linerate tune`.

mod across;
mod evidence;
mod neighbours;
mod rate;
mod strands;

use crate::cpi::EventCosts;
use linerate_cmt::processor::Processor;
use linerate_record::answers::{Answer, AnswerVerdict, AnswersReport, Evidence};
use linerate_record::{Body, Record};
use std::fmt;

/// The record that a question is about, and other data for the answer.
#[derive(Clone, Copy, Debug)]
pub struct Inquiry<'a> {
    /// The record.
    pub record: &'a Record,
    /// File name of the record, for use in suggested commands.
    pub file: &'a str,
    /// A record of the same application with fewer ports or workers.
    pub against: Option<&'a Record>,
    /// The processor, if given.
    pub processor: Option<&'a Processor>,
    /// Line rate in bits per second, if given.
    pub line_bits_per_s: Option<f64>,
    /// Event costs on this machine, if measured.
    pub costs: Option<&'a EventCosts>,
}

/// A question.
#[derive(Clone, Copy)]
pub struct Question {
    /// Keyword that identifies the question.
    pub id: &'static str,
    /// The question in words.
    pub text: &'static str,
    /// Data needed for the answer, in words.
    pub needs: &'static str,
    /// Whether a `why` record, which has neither stages nor strands, can answer the question.
    takes_why: bool,
    answer: fn(&Inquiry<'_>) -> Reply,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The questions, in the order in which to ask them.
pub const QUESTIONS: [Question; 8] = [
    Question {
        id: "bottleneck",
        text: "What limits the rate?",
        needs: "a run, tune or why record",
        takes_why: true,
        answer: strands::bottleneck,
    },
    Question {
        id: "bound",
        text: "Is a worker compute-bound or memory-bound?",
        needs: "cycles per instruction, miss counts and miss costs",
        takes_why: false,
        answer: strands::bound,
    },
    Question {
        id: "small-packets",
        text: "Why is line rate not reached with small packets?",
        needs: "a packet rate and a line rate",
        takes_why: true,
        answer: rate::small_packets,
    },
    Question {
        id: "line-rate-64",
        text: "How do I reach line rate with 64-byte frames?",
        needs: "the cost per packet (time, or instructions on a known processor), and a line rate",
        takes_why: false,
        answer: rate::shortest_frames,
    },
    Question {
        id: "scaling",
        text: "Why does throughput not scale with more ports?",
        needs: "a second record with fewer ports or workers",
        takes_why: false,
        answer: across::scaling,
    },
    Question {
        id: "split",
        text: "What should be split first?",
        needs: "the cost of each worker and its stages",
        takes_why: false,
        answer: strands::split,
    },
    Question {
        id: "placement",
        text: "When does thread placement matter?",
        needs: "workers that share a core, and their instructions per cycle",
        takes_why: false,
        answer: across::placement,
    },
    Question {
        id: "parking",
        text: "Should idle workers be parked, and polling slowed down?",
        needs: "workers that share a core, and their polling time",
        takes_why: false,
        answer: across::parking,
    },
];

/// Error returned for an unknown question; holds its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoQuestion(String);

impl fmt::Display for NoQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<&str> = QUESTIONS.iter().map(|question| question.id).collect();
        write!(f, "unknown question `{}`; use one of {}", self.0, ids.join(", "))
    }
}

impl std::error::Error for NoQuestion {}

impl Question {
    fn applies(&self, body: &Body) -> bool {
        self.takes_why || !matches!(body, Body::Why(_))
    }

    /// Answers the question; "cannot tell" if this kind of record cannot answer it.
    fn reply(&self, asked: &Inquiry<'_>) -> Reply {
        if self.applies(&asked.record.body) {
            return (self.answer)(asked);
        }
        let next = match self.id {
            "bound" => "linerate profile PID   # hottest functions, and what bounds the program",
            _ => "linerate run PATH.toml --record run.json   # for a packet path",
        };
        let kind = asked.record.body.kind();
        let needs = self.needs;
        Reply::cannot_tell(
            &format!("a {kind} record lacks the data needed for an answer: {needs}"),
            next,
        )
    }
}

/// Answers the question `id`, or all that apply to this kind of record.
///
/// # Errors
/// Returns an error if there is no question with this name.
pub fn ask(asked: &Inquiry<'_>, id: Option<&str>) -> Result<AnswersReport, NoQuestion> {
    let body = &asked.record.body;
    let is_wanted =
        |question: &&Question| id.map_or(question.applies(body), |id| id == question.id);
    let wanted: Vec<&Question> = QUESTIONS.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        return Err(NoQuestion(id.unwrap_or_default().to_owned()));
    }
    let of = |question: &&Question| {
        let Reply { verdict, sentence, evidence, advice, next } = question.reply(asked);
        Answer {
            id: question.id.to_owned(),
            question: question.text.to_owned(),
            verdict,
            sentence,
            evidence,
            advice,
            next,
        }
    };
    Ok(AnswersReport {
        of: asked.file.to_owned(),
        kind_of: body.kind().to_owned(),
        answers: wanted.iter().map(of).collect(),
    })
}

/// An answer, without its question.
struct Reply {
    verdict: AnswerVerdict,
    sentence: String,
    evidence: Vec<Evidence>,
    advice: Vec<String>,
    next: Option<String>,
}

impl Reply {
    fn new(verdict: AnswerVerdict, sentence: impl Into<String>) -> Self {
        Self {
            verdict,
            sentence: sentence.into(),
            evidence: Vec::new(),
            advice: Vec::new(),
            next: None,
        }
    }

    fn answered(sentence: impl Into<String>) -> Self {
        Self::new(AnswerVerdict::Answered, sentence)
    }

    fn does_not_arise(sentence: impl Into<String>) -> Self {
        Self::new(AnswerVerdict::DoesNotArise, sentence)
    }

    /// Returns the reply to a question that cannot be answered. The reply always suggests a next
    /// step.
    fn cannot_tell(sentence: &str, next: &str) -> Self {
        let mut reply = Self::new(AnswerVerdict::CannotTell, format!("cannot tell: {sentence}"));
        reply.next = Some(next.to_owned());
        reply
    }

    fn because(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    fn advise(mut self, advice: &[&str]) -> Self {
        self.advice.extend(advice.iter().map(|text| (*text).to_owned()));
        self
    }

    fn then(mut self, command: impl Into<String>) -> Self {
        self.next = Some(command.into());
        self
    }
}
