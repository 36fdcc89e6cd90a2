// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulates the application as documented, with other neighbours, and on another chip.

use crate::Fault;
use linerate_cmt::fit::{Found, LONG, Model};
use linerate_cmt::{Chip, StrandOutcome};
use linerate_report::markdown_table;

/// Tabulates each role's CPI stack.
pub(crate) fn causes(model: &Model) -> Result<String, Fault> {
    let mut rows = Vec::new();
    for name in ["1", "2"] {
        let found = model.run(&model.configuration(name)?.pipes, &LONG)?;
        let of_role = |role: &String| {
            let names = [name.to_owned(), role.clone()];
            names.into_iter().chain(by_cause(&found, role)).collect()
        };
        rows.extend(found.cpi.keys().map(of_role));
    }
    let columns = [
        "configuration",
        "role",
        ">CPI",
        ">issue",
        ">bubbles",
        ">first cache",
        ">second cache",
        ">interface",
        ">other strands",
        ">instructions per packet",
    ];
    Ok(markdown_table(&columns, rows))
}

fn by_cause(found: &Found, role: &str) -> [String; 8] {
    let per = |of: fn(&StrandOutcome) -> u64| {
        let share = |strand: &StrandOutcome| Some(of(strand) as f64 / strand.instructions as f64);
        found.mean(role, share).map_or_else(|| "-".to_owned(), |share| format!("{share:.2}"))
    };
    let per_packet = found.mean(role, StrandOutcome::instructions_per_packet);
    [
        format!("{:.2}", found.cpi[role]),
        per(|strand| strand.instructions),
        per(|strand| strand.stalls.bubbles),
        per(|strand| strand.stalls.l1),
        per(|strand| strand.stalls.l2),
        per(|strand| strand.stalls.io),
        per(|strand| strand.waited),
        per_packet.map_or_else(|| "-".to_owned(), |number| format!("{number:.0}")),
    ]
}

/// Tabulates the results for parked, polling and spinning neighbours in configuration 2.
pub(crate) fn neighbours(model: &Model) -> Result<String, Fault> {
    let pipes = &model.configuration("2")?.pipes;
    let instead = |word: &str| -> Vec<Vec<String>> {
        let one = |old: &String| match old.starts_with("ATIF_RX ") {
            true => word.to_owned(),
            false => old.clone(),
        };
        pipes.iter().map(|pipe| pipe.iter().map(one).collect()).collect()
    };
    let short = model.with(&[("rx_empty_stall_ns", 20.0)])?;
    let mut rows = Vec::new();
    for (name, model, pipes) in [
        ("parked", model, instead("parked")),
        ("polling, with the fitted stall", model, pipes.clone()),
        ("polling, with a stall of 20 ns", &short, pipes.clone()),
        ("`while(1)`", model, instead("while(1)")),
    ] {
        let found = model.run(&pipes, &LONG)?;
        let cpi = ["PDSN_RX", "RLP", "ATIF_TX"]
            .map(|role| format!("{:.2}", found.cpi.get(role).copied().unwrap_or(f64::NAN)));
        let names = [name.to_owned(), format!("{:.1}", found.kpps)];
        rows.push(names.into_iter().chain(cpi).collect());
    }
    let columns = ["on the strand of ATIF_RX", ">kpps", ">PDSN_RX CPI", ">RLP CPI", ">ATIF_TX CPI"];
    Ok(markdown_table(&columns, rows))
}

/// Tabulates the results for the same application on the T2.
pub(crate) fn on_t2(model: &Model, chip: Chip) -> Result<String, Fault> {
    let memory_ns = f64::from(chip.memory_cycles) / chip.clock_hz * 1e9;
    let far = Model { chip, ..model.clone() };
    let near = far.with(&[("rx_packet_stall_ns", memory_ns), ("rx_empty_stall_ns", memory_ns)])?;
    let mut rows = Vec::new();
    for name in ["1", "2"] {
        for (polls, model) in [("as on the T1", &far), ("as long as a load from memory", &near)] {
            let found = model.run(&model.configuration(name)?.pipes, &LONG)?;
            let cpi = found.cpi.iter().map(|(role, cpi)| format!("{role} {cpi:.2}"));
            let cpi = cpi.collect::<Vec<_>>().join(", ");
            let kpps = format!("{:.1}", found.kpps);
            rows.push(vec![name.to_owned(), polls.to_owned(), kpps, cpi]);
        }
    }
    Ok(markdown_table(&["configuration", "polls", ">kpps", "CPI"], rows))
}
