// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets up bottlenecks with known causes in two network namespaces, and checks whether `linerate
//! stream` names the causes.

use crate::command::program;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// A bottleneck: the commands that set it up, the arguments of `linerate stream`, and the findings
/// that name it.
struct Seed {
    name: &'static str,
    /// Shell commands; the prefix `$A` runs a command in the client's namespace, `$B` in the
    /// server's.
    setup: &'static str,
    arguments: &'static str,
    findings: &'static [&'static str],
}

/// Arguments that do not limit the rate: automatic buffers, and messages large enough that system
/// calls are cheap.
const USUAL: &str = "--message 64K --buffer auto";

const SEEDS: [Seed; 13] = [
    Seed {
        name: "small send buffer",
        setup: "",
        arguments: "--message 64K --send-buffer 4K",
        findings: &["send_buffer"],
    },
    Seed {
        name: "small receive buffer",
        setup: "",
        arguments: "--message 64K --receive-buffer 4K",
        findings: &["receive_window"],
    },
    Seed {
        name: "slow reader",
        setup: "",
        arguments: "--message 64K --buffer auto --read-pause 2ms",
        findings: &["slow_receiver"],
    },
    Seed {
        name: "slow writer",
        setup: "",
        arguments: "--message 64K --buffer auto --write-pause 2ms",
        findings: &["timer_sleep"],
    },
    Seed {
        name: "rate limit (tbf)",
        setup: "$A tc qdisc add dev v1 root tbf rate 300mbit burst 64kb limit 200kb",
        arguments: USUAL,
        findings: &["rate_limiter"],
    },
    Seed {
        name: "1 % loss",
        setup: "$B nft 'table inet t { chain c { type filter hook input priority 0; tcp dport > \
                1024 numgen random mod 100 < 1 drop; }; }'",
        arguments: USUAL,
        findings: &["tcp_loss"],
    },
    Seed {
        name: "tiny messages",
        setup: "",
        arguments: "--message 64 --buffer auto --nodelay",
        findings: &["system_calls"],
    },
    Seed {
        name: "one CPU for both ends",
        setup: "",
        arguments: "--message 64K --buffer auto --cpus 0,0",
        findings: &["cpu_contention"],
    },
    Seed {
        name: "delayed acknowledgements with Nagle",
        setup: "",
        arguments: "--request --message 200 --writes 2",
        findings: &["nagle_delay"],
    },
    Seed {
        name: "window scaling off",
        setup: "$A sysctl -qw net.ipv4.tcp_window_scaling=0",
        arguments: USUAL,
        findings: &["receive_window"],
    },
    Seed {
        name: "UDP receive buffer too small",
        setup: "",
        arguments: "--udp --message 1400 --receive-buffer 4K",
        findings: &["socket_buffer"],
    },
    Seed {
        name: "checksum in software",
        setup: "$A ethtool -K v1 tx off > /dev/null",
        arguments: USUAL,
        findings: &["software_checksum"],
    },
    // Nothing is set up: CPUs are what is left.
    Seed {
        name: "none",
        setup: "",
        arguments: USUAL,
        findings: &["copying", "system_calls", "waiting_for_peer", "cpu_contention"],
    },
];

/// Commands that run before and after each seed. The settings in a namespace disappear with it.
const BEFORE: &str = "set -e
A='ip netns exec lrs1' B='ip netns exec lrs2'
ip netns add lrs1; ip netns add lrs2
ip link add v1 netns lrs1 type veth peer name v2 netns lrs2
$A ip addr add 10.9.0.1/24 dev v1; $B ip addr add 10.9.0.2/24 dev v2
$A ip link set v1 up; $B ip link set v2 up; $A ip link set lo up; $B ip link set lo up
";
const AFTER: &str = "ip netns del lrs1 2>/dev/null; ip netns del lrs2 2>/dev/null; true";

/// Runs all seeds, and returns the table.
pub(super) fn score(linerate: &Path) -> Result<String, String> {
    let mut rows = String::new();
    let (mut first, mut named, mut tried) = (0, 0, 0);
    for seed in &SEEDS {
        let ran = run(seed, linerate);
        end()?;
        match ran {
            Err(why) => {
                let _ = writeln!(rows, "| {} | - | SKIP: {why} | - | - |", seed.name);
            }
            Ok(summary) => {
                let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
                let all = summary["findings"].as_array().map_or(&[][..], Vec::as_slice);
                let all: Vec<String> = all.iter().map(|one| text(&one["cause"])).collect();
                let place = all.iter().position(|one| seed.findings.contains(&one.as_str()));
                first += u32::from(place == Some(0));
                (named, tried) = (named + u32::from(place.is_some()), tried + 1);
                let _ = writeln!(
                    rows,
                    "| {} | {} | {} | {} | {:.3} |",
                    seed.name,
                    match place {
                        Some(0) => "first",
                        Some(_) => "not first",
                        None => "no",
                    },
                    all.join(", "),
                    text(&summary["limited_by"]),
                    summary["gbps"].as_f64().unwrap_or(f64::NAN),
                );
            }
        }
    }
    Ok(format!(
        "Bottlenecks with known causes between two network namespaces, and one stream for which \
         none was set up: in {first} of {tried} cases, an expected cause was the first finding, in \
         {named} it was among the findings.\n\n| bottleneck set up | cause found | findings | \
         limited by | Gb/s |\n|---|---|---|---|---:|\n{rows}"
    ))
}

fn run(seed: &Seed, linerate: &Path) -> Result<Value, String> {
    end()?;
    shell(&format!("{BEFORE}{}", seed.setup))?;
    let line = format!(
        "timeout 60 {} stream --json --quiet --netns=lrs1,lrs2 --time 3s {}",
        linerate.display(),
        seed.arguments
    );
    let record: Value =
        serde_json::from_str(&shell(&line)?).map_err(|error| format!("no record: {error}"))?;
    Ok(record["summary"].clone())
}

fn end() -> Result<(), String> {
    shell(AFTER).map(drop)
}

fn shell(text: &str) -> Result<String, String> {
    let output = program("sh", &["-c", text]).output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(said.lines().next().unwrap_or("it failed").to_owned())
        }
    }
}
