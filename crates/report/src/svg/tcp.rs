// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of a `tcp` record: for each stack, figures 9 to 11 of the white paper "Enhanced TCP/IP
//! Performance with AltiVec", that is, shares of time, work relative to plain C, and throughput.

use super::Plot;
use super::bars::{Bar, BarChart, Group};
use super::canvas::{Caption, Look};
use linerate_record::Figure;
use linerate_record::tcp::{TcpPattern, TcpReport, TcpSet, TcpStack};
use linerate_record::units::three_digits;

/// Name of the set with the white paper's C routines.
const DOCUMENT: &str = "document";
/// Name of the set without checksums.
const OFF: &str = "off";

/// Returns all plots for which there is data.
pub fn tcp(report: &TcpReport) -> Vec<Plot> {
    let of_stack = |stack| {
        let view = View { report, stack };
        [view.shares(), view.over_c(), view.throughput()].into_iter().flatten()
    };
    report.stacks.iter().flat_map(of_stack).collect()
}

struct View<'a> {
    report: &'a TcpReport,
    stack: &'a TcpStack,
}

impl View<'_> {
    /// Plots figure 9 for plain C and for the selected set.
    fn shares(&self) -> Option<Plot> {
        let bars = |pattern: &TcpPattern| {
            let sets = pattern.sets.iter();
            let shown = |set: &&TcpSet| set.name == DOCUMENT || set.name == self.report.selected;
            let of_set = |set: &TcpSet| {
                let parts = [
                    ("sum", &set.share_checksum),
                    ("copy", &set.share_copy),
                    ("copy+sum", &set.share_copy_checksum),
                ];
                let bar = |(part, share): (&str, &Figure)| {
                    let value = 100.0 * share.as_number()?;
                    let look = self.look(pattern, set);
                    let text = format!("{} %", three_digits(value));
                    Some(Bar { name: format!("{}, {part}", set.name), look, value, text })
                };
                parts.into_iter().filter_map(bar).collect::<Vec<Bar>>()
            };
            sets.filter(shown).flat_map(of_set).collect()
        };
        let label = "share of CPU time, %";
        self.plot("shares", "Time in checksum and copy", label, &bars)
    }

    /// Plots figure 10: work per CPU time, relative to plain C.
    fn over_c(&self) -> Option<Plot> {
        let title = "Work per CPU second relative to plain C";
        self.of_sets("normalised", title, "1 = plain C (routine from the white paper)", &|set| {
            &set.over_c
        })
    }

    /// Plots figure 11: throughput.
    fn throughput(&self) -> Option<Plot> {
        let label = "payload, Gb per second of CPU time";
        self.of_sets("throughput", "TCP throughput", label, &|set| &set.gbps_per_cpu_s)
    }

    /// Plots one bar per set.
    fn of_sets(
        &self,
        name: &str,
        title: &str,
        label: &str,
        figure: &dyn Fn(&TcpSet) -> &Figure,
    ) -> Option<Plot> {
        let bars = |pattern: &TcpPattern| {
            let bar = |set: &TcpSet| {
                let value = figure(set).as_number()?;
                let (name, look) = (set.name.clone(), self.look(pattern, set));
                Some(Bar { name, look, value, text: three_digits(value) })
            };
            pattern.sets.iter().filter_map(bar).collect()
        };
        self.plot(name, title, label, &bars)
    }

    fn plot(
        &self,
        name: &str,
        title: &str,
        label: &str,
        bars: &dyn Fn(&TcpPattern) -> Vec<Bar>,
    ) -> Option<Plot> {
        let patterns = self.stack.patterns.iter();
        let groups = patterns.map(|pattern| Group { head: head(pattern), bars: bars(pattern) });
        let groups: Vec<Group> = groups.filter(|group| !group.bars.is_empty()).collect();
        groups.first()?;
        let stack = self.stack;
        let values = groups.iter().map(|group| {
            let bars = group.bars.iter().map(|bar| format!("{} {}", bar.name, bar.text));
            format!("{}: {}", group.head, bars.collect::<Vec<_>>().join(", "))
        });
        let caption = Caption {
            name: format!("tcp-{}-{name}", stack.name),
            title: format!("{title}, {} {}", stack.name, stack.version),
            notes: vec![format!(
                "Client and server in one thread, in-memory wire, virtual clock; {OFF} (no \
                 checksums) is the upper bound."
            )],
            description: values.collect::<Vec<_>>().join("; "),
        };
        let (name, title) = (caption.name.clone(), caption.title.clone());
        let chart = BarChart { caption, label: label.to_owned(), groups };
        Some(Plot { name, title, svg: chart.svg() })
    }

    fn look(&self, pattern: &TcpPattern, set: &TcpSet) -> Look {
        match set.name.as_str() {
            OFF => Look::Bound,
            name if name == self.report.selected => Look::Selected,
            name => {
                Look::Variant(pattern.sets.iter().position(|set| set.name == name).unwrap_or(0))
            }
        }
    }
}

fn head(pattern: &TcpPattern) -> String {
    format!("{}, segments of {} bytes", pattern.name, pattern.segment_bytes)
}
