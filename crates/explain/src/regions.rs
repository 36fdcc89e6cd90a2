// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts a program's regions to the form of an imported record, in which each thread is a strand
//! and its regions are functions, so that the same questions apply.

use linerate_record::regions::{RegionEvent, RegionReport, RegionsReport};
use linerate_record::strands::{
    ForeignFormat, Machine, NodeCounts, StrandCounts, StrandEvent, StrandsReport,
};
use linerate_record::{Figure, Tier};

const METHOD: &str = "regions of a program";
const NO_CLOCK: &str = "regions have no wall time";

/// Converts each thread to a strand, and its regions to functions of the strand. The cost of a
/// region excludes its nested regions.
pub fn as_strands(report: &RegionsReport, ticks_per_s: Option<f64>) -> StrandsReport {
    let mut tids: Vec<u32> = Vec::new();
    for region in &report.regions {
        if !tids.contains(&region.tid) {
            tids.push(region.tid);
        }
    }
    let of = |tid: &u32| report.regions.iter().filter(|region| region.tid == *tid).collect();
    StrandsReport {
        format: ForeignFormat::Regions,
        format_version: None,
        machine: ticks_per_s.map(|rate| Machine {
            name: "the machine the regions ran on".to_owned(),
            source: "its tick clock".to_owned(),
            clock_ghz: rate / 1e9,
            strands_per_core: None,
        }),
        strands: tids.iter().map(|tid| strand(*tid, of(tid))).collect(),
        lines: 0,
        faults: Vec::new(),
    }
}

fn strand(tid: u32, regions: Vec<&RegionReport>) -> StrandCounts {
    let units = regions.iter().map(|region| region.units).max().unwrap_or(0);
    let outer: Vec<&RegionReport> =
        regions.iter().filter(|region| !region.name.contains('/')).copied().collect();
    let packets = (units > 0).then_some(units);
    let ticks = sum(outer.iter().map(|region| &region.ticks));
    let [instructions, cycles] = ["instructions", "cycles"].map(|name| counted(&outer, name));
    StrandCounts {
        name: Some(format!("thread {tid}")),
        cpu: None,
        packets,
        ticks: ticks.map(|ticks| ticks as u64),
        kpps: Figure::absent("kpps", Tier::Sw, METHOD, NO_CLOCK),
        ticks_per_packet: over("ticks/packet", ticks, packets.map(|n| n as f64), Tier::Sw),
        instructions_per_packet: over(
            "instructions/packet",
            instructions,
            packets.map(|n| n as f64),
            Tier::Hw,
        ),
        cpi: over("cycles/instruction", cycles, instructions, Tier::Hw),
        ipc: over("instructions/cycle", instructions, cycles, Tier::Hw),
        events: events(&outer, instructions, packets),
        nodes: regions.iter().map(|region| node(region)).collect(),
        slices: Vec::new(),
        cpi_by_cause: None,
    }
}

fn sum<'a>(mut figures: impl Iterator<Item = &'a Figure>) -> Option<f64> {
    figures.try_fold(0.0, |sum, figure| Some(sum + figure.as_number()?))
}

/// Returns an event's total over `regions`; `None` unless the event was counted in every region.
fn counted(regions: &[&RegionReport], name: &str) -> Option<f64> {
    let of = |region: &&RegionReport| {
        region.events.iter().find(|event| event.name == name)?.count.as_number()
    };
    regions.iter().map(of).sum()
}

fn over(unit: &str, above: Option<f64>, below: Option<f64>, tier: Tier) -> Figure {
    match (above, below) {
        (Some(above), Some(below)) if below > 0.0 => {
            Figure::exact(unit, above / below, tier, METHOD)
        }
        _ => Figure::absent(unit, tier, METHOD, "not counted in every region"),
    }
}

fn events(
    outer: &[&RegionReport],
    instructions: Option<f64>,
    packets: Option<u64>,
) -> Vec<StrandEvent> {
    let first = outer.first().map_or(&[][..], |region| &region.events);
    let event = |RegionEvent { name, count }: &RegionEvent| {
        let all = counted(outer, name);
        StrandEvent {
            name: name.clone(),
            native: name.clone(),
            count: over("events", all, Some(1.0), count.tier),
            per_packet: over("events/packet", all, packets.map(|n| n as f64), count.tier),
            pti: over("events/1000 instructions", all.map(|n| n * 1e3), instructions, count.tier),
        }
    };
    first.iter().map(event).collect()
}

/// Converts a region to a function. If the program does not count units of work, each visit to the
/// region counts as a packet.
fn node(region: &RegionReport) -> NodeCounts {
    let packets = if region.units > 0 { region.units } else { region.visits };
    let ticks = region.own_ticks.as_number();
    NodeCounts {
        name: region.name.clone(),
        state: "region".to_owned(),
        calls: region.visits,
        packets,
        ticks_per_packet: over("ticks/packet", ticks, Some(packets as f64), Tier::Sw),
        packets_per_call: over(
            "packets/call",
            Some(packets as f64),
            Some(region.visits as f64),
            Tier::Sw,
        ),
    }
}
