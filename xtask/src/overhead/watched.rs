// SPDX-License-Identifier: MIT OR Apache-2.0
//! Monitored programs under load: one that polls, and one that makes system calls.

use super::tools::Cost;
use crate::command::{Background, Scratch, output, program};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A program to be monitored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// DPDK's testpmd on ports without a NIC: nothing but its poll loop.
    Testpmd,
    /// nginx with one worker, loaded by wrk.
    Nginx,
}

pub(super) const PROGRAMS: [Program; 2] = [Program::Testpmd, Program::Nginx];

/// Maximum run time of a monitored program in seconds, after which timeout(1) ends it.
const LIMIT: &str = "1200";

const ADDRESS: &str = "127.0.0.1:18099";

impl Program {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Testpmd => "testpmd (net_null)",
            Self::Nginx => "nginx under wrk",
        }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Testpmd => "packets/s",
            Self::Nginx => "requests/s",
        }
    }
}

/// testpmd's statistics, printed every second, with timestamps.
type Rates = Arc<Mutex<Vec<(Instant, f64)>>>;

/// A running program under load.
pub(super) struct Watched {
    pub(super) program: Program,
    /// timeout(1), which forwards signals to the program.
    _timeout: Background,
    pid: u32,
    rates: Rates,
    seconds: u32,
    _folder: Option<Scratch>,
}

impl Watched {
    /// Starts a program whose load will be measured for this many seconds.
    pub(super) fn start(program: Program, seconds: u32) -> Result<Self, String> {
        let rates = Rates::default();
        let (mut timeout, folder) = match program {
            Program::Testpmd => (testpmd()?, None),
            Program::Nginx => nginx().map(|(timeout, folder)| (timeout, Some(folder)))?,
        };
        if let Some(stdout) = timeout.take_stdout() {
            let rates = Arc::clone(&rates);
            std::thread::spawn(move || collect(BufReader::new(stdout), &rates));
        }
        std::thread::sleep(Duration::from_secs(4));
        let pid = of_timeout(timeout.id())?;
        Ok(Self { program, _timeout: timeout, pid, rates, seconds, _folder: folder })
    }

    /// Returns the throughput while `watch` runs, and the result of `watch`.
    pub(super) fn during(
        &self,
        watch: impl FnOnce(u32) -> Result<Cost, String> + Send,
    ) -> Result<(Cost, f64), String> {
        // Let the previous tool finish its remaining work.
        std::thread::sleep(Duration::from_millis(700));
        let began = Instant::now();
        match self.program {
            Program::Testpmd => {
                let cost = watch(self.pid)?;
                let rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
                // Each line reports the preceding second, so the lines of the first second are
                // ignored.
                let first = began + Duration::from_secs(1);
                let within: Vec<f64> =
                    rates.iter().filter(|(at, _)| *at >= first).map(|(_, rate)| *rate).collect();
                let mean = within.iter().sum::<f64>() / within.len() as f64;
                if mean > 0.0 {
                    Ok((cost, mean))
                } else {
                    Err("testpmd printed no rate".to_owned())
                }
            }
            Program::Nginx => std::thread::scope(|scope| {
                let load = scope.spawn(|| wrk(self.seconds));
                let cost = watch(self.pid)?;
                Ok((cost, load.join().map_err(|_| "the thread that runs wrk panicked")??))
            }),
        }
    }
}

fn testpmd() -> Result<Background, String> {
    let words = [
        "-k",
        "5",
        LIMIT,
        "dpdk-testpmd",
        "--no-huge",
        "-m",
        "256",
        "--no-pci",
        "-l",
        "0,1",
        "--file-prefix",
        "overhead",
        "--vdev",
        "net_null0",
        "--vdev",
        "net_null1",
        "--",
        "--stats-period",
        "1",
        "--total-num-mbufs=8192",
        "--forward-mode=macswap",
    ];
    spawn(&words)
}

fn nginx() -> Result<(Background, Scratch), String> {
    let folder = Scratch::new("overhead")?;
    let path = folder.path().display().to_string();
    let text = format!(
        "daemon off; worker_processes 1; pid {path}/pid; error_log /dev/null; events {{}}\n\
         http {{ access_log off; server {{ listen {ADDRESS};\n\
         location / {{ return 200 ok; }} }} }}\n"
    );
    let file = format!("{path}/nginx.conf");
    std::fs::write(&file, text).map_err(|error| format!("{file}: {error}"))?;
    Ok((spawn(&["-k", "5", LIMIT, "nginx", "-p", &path, "-c", &file])?, folder))
}

fn spawn(words: &[&str]) -> Result<Background, String> {
    let mut command = program("timeout", words);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    Background::start(command)
}

/// Returns the PID of the program started by timeout(1).
fn of_timeout(timeout: u32) -> Result<u32, String> {
    let file = format!("/proc/{timeout}/task/{timeout}/children");
    let children = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let child = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
    child.ok_or_else(|| "timeout(1) started no program".to_owned())
}

/// Collects the rates that testpmd prints for its first port.
fn collect(lines: impl BufRead, rates: &Rates) {
    let mut is_first = true;
    for line in lines.lines().map_while(Result::ok) {
        if let Some(rate) = rate(&line) {
            if is_first {
                let mut rates = rates.lock().unwrap_or_else(PoisonError::into_inner);
                rates.push((Instant::now(), rate));
            }
            is_first = !is_first;
        }
    }
}

/// Parses `  Rx-pps:     27310816          Rx-bps:  13109191680`.
fn rate(line: &str) -> Option<f64> {
    line.trim_start().strip_prefix("Rx-pps:")?.split_whitespace().next()?.parse().ok()
}

fn wrk(seconds: u32) -> Result<f64, String> {
    let (time, address) = (format!("-d{seconds}s"), format!("http://{ADDRESS}/"));
    let said = output(program("wrk", &["-t1", "-c8", &time, &address]))?;
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    let rate = line.and_then(|rate| rate.trim().parse().ok());
    rate.ok_or_else(|| format!("wrk printed no rate: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rates_of_the_first_port_are_collected() {
        let text = "  Rx-pps:     100          Rx-bps:  1\n  Tx-pps: 9\n  Rx-pps: 7 Rx-bps: 1\n\
                    x\n  Rx-pps: 50\n";
        let rates = Rates::default();
        collect(text.as_bytes(), &rates);
        let rates: Vec<f64> = rates.lock().unwrap().iter().map(|(_, rate)| *rate).collect();
        assert_eq!(rates, [100.0, 50.0]);
    }
}
