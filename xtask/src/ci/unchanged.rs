// SPDX-License-Identifier: MIT OR Apache-2.0
//! Avoids rerunning steps whose inputs have not changed since they last passed.
//!
//! A slow step that compiles only some of the repository's files lists them as its inputs. Their
//! contents, the tool versions and the processor form a key. When the step passes, its key is
//! stored in a file under `target/ci/passed`, together with the tests that it skipped. A failure
//! removes the file.

use super::Step;
use crate::command::{output, program, root};
use crate::outcome::Outcome;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Names of directories with results, which are not hashed as inputs.
const RESULTS: [&str; 3] = ["build", "cache", "target"];

/// Programs whose version determines what a step does, with the arguments that print that version.
const TOOLS: &[&[&str]] = &[
    &["cc", "--version"],
    &["clang", "--version"],
    &["valgrind", "--version"],
    &["rustc", "--version"],
    &["qemu-x86_64", "--version"],
    &["qemu-aarch64", "--version"],
    &["qemu-system-aarch64", "--version"],
    &["qemu-system-arm", "--version"],
    &["qemu-system-ppc", "--version"],
    &["aarch64-linux-gnu-gcc", "--version"],
    &["arm-linux-gnueabi-gcc", "--version"],
    &["arm-linux-gnueabihf-gcc", "--version"],
    &["powerpc-linux-gnu-gcc", "--version"],
    &["powerpc64-linux-gnu-gcc", "--version"],
    &["powerpc64le-linux-gnu-gcc", "--version"],
    &["riscv64-linux-gnu-gcc", "--version"],
    &["s390x-linux-gnu-gcc", "--version"],
    &["sparc64-linux-gnu-gcc", "--version"],
    &["pkg-config", "--modversion", "libdpdk"],
    &["uname", "-r"],
];

/// Returns the result of the step's last pass, if nothing has changed since.
pub(super) fn earlier_pass(step: &Step) -> Option<Outcome> {
    let passed = fs::read_to_string(file(step)?).ok()?;
    let (key, skips) = passed.split_once('\n')?;
    let is_same = key.parse() == Ok(key_of(step.inputs).ok()?);
    is_same.then(|| Outcome::Passed(skips.lines().map(str::to_owned).collect()))
}

/// Stores a pass for the next run, or removes the stored one if the step did not pass.
///
/// The inputs are hashed after the step has run. A change made in the meantime goes unnoticed only
/// if the step had already read the file.
pub(super) fn keep(step: &Step, outcome: &Outcome) {
    let Some(file) = file(step) else { return };
    let key = match outcome {
        Outcome::Passed(skips) => key_of(step.inputs).ok().map(|key| (key, skips)),
        Outcome::Failed(_) | Outcome::Skipped(_) => None,
    };
    // Without the file the step is rerun, which is always correct.
    let _ = match key {
        Some((key, skips)) => fs::create_dir_all(file.parent().unwrap_or(root()))
            .and_then(|()| fs::write(&file, format!("{key}\n{}\n", skips.join("\n")))),
        None => fs::remove_file(&file),
    };
}

/// Returns the file for a step's pass; `None` for a step that always runs.
fn file(step: &Step) -> Option<PathBuf> {
    let folder = super::folder().join("passed");
    (!step.inputs.is_empty()).then(|| folder.join(super::file_name(step)))
}

/// Hashes everything that a step with these inputs depends on.
fn key_of(inputs: &[&str]) -> io::Result<u64> {
    static MACHINE: OnceLock<u64> = OnceLock::new();
    let mut hasher = DefaultHasher::new();
    MACHINE.get_or_init(machine).hash(&mut hasher);
    for input in inputs {
        add(&root().join(input), &mut hasher)?;
    }
    Ok(hasher.finish())
}

/// Hashes the tools and the processor's capabilities. A missing tool is hashed as missing, so that
/// a step is rerun once the tool is installed.
fn machine() -> u64 {
    let mut hasher = DefaultHasher::new();
    for tool in TOOLS {
        output(program(tool[0], &tool[1..])).ok().hash(&mut hasher);
    }
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let fixed = |line: &&str| line.starts_with("model name") || line.starts_with("flags");
    processor.lines().filter(fixed).take(2).for_each(|line| line.hash(&mut hasher));
    hasher.finish()
}

/// Hashes the names and contents of the files at and below `path`, in name order.
fn add(path: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    if !path.is_dir() {
        path.hash(hasher);
        fs::read(path)?.hash(hasher);
        return Ok(());
    }
    let entries: io::Result<Vec<_>> = fs::read_dir(path)?.collect();
    let mut entries: Vec<PathBuf> = entries?.iter().map(fs::DirEntry::path).collect();
    entries.sort();
    let is_result = |path: &PathBuf| RESULTS.iter().any(|name| path.ends_with(name));
    entries.iter().filter(|path| !is_result(path)).try_for_each(|path| add(path, hasher))
}

#[cfg(test)]
mod tests {
    use super::{add, key_of};
    use std::fs;
    use std::hash::{DefaultHasher, Hasher};
    use std::path::Path;

    fn key(folder: &Path) -> u64 {
        let mut hasher = DefaultHasher::new();
        add(folder, &mut hasher).expect("the folder can be read");
        hasher.finish()
    }

    #[test]
    fn changes_with_names_and_contents_of_inputs_but_not_with_results() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        write("kernels/sum.c", "a");
        let before = key(folder.path());
        write("build/sum.o", "object");
        assert_eq!(key(folder.path()), before);
        write("kernels/sum.c", "b");
        let changed = key(folder.path());
        assert_ne!(changed, before);
        write("kernels/copy.c", "");
        assert_ne!(key(folder.path()), changed);
        write("kernels/sum.c", "a");
        fs::remove_file(folder.path().join("kernels/copy.c")).expect("a file");
        assert_eq!(key(folder.path()), before);
    }

    #[test]
    fn every_input_of_a_step_exists() {
        for step in super::super::STEPS {
            assert!(key_of(step.inputs).is_ok(), "{}: {:?}", step.name, step.inputs);
        }
    }
}
