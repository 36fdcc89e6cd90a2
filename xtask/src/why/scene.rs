// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of a seed: two network namespaces, the programs in them, and `linerate why`.
//!
//! xtask sets up the scene by starting itself again inside new namespaces (`unshare`), either as
//! root or as a user who has no privileges outside. Every program has a time limit and its own
//! session, and is terminated at the end of the scene.

use super::cpus;
use super::seeds::{QUOTA, RECEIVING_CPU, SETTINGS, Seed};
use crate::command::{Background, Scratch, output, program, root};
use linerate_record::figure::{Figure, Scalar};
use linerate_record::{Body, Record};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Privileges with which linerate and the programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rights {
    /// An unprivileged user with its own namespaces.
    User,
    /// Root.
    Root,
}

impl Rights {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Root => "root",
        }
    }
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ran {
    pub finding: String,
    pub sentence: String,
    /// Predicted gain in percent: value, low, high; `None` if `why` predicted none.
    pub gain: Option<(f64, f64, f64)>,
    pub overhead_percent: Option<f64>,
    /// Units of work per second over the window; `None` if the seed has no counter.
    pub rate: Option<f64>,
    /// Largest share of a CPU's time that the hypervisor took during the window, as read by xtask.
    pub stolen: Option<f64>,
    /// Random parameter values, by name.
    pub variables: BTreeMap<String, String>,
}

/// Owner of an unprivileged process: `nobody`.
const NOBODY: &str = "65534";
/// Maximum lifetime of a scene's programs.
const LIMIT_S: &str = "40";
/// Time after the programs start until the load is steady.
const SETTLE: Duration = Duration::from_millis(2_500);
/// Length of the window observed by `why`.
const WINDOW: &str = "3s";

/// Returns a requirement of the seed that this machine does not meet; `None` if it meets all.
pub(super) fn lacks(seed: &Seed, rights: Rights, may_change_settings: bool) -> Option<String> {
    let is_there = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        folders.any(|folder: PathBuf| folder.join(program).exists())
    };
    let lack = |need: &String| match need.as_str() {
        QUOTA if !is_root() => Some("control groups require root".to_owned()),
        QUOTA => None,
        SETTINGS if !is_root() => Some("the setup of the seed requires root".to_owned()),
        SETTINGS if !may_change_settings => {
            Some("the seed changes a system-wide setting: pass --settings to allow this".to_owned())
        }
        SETTINGS => None,
        RECEIVING_CPU if rights == Rights::User => {
            Some("choosing the receiving CPU requires root".to_owned())
        }
        RECEIVING_CPU => None,
        program => (!is_there(program)).then(|| format!("{program} is not installed")),
    };
    seed.needs.iter().find_map(lack)
}

pub(super) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0)
}

/// Program and directory for a run.
pub(super) struct Tools<'a> {
    /// Path of the `linerate` program to test.
    pub linerate: &'a Path,
    /// Directory to store each run's rate and record in; `None` to store nothing.
    pub keep: Option<&'a Path>,
}

/// Runs a seed, or its control, in separate namespaces.
///
/// # Errors
/// Returns an error if the scene could not be set up, or if `linerate why` did not produce a
/// record.
pub(super) fn run(
    seed: &Seed,
    is_seeded: bool,
    rights: Rights,
    random: u64,
    with: &Tools<'_>,
) -> Result<Ran, String> {
    let group = match seed.needs.iter().any(|need| need == QUOTA) {
        true => Some(Group::new(&seed.variables(is_seeded, random), rights)?),
        false => None,
    };
    let _setting = Setting::change(seed, is_seeded)?;
    let me = own_program()?;
    let mut command = in_namespaces(rights, "60");
    command.arg(me).args(["why", "--scene", &seed.id, if is_seeded { "with" } else { "without" }]);
    command.arg(random.to_string()).arg(with.linerate);
    if let Some(group) = &group {
        command.env("GROUP", &group.folder);
    }
    let done = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let errors = String::from_utf8_lossy(&done.stderr);
    let text = String::from_utf8_lossy(&done.stdout);
    if !done.status.success() {
        let last = errors.lines().rev().find(|line| !line.is_empty()).unwrap_or("no message");
        return Err(format!("{}: {last}", done.status));
    }
    if let Some(folder) = with.keep {
        keep(folder, (seed, rights), is_seeded, random, &text)?;
    }
    let ran = parse(&text)?;
    Ok(Ran { variables: seed.variables(is_seeded, random), ..ran })
}

/// Stores a run's output.
fn keep(
    folder: &Path,
    (seed, rights): (&Seed, Rights),
    is_seeded: bool,
    random: u64,
    text: &str,
) -> Result<(), String> {
    let with = if is_seeded { "with" } else { "without" };
    let file = folder.join(format!("{}-{}-{with}-{random:016x}", seed.id, rights.word()));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&file, text));
    written.map_err(|error| format!("{}: {error}", file.display()))
}

/// Parses a run's output: a line with the rate and the steal time, `-` if unknown, then the record.
pub(super) fn parse(text: &str) -> Result<Ran, String> {
    let (measured, record) = stored(text)?;
    Ok(Ran { rate: measured[0], stolen: measured[1], ..read(&record) })
}

/// Parses a run's output: rate and steal time, each if known, and the record.
fn stored(text: &str) -> Result<([Option<f64>; 2], Record), String> {
    let (head, record) = text.split_once('\n').unwrap_or((text, ""));
    let record = Record::from_json(record).map_err(|error| error.to_string())?;
    let mut words = head.split_whitespace().map(|word| word.parse().ok());
    Ok(([words.next().flatten(), words.next().flatten()], record))
}

/// Like [`parse`], but with the findings of the current rules.
pub(super) fn explained_again(text: &str) -> Result<Ran, String> {
    let (measured, mut record) = stored(text)?;
    if let Body::Why(why) = &mut record.body {
        why.findings = linerate_explain::why::explain(&why.observation).findings;
    }
    Ok(Ran { rate: measured[0], stolen: measured[1], ..read(&record) })
}

/// Returns a command that runs in separate namespaces; the caller adds the program.
fn in_namespaces(rights: Rights, limit_s: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "2", limit_s]);
    if rights == Rights::User && is_root() {
        command.args(["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    }
    command.args(["unshare", if rights == Rights::Root { "-nm" } else { "-Urnm" }]);
    command
}

/// Checks that namespaces can be created with these privileges, and that this program is accessible
/// in them.
pub(super) fn try_namespaces(rights: Rights) -> Result<(), String> {
    let me = own_program()?;
    let mut command = in_namespaces(rights, "10");
    command.arg("test").arg("-x").arg(me).stdin(Stdio::null());
    output(command).map(drop)
}

/// Returns this program's path. Cargo may have replaced the file after the start, by building the
/// workspace with other features; the kernel then marks the old name as deleted.
fn own_program() -> Result<PathBuf, String> {
    let path = std::env::current_exe().map_err(|error| error.to_string())?;
    let replaced = path.to_str().and_then(|name| name.strip_suffix(" (deleted)"));
    Ok(replaced.map_or_else(|| path.clone(), PathBuf::from))
}

fn read(record: &Record) -> Ran {
    let figures = record.figures();
    let number = |name: &str| figures.get(name).and_then(Figure::as_number);
    let text = |name: &str| match figures.get(name).map(|figure| &figure.value) {
        Some(Scalar::Text(text)) => text.clone(),
        _ => String::new(),
    };
    let gain = figures.get("gain_percent").and_then(Figure::estimate);
    let gain = gain.filter(|gain| gain.low.is_finite());
    Ran {
        finding: text("finding"),
        sentence: text("sentence"),
        gain: gain.map(|gain| (gain.value, gain.low, gain.high)),
        overhead_percent: number("overhead_percent"),
        ..Ran::default()
    }
}

/// A system-wide setting, restored on drop.
struct Setting<'a>(&'a str);

impl<'a> Setting<'a> {
    fn change(seed: &'a Seed, is_seeded: bool) -> Result<Option<Self>, String> {
        let (Some(setting), Some(put_back)) = (&seed.setting, &seed.put_back) else {
            return Ok(None);
        };
        if !is_seeded {
            return Ok(None);
        }
        // Partial changes are restored as well.
        let setting_to_drop = Self(put_back);
        output(program("sh", &["-c", setting]))?;
        Ok(Some(setting_to_drop))
    }
}

impl Drop for Setting<'_> {
    fn drop(&mut self) {
        if let Err(why) = output(program("sh", &["-c", self.0])) {
            eprintln!("{why}");
        }
    }
}

/// A cgroup with a CPU quota, removed on drop.
struct Group {
    folder: PathBuf,
}

impl Group {
    fn new(variables: &BTreeMap<String, String>, rights: Rights) -> Result<Self, String> {
        let percent: u64 = variables.get("quota").and_then(|q| q.parse().ok()).unwrap_or(50);
        let name = format!("linerate-why-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        let (folder, settings): (_, Vec<(&str, String)>) = match v1.exists() {
            true => (
                v1.join(name),
                vec![
                    ("cpu.cfs_period_us", "100000".to_owned()),
                    ("cpu.cfs_quota_us", (percent * 1_000).to_string()),
                ],
            ),
            false => {
                let folder = Path::new("/sys/fs/cgroup").join(name);
                (folder, vec![("cpu.max", format!("{} 100000", percent * 1_000))])
            }
        };
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(failed)?;
        let group = Self { folder: folder.clone() };
        for (file, value) in settings {
            fs::write(folder.join(file), value).map_err(failed)?;
        }
        if rights == Rights::User {
            let nobody = NOBODY.parse().ok();
            let procs = folder.join("cgroup.procs");
            std::os::unix::fs::chown(procs, nobody, nobody).map_err(failed)?;
        }
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The cgroup's processes are being terminated; it can be removed once the last has exited.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            sleep(Duration::from_millis(50));
        }
        eprintln!("cannot remove {}", self.folder.display());
    }
}

/// A scene's running programs, in the order in which they were started; terminated on drop.
struct Stage {
    variables: BTreeMap<String, String>,
    children: Vec<Background>,
    folder: Scratch,
}

/// Runs the part inside the namespaces. Prints a line with the rate and the steal time, then the
/// record.
///
/// # Errors
/// Returns an error if the scene could not be set up, or if `linerate why` did not produce a
/// record.
pub(super) fn inside(
    seed: &Seed,
    is_seeded: bool,
    random: u64,
    linerate: &Path,
) -> Result<(), String> {
    let folder = Scratch::new("why")?;
    let variables = seed.variables(is_seeded, random);
    let mut stage = Stage { folder, variables, children: Vec::new() };
    stage.networks()?;
    let ([rate, stolen], record) = stage.play(seed, is_seeded, linerate)?;
    drop(stage);
    let word = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    println!("{} {}", word(rate), word(stolen));
    print!("{record}");
    Ok(())
}

const NETWORKS: &str = "
    mount -t tmpfs none /run && mkdir -p /run/netns
    ip netns add u1 && ip netns add u2
    ip -n u1 link add v1 type veth peer name v2 netns u2
    ip -n u1 addr add 10.9.0.1/24 dev v1 && ip -n u2 addr add 10.9.0.2/24 dev v2
    for n in 1 2; do ip -n u$n link set lo up; ip -n u$n link set v$n up; done
";

impl Stage {
    fn networks(&mut self) -> Result<(), String> {
        self.shell(NETWORKS)?;
        let mac = self.shell("ip -n u2 -br link show v2 | awk '{print $3}'")?;
        let w = self.folder.path().to_string_lossy().into_owned();
        let compiled =
            |name: &str| root().join(super::PROGRAMS).join(name).to_string_lossy().into_owned();
        let (drain, send, share) = (compiled("drain"), compiled("send"), compiled("share"));
        let more = [
            ("A", "ip netns exec u1"),
            ("B", "ip netns exec u2"),
            ("MAC", mac.trim()),
            ("W", &w),
            ("SEND", &send),
            ("DRAIN", &drain),
            ("SHARE", &share),
            ("XDG_RUNTIME_DIR", "/run"),
        ];
        let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.variables.extend(more);
        Ok(())
    }

    fn play(
        &mut self,
        seed: &Seed,
        is_seeded: bool,
        linerate: &Path,
    ) -> Result<([Option<f64>; 2], String), String> {
        if let Some(prepare) = &seed.prepare {
            self.shell(prepare)?;
        }
        let watched = match &seed.watched {
            Some(watched) => Some(self.start(watched)?),
            None => None,
        };
        sleep(Duration::from_secs(1));
        let disturb = seed.disturb.as_ref().filter(|_| is_seeded);
        let first = self.children.len();
        for snippet in seed.load.iter().chain(disturb) {
            self.start(snippet)?;
        }
        sleep(SETTLE);
        let pids = match (&seed.watch, watched) {
            (Some(name), Some(session)) => {
                self.shell(&format!("pgrep -s {session} -x '{name}' | head -{}", seed.at_most))?
            }
            _ => String::new(),
        };
        let pids: Vec<&str> = pids.split_whitespace().collect();
        if let Some(first) = pids.first() {
            self.variables.insert("PID".to_owned(), (*first).to_owned());
        } else if let Some(name) = &seed.watch {
            return Err(format!("{name} is not running"));
        }
        let before = self.count(seed)?;
        let times = cpus::times();
        let start = Instant::now();
        let record = self.explain(seed, &pids, linerate)?;
        let seconds = start.elapsed().as_secs_f64();
        let stolen = cpus::stolen(&times, &cpus::times());
        let after = self.count(seed)?;
        self.check_running(first)?;
        let rate = before.zip(after).map(|(before, after)| (after - before) / seconds);
        Ok(([rate, stolen], record))
    }

    /// Checks that the load and the interfering programs are still running; `first` is the index of
    /// the first of them.
    fn check_running(&mut self, first: usize) -> Result<(), String> {
        for (number, child) in self.children.iter_mut().enumerate().skip(first) {
            if let Some(status) = child.ended()? {
                let log = self.folder.join(&format!("{number}.log"));
                let log = fs::read_to_string(log).unwrap_or_default();
                return Err(format!("the load ended early, {status}: {}", log.trim()));
            }
        }
        Ok(())
    }

    fn explain(&self, seed: &Seed, pids: &[&str], linerate: &Path) -> Result<String, String> {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", "20"]);
        // `ip netns exec` mounts /sys again, without the cgroups in it.
        match seed.needs.iter().any(|need| need == QUOTA) {
            true => command.arg("nsenter").arg(format!("--net=/run/netns/{}", seed.from)),
            false => command.args(["ip", "netns", "exec", &seed.from]),
        };
        // Takes effect only in this program's mount namespace, and does nothing where mounting is
        // not permitted.
        const TRACE: &str = "mount -t tracefs none /sys/kernel/tracing 2> /dev/null; exec \"$@\"";
        command.args(["sh", "-c", TRACE, "sh"]).arg(linerate);
        command.args(["why", "-t", WINDOW, "--json", "--quiet"]).args(pids);
        if let Some(interface) = &seed.watch_interface {
            command.args(["--iface", interface]);
        }
        if let Some(line) = &seed.line {
            command.args(["--line", line]);
        }
        let done = command.stdin(Stdio::null()).envs(&self.variables).output();
        let done = done.map_err(|error| format!("linerate why: {error}"))?;
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
            false => Err(format!("linerate why: {}", String::from_utf8_lossy(&done.stderr))),
        }
    }

    fn count(&self, seed: &Seed) -> Result<Option<f64>, String> {
        let Some(counter) = &seed.counter else { return Ok(None) };
        // If a single interface is explained, the counters are those in its namespace.
        let counter = match seed.watch_interface {
            Some(_) => format!("ip netns exec {} {counter}", seed.from),
            None => counter.clone(),
        };
        let text = self.shell(&counter)?;
        text.trim().parse().map(Some).map_err(|_| format!("`{counter}` printed `{text}`"))
    }

    /// Runs a snippet to completion and returns its output.
    fn shell(&self, snippet: &str) -> Result<String, String> {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", LIMIT_S, "sh", "-c", snippet]).envs(&self.variables);
        let done = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
            false => {
                let errors = String::from_utf8_lossy(&done.stderr);
                Err(format!("`{}`: {}", snippet.trim(), errors.trim()))
            }
        }
    }

    /// Starts a snippet in a separate session and returns the session's ID.
    fn start(&mut self, snippet: &str) -> Result<u32, String> {
        let log = fs::File::create(self.folder.join(&format!("{}.log", self.children.len())));
        let log = log.map_err(|error| error.to_string())?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        let mut command = Command::new("setsid");
        command.args(["timeout", "-k", "1", LIMIT_S, "sh", "-c", snippet]).envs(&self.variables);
        // Some snippets write to the working directory, and some end at the end of their input,
        // which is therefore kept open.
        command.current_dir(self.folder.path()).stdin(Stdio::piped()).stdout(log).stderr(errors);
        let child = Background::start(command)?;
        let session = child.id();
        self.children.push(child);
        Ok(session)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let in_namespaces = "for n in u1 u2; do ip netns pids $n | xargs -r kill -KILL; done";
        let sessions = self.children.iter().map(|child| format!("pkill -KILL -s {}", child.id()));
        let ends: Vec<String> = sessions.chain([in_namespaces.to_owned()]).collect();
        for end in ends {
            // A session that has already ended is not an error.
            let _ = self.shell(&end);
        }
    }
}
