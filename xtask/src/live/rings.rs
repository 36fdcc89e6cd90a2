// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets moved between two rings of 1,024 entries by one thread, in bursts of 32 and without any
//! stage: linerate's rings (the example `ring_io` of `linerate-dataplane`), and testpmd's io mode
//! on two ports of net_ring. Each program reports its own rate, in packets moved per second.

use super::child::Running;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Command that runs testpmd. It prints statistics once per second, the first time without rates.
/// `--tx-first` puts a burst into each ring.
const TESTPMD: &str = "exec dpdk-testpmd --no-huge -m 256 --no-pci --main-lcore 0 -l 0,1 \
                       --file-prefix ring$ID --vdev=net_ring0 --vdev=net_ring1 -- \
                       --total-num-mbufs=8192 --nb-cores=1 --forward-mode=io --tx-first \
                       --stats-period 1";

/// Time limit of a child, in seconds.
const LIMIT: &str = "20";

/// Run time of testpmd: long enough for it to print the rates of a whole second.
const DURATION: Duration = Duration::from_millis(3_700);

/// The two programs to measure: the example `ring_io`, and testpmd.
pub(super) struct Rings<'p> {
    /// Executable of the example `ring_io`.
    pub(super) example: PathBuf,
    /// Folder for the output of the programs.
    pub(super) place: &'p Path,
}

impl Rings<'_> {
    /// Returns the packets per second of one contestant: 0 for linerate, 1 for testpmd.
    pub(super) fn measure(&self, index: usize) -> Result<f64, String> {
        if index == 0 {
            let line = format!("exec taskset -c 1 {}", self.example.display());
            self.start(&line, "the example ring_io")?.finish()?;
            let text = self.output()?;
            return own_rate(&text).ok_or_else(|| format!("no rate in `{}`", text.trim()));
        }
        let line = TESTPMD.replace("$ID", &std::process::id().to_string());
        let mut testpmd = self.start(&line, "testpmd with net_ring")?;
        thread::sleep(DURATION);
        testpmd.check()?;
        let rate = rate_of_testpmd(&self.output()?);
        rate.ok_or_else(|| testpmd.explained("printed no rates"))
    }

    fn start(&self, line: &str, name: &str) -> Result<Running, String> {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", LIMIT, "sh", "-c", line]);
        Running::start(command, name, self.place, true)
    }

    fn output(&self) -> Result<String, String> {
        let file = self.place.join("output");
        fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
    }
}

/// Returns the rate from the only line that `ring_io` prints; `None` if it is not a rate above 0.
fn own_rate(text: &str) -> Option<f64> {
    text.trim().strip_suffix(" packets/s")?.parse().ok().filter(|rate| *rate > 0.0)
}

/// Returns the rate over both ports from the last statistics that testpmd printed for both; `None`
/// if it printed none, or no packet moved.
fn rate_of_testpmd(text: &str) -> Option<f64> {
    let mut blocks: Vec<[Option<f64>; 2]> = Vec::new();
    let mut port = 0;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("NIC statistics for port ") {
            port = rest.split_whitespace().next()?.parse().ok().filter(|port| *port < 2)?;
            if port == 0 {
                blocks.push([None; 2]);
            }
        } else if let Some(rest) = line.trim().strip_prefix("Rx-pps:") {
            let number = rest.split_whitespace().next()?.parse().ok()?;
            blocks.last_mut()?[port] = Some(number);
        }
    }
    let whole = blocks.iter().rev().find_map(|[first, second]| Some((*first)? + (*second)?));
    whole.filter(|rate| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statistics of both ports, as testpmd 22.11 prints them, with their rates.
    fn printed(rates: [u64; 2]) -> String {
        let port = |(port, rate): (usize, u64)| {
            format!(
                "\n  ##### NIC statistics for port {port}  #####\n  RX-packets: 640\n  \
                 Throughput (since last show)\n  Rx-pps:    {rate}          Rx-bps:          0\n  \
                 Tx-pps:            1          Tx-bps:          0\n"
            )
        };
        rates.into_iter().enumerate().map(port).collect()
    }

    #[test]
    fn the_rate_of_testpmd_is_its_last_whole_one() {
        let text = printed([0, 0]) + &printed([700, 701]) + &printed([800, 801]);
        assert_eq!(rate_of_testpmd(&text), Some(1601.0));
        // The last statistics have only been printed for one port.
        let cut = text.rfind("NIC statistics for port 1").unwrap();
        assert_eq!(rate_of_testpmd(&text[..cut]), Some(1401.0));
        assert_eq!(rate_of_testpmd(&printed([0, 0])), None);
        assert_eq!(rate_of_testpmd("EAL: Error"), None);
    }

    #[test]
    fn the_rate_of_the_example_is_its_line() {
        assert_eq!(own_rate("1234567 packets/s\n"), Some(1_234_567.0));
        assert_eq!(own_rate("0 packets/s\n"), None);
        assert_eq!(own_rate(""), None);
    }
}
