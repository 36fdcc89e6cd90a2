// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `linerate why`.

use super::demo::Part;
use crate::budget::line;
use crate::emit::{Destination, Output};
use crate::help_text::{examples, paragraphs};
use crate::parse::{TIME_SYNONYMS, duration, pid};
use clap::{ArgGroup, Args};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const AFTER: &str = "\
Users can watch their own processes. Root sees more: which threads preempted the program, kernel
samples and packet drop reasons. No system setting is changed, and the program is neither stopped
nor attached to. --details lists what could not be read, with the command that makes it readable.
docs/commands/why.md in linerate's source repository lists the causes that can be found, with their
thresholds and limits. Examples:

  linerate why --demo
  linerate why $(pidof dpdk-testpmd)
  linerate why --name nginx --line 10Gb/s
  linerate why -t 10s -- iperf3 -c 192.0.2.1 -t 10
  linerate why --iface eth0 --json | jq -r .summary.finding
  linerate why --name unbound -t 60s --every 60s --json >> why.ndjson
  linerate why --json -o why.json -- iperf3 -c 192.0.2.1

If a command is given, standard output belongs to it: the report or, with --json, the record goes to
stderr, or to the -o file. In a pipe, `linerate why --json -- CMD | jq` reads what CMD prints.
The command gets SIGTERM when the window ends. A bundle contains addresses, process names and
file paths, but neither packets nor environment variables; it contains command lines only with
--with-command-line.

Exit status: 0 with a finding, 1 if the finding of --demo is wrong, 2 if there is nothing to
watch.";

#[derive(Debug, Args)]
#[command(
    after_help = examples(AFTER),
    after_long_help = paragraphs(AFTER),
    override_usage = "linerate why [OPTIONS] <PID...|--name NAME|--iface IF|--demo|-- CMD...>",
    group(ArgGroup::new("what").required(true).args([
        "pids", "command", "name", "interface", "demo",
    ]))
)]
pub(crate) struct WhyArgs {
    /// Watch these processes and their descendants
    #[arg(value_name = "PID", value_parser = pid)]
    pub(super) pids: Vec<u32>,
    /// Start this command, watch it, and terminate it after the window
    #[arg(last = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
    /// Watch the processes with this name
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Watch an interface and the CPUs that handle its receive traffic
    #[arg(long = "iface", value_name = "IF")]
    pub(super) interface: Option<String>,
    /// Explain a demo that drops packets; no root needed
    ///
    /// The demo runs in its own namespaces and drops packets for a known reason.
    #[arg(long, conflicts_with = "every")]
    pub(super) demo: bool,
    // Role of a child process of the demo.
    #[arg(long, hide = true, requires = "demo", value_enum, value_name = "PART")]
    pub(super) demo_part: Option<Part>,
    /// Watch for this long, e.g. 500ms or 10s (default: 5s)
    #[arg(
        long, short = 't', value_name = "TIME", value_parser = duration, aliases = TIME_SYNONYMS
    )]
    pub(super) time: Option<f64>,
    /// Line rate to reach, e.g. 10Gb/s
    ///
    /// Predicted gains are capped at this rate. A program that reaches it has no bottleneck.
    #[arg(long, value_name = "RATE", value_parser = line)]
    pub(super) line: Option<f64>,
    /// Write one JSON file to attach to a bug report
    ///
    /// Contains this record and the record of `linerate doctor`.
    #[arg(long, value_name = "FILE", conflicts_with = "every")]
    pub(super) bundle: Option<PathBuf>,
    /// Include command lines, which may contain secrets
    #[arg(long, requires = "bundle")]
    pub(super) with_command_line: bool,
    /// Repeat at this interval until interrupted
    ///
    /// Prints a line per window, or with --json a record per line.
    #[arg(
        long, value_name = "TIME", value_parser = duration,
        conflicts_with_all = ["details", "record", "command"]
    )]
    pub(super) every: Option<f64>,
    /// Write the result to this file; - is stdout
    ///
    /// Default: stderr with a command, otherwise stdout.
    #[arg(long = "output", short = 'o', value_name = "FILE")]
    pub(super) to: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Default window in seconds: long enough for 50 CPU quota periods, yet short enough to wait for.
const WINDOW_S: f64 = 5.0;

impl WhyArgs {
    /// Returns the length of a window.
    pub(super) fn window(&self) -> Duration {
        Duration::from_secs_f64(self.time.unwrap_or(WINDOW_S))
    }

    /// Returns the destination of the result. If a command is run, stdout belongs to that command.
    pub(crate) fn destination(&self) -> Destination<'_> {
        Destination::of(self.to.as_deref(), !self.command.is_empty())
    }

    /// Returns the result file, if there is one.
    pub(super) fn file(&self) -> Option<&Path> {
        self.destination().file()
    }
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::Parser;

    fn parsed(words: &[&str]) -> Result<(), String> {
        let words = ["linerate", "why"].iter().chain(words);
        Cli::try_parse_from(words).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn one_thing_is_watched() {
        for good in [
            &["1"][..],
            &["1", "2", "-t", "2s"],
            &["--name", "nginx", "--line", "10Gb/s"],
            &["--iface", "eth0", "--every", "60s", "--json"],
            &["-t", "1s", "--", "sh", "-c", "exit 1"],
            &["1", "--bundle", "b.json", "--with-command-line"],
            &["--demo", "-t", "2s"],
        ] {
            assert_eq!(parsed(good), Ok(()), "{good:?}");
        }
        for bad in [
            &[][..],
            &["0"],
            &["x"],
            &["1", "--name", "nginx"],
            &["1", "--", "ls"],
            &["1", "-t", "5x"],
            &["1", "--line", "10"],
            &["1", "--with-command-line"],
            &["1", "--every", "1s", "--details"],
            &["1", "--demo"],
            &["--demo", "--every", "1s"],
        ] {
            assert!(parsed(bad).is_err(), "{bad:?}");
        }
    }
}
