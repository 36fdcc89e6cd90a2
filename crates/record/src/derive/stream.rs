// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a `stream` record.

use super::{Derive, Lists, emulated, named, not_idle};
use crate::figure::{Figure, Figures, Tier, bare};
use crate::provenance::Provenance;
use crate::stream::{StreamMethod, StreamPoint, StreamReport};
use crate::warning::Warning;
use crate::why::WhyFinding;
use serde_json::{Value, json};

const RULES: &str = "rules of `explain`";

impl Derive for StreamReport {
    /// Returns the figures of the explained point: `gbps`, `cpu_us_per_kb`, `limited_by`,
    /// `finding` (a keyword) and `sentence`.
    fn figures(&self) -> Figures {
        let none = |unit: &str| Figure::absent(unit, Tier::Sw, RULES, "no data point was measured");
        let point = self.explained();
        let of = |unit: &str, figure: fn(&StreamPoint) -> &Figure| {
            point.map_or_else(|| none(unit), |point| figure(point).clone())
        };
        let text = |text: fn(&StreamPoint) -> &str| {
            point.map_or_else(|| none("text"), |point| Figure::text(text(point), Tier::Sw, RULES))
        };
        let sentence = match self.findings.first() {
            Some(first) => Figure::text(&first.sentence, Tier::Sw, RULES),
            None => none("text"),
        };
        named([
            ("gbps", of("Gb/s", |point| &point.gbps)),
            ("cpu_us_per_kb", of("us/KB", |point| &point.cpu_us_per_kb)),
            ("limited_by", text(|point| &point.limited_by)),
            ("finding", text(|point| &point.finding)),
            ("sentence", sentence),
        ])
    }

    /// Returns the points, the methods compared, and the findings of the explained point.
    fn lists(&self) -> Lists {
        let finding = |finding: &WhyFinding| {
            let (cause, sentence) = (finding.cause.name(), &finding.sentence);
            json!({ "cause": cause, "sentence": sentence })
        };
        Lists::from([
            ("findings", self.findings.iter().map(finding).collect()),
            ("points", self.points.iter().map(point).collect()),
            ("methods", self.methods.iter().map(method).collect()),
        ])
    }

    fn warnings(&self, provenance: &Provenance) -> Vec<Warning> {
        [not_idle(provenance), emulated(provenance)].into_iter().flatten().collect()
    }
}

fn point(point: &StreamPoint) -> Value {
    json!({
        "send_buffer_bytes": point.send_buffer_bytes,
        "receive_buffer_bytes": point.receive_buffer_bytes,
        "message_bytes": point.message_bytes,
        "connections": point.connections,
        "gbps": bare(&point.gbps),
        "cpu_us_per_kb": bare(&point.cpu_us_per_kb),
        "requests_per_s": bare(&point.requests_per_s),
        "sender_cpu": bare(&point.sender.cpu),
        "receiver_cpu": bare(&point.receiver.cpu),
        "limited_by": point.limited_by,
        "finding": point.finding,
    })
}

fn method(method: &StreamMethod) -> Value {
    json!({
        "name": method.name,
        "message_bytes": method.message_bytes,
        "gbps": bare(&method.gbps),
        "cpu_us_per_kb": bare(&method.cpu_us_per_kb),
        "speed": bare(&method.speed),
        "demand": bare(&method.demand),
        "copy_share": method.copy_share.as_ref().map(bare),
    })
}
