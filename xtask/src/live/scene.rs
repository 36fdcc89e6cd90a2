// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forwarders between two veth pairs, in a network namespace of their own:
//!
//! ```text
//! sender (CPU 0) -> s0 --- p0 -> forwarder (CPU 1) -> p1 --- r0 -> counted by the interface
//! ```

use super::child::Running;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Frame sizes without FCS, in bytes.
pub(super) const SIZES: [u32; 2] = [64, 1514];

/// Duration of one measurement.
const WINDOW: Duration = Duration::from_millis(1200);
/// Duration of the flood before a measurement.
const WARM_UP: Duration = Duration::from_millis(300);

/// Time limit of a child, in seconds.
const LIMIT_S: u32 = 20;
/// Time within which a forwarder must forward its first packets.
const START: Duration = Duration::from_secs(10);

/// Number of received packets that shows that a forwarder works: more than the kernel sends on its
/// own when an interface comes up.
const PROBES: u64 = 50;

/// Forwarders of one I/O method: linerate's, and testpmd's.
pub(super) struct Contest {
    /// Name of the I/O method in path files.
    pub(super) io: &'static str,
    pub(super) commands: [&'static str; 2],
}

macro_rules! testpmd {
    ($devices:literal, $options:literal) => {
        concat!(
            "exec dpdk-testpmd --no-huge -m 512 --no-pci --main-lcore 0 -l 0,1 --file-prefix \
             live$ID ",
            $devices,
            " -- --nb-cores=1 --forward-mode=io --stats-period 1 ",
            $options
        )
    };
}

const LINERATE: &str = "exec $LINERATE run $PLACE/$IO.toml --cpus 1 --time 15s --quiet";

/// Contests, one per I/O method. testpmd's ports start with AF_XDP only if it has more packet
/// buffers than for AF_PACKET. Both programs let the kernel copy the frames (veth has no zero-copy
/// mode).
pub(super) const CONTESTS: [Contest; 2] = [
    Contest {
        io: "af_packet",
        commands: [
            LINERATE,
            testpmd!(
                "--vdev=net_af_packet0,iface=p0,qpairs=1,qdisc_bypass=1 \
                 --vdev=net_af_packet1,iface=p1,qpairs=1,qdisc_bypass=1",
                "--total-num-mbufs=8192"
            ),
        ],
    },
    Contest {
        io: "af_xdp",
        commands: [
            LINERATE,
            testpmd!(
                "--vdev=net_af_xdp0,iface=p0,force_copy=1 --vdev=net_af_xdp1,iface=p1,force_copy=1",
                "--total-num-mbufs=16384"
            ),
        ],
    },
];

/// Names of the contestants, in the order of `Contest::commands`.
pub(super) const NAMES: [&str; 2] = ["linerate", "testpmd"];

/// The path of linerate's forwarder, for AF_PACKET.
pub(super) const PATH: &str = include_str!("path.toml");

/// Command that sets up the interfaces. Without IPv6, the kernel sends no packets of its own on
/// them. Without offloads, it splits the sender's coalesced datagrams before they reach the
/// forwarder.
const SETUP: &str = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6; \
                     ip link add s0 type veth peer name p0 && \
                     ip link add p1 type veth peer name r0 && \
                     ethtool -K s0 tx off gso off && \
                     for i in s0 p0 p1 r0; do ip link set $i up; done && \
                     exec sleep 3600";

/// Rates of one measurement, in packets per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    pub(super) forwarded: f64,
    /// Packets that the sender's interface sent, or had to drop because its peer was full.
    pub(super) offered: f64,
}

/// The namespace with its interfaces, and the programs to run in it.
pub(super) struct Scene {
    holder: Running,
    linerate: PathBuf,
    place: PathBuf,
}

/// Interface counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counters {
    /// Packets that `r0`, the interface behind the forwarder, has received.
    arrived: u64,
    /// Packets that were sent on `s0`, the sender's interface, or dropped there.
    offered: u64,
}

impl Scene {
    /// Creates the namespace. `place` is a folder with the senders `send` and `flood`; the path
    /// files are written to it.
    pub(super) fn new(linerate: &Path, place: &Path) -> Result<Self, String> {
        for contest in &CONTESTS {
            let text = PATH.replace("af_packet", contest.io);
            let file = place.join(format!("{}.toml", contest.io));
            fs::write(file, text).map_err(|error| error.to_string())?;
        }
        let holding = place.join("holder");
        fs::create_dir_all(&holding).map_err(|error| error.to_string())?;
        let mut command = Command::new("unshare");
        command.args(["-n", "sh", "-c", SETUP]);
        let holder = Running::start(command, "the namespace", &holding, false)?;
        let mut scene = Self { holder, linerate: linerate.to_owned(), place: place.to_owned() };
        let begun = Instant::now();
        while scene.counters().is_err() {
            scene.holder.check()?;
            if begun.elapsed() > START {
                return Err(scene.holder.explained("has no interfaces"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(scene)
    }

    /// Starts a shell line in the namespace, with a time limit.
    fn start(&self, line: &str, io: &str, name: &str, folder: &str) -> Result<Running, String> {
        let line = line
            .replace("$LINERATE", &self.linerate.display().to_string())
            .replace("$PLACE", &self.place.display().to_string())
            .replace("$ID", &self.holder.id().to_string())
            .replace("$IO", io);
        let folder = self.place.join(folder);
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let mut command = Command::new("timeout");
        command.args(["-k", "5", &LIMIT_S.to_string(), "nsenter", "-n", "-t"]);
        command.arg(self.holder.id().to_string()).args(["sh", "-c", &line]);
        Running::start(command, name, &folder, false)
    }

    /// Starts a sender on s0: a program with its arguments.
    fn send(&self, program: &str) -> Result<Running, String> {
        let line = format!("exec taskset -c 0 $PLACE/{program} 15 64 02:00:00:00:00:01");
        self.start(&line, "", "the sender", "sender")
    }

    /// Returns the rates of a forwarder, by the sizes of [`SIZES`]. `index` is 0 for linerate, 1
    /// for testpmd.
    pub(super) fn measure(&self, contest: &Contest, index: usize) -> Result<[Rates; 2], String> {
        let name = format!("{} with {}", NAMES[index], contest.io);
        let mut forwarder = self.start(contest.commands[index], contest.io, &name, "forwarder")?;
        self.wait_until_ready(&mut forwarder)?;
        let mut rates = [Rates { forwarded: 0.0, offered: 0.0 }; 2];
        for (size, rates) in SIZES.iter().zip(&mut rates) {
            let mut sender = self.send(&format!("flood s0 {size}"))?;
            thread::sleep(WARM_UP);
            let (begun, before) = (Instant::now(), self.counters()?);
            thread::sleep(WINDOW);
            let (seconds, after) = (begun.elapsed().as_secs_f64(), self.counters()?);
            sender.check()?;
            forwarder.check()?;
            let arrived = after.arrived - before.arrived;
            if arrived == 0 {
                return Err(forwarder.explained(&format!("forwarded no frames of {size} bytes")));
            }
            let offered = (after.offered - before.offered) as f64 / seconds;
            *rates = Rates { forwarded: arrived as f64 / seconds, offered };
        }
        Ok(rates)
    }

    /// Sends a few packets until the forwarder forwards them.
    fn wait_until_ready(&self, forwarder: &mut Running) -> Result<(), String> {
        let (begun, before) = (Instant::now(), self.counters()?);
        let mut sender = self.send("send s0 64 1000")?;
        while self.counters()?.arrived < before.arrived + PROBES {
            forwarder.check()?;
            sender.check()?;
            if begun.elapsed() > START {
                return Err(forwarder.explained("forwarded no packets"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Reads the counters of the namespace's interfaces.
    fn counters(&self) -> Result<Counters, String> {
        let file = format!("/proc/{}/net/dev", self.holder.id());
        let text = fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        counters(&text).ok_or_else(|| format!("{file} has no counters of s0 and r0"))
    }
}

/// Reads the counters from the text of /proc/net/dev: received bytes, packets and 6 others, then
/// sent bytes, packets, errors and drops.
fn counters(text: &str) -> Option<Counters> {
    let numbers = |name: &str| -> Option<Vec<u64>> {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
        line.split_whitespace().map(|number| number.parse().ok()).collect()
    };
    let (near, far) = (numbers("s0:")?, numbers("r0:")?);
    Some(Counters { arrived: *far.get(1)?, offered: near.get(9)? + near.get(11)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_those_of_the_outer_interfaces() {
        let text = "Inter-|   Receive                            |  Transmit\n face |bytes \
                    packets errs drop fifo frame compressed multicast|bytes packets errs drop\n    \
                    lo:       0       0    0    0    0     0          0         0        0       0 \
                    0    0    0     0       0          0\n    s0:       1       2    3    4    5  \
                    6          7         8        9      10   11   12    0     0       0          \
                    0\n    r0:      21      22    0    0    0     0          0         0        0  \
                    0    0    0    0     0       0          0\n";
        assert_eq!(counters(text), Some(Counters { arrived: 22, offered: 22 }));
        assert_eq!(counters("    s0: 1 2 3\n    r0: 1 2 3\n"), None);
    }

    #[test]
    fn each_contest_has_its_path() {
        for contest in &CONTESTS {
            let text = PATH.replace("af_packet", contest.io);
            let table: toml::Table = text.parse().unwrap();
            for end in ["source", "sink"] {
                assert_eq!(table[end]["io"].as_str(), Some(contest.io));
            }
        }
    }
}
