// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate why --demo`: a program that loses packets for a known reason, explained like any
//! other.
//!
//! Two child processes run the demo in their own user and network namespaces. This does not require
//! root and changes nothing outside the namespaces:
//!
//! ```text
//! this program --starts--> sender: enters a user and a network namespace, starts
//!                          receiver: enters a network namespace of its own
//!              <--PID----- sender: joins both by a veth pair, sends 20,000 datagrams per second
//!   observes the receiver, as it would observe anything
//!              --closes--> the sender's standard input, who closes the receiver's
//!              <--counts-- what both counted themselves: the truth
//! ```
//!
//! Each child exits when its standard input is closed or its time limit expires.

mod parts;
mod scene;

pub(super) use parts::play;

use super::{WhyArgs, show, watch};
use crate::emit::{self, Answer};
use crate::failure::Failure;
use linerate_observe::Target;
use linerate_record::why::ledger::ledger;
use linerate_record::why::{Cause, WhyReport};
use linerate_record::{Body, Record};
use scene::{Scene, Truth};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Interfaces at both ends of the veth pair.
const NEAR: &str = "demo0";
const FAR: &str = "demo1";

/// Datagrams that the sender sends per second.
const PER_SECOND: f64 = 20_000.0;

/// Pause of the receiver between reads.
const PAUSE: Duration = Duration::from_millis(10);

/// Size of the receive buffer requested by the receiver. The kernel grants twice as much, which
/// holds some 85 short datagrams (768 bytes each, including overhead), but 200 arrive during a
/// pause.
const BUFFER_BYTES: u32 = 32 << 10;

/// Loss shares that differ by less than this are considered equal. They may differ because the
/// observation covers only part of the time that the children count.
const TOLERANCE: f64 = 0.05;

/// Like [`TOLERANCE`], but for a machine without idle CPUs, where the loss changes from moment to
/// moment, and more time passes between reading one counter and the next.
const TOLERANCE_BUSY: f64 = 0.15;

/// Share of idle CPU time below which a machine counts as busy.
const BUSY: f64 = 0.1;

/// Role of a child process in the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Part {
    Sender,
    Receiver,
}

impl Part {
    /// Name of the role on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }
}

/// Runs the demo, diagnoses it like any other program, and compares the diagnosis with the truth.
/// Returns `No` if they disagree.
pub(super) fn demo(args: &WhyArgs, stop: &AtomicBool) -> Result<Answer, Failure> {
    let scene = Scene::start(args.window())?;
    let record = watch(args, &Target::Pids(vec![scene.receiver()]), args.window(), stop)?;
    let truth = scene.finish()?;
    let shown = show(args, &record)?;
    let (agrees, sentence) = compare(&record, truth);
    let text = linerate_report::why_truth(&sentence, &super::style(args));
    // A script reads only the record.
    if args.output.json() {
        emit::say(&text);
    } else {
        emit::put(args.destination(), &text)?;
    }
    Ok(if agrees { shown } else { Answer::No })
}

/// Whether the diagnosis matches the truth, and a sentence comparing the two.
fn compare(record: &Record, truth: Truth) -> (bool, String) {
    let share = truth.lost_share();
    let happened = format!(
        "of {} packets sent, the receiver ({} KiB buffer, read every {} ms) got {}: {:.1} % lost",
        truth.sent,
        BUFFER_BYTES >> 10,
        PAUSE.as_millis(),
        truth.received,
        100.0 * share
    );
    let Body::Why(report) = &record.body else { return (false, happened) };
    let cause = report.findings.first().map_or(Cause::CannotTell, |first| first.cause);
    let found = lost_share(report);
    let is_busy = idle_share(report).is_some_and(|idle| idle < BUSY);
    let tolerance = if is_busy { TOLERANCE_BUSY } else { TOLERANCE };
    let is_near = found.is_some_and(|found| (found - share).abs() <= tolerance);
    let found = found.map_or("an unknown share".to_owned(), |f| format!("{:.1} %", 100.0 * f));
    let said = format!("{}, {found} lost", cause.name());
    match (cause == Cause::SocketBuffer && is_near, is_busy) {
        (true, _) => (true, format!("{happened}. The diagnosis agrees: {said}.")),
        (false, true) => (
            false,
            format!(
                "{happened}. The diagnosis does not agree: {said}. The CPUs of this machine were \
                 busy with other work; repeat the demo while they are idle."
            ),
        ),
        (false, false) => (
            false,
            format!(
                "{happened}. The diagnosis does not agree: {said}. Please report it, with the file \
                 that --bundle writes."
            ),
        ),
    }
}

/// Share of idle time, averaged over all CPUs, if it could be read.
fn idle_share(report: &WhyReport) -> Option<f64> {
    let cpus = &report.observation.cpus;
    let idle: f64 = cpus.iter().map(|cpu| cpu.idle).sum();
    (!cpus.is_empty()).then(|| idle / cpus.len() as f64)
}

/// Share of the packets for the receiver that the ledger reports as lost; the others were received.
/// The interface counts them, too, but is read at another moment.
fn lost_share(report: &WhyReport) -> Option<f64> {
    let lost = ledger(&report.observation).lost()? as f64;
    let received = report.observation.packets.as_ref()?.packets as f64;
    (lost + received > 0.0).then(|| lost / (lost + received))
}
