// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts the program and provides its files.

use linerate_dataplane::capture::PcapWriter;
use linerate_record::run::RunReport;
use linerate_record::tune::TuneReport;
use linerate_record::{Body, Record};
use std::fs;
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use tempfile::TempDir;

/// The edge router of the examples.
const EDGE: &str = include_str!("../../../../examples/edge.toml");

/// The edge router's capture.
pub(crate) const EDGE_CAPTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/edge.pcapng");
/// Number of packets in the edge router's capture.
pub(crate) const EDGE_PACKETS: u64 = 7_300;

/// The stages of the edge router.
pub(crate) const EDGE_STAGES: [&str; 7] =
    ["parse", "verify", "filter", "nat44", "forward", "gre_encap", "count"];

/// CPU lock. Most tests share it; tests whose results depend on other load hold it exclusively.
static PROCESSORS: RwLock<()> = RwLock::new(());

/// Waits until no command uses the CPUs exclusively, then takes the shared CPU lock.
pub(crate) fn a_share_of_the_processors() -> RwLockReadGuard<'static, ()> {
    PROCESSORS.read().unwrap_or_else(PoisonError::into_inner)
}

/// The exit status and the output of a command.
#[derive(Debug)]
pub(crate) struct Done {
    /// The exit status; `None` after a signal.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Returns the program with these arguments and an empty stdin. The program has no machine profile,
/// because the profile's directory cannot be created. It prints all tables, since most tests search
/// for a table.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(arguments).stdin(Stdio::null());
    command.env("XDG_STATE_HOME", "/dev/null/state").env("LINERATE_DETAILS", "1");
    command
}

/// Returns whether these tests' parent ignored the signal, as nohup(1) and a shell's `&` do. If so,
/// commands started here ignore it too.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    let mask = u64::from_str_radix(mask.trim(), 16).expect("hexadecimal digits");
    let is_ignored = mask >> (signal - 1) & 1 == 1;
    if is_ignored {
        println!("SKIP: signal {signal} is ignored here, and so by every command started here");
    }
    is_ignored
}

/// Runs the program to completion.
pub(crate) fn linerate(arguments: &[&str]) -> Done {
    let _share = a_share_of_the_processors();
    finished(arguments)
}

/// Runs the program while holding the lock for the CPUs exclusively.
pub(crate) fn linerate_alone(arguments: &[&str]) -> Done {
    let _alone = PROCESSORS.write().unwrap_or_else(PoisonError::into_inner);
    finished(arguments)
}

/// Runs `tune --json` with additional arguments and exclusive use of the CPUs; `None` if the
/// machine was too busy to determine stage costs. The command must then have reported that, printed
/// its baseline, and written no path.
pub(crate) fn tuned(arguments: &[&str], out: Option<&str>) -> Option<(String, TuneReport)> {
    let written = out.map_or(Vec::new(), |out| vec!["--out", out]);
    let done = linerate_alone(&[&["tune"], arguments, &["--json"], &written].concat());
    let Body::Tune(report) = record(&done.stdout).body else { panic!("{done:?}") };
    if done.status == Some(0) {
        return Some((done.stdout, *report));
    }
    assert_eq!(done.status, Some(2), "{done:?}");
    assert!(done.stderr.contains("linerate: cannot tell"), "{}", done.stderr);
    assert_eq!((report.chosen, &report.tuned), (None, &report.baseline), "{done:?}");
    assert!(out.is_none_or(|out| !fs::exists(out).expect("the folder can be read")), "{done:?}");
    println!("SKIP: the machine is too busy to tune: {}", done.stderr.trim());
    None
}

fn finished(arguments: &[&str]) -> Done {
    let output = command(arguments).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("the program prints UTF-8");
    Done { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Runs the program, which must exit with this status; returns its stdout.
pub(crate) fn answered(status: i32, arguments: &[&str]) -> String {
    let done = linerate(arguments);
    assert_eq!(done.status, Some(status), "{arguments:?}: {done:?}");
    done.stdout
}

/// Runs the program, which must fail with status 2 and an empty stdout; returns its stderr.
pub(crate) fn refused(arguments: &[&str]) -> String {
    let Done { status, stdout, stderr } = linerate(arguments);
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
    assert!(!stderr.contains("panicked at"), "{arguments:?}: {stderr}");
    assert!(stderr.starts_with("linerate: ") || stderr.starts_with("error: "), "{stderr}");
    stderr
}

/// Parses a record from JSON.
pub(crate) fn record(json: &str) -> Record {
    Record::from_json(json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// Returns the report of a `run` that must exit with status 0.
pub(crate) fn report(arguments: &[&str]) -> RunReport {
    match record(&answered(0, arguments)).body {
        Body::Run(report) => *report,
        _ => panic!("{arguments:?} does not run a path"),
    }
}

/// Directory of one test, removed at its end.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().expect("a folder for temporary files"))
    }

    /// Returns the path of a file in the directory, existing or not.
    pub(crate) fn file(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8 paths").to_owned()
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.file(name);
        fs::write(&path, content).expect("the folder can be written");
        path
    }
}

/// Returns the edge router's path with these changes, each of which replaces a string that must
/// occur exactly once.
pub(crate) fn edge(changes: &[(&str, &str)]) -> String {
    let capture = format!("\"{EDGE_CAPTURE}\"");
    [("\"edge.pcapng\"", capture.as_str())].iter().chain(changes).fold(
        EDGE.to_owned(),
        |text, (from, to)| {
            assert_eq!(text.matches(from).count(), 1, "{from}");
            text.replace(from, to)
        },
    )
}

/// String in the edge path that tests replace with another mapping.
pub(crate) const EDGE_WORKERS: &str = "{ stages = [\"parse\", \"verify\", \"filter\", \
                                       \"nat44\", \"forward\", \"gre_encap\", \"count\"] },";
/// String in the edge path that tests replace with a packet count.
pub(crate) const EDGE_TIME: &str = "time = \"2s\"";

/// Returns the `workers` entries for segments with these numbers of stages and replicas.
pub(crate) fn workers(stages: &[&str], segments: &[(usize, u32)]) -> String {
    let mut rest = stages;
    let mut text = String::new();
    for &(length, replicas) in segments {
        let (segment, behind) = rest.split_at(length);
        text += &format!("{{ stages = {segment:?}, replicas = {replicas} }},\n  ");
        rest = behind;
    }
    assert!(rest.is_empty(), "{segments:?} leaves {rest:?}");
    text
}

/// Returns a path with a generator and stages without parameters, each on its own worker.
pub(crate) fn split_path(kinds: &[&str], run: &str) -> String {
    let mut text = "[source]\nkind = \"generator\"\n".to_owned();
    for kind in kinds {
        text += &format!("[[stage]]\nkind = \"{kind}\"\n");
    }
    let segments = vec![(1, 1); kinds.len()];
    text + &format!("[mapping]\nworkers = [{}]\n[run]\n{run}\n", workers(kinds, &segments))
}

/// Returns a pcap file of these frames.
pub(crate) fn pcap<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new()).expect("memory can be written");
    for frame in frames {
        writer.write(0, frame).expect("memory can be written");
    }
    writer.finish().expect("memory can be written")
}

/// Computes the one's complement checksum over 16-bit words, as in the IPv4 header.
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns a UDP/IPv4 packet without a UDP checksum, from host `host` on the inside of the edge
/// router.
pub(crate) fn udp(host: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend([10, 0, 1, host, 198, 51, 100, 7]);
    let sum = checksum(&frame[14..34]).to_be_bytes();
    frame[24..26].copy_from_slice(&sum);
    // UDP header: ports 5000 and 5001, 26 bytes, no checksum.
    frame.extend([0x13, 0x88, 0x13, 0x89, 0, 26, 0, 0]);
    frame.extend([0xa5; 18]);
    frame
}

/// Returns a CPU the program may use.
pub(crate) fn a_processor() -> String {
    let allowed = linerate_linux::allowed_cpus().expect("the kernel reports the CPUs");
    allowed.first().expect("at least one CPU").to_string()
}
