// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rendering of imported data and of answers. Golden files: see `common`. The records in `foreign`
//! are the dump from the Netra document with one line damaged, a VPP import, and answers.

mod common;

use common::{PLAIN, assert_golden};
use linerate_record::answers::AnswersReport;
use linerate_record::strands::StrandsReport;
use linerate_record::{Body, Record};
use linerate_report::{Style, answers, strands};

fn imported(json: &str) -> StrandsReport {
    match Record::from_json(json).expect("a record").body {
        Body::Strands(report) => *report,
        other => panic!("{other:?}"),
    }
}

fn answered() -> AnswersReport {
    match Record::from_json(include_str!("foreign/answers.json")).expect("a record").body {
        Body::Answers(report) => *report,
        other => panic!("{other:?}"),
    }
}

const DUMP: &str = include_str!("foreign/dump.json");

#[test]
fn a_dump_with_a_damaged_line() {
    assert_golden("strands-dump.txt", &PLAIN, &strands(&imported(DUMP), &PLAIN));
}

#[test]
fn threads_and_nodes_of_vpp() {
    let report = imported(include_str!("foreign/vpp.json"));
    assert_golden("strands-vpp.txt", &PLAIN, &strands(&report, &PLAIN));
}

#[test]
fn answers_quote_their_figures() {
    assert_golden("answers.txt", &PLAIN, &answers(&answered(), &PLAIN));
}

#[test]
fn colour_changes_no_text() {
    let color = Style { color: true, ..PLAIN };
    let plain = |text: String| {
        let mut parts = text.split("\u{1b}[");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| all + part.split_once('m').map_or("", |(_, rest)| rest))
    };
    let report = imported(DUMP);
    assert_eq!(plain(strands(&report, &color)), strands(&report, &PLAIN));
    assert_eq!(plain(answers(&answered(), &color)), answers(&answered(), &PLAIN));
}

#[test]
fn texts_of_the_input_cannot_drive_the_terminal() {
    let mut report = imported(DUMP);
    report.strands[0].name = Some("\u{1b}[2J".to_owned());
    report.faults[0].sentence = "\u{7}bell".to_owned();
    let text = strands(&report, &PLAIN);
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
}
