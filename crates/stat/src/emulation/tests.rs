// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the end of an emulation, as seen by a process that outlives the command.

use super::*;
use crate::sim::Geometry;

/// Maximum time for something that takes milliseconds, in steps of [`PROBE_TICK`].
const STEPS: usize = 15_000;

/// Waits until `done` returns a value.
fn until<T>(mut done: impl FnMut() -> Option<T>) -> Option<T> {
    (0..STEPS).find_map(|_| {
        let value = done();
        if value.is_none() {
            sleep(PROBE_TICK);
        }
        value
    })
}

#[test]
fn the_plug_in_is_removed_before_the_file_over() {
    let folder = Folder::new().unwrap();
    for file in [PLUGIN, "counts.4000000.0"] {
        File::create(folder.path().join(file)).unwrap();
    }
    retire(folder.path());
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<OsString> = names.collect();
    names.sort();
    assert_eq!(names, ["counts.4000000.0", OVER]);
}

/// A process that looks for the plug-in first may find it, and then not find `over` because both
/// have been removed. Here the plug-in is a FIFO, which such a process would wait to read.
#[test]
fn a_process_looks_for_the_file_over_before_the_plug_in() {
    let argv = ["sh", "-c", "read -r line; exec sh -c 'exit 7'"].map(OsString::from);
    let emulator = match Emulator::find(&argv, linerate_cachesim::PLUGIN) {
        Ok(emulator) => emulator,
        Err(reason) => return println!("SKIP: {reason:?}"),
    };
    let model = Geometry::named("arm1176").unwrap();
    let emulation = emulator.prepare(model.model(), false).unwrap();
    let (file, arguments) = emulation.command();
    let mut command = Command::new(file);
    let mut child = command.args(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let folder = emulation.folder.path();
    let counts = folder.join(format!("counts.{}.0", child.id()));
    until(|| counts.exists().then_some(())).expect("the emulator loads the plug-in");
    let plugin = folder.join(PLUGIN);
    fs::remove_file(&plugin).unwrap();
    assert!(Command::new("mkfifo").arg(&plugin).status().unwrap().success());
    File::create(folder.join(OVER)).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let ended = until(|| child.try_wait().unwrap());
    if ended.is_none() {
        child.kill().and_then(|()| child.wait()).unwrap();
    }
    let status = ended.expect("the process does not open the plug-in");
    assert_eq!(status.code(), Some(7));
}
