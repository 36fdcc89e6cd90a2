// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate kernels`: measures every checksum and copy variant against its bound.

use crate::args::KernelsArgs;
use crate::emit::{self, Answer};
use crate::failure::{Failure, also};
use crate::files::Files;
use crate::interrupt::{INTERRUPTED, stop_on_interrupt};
use crate::plots;
use crate::processors::processor;
use crate::progress::Progress;
use crate::provenance;
use linerate_kernelbench::cases::Scope;
use linerate_kernelbench::{Filter, Request, Watch, peer_reports, sweep, variant_reports};
use linerate_path::model::SELECTED;
use linerate_record::kernels::{Kernel, KernelsReport, State};
use linerate_record::{Body, Provenance, Record};
use serde_json::json;
use std::fmt::Write;

/// Measures the kernels and prints the report.
pub(crate) fn kernels(args: &KernelsArgs) -> Result<Answer, Failure> {
    let refuse = |error| Failure::new(format!("--variant: {error}, or {SELECTED}"));
    let filter = Filter::parse(&args.variant).map_err(refuse)?;
    if args.list {
        args.output.check_plain("--list")?;
        return emit::print(&list(args.output.json()));
    }
    let cpu = processor(args.cpu)?;
    Files::default().writes("--record", args.output.record.as_ref()).check()?;
    args.plots.make_folder()?;
    let provenance = provenance::provenance();
    let request = Request {
        filter,
        processor: provenance.cpu.clone(),
        seed: args.seed,
        ..Request::new(&scope(args), cpu)
    };
    let stop = stop_on_interrupt()?;
    let progress = Progress::new(args.output.quiet());
    let show = |case: &str, share: f64| {
        progress.step(case);
        progress.at(share);
    };
    // Check the load on all CPUs: a program on another CPU shares caches, and may share the core.
    let allowed = linerate_linux::allowed_cpus().map_err(Failure::new)?;
    let provenance = Provenance { others: provenance::others(&allowed), ..provenance };
    let hung = |what: &str| progress.warn(what);
    let outcome = sweep(&request, &Watch::new(stop, &show).reporting(&hung));
    progress.clear();
    let report = outcome.map_err(Failure::new)?.report;
    let report = KernelsReport { sizes_named: !args.size.is_empty(), ..report };
    let (is_wrong, interrupted) = (!report.wrong.is_empty(), report.interrupted);
    let drawing = args.plots.draw(|| plots::any(linerate_report::svg::kernels(&report), WHY_NONE));
    let record = Record { provenance, body: Body::Kernels(Box::new(report)) };
    also(emit::emit(&args.output, &record), drawing.write(args.output.quiet()))?;
    if interrupted {
        return Err(Failure::new(INTERRUPTED));
    }
    Ok(if is_wrong { Answer::No } else { Answer::Done })
}

/// Returns the cases to measure. An omitted option selects all its values.
fn scope(args: &KernelsArgs) -> Scope {
    let kernels = if args.kernel.is_empty() { Kernel::ALL.to_vec() } else { args.kernel.clone() };
    let states = if args.state.is_empty() { State::ALL.to_vec() } else { args.state.clone() };
    let mut sizes = args.size.clone();
    sizes.sort_unstable();
    sizes.dedup();
    Scope { kernels, sizes, states, quick: args.quick }
}

const WHY_NONE: &str = "nothing to plot, so no file was written: only size mixes and aligned \
                        buffers in warm or cold state can be plotted";

/// Lists variants and peers.
fn list(json: bool) -> String {
    let (variants, peers) = (variant_reports(), peer_reports());
    if json {
        return format!("{:#}\n", json!({ "variants": variants, "peers": peers }));
    }
    let mut text =
        "variant       needs                              here  selected for\n".to_owned();
    let (built, absent): (Vec<_>, Vec<_>) = variants.into_iter().partition(|v| v.compiled);
    for variant in built {
        let here = if variant.supported { "yes" } else { "no" };
        let selected: Vec<&str> = variant.selected_for.iter().map(|kernel| kernel.name()).collect();
        let (name, isa, selected) = (variant.name, variant.isa, selected.join(", "));
        let line = format!("{name:13} {isa:32} {here:>6}  {selected}");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if !absent.is_empty() {
        let absent: Vec<String> = absent.into_iter().map(|variant| variant.name).collect();
        let _ = writeln!(text, "not in this build: {}", absent.join(", "));
    }
    text += "\npeer                kernels         source, or why it is missing\n";
    for peer in peers {
        let kernels: Vec<&str> = peer.kernels.iter().map(|kernel| kernel.name()).collect();
        let missing = peer.reason.map_or(String::new(), |reason| format!(": {reason}"));
        let (name, kernels) = (peer.name, kernels.join(", "));
        let _ = writeln!(text, "{name:19} {kernels:15} {}{missing}", peer.source);
    }
    text
}
