// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that stages only get packets whose headers have been located.

use super::Stage;
use crate::class::PacketClass;
use crate::costs::FOREIGN;
use crate::params::Value;
use crate::problem::Mistake;

/// The stage kind that locates packet headers for other stages.
const PARSE: &str = "parse";

/// The parameter of [`PARSE`] that determines what happens to packets that are not IP, and the
/// value that lets them pass.
const OTHER: (&str, &str) = ("other", "pass");

/// Checks that packets have been parsed before they reach a stage that needs headers or processes
/// only some packets.
pub(crate) fn check(stages: &[Stage], mistakes: &mut Vec<Mistake>) {
    let mut is_parsed = false;
    let mut has_others = false;
    for stage in stages {
        if !is_parsed {
            unparsed(stage, mistakes);
        } else {
            without_headers(stage, has_others, mistakes);
        }
        // A stage that could not be read may be a misspelled parser, and a foreign stage may parse
        // too.
        is_parsed |= stage.spec.is_none_or(|spec| [PARSE, FOREIGN.kind].contains(&spec.kind));
        has_others = others_after(stage).unwrap_or(has_others);
    }
}

/// Returns whether packets that are not IP may reach the stages after this one; `None` if this
/// stage has no influence on that.
fn others_after(stage: &Stage) -> Option<bool> {
    let made = stage.made.as_ref().filter(|made| made.kind == PARSE)?;
    let passes = made.params.get(OTHER.0) == Some(&Value::Text(OTHER.1.to_owned()));
    // A parser that processes non-IP packets either passes or drops all of them. One restricted to
    // IP packets leaves other packets alone; with `other = "pass"`, it may reveal that a packet is
    // not IP.
    let decides = matches!(made.only, PacketClass::All | PacketClass::Other);
    (passes || decides).then_some(passes)
}

/// Reports a stage that needs headers, or processes only some packets, although no `parse` stage
/// precedes it.
fn unparsed(stage: &Stage, mistakes: &mut Vec<Mistake>) {
    let class = stage.only.filter(|only| *only != PacketClass::All);
    let needs = stage.spec.filter(|spec| spec.needs_headers);
    let (at, message) = match (needs, class) {
        (Some(spec), _) => (
            &stage.at,
            format!(
                "a '{}' stage needs parsed headers, but no '{PARSE}' stage precedes it",
                spec.kind
            ),
        ),
        (None, Some(class)) => (
            &stage.only_at,
            format!(
                "only = \"{}\" needs parsed headers, but no '{PARSE}' stage precedes it",
                class.word()
            ),
        ),
        (None, None) => return,
    };
    let help = format!("add a [[stage]] with kind = \"{PARSE}\" before it");
    mistakes.push(Mistake::new(at, message).help(help));
}

/// Checks that only packets with parsed headers reach a stage that needs headers. `has_others` is
/// whether packets that are not IP reach the stage.
fn without_headers(stage: &Stage, has_others: bool, mistakes: &mut Vec<Mistake>) {
    let (Some(spec), Some(only)) = (stage.spec.filter(|spec| spec.needs_headers), stage.only)
    else {
        return;
    };
    let (key, value) = OTHER;
    let kind = spec.kind;
    if only == PacketClass::Other {
        let message = format!(
            "a '{kind}' stage needs parsed headers, but only = \"other\" selects packets without \
             them"
        );
        let help = "use only = \"ip\", or a class within it such as \"ipv4\"";
        mistakes.push(Mistake::new(&stage.only_at, message).help(help));
    } else if has_others && !only.is_within_ip() {
        let message = format!(
            "a '{kind}' stage needs parsed headers, but '{PARSE}' passes packets that are not IP"
        );
        let help = format!(
            "add only = \"ip\" (or a class within it) to this stage, or remove {key} = \"{value}\" \
             from '{PARSE}'"
        );
        mistakes.push(Mistake::new(&stage.at, message).help(help));
    }
}
