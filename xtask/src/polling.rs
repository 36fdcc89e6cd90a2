// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask polling`: compares `linerate profile` of polling threads with their own
//! measurements and with `perf record`. The table lists failures first.
//!
//! Each program polls one end of a veth pair in its own network namespace, as root, while a sender
//! at the other end changes its rate every second.

mod truth;

use crate::command::{Background, Scratch, cargo, output, program, root};
use linerate_record::random::Random;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use truth::{Moment, Truth, measured};

/// Options of `cargo xtask polling`.
pub(crate) struct Choice {
    seconds: u32,
    linerate: Option<PathBuf>,
}

/// A program that polls for packets.
struct Poller {
    name: &'static str,
    command: &'static str,
    /// Maximum packet rate to send in packets per second, slightly below what the program or the
    /// sender can do.
    most: f64,
    /// Whether another program competes for the poller's CPU.
    has_neighbor: bool,
}

const fn alone(name: &'static str, command: &'static str, most: f64) -> Poller {
    Poller { name, command, most, has_neighbor: false }
}

/// Programs to profile. In a command, `$POLL` is the poller lab/why/poll.c, `$SECONDS` its run
/// time, and `$LINERATE` linerate. `$XDP` and `$PACKET` are path files made from [`PATH`], which
/// receive from an AF_XDP socket and from a packet socket.
const POLLERS: [Poller; 9] = [
    alone("own ring, light", "$POLL v2 ring 500 $SECONDS", 800_000.0),
    alone("own ring, medium", "$POLL v2 ring 3000 $SECONDS", 290_000.0),
    alone("own ring, heavy", "$POLL v2 ring 8000 $SECONDS", 105_000.0),
    alone("own recv, light", "$POLL v2 recv 500 $SECONDS", 650_000.0),
    alone("own recv, heavy", "$POLL v2 recv 8000 $SECONDS", 100_000.0),
    Poller {
        name: "own ring, medium, with another program on its CPU",
        command: "$POLL v2 ring 3000 $SECONDS",
        most: 140_000.0,
        has_neighbor: true,
    },
    alone("`linerate run`, AF_XDP", "$LINERATE run $XDP --idle spin --json --quiet", 350_000.0),
    alone(
        "`linerate run`, packet socket",
        "$LINERATE run $PACKET --idle spin --json --quiet",
        350_000.0,
    ),
    alone(
        "testpmd net_af_packet macswap",
        "dpdk-testpmd --no-huge -m 256 --no-pci --main-lcore 0 -l 0,1 --file-prefix poll \
         --vdev=net_af_packet0,iface=v2,qpairs=1,framesz=2048,framecnt=512,blocksz=4096 -- \
         --total-num-mbufs=8192 --nb-cores=1 --forward-mode=macswap --stats-period 1 \
         --record-core-cycles",
        300_000.0,
    ),
];

/// A path file that receives from interface `v2` with the I/O method `$IO`. When the run ends,
/// `linerate run` prints a record with its own times.
const PATH: &str = r#"
[source]
kind = "interface"
name = "v2"
io = "$IO"

[[stage]]
kind = "work"
adds = 6000

[run]
time = "10min"
"#;

/// Parses the arguments of `polling`.
pub(crate) fn choose(words: &[&str]) -> Result<Choice, String> {
    let mut choice = Choice { seconds: 10, linerate: None };
    for pair in words.chunks(2) {
        match pair {
            ["--seconds", number] => {
                let seconds = number.parse().ok().filter(|seconds| (2..=60).contains(seconds));
                choice.seconds = seconds.ok_or("polling: --seconds must be 2 to 60")?;
            }
            ["--linerate", file] => choice.linerate = Some(file.into()),
            other => return Err(format!("polling: unknown option `{}`", other.join(" "))),
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
    let place = Scratch::new("polling")?;
    for name in ["poll", "send"] {
        let (code, built) = (root().join(format!("lab/why/{name}.c")), place.join(name));
        let words = ["-O2", "-o", &built.display().to_string(), &code.display().to_string()];
        output(program("cc", &words))?;
    }
    for (name, io) in [("xdp.toml", "af_xdp"), ("packet.toml", "af_packet")] {
        std::fs::write(place.join(name), PATH.replace("$IO", io))
            .map_err(|error| error.to_string())?;
    }
    let mut rows: Vec<Row> = Vec::new();
    for (number, poller) in POLLERS.iter().enumerate() {
        match measure(poller, number as u64, choice, &linerate, place.path()) {
            Ok(row) => rows.push(row),
            Err(why) => eprintln!("SKIP {}: {why}", poller.name),
        }
    }
    rows.sort_by_key(|row| row.rank());
    print!("{}", page(&rows));
    Ok(())
}

/// Results for one program.
struct Row {
    name: &'static str,
    truth: Option<Truth>,
    /// Cost (CPU time per packet in ns) and busy fraction as found by `linerate profile`, each as
    /// value, low and high; or why they are unknown.
    found: Result<[[f64; 3]; 2], String>,
    perf: String,
}

impl Row {
    /// Returns the sort order: wrong results first, then undetermined, right, and unverifiable
    /// ones.
    fn rank(&self) -> u32 {
        match (&self.found, self.truth) {
            (Ok([[_, low, high], _]), Some(Truth { cost_ns, .. }))
                if *low > cost_ns || cost_ns > *high =>
            {
                0
            }
            (Err(_), _) => 1,
            (Ok(_), Some(_)) => 2,
            (Ok(_), None) => 3,
        }
    }
}

fn page(rows: &[Row]) -> String {
    let mut text = "| program | verdict | own clock: ns/packet | profile: ns/packet | error | \
                    own clock: busy % | profile: busy % | largest error in 1 s | \
                    perf record: first function |\n\
                    |---|---|---:|---:|---:|---:|---:|---:|---|\n"
        .to_owned();
    for row in rows {
        let verdict =
            ["own clock outside the interval", "cannot tell", "right", "no own clock to compare"];
        let none = || "-".to_owned();
        let of_truth =
            |of: fn(Truth) -> f64| row.truth.map_or_else(none, |truth| format!("{:.0}", of(truth)));
        let [cost, error, busy, of_second] = found(row);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {cost} | {error} | {} | {busy} | {of_second} | {} |",
            row.name,
            verdict[row.rank() as usize],
            of_truth(|truth| truth.cost_ns),
            of_truth(|truth| 100.0 * truth.busy),
            row.perf
        );
    }
    text
}

/// Formats four cells: the cost that the profile found, its relative error, the busy fraction, and
/// the largest error of the busy fraction in one second. The busy fraction is the cost times the
/// packet rate, so its error is largest in the busiest second.
fn found(row: &Row) -> [String; 4] {
    let none = || "-".to_owned();
    let [[cost, low, high], [busy, least, most]] = match &row.found {
        Ok(found) => found,
        Err(why) => return [why.clone(), none(), none(), none()],
    };
    let error = row.truth.map(|truth| cost / truth.cost_ns - 1.0);
    let most_busy = row.truth.and_then(|truth| truth.most_busy);
    let of_second = error.zip(most_busy).map(|(error, busy)| error.abs() * busy);
    [
        format!("{cost:.0} ({low:.0} to {high:.0})"),
        error.map_or_else(none, |error| format!("{:+.0} %", 100.0 * error)),
        format!("{:.0} ({:.0} to {:.0})", 100.0 * busy, 100.0 * least, 100.0 * most),
        of_second.map_or_else(none, |error| format!("{error:.3}")),
    ]
}

/// A test's processes, ended on drop, the last one first.
struct Scene {
    programs: Vec<Background>,
    must_end: Arc<AtomicBool>,
}

impl Scene {
    /// Starts a program, and returns its process ID.
    fn start(&mut self, mut command: Command) -> Result<u32, String> {
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let program = Background::start(command)?;
        let pid = program.id();
        self.programs.push(program);
        Ok(pid)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.must_end.store(true, Ordering::Relaxed);
        while self.programs.pop().is_some() {}
    }
}

const SETUP: &str = "ip link add v1 type veth peer name v2 && ip link set v1 up && \
                     ip link set v2 up && exec sleep 300";

fn measure(
    poller: &Poller,
    seed: u64,
    choice: &Choice,
    linerate: &Path,
    place: &Path,
) -> Result<Row, String> {
    let mut unshare = Command::new("unshare");
    unshare.args(["-n", "sh", "-c", SETUP]);
    let mut scene = Scene { programs: Vec::new(), must_end: Arc::new(AtomicBool::new(false)) };
    let inside = ["-t".to_owned(), scene.start(unshare)?.to_string(), "-n".to_owned()];
    thread::sleep(Duration::from_secs(1));
    let said = place.join("said");
    let file = std::fs::File::create(&said).map_err(|error| error.to_string())?;
    let mut command = format!("exec taskset -c 1 {}", poller.command)
        .replace("$LINERATE", &linerate.display().to_string())
        .replace("$SECONDS", &(4 * choice.seconds + 30).to_string());
    for (word, file) in [("$POLL", "poll"), ("$XDP", "xdp.toml"), ("$PACKET", "packet.toml")] {
        command = command.replace(word, &place.join(file).display().to_string());
    }
    let mut polling = Command::new("nsenter");
    polling.args(&inside).args(["sh", "-c", &command]).stdout(file);
    let pid = scene.start(polling)?;
    if poller.has_neighbor {
        let busy = "while :; do :; done";
        let mut taskset = Command::new("taskset");
        taskset.args(["-c", "1", "sh", "-c", busy]);
        scene.start(taskset)?;
    }
    thread::sleep(Duration::from_secs(3));
    let sender = send(inside.to_vec(), place.join("send"), poller.most, seed, &scene.must_end);
    thread::sleep(Duration::from_secs(1));
    let began = Moment::of(pid);
    let found = profile(linerate, pid, choice.seconds)?;
    let ended = Moment::of(pid);
    let perf = perf(pid, choice.seconds, place).unwrap_or_else(|why| why);
    // On SIGTERM, `linerate run` prints its record.
    drop(scene);
    let _ = sender.join();
    let text = std::fs::read_to_string(&said).unwrap_or_default();
    let truth = measured(&text, &began, &ended);
    Ok(Row { name: poller.name, truth, found, perf })
}

/// Sends at a rate that changes every second, between 2 and 90 % of `most`.
fn send(
    inside: Vec<String>,
    send: PathBuf,
    most: f64,
    seed: u64,
    must_end: &Arc<AtomicBool>,
) -> thread::JoinHandle<()> {
    let must_end = Arc::clone(must_end);
    let mut random = Random::new(seed);
    thread::spawn(move || {
        while !must_end.load(Ordering::Relaxed) {
            let rate = (most * (0.02 + 0.88 * random.uniform())) as u64;
            let mut command = Command::new("nsenter");
            command.args(&inside).args(["taskset", "-c", "0"]).arg(&send);
            command.args(["v1", "64", &rate.to_string(), "1", "16", "02:00:00:00:00:01"]);
            let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    })
}

fn profile(
    linerate: &Path,
    pid: u32,
    seconds: u32,
) -> Result<Result<[[f64; 3]; 2], String>, String> {
    let (time, pid) = (format!("{seconds}s"), pid.to_string());
    let words = ["profile", "--json", "--quiet", "-t", &time, "--iface", "v2", &pid];
    let json = output(program(&linerate.display().to_string(), &words))?;
    let record: Value = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    let body = record.get("body").unwrap_or(&record);
    let threads = body["threads"].as_array().ok_or("the profile has no threads")?;
    // In testpmd, the polling thread is the one with the most samples.
    let thread = threads.first().ok_or("the profile has no threads")?;
    let figure = |name: &str| {
        let of = |end: &str| thread[name][end].as_f64();
        of("value").map(|value| {
            [value, of("low").unwrap_or(f64::NEG_INFINITY), of("high").unwrap_or(f64::INFINITY)]
        })
    };
    let reason = || thread["busy"]["reason"].as_str().unwrap_or("no reason").to_owned();
    let both = figure("ns_per_packet").zip(figure("busy"));
    Ok(both.map(|(cost, busy)| [cost, busy]).ok_or_else(reason))
}

/// Returns the first function reported by perf, with its share.
fn perf(pid: u32, seconds: u32, place: &Path) -> Result<String, String> {
    let (data, pid) = (place.join("perf.data").display().to_string(), pid.to_string());
    let seconds = seconds.to_string();
    let record = ["record", "-q", "-F", "999", "-o", &data, "-p", &pid, "--", "sleep", &seconds];
    output(program("perf", &record))?;
    let words = ["report", "-i", &data, "--stdio", "-q", "--sort", "symbol", "-g", "none"];
    let text = String::from_utf8_lossy(&output(program("perf", &words))?).into_owned();
    let line = text.lines().find(|line| line.contains('%')).ok_or("no function")?;
    // Empty columns, such as that of the branch predictor's history, are `-`.
    let words = line.split_whitespace().filter(|word| *word != "-");
    Ok(format!("`{}`", words.collect::<Vec<_>>().join(" ")))
}

fn build() -> Result<PathBuf, String> {
    output(cargo(&["build", "--release", "--locked", "--quiet", "--package", "linerate"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root().join(target).join("release/linerate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_come_first() {
        let truth = |cost_ns| Some(Truth { cost_ns, busy: 0.5, most_busy: Some(0.8) });
        let row = |truth, found| Row { name: "x", truth, found, perf: String::new() };
        let right = [[100.0, 90.0, 110.0], [0.5, 0.4, 0.6]];
        let rows = [
            row(truth(120.0), Ok(right)),
            row(truth(100.0), Err("idle".to_owned())),
            row(truth(100.0), Ok(right)),
            row(None, Ok(right)),
        ];
        let ranks: Vec<u32> = rows.iter().map(Row::rank).collect();
        assert_eq!(ranks, [0, 1, 2, 3]);
        let text = page(&rows);
        assert!(text.contains("| x | right | 100 | 100 (90 to 110) | +0 % | 50 |"), "{text}");
        assert!(text.contains("| x | cannot tell | 100 | idle |"), "{text}");
    }

    #[test]
    fn options_are_checked() {
        assert!(choose(&["--seconds", "5"]).is_ok());
        assert!(choose(&["--seconds", "1"]).is_err());
        assert!(choose(&["--other"]).is_err());
    }
}
