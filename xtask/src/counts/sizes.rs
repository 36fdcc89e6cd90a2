// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the archive's text size, as printed by `size`, and how much of it is code.

use std::collections::BTreeMap;

/// Objects from `native/fault`: fault-surviving copies, which a stack may omit.
const FAULT: [&str; 2] = ["copy.o", "lookup.o"];

/// Returns whether an object belongs to `native/vector_context`, which shares the vector registers.
/// The sizes exclude these objects, because the kernels can be used without them.
fn is_of_vector_context(object: &str) -> bool {
    object == "guarded.o" || object.starts_with("save_")
}

/// Total size of one or more objects, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Instructions, in bytes.
    pub(super) code: u64,
    /// Text size according to `size`, including constants, fault tables and unwind tables.
    pub(super) text: u64,
}

/// The archive's sizes at two optimisation levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) all: Size,
    pub(super) without_fault: Size,
    pub(super) small: Size,
    pub(super) small_without_fault: Size,
}

/// Computes the sizes from the objects compiled at -O2 and at -Os.
pub(super) fn of(objects: &BTreeMap<String, Size>, small: &BTreeMap<String, Size>) -> Sizes {
    let kernels = |(name, _): &(&String, &Size)| !FAULT.contains(&name.as_str());
    Sizes {
        all: sum(objects.values()),
        without_fault: sum(objects.iter().filter(kernels).map(|(_, size)| size)),
        small: sum(small.values()),
        small_without_fault: sum(small.iter().filter(kernels).map(|(_, size)| size)),
    }
}

fn sum<'a>(sizes: impl Iterator<Item = &'a Size>) -> Size {
    sizes.fold(Size::default(), |all, size| Size {
        code: all.code + size.code,
        text: all.text + size.text,
    })
}

/// Parses `size -A` output for an archive into sizes by object.
pub(super) fn read(sizes: &str) -> BTreeMap<String, Size> {
    let (mut all, mut object) = (BTreeMap::<String, Size>::new(), String::new());
    for line in sizes.lines() {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        if second == "(ex" {
            first.clone_into(&mut object);
            continue;
        }
        if is_of_vector_context(&object) {
            continue;
        }
        let Ok(bytes) = second.parse::<u64>() else { continue };
        let size = all.entry(object.clone()).or_default();
        let is_code = is(first, ".text");
        let is_constant = [".rodata", ".eh_frame", "lr_fault_table"];
        if is_code {
            size.code += bytes;
        }
        if is_code || is_constant.iter().any(|name| is(first, name)) {
            size.text += bytes;
        }
    }
    all
}

/// Returns whether a section has this name or is a subsection of it, such as `.text.unlikely` of
/// `.text`.
fn is(section: &str, name: &str) -> bool {
    section.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
