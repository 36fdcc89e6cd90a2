// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate why --demo`: a program that loses packets for a known reason and is diagnosed like any
//! other program.
//!
//! The demo does not require root, and changes nothing outside its namespaces. It consists of two
//! child processes in their own user and network namespaces:
//!
//! ```text
//! this program --starts--> sender: enters a user and a network namespace, starts
//!                          receiver: enters its own network namespace
//!                          sender: connects both by a veth pair, waits until a datagram arrives
//!              <--PID----- sender: sends 20,000 datagrams per second
//!   observes the receiver like any other program
//!              --closes--> the sender's standard input; the sender then closes the receiver's
//!              <--counts-- datagrams sent and received, as counted by the children: the truth
//! ```
//!
//! A child exits when its stdin is closed or its time limit expires.

mod parts;
mod scene;

pub(super) use parts::play;

use super::{WhyArgs, show, watch};
use crate::appearance::Form;
use crate::emit::{self, Answer};
use crate::failure::Failure;
use crate::files;
use linerate_linux::speaking::Ends;
use linerate_observe::Target;
use linerate_record::why::ledger::ledger;
use linerate_record::why::{Cause, WhyReport};
use linerate_record::{Body, Record};
use linerate_report::{Markup, Style};
use scene::{Scene, Truth};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Interfaces at both ends of the veth pair.
const ENDS: Ends = Ends { near: "demo0", far: "demo1" };

/// Datagrams sent per second.
const PER_SECOND: f64 = 20_000.0;

/// Duration of the receiver's pause between reads.
const PAUSE: Duration = Duration::from_millis(10);

/// Receive buffer size that the receiver requests. The kernel doubles it, which is enough for some
/// 85 short datagrams (768 bytes each, including overhead), but 200 arrive during a pause.
const BUFFER_BYTES: u32 = 32 << 10;

/// Maximum difference between two loss rates that are considered equal. They may differ because the
/// observation covers only part of the time during which the children count.
const TOLERANCE: f64 = 0.05;

/// Like [`TOLERANCE`], but for busy machines, where loss rates fluctuate and more time passes
/// between reads of different counters.
const TOLERANCE_BUSY: f64 = 0.15;

/// Fraction of idle CPU time below which a machine counts as busy.
const BUSY: f64 = 0.1;

/// Role of a child process of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Part {
    Sender,
    Receiver,
}

impl Part {
    /// Returns the role's name on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }
}

/// Runs the demo, diagnoses it like any other program, and compares the diagnosis with the actual
/// loss. Returns `No` if they disagree.
pub(super) fn demo(args: &WhyArgs, stop: &AtomicBool) -> Result<Answer, Failure> {
    let scene = Scene::start(args.window())?;
    let record = watch(args, &Target::Pids(vec![scene.receiver()]), args.window(), stop)?;
    let truth = scene.finish()?;
    let (agrees, sentence) = compare(&record, truth);
    let text = linerate_report::why_truth(&sentence, &args.destination().style());
    let has_record = args.output.record.as_deref().is_some_and(files::is_stdout);
    let form = args.output.form_of("why");
    let is_text = form == Form::Text && !has_record;
    let shown = show(args, &record, if is_text { &text } else { "" })?;
    // Other formats are read by scripts, which expect only the record. Markdown is read by people:
    // if both streams go to one page, the comparison has to be Markdown too.
    match form {
        Form::Markdown if !has_record => emit::say(&linerate_report::why_truth(
            &sentence,
            &Style { color: false, markup: Markup::Markdown, ..args.destination().style() },
        )),
        _ if !is_text => emit::say(&text),
        _ => {}
    }
    Ok(if agrees { shown } else { Answer::No })
}

/// Returns whether the diagnosis matches the actual loss, and a sentence that compares them.
fn compare(record: &Record, truth: Truth) -> (bool, String) {
    let share = truth.lost_share();
    let happened = format!(
        "of {} packets sent, the receiver got {} ({:.1} % lost): it reads every {} ms, and its \
         SO_RCVBUF is {} KiB, which the kernel doubles",
        truth.sent,
        truth.received,
        100.0 * share,
        PAUSE.as_millis(),
        BUFFER_BYTES >> 10
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
                "{happened}. The diagnosis does not agree: {said}. Please report this, and attach \
                 the file that --bundle writes."
            ),
        ),
    }
}

/// Returns the mean idle fraction over all CPUs, if readable.
fn idle_share(report: &WhyReport) -> Option<f64> {
    let cpus = &report.observation.cpus;
    let idle: f64 = cpus.iter().map(|cpu| cpu.idle).sum();
    (!cpus.is_empty()).then(|| idle / cpus.len() as f64)
}

/// Returns the packet loss of the receiver according to the packet ledger, as a fraction. The
/// interface's own counters are read at a different time, so they are not used.
fn lost_share(report: &WhyReport) -> Option<f64> {
    let lost = ledger(&report.observation).lost()? as f64;
    let received = report.observation.packets.as_ref()?.packets as f64;
    (lost + received > 0.0).then(|| lost / (lost + received))
}
