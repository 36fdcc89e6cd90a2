// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tables say, in sentences: how far the selected routine is from the bound, and where a
//! variant called by name is faster.

use super::cases::{Block, Load, Section, Unit};
use crate::value::percent;
use linerate_record::kernels::{Kernel, KernelsReport, Role, Row};
use linerate_record::units::three_digits;

/// Packets of Ethernet's usual size, and buffers of a page.
const QUOTED: [u64; 2] = [1460, 4096];
/// Faster by less is not worth a name in a caller's code: a few per cent come and go with the
/// placement of code.
const WORTH_IT: f64 = 1.05;

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
    let sized = first(Section::Aligned).and_then(|block| gains(block, unit));
    let mixed = first(Section::Mixes).and_then(|block| gains(block, unit));
    let text = format!("{sentences} {}", by_name(sized.as_deref(), mixed.as_deref()));
    let text = text.trim();
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
        let octets = if last_bound.is_none() { " octets" } else { "" };
        texts.push(format!("{}{of} at {size}{octets}", share_text(row, share)));
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
fn by_name(sized: Option<&[Gain]>, mixed: Option<&[Gain]>) -> String {
    let least = three_digits((WORTH_IT - 1.0) * 100.0);
    let has_gains = |gains: Option<&[Gain]>| gains.is_some_and(|gains| !gains.is_empty());
    if !has_gains(sized) && !has_gains(mixed) {
        return match sized.or(mixed) {
            Some(_) => format!("No variant called by name is more than {least} % faster."),
            None => String::new(),
        };
    }
    let part = |when: &str, gains: Option<&[Gain]>| match gains {
        None => None,
        Some([]) => Some(format!("{when} none is more than {least} % faster.")),
        Some(gains) => Some(format!("{when} call by name: {}.", gain_list(gains))),
    };
    let parts = [part("At a fixed size", sized), part("On random sizes", mixed)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// A variant and the loads in a row at which it is fastest, and by how much at most.
struct Gain<'a> {
    variant: &'a str,
    loads: Vec<Load>,
    most: f64,
}

/// The gains worth it, in the order of loads; `None` without a selected routine beside a variant.
fn gains<'a>(block: &Block<'a>, unit: Unit) -> Option<Vec<Gain<'a>>> {
    let mut gains: Vec<Gain> = Vec::new();
    let mut compared = false;
    for load in block.loads() {
        let selected = block.selected(load).and_then(|row| unit.time(row));
        let (Some(selected), Some((row, best))) =
            (selected, block.fastest(Role::Variant, load, unit))
        else {
            continue;
        };
        compared = true;
        let ratio = selected / best;
        if ratio <= WORTH_IT {
            continue;
        }
        match gains.iter_mut().find(|gain| gain.variant == row.variant) {
            Some(gain) => {
                gain.loads.push(load);
                gain.most = gain.most.max(ratio);
            }
            None => gains.push(Gain { variant: &row.variant, loads: vec![load], most: ratio }),
        }
    }
    compared.then_some(gains)
}

fn gain_list(gains: &[Gain]) -> String {
    let text = |gain: &Gain| {
        let loads: Vec<String> = gain.loads.iter().map(|load| load.text()).collect();
        let most = if loads.len() > 1 { "up to " } else { "" };
        let (loads, percent) = (listed(&loads), percent(gain.most - 1.0));
        format!("{} at {loads} ({most}{percent} % faster)", gain.variant)
    };
    gains.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}
