// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packet ledger: one row per layer, with its losses.

use super::{count, maybe, put};
use crate::layout::Grid;
use crate::value::significant;
use crate::{Detail, Style};
use linerate_record::why::Observation;
use linerate_record::why::ledger::{Layer, LedgerRow, Whose, ledger};

/// Maximum number of rows on one screen.
const MOST: usize = 9;

/// Formats the packet ledger.
pub(super) fn packets(observation: &Observation, detail: Detail, style: &Style) -> String {
    let ledger = ledger(observation);
    let mut rows: Vec<&LedgerRow> = ledger.rows.iter().collect();
    if detail == Detail::Brief && rows.len() > MOST {
        rows.retain(|row| is_of_interest(row, observation));
        rows.truncate(MOST);
    }
    let mut grid = Grid::new(&["packets", "of", ">counted", ">per s", ">lost", "where they went"]);
    for row in rows {
        let lost = lost(row);
        let rate = row.packets.map(|packets| packets as f64 / observation.elapsed_s);
        put(
            &mut grid,
            vec![
                name(row.layer).to_owned(),
                row.of.clone(),
                maybe(row.packets),
                rate.filter(|rate| rate.is_finite()).map_or_else(|| "-".to_owned(), significant),
                lost.map_or_else(|| "-".to_owned(), count),
                went(row, detail),
            ],
        );
    }
    grid.render(style)
}

/// Display names of layers.
pub(crate) fn name(layer: Layer) -> &'static str {
    match layer {
        Layer::InterfaceRx => "received",
        Layer::Driver => "driver",
        Layer::Backlog => "backlog",
        Layer::Protocol => "protocols",
        Layer::Socket => "socket",
        Layer::Program => "program",
        Layer::ProgramTx => "it sent",
        Layer::Qdisc => "queue",
        Layer::InterfaceTx => "sent",
    }
}

/// Returns whether a row is worth showing: it has losses, it belongs to the program, its interface
/// or the backlog, or it counts at least 100 packets/s.
pub(crate) fn is_of_interest(row: &LedgerRow, observation: &Observation) -> bool {
    let is_lossy = row.losses.iter().any(|loss| loss.whose.is_lost())
        || row.unaccounted.is_some_and(|rest| rest > 0);
    let interface = observation.watched.interface.as_deref();
    let is_asked = interface.is_some_and(|name| row.of.starts_with(name));
    is_lossy
        || is_asked
        || matches!(row.layer, Layer::Program | Layer::ProgramTx | Layer::Backlog)
        || row.packets.is_some_and(|packets| packets as f64 >= observation.elapsed_s * 100.0)
}

/// Returns how many packets were lost at this layer that may have been for the program; `None` if
/// unknown.
pub(crate) fn lost(row: &LedgerRow) -> Option<u64> {
    let counted: u64 =
        row.losses.iter().filter(|loss| loss.whose.is_lost()).map(|loss| loss.packets).sum();
    match (row.packets, row.unaccounted) {
        (_, Some(rest)) => Some(counted + rest),
        (None, None) if row.losses.is_empty() => None,
        _ => Some(counted),
    }
}

/// Lists a layer's losses with their reasons or, if it has none, returns the name of its counter.
fn went(row: &LedgerRow, detail: Detail) -> String {
    let shown = if detail == Detail::Full { usize::MAX } else { 2 };
    let mut parts: Vec<String> = Vec::new();
    if let Some(rest) = row.unaccounted.filter(|rest| *rest > 0) {
        parts.push(format!(
            "{} unaccounted for: lost in the program's ring, which has no counter",
            count(rest)
        ));
    }
    let mut losses: Vec<_> = row.losses.iter().collect();
    losses.sort_by_key(|loss| std::cmp::Reverse(loss.packets));
    losses.truncate(shown);
    parts.extend(losses.iter().map(|loss| {
        let of_none = match loss.whose {
            Whose::NoProgram => " (addressed to no program, so not counted as lost)",
            Whose::OtherPrograms => " (of other programs, so not counted as lost)",
            _ => "",
        };
        format!("{} {}: {}{of_none}", count(loss.packets), loss.reason, loss.counter)
    }));
    let is_elsewhere = losses.iter().any(|loss| loss.whose == Whose::CountedElsewhere);
    let note = match (is_elsewhere, row.layer) {
        (false, _) => "",
        (true, Layer::Driver) => " (lost packets are counted in other rows)",
        // Drop reasons are counted for all network namespaces.
        (true, _) => " (counted machine-wide; lost packets are counted in other rows)",
    };
    if parts.is_empty() {
        return row.counter.clone();
    }
    parts.join("; ") + note
}
