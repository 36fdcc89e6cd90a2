// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate stream`: measures streams between two sockets, and explains what limits them.

mod args;

pub(crate) use args::StreamArgs;

use crate::emit::{self, Answer, Forms};
use crate::failure::{Failure, also};
use crate::files::Files;
use crate::interrupt::{INTERRUPTED, stop_on_interrupt};
use crate::plots;
use crate::progress::Progress;
use crate::provenance;
use linerate_record::{Body, Provenance, Record};
use linerate_stream::{Limits, measure, serve, serve_parent};
use linerate_trial::Watch;
use std::process::Command;

const WHY_NONE: &str = "nothing to plot: a plot needs two or more fixed buffer sizes (--buffer)";

/// Measures streams and prints the report or, with --server, serves clients.
pub(crate) fn stream(args: &StreamArgs) -> Result<Answer, Failure> {
    if args.part {
        return serve_parent().map(|()| Answer::Done).map_err(Failure::new);
    }
    match args.server() {
        Some(address) => server(args, address),
        None => client(args),
    }
}

fn server(args: &StreamArgs, address: std::net::SocketAddr) -> Result<Answer, Failure> {
    let limits = Limits { token: args.token()?, is_for_one: false };
    let service = serve(address, limits).map_err(Failure::new)?;
    let stop = stop_on_interrupt()?;
    let quiet = args.output.quiet();
    if !quiet {
        emit::say(&format!("listening on {}\n", service.address()));
    }
    let report = |text: &str| {
        if !quiet {
            emit::say(&format!("{text}\n"));
        }
    };
    service.run(stop, &report);
    Ok(Answer::Done)
}

fn client(args: &StreamArgs) -> Result<Answer, Failure> {
    let (request, target) = (args.request(), args.target()?);
    Files::default().writes("--record", args.output.record.as_ref()).check()?;
    args.plots.make_folder()?;
    let provenance = provenance::provenance();
    let stop = stop_on_interrupt()?;
    let allowed = linerate_linux::allowed_cpus().map_err(Failure::new)?;
    let provenance = Provenance { others: provenance::others(&allowed), ..provenance };
    let progress = Progress::new(args.output.quiet());
    progress.step("stream");
    let show = |part: &str, share: f64| {
        progress.step(part);
        progress.at(share);
    };
    let outcome = measure(&request, &target, &itself, &Watch::new(stop, &show));
    progress.clear();
    let outcome = outcome.map_err(Failure::new)?;
    let mut report = outcome.report;
    linerate_explain::stream::explain(&mut report);
    if let (true, Some(error)) = (report.points.is_empty(), &outcome.error) {
        return Err(Failure::new(error));
    }
    let drawing = args.plots.draw(|| plots::any(linerate_report::svg::stream(&report), WHY_NONE));
    let interrupted = report.interrupted;
    let record = Record { provenance, body: Body::Stream(Box::new(report)) };
    let printed = emit::emit(Forms::from(&args.output), &record);
    also(printed, drawing.write(args.output.quiet()))?;
    match outcome.error {
        Some(error) => Err(Failure::new(error)),
        None if interrupted => Err(Failure::new(INTERRUPTED)),
        None => Ok(Answer::Done),
    }
}

/// Returns the command that starts this program again, as the other side of the connection.
fn itself() -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["stream", "--part"]);
    Ok(command)
}
