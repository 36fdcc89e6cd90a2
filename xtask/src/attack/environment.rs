// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates calls with unusual options, standard streams, output files, environments and signals.

use super::call::{Call, edge, stored};
use super::{Random, Size};

/// One short call per command. Its directory contains the example edge router and a record.
const COMMANDS: [&str; 24] = [
    "run --time 60ms edge.toml",
    "run --check edge.toml",
    "tune --time 60ms edge.toml",
    "plan edge.toml --from run.json",
    "budget --clock 2",
    "explain run.json",
    "report run.json",
    "export run.json --format csv",
    "import netra.dump",
    "kernels --list",
    "stages",
    "schema record",
    "doctor",
    "stat --tier sw -- true",
    "why -t 200ms -- sleep 1",
    "regions regions.json",
    "plan --from regions.json --line 10Gb/s",
    "budget --from regions.json --frame 64 --clock 2",
    "explain regions.json",
    "completions bash",
    "man pages",
    "tcp --list",
    "memory --quick --max 1M",
    "tcp --stack smoltcp --pattern bulk --time 100ms",
];

fn command(line: &str) -> Result<Call, String> {
    let call = edge(line)?.file("run.json", stored("crates/record/fixtures/run.json")?);
    let call = call.file("regions.json", stored("crates/record/fixtures/regions.json")?);
    Ok(call.file("netra.dump", stored("examples/netra-sample.dump")?))
}

/// Options that are invalid, or invalid for most commands.
const OPTIONS: &[&str] = &[
    "--nothing",
    "--json=x",
    "--record",
    "--record=",
    "--time=0s",
    "--time=-1s",
    "--time=1e9h",
    "--time=nan",
    "--cpus=",
    "--cpus=-1",
    "--cpus=0-",
    "--cpus=99999",
    "--cpus=0,0",
    "--cpus=4294967296",
    "--cpu=99999",
    "--workers=0",
    "--workers=65",
    "--workers=x",
    "--p99=0s",
    "--p99=x",
    "--packets=0",
    "--packets=inf",
    "--rate=0",
    "--rate=1e999Gb/s",
    "--goal=x",
    "--seed=-1",
    "--seed=18446744073709551616",
    "--size=0",
    "--size=65537",
    "--kernel=x",
    "--variant=x",
    "--state=x",
    "--kernels=x",
    "--kernels=\u{1b}[2J",
    "--max=1",
    "--max=99999999G",
    "--pages=x",
    "--frame=1",
    "--frame=99999999",
    "--clock=0",
    "--clock=nan",
    "--line=0",
    "--line=1e99Gb/s",
    "--cores=0",
    "--strands=99999999999",
    "--ipc=-1",
    "--instructions=inf",
    "--ask=x",
    "--against=x",
    "--machine=\u{1b}]0;x\u{7}",
    "--machine=x y",
    "--format=x",
    "--events=x",
    "--events=,",
    "--metrics=x",
    "--per=0",
    "--interval=1ns",
    "--repeat=0",
    "--slice=1h",
    "--baseline=x",
    "--threshold=x",
    "--caches=x",
    "--caches=i1=0/8/64,d1=1/1/1,ll=1/1/1",
    "--svg=",
    "--svg=edge.toml",
    "--out=/",
    "--from=x",
    "--stack=x",
    "--pattern=x",
    "--set=x",
    "--mix=0:0",
    "--mix=1:99999999999",
    "--buffer=0",
    "--wire=x",
    "--law",
    "--list",
    "--check",
    "--audit",
    "--oversubscribe",
    "--help",
    "--version",
    "-",
    "--",
    "-q",
    "",
    "\u{1b}[2J",
];

/// Returns calls that each have one of the `OPTIONS`.
pub(crate) fn options(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    let all = COMMANDS[..COMMANDS.len() - 2]
        .iter()
        .flat_map(|line| OPTIONS.iter().map(move |o| (*line, *o)));
    let chosen = size.some(all.collect(), 30, random);
    let call = |(line, option): (&str, &str)| {
        let mut call = command(line)?;
        call.words.insert(1, option.to_owned());
        Ok(call.within("timeout --preserve-status -s INT 5 \"$@\"").may_end_with(&[130]))
    };
    chosen.into_iter().map(call).collect()
}

/// Returns calls whose standard streams are closed, full, or broken pipes.
pub(crate) fn streams(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    const STREAMS: [&str; 9] = [
        "\"$@\" > /dev/full",
        "\"$@\" >&-",
        "\"$@\" >&- 2>&-",
        "\"$@\" <&- >&- 2>&-",
        "\"$@\" 2> /dev/full",
        "\"$@\" > /dev/full 2>&1",
        "\"$@\" | head -c 1 > /dev/null",
        "\"$@\" | true",
        "\"$@\" < /",
    ];
    let all = COMMANDS.iter().flat_map(|line| STREAMS.iter().map(move |s| (*line, *s)));
    let chosen = size.some(all.collect(), 20, random);
    let call = |(line, shell): (&str, &str)| Ok(command(line)?.within(shell).mute());
    chosen.into_iter().map(call).collect()
}

/// Returns calls whose outputs cannot be written.
pub(crate) fn places(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    const PLACES: [&str; 9] = [
        "/dev/full",
        "/",
        "missing/x",
        "edge.toml/x",
        "/proc/x",
        "/sys/x",
        "loop",
        "/dev/null/x",
        "a\u{1b}[2J\nb",
    ];
    const OUTPUTS: [&str; 12] = [
        "run --time 60ms edge.toml --record",
        "tune --time 60ms edge.toml --record",
        "tune --time 60ms edge.toml --out",
        "plan edge.toml --from run.json --record",
        "plan edge.toml --from run.json --svg",
        "budget --clock 2 --svg",
        "budget --clock 2 --record",
        "explain run.json --record",
        "import netra.dump --record",
        "doctor --record",
        "stat --tier sw -o",
        "kernels --quick --kernel fill --size 64 --svg",
    ];
    let all = OUTPUTS.iter().flat_map(|line| PLACES.iter().map(move |place| (*line, *place)));
    let chosen = size.some(all.collect(), 16, random);
    let call = |(line, place): (&str, &str)| {
        let mut call = command(line)?;
        call.words.push(place.to_owned());
        if line.starts_with("stat") {
            call.words.extend(["--", "true"].map(str::to_owned));
        }
        Ok(call.within("ln -s loop loop; \"$@\""))
    };
    chosen.into_iter().map(call).collect()
}

/// Returns calls whose output file is also an input; the judge detects changed inputs.
pub(crate) fn overwrites(_: &mut Random, _: Size) -> Result<Vec<Call>, String> {
    let lines = [
        "run -q --time 60ms --record edge.toml edge.toml",
        "run -q --time 60ms --record edge.pcapng edge.toml",
        "run -q --time 60ms --record link edge.toml",
        "run -q --time 60ms --record hard edge.toml",
        "tune -q --time 60ms --out edge.pcapng edge.toml",
        "run -q --time 60ms sink.toml",
        "budget --clock 2 --from run.json --record run.json",
        "explain run.json --record run.json",
        "plan edge.toml --from run.json --record run.json",
        "import netra.dump --record netra.dump",
        "stat --baseline run.json --record run.json -- true",
    ];
    let sink = "[source]\nkind = \"capture\"\nfile = \"edge.pcapng\"\n[[stage]]\nkind = \"parse\"\n\
                [sink]\nkind = \"capture\"\nfile = \"link\"\npackets = 10\n";
    let make = "ln -s edge.pcapng link; ln edge.pcapng hard; \"$@\"";
    let call = |line| Ok(command(line)?.file("sink.toml", sink).within(make));
    lines.into_iter().map(call).collect()
}

/// Returns calls in environments that lack variables, file systems or permissions.
pub(crate) fn environments(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    const SHELLS: &[&str] = &[
        "env -i \"$@\"",
        "env -u HOME -u XDG_STATE_HOME \"$@\"",
        "HOME=/dev/null \"$@\"",
        "XDG_STATE_HOME=/proc \"$@\"",
        "PATH=/nowhere \"$@\"",
        "LC_ALL=C \"$@\"",
        "LC_ALL=tr_TR.UTF-8 LANG=xx \"$@\"",
        "COLUMNS=1 \"$@\"",
        "COLUMNS=99999999999 \"$@\"",
        "COLUMNS=x TERM=dumb NO_COLOR=1 \"$@\"",
        "TMPDIR=/nowhere \"$@\"",
        "ulimit -n 10; \"$@\"",
        "ulimit -n 4; \"$@\"",
        "ulimit -f 0; \"$@\"",
        "ulimit -s 1024; \"$@\"",
        "ulimit -c 0; \"$@\"",
        "ulimit -t 20; \"$@\"",
        "ulimit -l 0; \"$@\"",
        "taskset -c 0 \"$@\"",
        "nice -n 19 \"$@\"",
        "nohup \"$@\"",
        "umask 0777; \"$@\"",
        "trap '' PIPE INT TERM HUP XFSZ; \"$@\"",
        "cd / && rmdir nothing 2> /dev/null; \"$@\"",
        "setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"",
        "unshare -rn \"$@\"",
        "unshare -rm bash -c 'mount -t tmpfs none /proc && exec \"$@\"' x \"$@\"",
        "unshare -rm bash -c 'mount -t tmpfs none /sys && exec \"$@\"' x \"$@\"",
        "unshare -rm bash -c 'mount -t tmpfs none /proc && mount -t tmpfs none /sys && \
         exec \"$@\"' x \"$@\"",
    ];
    let all = COMMANDS.iter().flat_map(|line| SHELLS.iter().map(move |shell| (*line, *shell)));
    let chosen = size.some(all.collect(), 16, random);
    // Exit status 126 or 127: the tool is not installed here, or the loader that starts the tool
    // has run out of file descriptors.
    let call = |(line, shell): (&str, &str)| {
        let call = command(line)?.within(shell).may_end_with(&[1, 126, 127]);
        // With a file size limit of 0, the error message cannot be written to its file either.
        Ok(if shell.contains("-f 0") { call.mute() } else { call })
    };
    chosen.into_iter().map(call).collect()
}

/// Returns calls that receive signals at random times.
pub(crate) fn signals(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    const LONG: [&str; 9] = [
        "run --time 2s edge.toml",
        "tune --time 2s edge.toml",
        "kernels --quick",
        "memory --quick",
        "tcp --stack smoltcp --time 3s",
        "doctor",
        "stat --tier sw -- sleep 2",
        "stat --tier sim -- sleep 2",
        "plan edge.toml --from run.json",
    ];
    let call = |_| {
        let signal = ["INT", "TERM"][random.below(2)];
        let ms = 20 + random.below(1_200);
        let shell = format!("timeout --preserve-status -s {signal} 0.{ms:04} \"$@\"");
        let call = command(LONG[random.below(LONG.len())])?;
        Ok(call.within(&shell).may_end_with(&[130, 143]).mute())
    };
    (0..size.of(10, 400)).map(call).collect()
}
