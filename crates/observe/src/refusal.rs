// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts the kernel's refusal to open an event into an entry in the list of unread data.

use linerate_counters::event::{Class, Event};
use linerate_counters::refusal::{Attempt, Refusal};
use linerate_doctor::host_facts::HostFacts;
use linerate_doctor::refusal::Explainer;
use linerate_linux::perf::{OpenError, Request, TRACEPOINT, Target};
use linerate_record::why::Unread;

/// Returns the command that observes a process as root.
pub(crate) fn as_root(pid: u32) -> String {
    format!("sudo linerate why {pid}")
}

/// Explains why the event `name` was refused and what would change that. `what` is the data that is
/// missing as a result.
pub(crate) fn explain(
    what: &str,
    name: &str,
    request: Request,
    target: Target,
    error: OpenError,
) -> Unread {
    let is_tracepoint = request.selector.kind == TRACEPOINT;
    let event = Event {
        name: name.to_owned(),
        native: None,
        unit: if is_tracepoint { "events" } else { "ns" },
        class: if is_tracepoint { Class::Tracepoint } else { Class::Software },
        selector: request.selector,
        is_user_only: request.exclude_kernel,
        unit_cpus: Vec::new(),
    };
    let refusal = Refusal::NotOpened(Attempt { error, request, target, group_len: 0 });
    let around = HostFacts::gather();
    let explanation = Explainer::new(&around, true).explain(&refusal, &event);
    Unread { what: what.to_owned(), reason: explanation.sentence, fix: explanation.fix }
}
