// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rate of one flow, where each has a line of its own: the ports of `[line]`.
//!
//! Rates come from windows without preemption. Where strands share a processor there are none; then
//! the rate is that over the measured part of the run, and the line says so. Packets count when
//! they have come through: what is dropped is no rate of a flow.

use linerate_path::model::Line;
use linerate_record::run::RunReport;
use linerate_record::units::{BitsPerSecond, Kpps};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// Octets of a check sequence, which frames are counted without.
const CHECK_SEQUENCE_OCTETS: f64 = 4.0;

/// The flows of a path whose line has several ports.
pub(crate) struct Flows {
    line: Line,
    /// Of a frame, without its check sequence.
    mean_octets: f64,
    /// Of one flow.
    kpps: Figure,
    /// Share of what one port carries.
    share: Figure,
    /// Whether the rate is that of clean windows.
    is_clean: bool,
}

/// The rate of each flow; `None` where the path has no line, or one port.
pub(crate) fn of(run: &RunReport, line: Option<Line>, mean_octets: f64) -> Option<Flows> {
    const WHOLE: &str = "packets that left over the measured part, over the ports of the line";
    let line = line.filter(|line| line.ports > 1)?;
    let flows = f64::from(line.ports);
    let is_clean = run.throughput_kpps.as_number().is_some();
    let kpps = match is_clean {
        true => scaled(&run.throughput_kpps, 1.0 / flows, "kpps", "throughput, over ports"),
        false => match sent(run) {
            (0.0, 1..) => Figure::absent(
                "kpps",
                Tier::Sw,
                WHOLE,
                "packets came through before and after the measured part only; run longer",
            ),
            (kpps, _) => Figure::exact("kpps", kpps / flows, Tier::Sw, WHOLE),
        },
    };
    let line_kpps = line.packets_per_second(mean_octets) / 1e3 / flows;
    let share = scaled(&kpps, 1.0 / line_kpps, "ratio", "rate of a flow over that of a port");
    Some(Flows { line, mean_octets, kpps, share, is_clean })
}

/// What came to the sinks: thousand packets per second over the measured part, packets over all.
fn sent(run: &RunReport) -> (f64, u64) {
    let last = run.strands.iter().map(|strand| strand.segment).max();
    let last = run.strands.iter().filter(|strand| Some(strand.segment) == last);
    let sinks = || last.clone().filter_map(|strand| strand.stages.last());
    (sinks().filter_map(|sink| sink.kpps).sum(), sinks().map(|sink| sink.packets).sum())
}

/// A figure and its interval times `factor`.
fn scaled(figure: &Figure, factor: f64, unit: &str, method: &str) -> Figure {
    let Some(value) = figure.as_number() else {
        let reason = figure.reason.as_deref().unwrap_or("the rate is not known");
        return Figure::absent(unit, figure.tier, method, reason);
    };
    Figure {
        n: figure.n,
        low: figure.low.map(|low| low * factor),
        high: figure.high.map(|high| high * factor),
        confidence: figure.confidence,
        ..Figure::exact(unit, value * factor, figure.tier, method)
    }
}

impl Flows {
    /// The same as figures, by name.
    pub(crate) fn figures(&self) -> BTreeMap<String, Figure> {
        BTreeMap::from([
            ("flow_kpps".to_owned(), self.kpps.clone()),
            ("flow_line_share".to_owned(), self.share.clone()),
        ])
    }

    /// The same in a line.
    pub(crate) fn line(&self) -> String {
        let (Some(kpps), Some(share)) = (self.kpps.as_number(), self.share.as_number()) else {
            let reason = self.kpps.reason.as_deref().unwrap_or("the rate is not known");
            return format!("per flow    - ({reason})\n");
        };
        let Self { line, mean_octets, is_clean, .. } = self;
        let over = if *is_clean { "" } else { ", preemption included" };
        format!(
            "per flow    {} on each of {}, {:.1} % of {} at {:.0} octets with check \
             sequence{over}\n",
            Kpps(kpps),
            line.ports,
            share * 100.0,
            BitsPerSecond(line.bits_per_second),
            mean_octets + CHECK_SEQUENCE_OCTETS,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::stats::Estimate;

    /// A run of which only rates are known.
    fn ran(throughput: Figure) -> RunReport {
        let absent = |unit| Figure::absent(unit, Tier::Sw, "", "not asked for");
        RunReport {
            path: "p".to_owned(),
            mapping: "a".to_owned(),
            kernels: None,
            counted: None,
            seconds: 1.0,
            ticks_per_second: 1e9,
            offered_kpps: None,
            throughput_kpps: throughput,
            processed_kpps: Figure::exact("kpps", 1e6, Tier::Sw, "before drops"),
            line_rate_kpps: None,
            strands: Vec::new(),
            rings: Vec::new(),
            latency: linerate_record::run::Latency {
                p50: absent("ns"),
                p99: absent("ns"),
                p999: absent("ns"),
            },
            rejected: BTreeMap::new(),
            interrupted: false,
        }
    }

    #[test]
    fn the_document_s_shares_come_out() {
        // Netra DPS 2.0, chapter 10: 224 and 310 kpps of four flows are 65 and 90 % of 1 Gb/s.
        let line = Some(Line { bits_per_second: 1e9, ports: 4 });
        for (kpps, percent) in [(224.0, "64.9 %"), (310.0, "89.8 %")] {
            let rate = Estimate { value: 4.0 * kpps, low: 4.0, high: 4e3, confidence: 0.9, n: 7 };
            let run = ran(Figure::number("kpps", rate, Tier::Sw, ""));
            let flows = of(&run, line, 338.0).expect("four ports");
            let figures = flows.figures();
            assert_eq!(figures["flow_kpps"].as_number(), Some(kpps));
            assert_eq!(
                (figures["flow_kpps"].low, figures["flow_kpps"].high),
                (Some(1.0), Some(1e3))
            );
            let said = flows.line();
            assert!(said.contains(percent) && said.contains("342 octets"), "{said}");
            assert!(!said.contains("preemption"), "{said}");
        }
    }

    #[test]
    fn one_port_is_no_flow_and_no_clean_window_is_said() {
        let absent = || ran(Figure::absent("kpps", Tier::Sw, "", "no window"));
        let line = |ports| Some(Line { bits_per_second: 1e9, ports });
        assert!(of(&absent(), line(1), 338.0).is_none());
        assert!(of(&absent(), None, 338.0).is_none());
        let said = of(&absent(), line(2), 338.0).expect("two ports").line();
        assert!(said.contains("preemption included"), "{said}");
    }
}
