// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tables say, in sentences: how far the selected routine is from the bound, where a
//! variant called by name is faster, and where somebody else's routine is.

use super::cases::{Block, Load, Section, Series, Unit};
use crate::value::{octets, percent};
use linerate_record::kernels::{Kernel, KernelsReport, Role, Row};
use linerate_record::units::three_digits;

/// Packets of Ethernet's usual size, and buffers of a page.
const QUOTED: [u64; 2] = [1460, 4096];
/// Faster by less is not worth a name in a caller's code: a few per cent come and go with the
/// placement of code.
const WORTH_IT: f64 = 1.05;
/// Times closer than this are the same: medians repeat no better.
const TIE: f64 = 1.01;

/// One paragraph for `kernel`; `None` when nothing was selected or timed.
pub(super) fn sentences(
    report: &KernelsReport,
    blocks: &[Block],
    kernel: Kernel,
    unit: Unit,
) -> Option<String> {
    let first = |section| blocks.iter().find(|b| b.kernel == kernel && b.section == section);
    let selected = report.selected_for(kernel).unwrap_or("selected");
    let reached = [
        first(Section::Aligned).map_or(String::new(), |block| shares(block, &QUOTED)),
        first(Section::Cold).map_or(String::new(), |block| shares(block, &QUOTED[..1])),
    ];
    let sentences = match reached.each_ref().map(String::as_str) {
        ["", ""] => String::new(),
        [warm, ""] => format!("{warm}."),
        ["", cold] => format!("cold, {cold}."),
        [warm, cold] => format!("{warm}; cold, {cold}."),
    };
    let others = |section| {
        let is_other = |series: &Series| series.role == Role::Variant && series.name != selected;
        first(section).and_then(|block| leads(block, unit, &is_other, WORTH_IT))
    };
    let (sized, mixed) = (others(Section::Aligned), others(Section::Mixes));
    let by_name = by_name(sized.as_deref(), mixed.as_deref());
    let peers = faster_peers(blocks.iter().filter(|block| block.kernel == kernel), unit);
    let text = format!("{sentences} {by_name} {peers}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then(|| format!("{kernel} ({selected}): {text}"))
}

/// `71.8 % (70.9 to 72.4) of the speed of load256 at 1460 octets, 90 % (89.1 to 90.7) at 4096`: of
/// the selected routine at `sizes`, or at the largest size there is. Empty if no share is known.
fn shares(block: &Block, sizes: &[u64]) -> String {
    let share = |size: u64| {
        let row = block.selected(Load::Size(size))?;
        Some((size, row, row.of_bound?))
    };
    let mut shares: Vec<_> = sizes.iter().copied().filter_map(share).collect();
    if shares.is_empty() {
        let sizes = block.loads().into_iter().rev().filter_map(Load::size);
        shares.extend(sizes.filter_map(share).next());
    }
    let mut last_bound = None;
    let mut texts = Vec::new();
    for (size, row, share) in shares {
        let of = match row.bound.as_deref() {
            bound if last_bound == Some(bound) => String::new(),
            bound => format!(" of the speed of {}", bound.unwrap_or("the bound")),
        };
        let at = if last_bound.is_none() { octets(size) } else { size.to_string() };
        texts.push(format!("{}{of} at {at}", share_text(row, share)));
        last_bound = Some(row.bound.as_deref());
    }
    texts.join(", ")
}

fn share_text(row: &Row, share: f64) -> String {
    match (row.of_bound_low, row.of_bound_high) {
        (Some(low), Some(high)) => {
            format!("{} % ({} to {})", percent(share), percent(low), percent(high))
        }
        _ => format!("{} %", percent(share)),
    }
}

/// What a caller gains who names a variant. Empty when nothing can be compared.
fn by_name(sized: Option<&[Lead]>, mixed: Option<&[Lead]>) -> String {
    let least = three_digits((WORTH_IT - 1.0) * 100.0);
    let has_leads = |leads: Option<&[Lead]>| leads.is_some_and(|leads| !leads.is_empty());
    if !has_leads(sized) && !has_leads(mixed) {
        return match sized.or(mixed) {
            Some(_) => format!(
                "No other variant called by name is more than {least} % faster with its whole \
                 interval."
            ),
            None => String::new(),
        };
    }
    let part = |when: &str, leads: Option<&[Lead]>| match leads {
        None => None,
        Some([]) => Some(format!("{when} none is more than {least} % faster.")),
        Some(leads) => {
            let text =
                |lead: &Lead| format!("{} at {} ({} faster)", lead.name, lead.at(), lead.by());
            let texts: Vec<String> = leads.iter().map(text).collect();
            Some(format!("{when} call by name: {}.", texts.join("; ")))
        }
    };
    let parts = [part("At a fixed size", sized), part("On random sizes", mixed)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Where somebody else's routine is faster than the selected one, in all cases of a kernel: a
/// sentence for each such routine.
fn faster_peers<'b, 'a: 'b>(blocks: impl Iterator<Item = &'b Block<'a>>, unit: Unit) -> String {
    let is_peer = |series: &Series| series.role == Role::Peer;
    let mut sentences: Vec<(&str, String)> = Vec::new();
    for block in blocks {
        for lead in leads(block, unit, &is_peer, 1.0).unwrap_or_default() {
            let case = format!("{}, at {} ({})", block.case_text(), lead.at(), lead.by());
            match sentences.iter_mut().find(|(name, _)| *name == lead.name) {
                Some((_, sentence)) => *sentence += &format!("; {case}"),
                None => {
                    let sentence = format!("{} is faster than selected: {case}", lead.name);
                    sentences.push((lead.name, sentence));
                }
            }
        }
    }
    sentences.into_iter().map(|(_, sentence)| sentence + ". ").collect()
}

/// A routine, the loads in a block at which it is the fastest of its kind and ahead of the selected
/// routine, and the greatest quotient of speeds among them.
struct Lead<'a> {
    name: &'a str,
    loads: Vec<Load>,
    most: f64,
}

impl Lead<'_> {
    /// `20, 40 and 64`.
    fn at(&self) -> String {
        let loads: Vec<String> = self.loads.iter().map(|load| load.text()).collect();
        match loads.as_slice() {
            [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            one => one.concat(),
        }
    }

    /// `up to 7.9 %`.
    fn by(&self) -> String {
        let up_to = if self.loads.len() > 1 { "up to " } else { "" };
        format!("{up_to}{} %", percent(self.most - 1.0))
    }
}

/// The routines of a kind that lead by more than `worth` with the whole interval, and by more than
/// a tie, in the order of loads. `None` if there is none beside a selected routine.
fn leads<'a>(
    block: &Block<'a>,
    unit: Unit,
    is_wanted: &dyn Fn(&Series) -> bool,
    worth: f64,
) -> Option<Vec<Lead<'a>>> {
    let mut leads: Vec<Lead> = Vec::new();
    let mut is_compared = false;
    for load in block.loads() {
        let Some(selected) = block.selected(load) else { continue };
        let rows = block.series.iter().filter(|series| is_wanted(series));
        let rows = rows.filter_map(|series| series.rows.get(&load).copied());
        let ahead = rows.filter_map(|row| Some((row, ahead(row, selected, unit)?)));
        let ahead: Vec<(&Row, Ahead)> = ahead.collect();
        is_compared |= !ahead.is_empty();
        let clear = ahead.into_iter().filter(|(_, by)| by.least > worth && by.median > TIE);
        let Some((row, by)) = clear.max_by(|a, b| a.1.median.total_cmp(&b.1.median)) else {
            continue;
        };
        match leads.iter_mut().find(|lead| lead.name == row.variant) {
            Some(lead) => {
                lead.loads.push(load);
                lead.most = lead.most.max(by.median);
            }
            None => leads.push(Lead { name: &row.variant, loads: vec![load], most: by.median }),
        }
    }
    is_compared.then_some(leads)
}

/// The speed of a routine over that of another, and the lower end of its interval.
struct Ahead {
    median: f64,
    least: f64,
}

/// How far `row` is ahead of `selected`. From the shares of their bound where both are known: these
/// are taken by round, so that a clock that moves is in both; otherwise from the times. The
/// interval is that of the worst ends, and so too wide rather than too narrow; without ends it has
/// no lower one.
fn ahead(row: &Row, selected: &Row, unit: Unit) -> Option<Ahead> {
    let quotient = |(over, under): (f64, f64)| over / under;
    let times = unit.time(selected).zip(unit.time(row))?;
    let shares = row.of_bound.zip(selected.of_bound);
    let ends = match shares {
        Some(_) => row.of_bound_low.zip(selected.of_bound_high),
        None => unit.interval(selected).zip(unit.interval(row)).map(|(s, r)| (s.0, r.1)),
    };
    let least = ends.map_or(f64::NEG_INFINITY, quotient);
    Some(Ahead { median: quotient(shares.unwrap_or(times)), least })
}
