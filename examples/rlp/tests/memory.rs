// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory per session. A separate program, because allocations by tests in other threads would be
//! counted.

use linerate_rlp::app::EXTENSION;
use linerate_stage_api::BuildContext;

/// Returns the size of this process's data segment in bytes of address space, touched or not.
fn data_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmData:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[test]
fn a_session_takes_at_most_64_kib() {
    const SESSIONS: u64 = 32 * 128;
    let text = "source = { kind = 'a10', file = 'x' }\n[[stage]]\nkind = 'RLP'\n\
                sessions_per_bucket = 32\n";
    let path = EXTENSION.read(text, "test").expect("a path");
    let used = &path.stages[0];
    let kind = EXTENSION.stage("RLP").expect("the kind");
    let Some(before) = data_bytes() else {
        println!("SKIP: the kernel does not report the memory of a process");
        return;
    };
    let context = BuildContext { replica: 0, replicas: 1 };
    let stage = (kind.build)(&used.params, &context).expect("valid parameters");
    let bytes = (data_bytes().expect("as before") - before) / SESSIONS;
    drop(stage);
    assert!((32 << 10..=64 << 10).contains(&bytes), "{bytes} bytes");
}
