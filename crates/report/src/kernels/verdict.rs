// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sentences below the tables: how close the selected routine is to the bound, and which routines
//! [`linerate_plan::routines`] finds to be faster.

use crate::value::{bytes, percent};
use linerate_plan::routines::{
    Block, Lead, Load, Section, Unit, WORTH_A_NAME, peers_ahead, variants_ahead,
};
use linerate_record::kernels::{Kernel, KernelsReport, Row};
use linerate_record::units::three_digits;

/// Sizes quoted in the sentences, in bytes: the payload of a full-size Ethernet packet, and a page.
const QUOTED: [u64; 2] = [1460, 4096];

/// Returns the advice to call a variant by name, for the kernel that gains most, and the selected
/// routine's speed relative to the bound.
pub(super) fn answer(report: &KernelsReport, blocks: &[Block], unit: Unit) -> Vec<String> {
    let mut best: Option<(Kernel, Lead)> = None;
    let mut is_compared = false;
    for block in blocks.iter().filter(|b| matches!(b.section, Section::Aligned | Section::Mixes)) {
        let selected = report.selected_for(block.kernel).unwrap_or("selected");
        let Some(leads) = variants_ahead(block, selected, unit) else { continue };
        is_compared = true;
        for lead in leads {
            if best.as_ref().is_none_or(|(_, known)| known.most < lead.most) {
                best = Some((block.kernel, lead));
            }
        }
    }
    let least = three_digits((WORTH_A_NAME - 1.0) * 100.0);
    let call = match best {
        Some((kernel, lead)) => {
            format!("Call {} by name for {kernel}: {} faster", lead.name, by(&lead))
        }
        None if is_compared => {
            format!("Keep `selected`: no variant is more than {least} % faster")
        }
        None if blocks.is_empty() => "Nothing was timed".to_owned(),
        None => String::new(),
    };
    let aligned = blocks.iter().find(|block| block.section == Section::Aligned);
    let reached = aligned.map(|block| (block.kernel, shares(block, &QUOTED[..1])));
    let reached = reached.filter(|(_, share)| !share.is_empty());
    let reached = reached.map(|(kernel, share)| format!("{kernel} {share}"));
    vec![call, reached.unwrap_or_default()]
}

/// Formats one paragraph for `kernel`; `None` if nothing was selected or timed.
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
    let others = |section| first(section).and_then(|block| variants_ahead(block, selected, unit));
    let (sized, mixed) = (others(Section::Aligned), others(Section::Mixes));
    let by_name = by_name(sized.as_deref(), mixed.as_deref());
    let peers = faster_peers(blocks.iter().filter(|block| block.kernel == kernel), unit);
    let text = format!("{sentences} {by_name} {peers}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then(|| format!("{kernel} ({selected}): {text}"))
}

/// Formats the selected routine's speed relative to the bound at `sizes`, or at the largest size:
/// `71.8 % (70.9 to 72.4) of the speed of load256 at 1460 bytes, 90 % (89.1 to 90.7) at 4096`.
/// Empty if unknown.
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
        let at = if last_bound.is_none() { bytes(size) } else { size.to_string() };
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

/// Describes the gain from calling a variant by name. Empty if there is nothing to compare.
fn by_name(sized: Option<&[Lead]>, mixed: Option<&[Lead]>) -> String {
    let least = three_digits((WORTH_A_NAME - 1.0) * 100.0);
    let has_leads = |leads: Option<&[Lead]>| leads.is_some_and(|leads| !leads.is_empty());
    if !has_leads(sized) && !has_leads(mixed) {
        return match sized.or(mixed) {
            Some(_) => {
                format!(
                    "No other variant is more than {least} % faster across its entire \
                         confidence interval."
                )
            }
            None => String::new(),
        };
    }
    let part = |when: &str, leads: Option<&[Lead]>| match leads {
        None => None,
        Some([]) => Some(format!("{when}, no other variant is more than {least} % faster.")),
        Some(leads) => {
            let text = |lead: &Lead| format!("{} at {} ({} faster)", lead.name, at(lead), by(lead));
            let texts: Vec<String> = leads.iter().map(text).collect();
            Some(format!("{when}, call by name: {}.", texts.join("; ")))
        }
    };
    let parts = [part("At a fixed size", sized), part("With random sizes", mixed)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Formats one sentence per peer routine that beats the selected one, listing the cases in which it
/// is faster.
fn faster_peers<'b, 'a: 'b>(blocks: impl Iterator<Item = &'b Block<'a>>, unit: Unit) -> String {
    let mut sentences: Vec<(&str, String)> = Vec::new();
    for block in blocks {
        for lead in peers_ahead(block, unit) {
            let case = format!("{}, at {} ({})", block.case_text(), at(&lead), by(&lead));
            match sentences.iter_mut().find(|(name, _)| *name == lead.name) {
                Some((_, sentence)) => *sentence += &format!("; {case}"),
                None => {
                    let sentence =
                        format!("{} is faster than the selected variant: {case}", lead.name);
                    sentences.push((lead.name, sentence));
                }
            }
        }
    }
    sentences.into_iter().map(|(_, sentence)| sentence + ". ").collect()
}

/// Lists the sizes or mixes for which a routine is faster: `20, 40 and 64`.
fn at(lead: &Lead) -> String {
    let loads: Vec<String> = lead.loads.iter().map(|load| load.text()).collect();
    match loads.as_slice() {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        one => one.concat(),
    }
}

/// Formats by how much a routine is faster: `up to 7.9 %`.
fn by(lead: &Lead) -> String {
    let up_to = if lead.loads.len() > 1 { "up to " } else { "" };
    format!("{up_to}{} %", percent(lead.most - 1.0))
}
