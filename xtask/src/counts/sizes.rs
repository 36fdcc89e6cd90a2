// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes of the archive: what `size` prints, and how much of it is code.

use std::collections::BTreeMap;

/// The copies that survive a fault, which a stack may leave out: the objects from `native/fault`.
const FAULT: [&str; 2] = ["copy.o", "lookup.o"];

/// Returns whether an object belongs to the sharing of vector registers in `native/vector_context`:
/// not part of the kernels, which a stack may use without it, and not included in the sizes here.
fn is_of_vector_context(object: &str) -> bool {
    object == "guarded.o" || object.starts_with("save_")
}

/// Size of an object, or of several, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Instructions.
    pub(super) code: u64,
    /// The text size according to `size`: includes constants, fault tables, and unwind tables.
    pub(super) text: u64,
}

/// Sizes of the archive at two optimisation levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) all: Size,
    pub(super) without_fault: Size,
    pub(super) small: Size,
    pub(super) small_without_fault: Size,
}

/// Computes the sizes from the objects as measured, and those compiled for size.
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

/// Parses the output of `size -A` for an archive into sizes by object.
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

/// Returns whether it is the section with that name, or a part of it: `.text.unlikely` of `.text`.
fn is(section: &str, name: &str) -> bool {
    section.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
