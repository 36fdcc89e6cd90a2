// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask live`: compares the forwarding rate of a live path with that of DPDK's testpmd,
//! over the same veth pairs and in the same run. Requires root; runs in a separate network
//! namespace.
//!
//! ```text
//! sender (CPU 0) -> s0 --- p0 -> forwarder (CPU 1) -> p1 --- r0 -> counted by the interface
//! ```
//!
//! Each round runs both forwarders in random order, and the result is the ratio within each round.

use crate::command::{cargo, output, program, root};
use linerate_record::random::Random;
use linerate_record::stats::{CONFIDENCE, Estimate, median_interval, paired_ratio};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Settings of the comparison: rounds, random seed, and the program to test.
pub(crate) struct Choice {
    rounds: u32,
    seed: u64,
    linerate: Option<PathBuf>,
}

/// Frame sizes without FCS, in bytes.
const SIZES: [u32; 2] = [64, 1514];

/// Duration of one measurement, after the forwarder has started.
const WINDOW: Duration = Duration::from_secs(2);

/// Time limit for a forwarder and for the sender, in seconds.
const LIMIT_S: u32 = 20;

/// The forwarders, ours first.
const FORWARDERS: [(&str, &str); 2] = [
    ("linerate af_packet", "exec $LINERATE run $PLACE/path.toml --cpus 1 --time 15s --quiet"),
    (
        "testpmd net_af_packet",
        "exec dpdk-testpmd --no-huge -m 256 --no-pci --main-lcore 0 -l 0,1 --file-prefix live$ID \
         --vdev=net_af_packet0,iface=p0,qpairs=1,qdisc_bypass=1 \
         --vdev=net_af_packet1,iface=p1,qpairs=1,qdisc_bypass=1 -- --total-num-mbufs=8192 \
         --nb-cores=1 --forward-mode=io --stats-period 1",
    ),
];

/// A path with one stage, which touches each packet as little as testpmd's io mode does.
const PATH: &str = "[source]\nkind = \"interface\"\nname = \"p0\"\n\n[sink]\nkind = \
                    \"interface\"\nname = \"p1\"\n\n[[stage]]\nkind = \"count\"\n";

const SETUP: &str = "ip link add s0 type veth peer name p0 && \
                     ip link add p1 type veth peer name r0 && \
                     for i in s0 p0 p1 r0; do ip link set $i up; done && exec sleep 3600";

/// Parses the arguments of `live`.
pub(crate) fn choose(words: &[&str]) -> Result<Choice, String> {
    let mut choice = Choice { rounds: 9, seed: 1, linerate: None };
    for pair in words.chunks(2) {
        match pair {
            ["--rounds", number] => {
                let rounds = number.parse().ok().filter(|rounds| (1..=99).contains(rounds));
                choice.rounds = rounds.ok_or("live: --rounds must be 1 to 99")?;
            }
            ["--seed", number] => {
                choice.seed = number.parse().map_err(|_| "live: --seed must be a number")?;
            }
            ["--linerate", file] => choice.linerate = Some(file.into()),
            other => return Err(format!("live: unknown option `{}`", other.join(" "))),
        }
    }
    Ok(choice)
}

/// Measures, and prints the table.
pub(crate) fn run(choice: &Choice) -> Result<(), String> {
    let linerate = match &choice.linerate {
        Some(file) => file.clone(),
        None => build()?,
    };
    let place = std::env::temp_dir().join(format!("linerate-live-{}", std::process::id()));
    std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    std::fs::write(place.join("path.toml"), PATH).map_err(|error| error.to_string())?;
    let (code, built) = (root().join("lab/why/send.c"), place.join("send"));
    let words = ["-O2", "-o", &built.display().to_string(), &code.display().to_string()];
    output(program("cc", &words))?;
    let holder = spawn(Command::new("unshare").args(["-n", "sh", "-c", SETUP]))?;
    let scene = Scene { holder, linerate, place };
    thread::sleep(Duration::from_secs(1));
    let mut random = Random::new(choice.seed);
    let mut rates: [Vec<Vec<f64>>; 2] = [vec![Vec::new(); 2], vec![Vec::new(); 2]];
    for _ in 0..choice.rounds {
        for (size, rates) in SIZES.iter().zip(&mut rates) {
            let first = usize::from(random.uniform() < 0.5);
            for forwarder in [first, 1 - first] {
                rates[forwarder].push(scene.measure(forwarder, *size)?);
            }
        }
    }
    print!("{}", page(&rates));
    Ok(())
}

struct Scene {
    holder: Child,
    linerate: PathBuf,
    place: PathBuf,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

/// A child process, terminated on drop.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

impl Scene {
    /// Returns a command that runs a shell line in the scene's namespace, with a time limit.
    fn line(&self, line: &str) -> Command {
        let line = line
            .replace("$LINERATE", &self.linerate.display().to_string())
            .replace("$PLACE", &self.place.display().to_string())
            .replace("$ID", &self.holder.id().to_string());
        let mut command = Command::new("timeout");
        command.args(["-k", "5", &LIMIT_S.to_string(), "nsenter", "-n", "-t"]);
        command.arg(self.holder.id().to_string()).args(["sh", "-c", &line]);
        command
    }

    /// Returns the throughput of a forwarder in kpps.
    fn measure(&self, forwarder: usize, size: u32) -> Result<f64, String> {
        let (name, line) = FORWARDERS[forwarder];
        let _forwarder = Ending(spawn(&mut self.line(line))?);
        thread::sleep(Duration::from_secs(3));
        let send = format!("exec taskset -c 0 $PLACE/send s0 {size} 0 8 64 02:00:00:00:00:01");
        let _sender = Ending(spawn(&mut self.line(&send))?);
        thread::sleep(Duration::from_secs(1));
        let (begun, before) = (Instant::now(), self.arrived()?);
        thread::sleep(WINDOW);
        let (took, after) = (begun.elapsed(), self.arrived()?);
        match after - before {
            0 => Err(format!("{name} forwarded no packets")),
            packets => Ok(packets as f64 / took.as_secs_f64() / 1e3),
        }
    }

    /// Returns the number of packets that `r0`, the interface behind the forwarder, has received.
    fn arrived(&self) -> Result<u64, String> {
        let text = output(self.line("ip -s -j link show r0"))?;
        let links: serde_json::Value =
            serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let packets = &links[0]["stats64"]["rx"]["packets"];
        packets.as_u64().ok_or_else(|| format!("no packet counter of the interface in {links}"))
    }
}

fn spawn(command: &mut Command) -> Result<Child, String> {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().map_err(|error| format!("{:?}: {error}", command.get_program()))
}

/// Formats the table. `rates` contains the rates in kpps by frame size, then forwarder, then round.
fn page(rates: &[Vec<Vec<f64>>; 2]) -> String {
    let mut text = "| bytes | linerate, kpps | testpmd, kpps | linerate / testpmd | rounds |\n\
                    |---|---|---|---|---|\n"
        .to_owned();
    for (size, rates) in SIZES.iter().zip(rates) {
        let [ours, theirs] = [&rates[0], &rates[1]].map(|rates| median_interval(rates, CONFIDENCE));
        let ratio = paired_ratio(&rates[1], &rates[0], CONFIDENCE);
        let shown = |estimate: &Estimate, digits: usize| {
            let Estimate { value, low, high, .. } = estimate;
            format!("{value:.digits$} ({low:.digits$} to {high:.digits$})")
        };
        let _ = writeln!(
            text,
            "| {size} | {} | {} | {} | {} |",
            shown(&ours, 0),
            shown(&theirs, 0),
            shown(&ratio, 2),
            rates[0].len()
        );
    }
    text
}

fn build() -> Result<PathBuf, String> {
    output(cargo(&["build", "--release", "--locked", "--quiet", "--package", "linerate"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(Path::new(root()).join(target).join("release/linerate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_ratio_within_rounds() {
        let fast = vec![vec![200.0; 9], vec![100.0; 9]];
        let text = page(&[fast.clone(), fast]);
        let row = "| 64 | 200 (200 to 200) | 100 (100 to 100) | 2.00 (2.00 to 2.00) | 9 |";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn options_are_checked() {
        assert!(choose(&["--rounds", "5", "--seed", "7"]).is_ok());
        assert!(choose(&["--rounds", "0"]).is_err());
        assert!(choose(&["--other", "1"]).is_err());
    }
}
