// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hand-written records of other programs' measurements and of answers, and the field names that
//! scripts may rely on.

use crate::example::record;
use linerate_record::answers::{Answer, AnswerVerdict, AnswersReport, Evidence};
use linerate_record::strands::{
    Bound, CpiByCause, CpiCause, ForeignFormat, InputFault, Machine, NodeCounts, Place, Slice,
    StrandCounts, StrandEvent, StrandsReport,
};
use linerate_record::{Body, Figure, Record, Tier};
use serde_json::{Value, json};

fn figure(unit: &str, value: f64) -> Figure {
    Figure::exact(unit, value, Tier::Hw, "synthetic")
}

fn strand() -> StrandCounts {
    let absent = |unit| Figure::absent(unit, Tier::Hw, "synthetic", "not counted");
    let slice = Slice {
        line: 3,
        from_ticks: None,
        to_ticks: u64::MAX,
        code_hi: None,
        code_lo: Some(8),
        count_hi: 1 << 40,
        count_lo: 0,
        overflow: 1,
        user: 7,
        is_first: true,
        from: Place { id: 7, pc: 0x40 },
        to: Place::default(),
    };
    StrandCounts {
        name: None,
        cpu: Some(4),
        packets: Some(2_000_000),
        ticks: Some(7_717_605_000),
        kpps: figure("kpps", 311.0),
        ticks_per_packet: figure("ticks/packet", 3858.8),
        instructions_per_packet: figure("instructions/packet", 488.0),
        cpi: figure("cycles/instruction", 7.9),
        ipc: absent("instructions/cycle"),
        events: vec![StrandEvent {
            name: "dc".to_owned(),
            native: "DC_miss".to_owned(),
            count: figure("events", 44.0),
            per_packet: absent("events/packet"),
            pti: figure("events/1000 instructions", 44.95),
        }],
        nodes: vec![NodeCounts {
            name: "ip4-lookup".to_owned(),
            state: "active".to_owned(),
            calls: 3,
            packets: 0,
            ticks_per_packet: absent("ticks/packet"),
            packets_per_call: figure("packets/call", 0.0),
        }],
        slices: vec![slice],
        cpi_by_cause: Some(CpiByCause {
            source: "synthetic".to_owned(),
            causes: vec![CpiCause {
                event: "dc".to_owned(),
                cycles_each: None,
                pti: figure("events/1000 instructions", 44.95),
                cycles: absent("cycles/instruction"),
                share: absent("ratio"),
            }],
            unexplained: figure("cycles/instruction", 6.87),
            bound: Bound::CannotTell,
            sentence: "undetermined".to_owned(),
        }),
    }
}

pub(crate) fn strands() -> Record {
    record(Body::Strands(Box::new(StrandsReport {
        format: ForeignFormat::ProfileDump,
        format_version: Some("2.0".to_owned()),
        machine: Some(Machine {
            name: "a processor".to_owned(),
            source: "synthetic".to_owned(),
            clock_ghz: 1.2,
            strands_per_core: None,
        }),
        strands: vec![strand()],
        lines: 9,
        faults: vec![InputFault { line: 5, sentence: "two fields of ten".to_owned() }],
    })))
}

pub(crate) fn answers() -> Record {
    record(Body::Answers(Box::new(AnswersReport {
        of: "run.json".to_owned(),
        kind_of: "run".to_owned(),
        answers: vec![Answer {
            id: "bottleneck".to_owned(),
            question: "What limits the rate?".to_owned(),
            verdict: AnswerVerdict::CannotTell,
            sentence: "no packets".to_owned(),
            evidence: vec![Evidence {
                name: "packets".to_owned(),
                value: 0.0,
                unit: "packets".to_owned(),
                source: "tier sw".to_owned(),
                low: None,
                high: None,
            }],
            advice: vec!["offer packets".to_owned()],
            next: None,
        }],
    })))
}

/// The summary has the names that scripts may rely on.
#[test]
fn strands_and_answers_have_their_names_in_the_summary() {
    let value: Value = serde_json::from_str(&strands().to_json_pretty().unwrap()).unwrap();
    let strand = json!({
        "name": null,
        "cpu": 4,
        "packets": 2_000_000,
        "kpps": 311.0,
        "ticks_per_packet": 3858.8,
        "instructions_per_packet": 488.0,
        "cpi": 7.9,
        "ipc": null,
        "dc_pti": 44.95,
        "bound": "cannot_tell",
    });
    assert_eq!(value["summary"]["strands"], json!([strand]));
    assert_eq!(value["summary"]["faults"], 1);
    assert_eq!(value["summary"]["first_fault_line"], 5);
    let value: Value = serde_json::from_str(&answers().to_json_pretty().unwrap()).unwrap();
    assert_eq!(value["summary"]["answers"][0]["verdict"], "cannot_tell");
    assert_eq!(value["summary"]["answers"][0]["next"], Value::Null);
}
