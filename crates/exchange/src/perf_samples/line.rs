// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of `perf script`: samples and the frames of their call chains.

use crate::perf::split_modifiers;

/// The first line of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Header<'a> {
    pub(super) comm: &'a str,
    /// `None` if only the thread is printed.
    pub(super) pid: Option<u32>,
    pub(super) tid: u32,
    pub(super) time_ns: u64,
    pub(super) period: Option<u64>,
    /// Name of the event, without modifiers.
    pub(super) event: &'a str,
    pub(super) modifiers: &'a str,
    /// The frame of a sample without a call chain.
    pub(super) frame: Option<Frame<'a>>,
}

/// A frame of a call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    /// Name of the function; `None` if perf did not find one.
    pub(super) name: Option<&'a str>,
    /// File name without its folder.
    pub(super) module: &'a str,
    /// Whether the function is inlined in the next frame.
    pub(super) is_inlined: bool,
}

/// Module of kernel functions.
const KERNEL: &str = "kernel";
/// What perf prints for an unknown module.
const UNKNOWN: &str = "[unknown]";

/// Parses `comm pid[/tid] [[cpu]] seconds: [period] event: [frame]`; `None` for other lines, such
/// as those of tracepoints, whose data follows the event.
pub(super) fn header(line: &str) -> Option<Header<'_>> {
    line.match_indices(": ").find_map(|(at, _)| {
        let (before, time) = line[..at].rsplit_once(char::is_whitespace)?;
        let time_ns = time_ns(time)?;
        let before = before.trim_end();
        let before = match before.rsplit_once(char::is_whitespace) {
            Some((rest, cpu)) if is_cpu(cpu) => rest.trim_end(),
            _ => before,
        };
        let (comm, ids) = before.rsplit_once(char::is_whitespace)?;
        let (pid, tid) = match ids.split_once('/') {
            Some((pid, tid)) => (Some(number(pid)?), number(tid)?),
            None => (None, number(ids)?),
        };
        let after = line[at + 1..].trim_start();
        let (first, rest) = word(after);
        let (period, (event, rest)) = match first.parse() {
            Ok(period) if is_number(first) => (Some(period), word(rest)),
            _ => (None, (first, rest)),
        };
        let (event, modifiers) = modifiers(event.strip_suffix(':')?)?;
        let rest = rest.trim();
        let frame = if rest.is_empty() { None } else { Some(frame(rest)?) };
        let comm = comm.trim();
        let tid = (!comm.is_empty()).then_some(tid)?;
        Some(Header { comm, pid, tid, time_ns, period, event, modifiers, frame })
    })
}

/// Parses `address name[+offset] (module)`.
pub(super) fn frame(line: &str) -> Option<Frame<'_>> {
    let (address, rest) = word(line.trim());
    let is_address = !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit());
    let inside = rest.trim().strip_suffix(')')?;
    let inside = inside.strip_suffix(" (deleted)").unwrap_or(inside);
    let (name, module) = match inside.rsplit_once(" (") {
        Some((name, module)) => (name.trim(), module),
        None => ("", inside.strip_prefix('(')?),
    };
    let name = match name.rsplit_once("+0x") {
        Some((name, offset)) if offset.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => name,
    };
    is_address.then_some(Frame {
        name: Some(name).filter(|name| !name.is_empty() && *name != UNKNOWN),
        module: of_file(module),
        is_inlined: module == "inlined",
    })
}

/// Returns the module of a file: its name without the folder, or `kernel` for the kernel and its
/// modules.
fn of_file(file: &str) -> &str {
    const IN_BRACKETS: [&str; 5] = ["[unknown]", "[vdso]", "[vsyscall]", "[heap]", "[stack]"];
    let is_kernel = file.starts_with('[') && !IN_BRACKETS.contains(&file) || file.ends_with(".ko");
    match is_kernel || file.rsplit('/').next().is_some_and(|name| name.starts_with("vmlinux")) {
        true => KERNEL,
        false => file.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(UNKNOWN),
    }
}

/// Splits an event into name and modifiers; `None` for a tracepoint, whose name has two parts.
fn modifiers(event: &str) -> Option<(&str, &str)> {
    let (name, modifiers) = split_modifiers(event);
    (!name.is_empty() && !name.contains(':')).then_some((name, modifiers))
}

/// Parses seconds with 6 to 9 decimals.
fn time_ns(text: &str) -> Option<u64> {
    let (seconds, rest) = text.split_once('.')?;
    if !is_number(seconds) || !is_number(rest) || !(6..=9).contains(&rest.len()) {
        return None;
    }
    let scale = 10_u64.pow(9 - rest.len() as u32);
    let seconds = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    seconds.checked_add(rest.parse::<u64>().ok()? * scale)
}

fn is_cpu(text: &str) -> bool {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).is_some_and(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(text: &str) -> Option<u32> {
    is_number(text).then(|| text.parse().ok())?
}

fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once(char::is_whitespace).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_of_samples_are_read() {
        let chain = header("my prog 0 12/345 [003] 77.123456:    250000 cpu-clock:pppH: ").unwrap();
        let Header { comm, pid, tid, time_ns, period, event, modifiers, frame } = chain;
        assert_eq!((comm, pid, tid, time_ns), ("my prog 0", Some(12), 345, 77_123_456_000));
        assert_eq!((period, event, modifiers, frame), (Some(250_000), "cpu-clock", "pppH", None));
        let line = "      dd  4096 [000] 1.000000001:  1 cycles:  ff9e read+0x1f (/lib/libc.so.6)";
        let flat = header(line).unwrap();
        assert_eq!(
            (flat.comm, flat.pid, flat.tid, flat.time_ns),
            ("dd", None, 4096, 1_000_000_001)
        );
        let frame = Frame { name: Some("read"), module: "libc.so.6", is_inlined: false };
        assert_eq!(flat.frame, Some(frame));
        assert_eq!(header("a 1 2.000000: cycles:u: ").unwrap().modifiers, "u");
        let hybrid = header("a 1 2.000000: cpu_core/cycles/ue: ").unwrap();
        assert_eq!((hybrid.event, hybrid.modifiers), ("cpu_core/cycles", "ue"));
    }

    #[test]
    fn other_lines_are_no_samples() {
        for line in [
            "",
            "\tffffffff9e0 foo+0x1 ([kernel.kallsyms])",
            "dd 12 [000] 5.123456: sched:sched_switch: prev_comm=dd prev_pid=12",
            "dd 12 [000] 5.123456: PERF_RECORD_COMM exec: dd:12/12",
            "dd x [000] 5.123456: 1 cycles: ",
            "dd 12 [000] 5.1: 1 cycles: ",
            "12 [000] 5.123456: 1 cycles: ",
            "dd 12 [000] 99999999999999999999.123456: 1 cycles: ",
        ] {
            assert_eq!(header(line), None, "{line}");
        }
    }

    #[test]
    fn frames_have_a_function_and_a_module() {
        let of = |line| frame(line).map(|one| (one.name, one.module, one.is_inlined));
        for (line, wanted) in [
            ("\t  ffff9e0 tcp_ack+0x1a ([kernel.kallsyms])", (Some("tcp_ack"), KERNEL, false)),
            ("  ffff9e0 nf_ct+0x1 ([nf_conntrack])", (Some("nf_ct"), KERNEL, false)),
            ("  40 a::b(int, c (*)(d))+0x1 (/x/y z)", (Some("a::b(int, c (*)(d))"), "y z", false)),
            ("  40 main (/tmp/a.out (deleted))", (Some("main"), "a.out", false)),
            ("  40 [unknown] (/usr/bin/sh)", (None, "sh", false)),
            ("  40 [unknown] ([unknown])", (None, UNKNOWN, false)),
            ("  40 (/usr/bin/sh)", (None, "sh", false)),
            ("  40 next (inlined)", (Some("next"), "inlined", true)),
            ("  40 clock_gettime+0x2 ([vdso])", (Some("clock_gettime"), "[vdso]", false)),
        ] {
            assert_eq!(of(line), Some(wanted), "{line}");
        }
        for line in ["", "  main (/bin/x)", "  40 main", "  xyz main (/bin/x)", "  40 main /x)"] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
