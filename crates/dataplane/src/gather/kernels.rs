// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes which fraction of a stage's time is spent in kernels (checksum and copy routines), from
//! the replay of its calls.

use crate::replay::Replayed;
use linerate_record::kernels::Kernel;
use linerate_record::run::{KernelUse, VariantTime};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier};

/// Returns the number of calls, the cost and the variants of each kernel that a stage calls.
/// `service` is the stage's service time.
pub(super) fn uses(replayed: &[Replayed], service: &Figure) -> Vec<KernelUse> {
    replayed.iter().map(|one| one_use(one, service)).collect()
}

fn one_use(replayed: &Replayed, service: &Figure) -> KernelUse {
    const METHOD: &str = "logged calls replayed on warm data";
    const UNIT: &str = "ticks/packet";
    let calls = replayed.calls_per_packet;
    let per_packet = |per_call: &Estimate| Estimate {
        value: per_call.value * calls,
        low: per_call.low * calls,
        high: per_call.high * calls,
        ..*per_call
    };
    let ticks_per_packet = match &replayed.ticks_per_call {
        Ok(per_call) => Figure::number(UNIT, per_packet(per_call), Tier::Sw, METHOD),
        Err(why) => Figure::absent(UNIT, Tier::Sw, METHOD, why),
    };
    let ratio = |ratio| Figure::number("ratio", ratio, Tier::Sw, METHOD);
    let variants = replayed.ratios.iter().map(|(variant, estimate)| VariantTime {
        variant: (*variant).to_owned(),
        selected: *variant == replayed.selected,
        time_ratio: ratio(*estimate),
    });
    KernelUse {
        kernel: kernel_of(replayed.kernel),
        variant: replayed.in_use.to_owned(),
        calls_per_packet: calls,
        bytes_per_call: replayed.bytes_per_call,
        share: share(&ticks_per_packet, service),
        ticks_per_packet,
        variants: variants.collect(),
    }
}

fn kernel_of(kernel: linerate_kernels::Kernel) -> Kernel {
    match kernel {
        linerate_kernels::Kernel::Checksum => Kernel::Checksum,
        linerate_kernels::Kernel::Copy => Kernel::Copy,
        linerate_kernels::Kernel::CopyChecksum => Kernel::CopyChecksum,
        linerate_kernels::Kernel::Fill => Kernel::Fill,
    }
}

/// Returns `part` divided by `whole`. The interval extends from the smallest to the largest ratio
/// that is possible within the intervals of the two figures.
fn share(part: &Figure, whole: &Figure) -> Figure {
    const METHOD: &str = "ticks of the replayed calls, divided by the stage's service time";
    let absent = |figure: &Figure| {
        let reason = figure.reason.as_deref().unwrap_or("no ticks");
        Figure::absent("ratio", Tier::Sw, METHOD, reason)
    };
    let Some(ticks) = part.as_number() else { return absent(part) };
    let Some(service) = whole.as_number() else { return absent(whole) };
    let end = |part: Option<f64>, whole: Option<f64>| {
        part.zip(whole).filter(|(_, whole)| *whole > 0.0).map(|(part, whole)| part / whole)
    };
    let (low, high) = (end(part.low, whole.high), end(part.high, whole.low));
    let estimate = Estimate::of_ends(ticks / service, low, high, part.n);
    Figure::number("ratio", estimate, Tier::Sw, METHOD)
}
