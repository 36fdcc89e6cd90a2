// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides which code blocks (places) are fitted individually and which are pooled, based on the
//! number of samples rather than the slope, to avoid bias.

use super::{Place, Slice};
use std::collections::BTreeMap;

/// Minimum number of samples needed to fit the slope of a code block.
pub(super) const MIN_OF_PLACE: u64 = 30;
/// Fraction of all samples above which a function is split into 64-byte blocks, as compilers often
/// inline the work into the poll loop.
const MIN_SHARE_APART: f64 = 0.05;

/// Samples of a group of code blocks, per slice.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    /// Whether the group is in the kernel.
    pub is_kernel: bool,
    /// Samples per slice.
    pub counts: Vec<f64>,
}

/// Group that a sample counts towards: a single code block, the remaining blocks of a function, or
/// all remaining functions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Place(u32),
    Function(u32),
    Rest,
}

pub(super) fn group(slices: &[&Slice], places: &[Place]) -> Vec<Group> {
    let mut of_place = vec![0u64; places.len()];
    let mut of_function = BTreeMap::<u32, u64>::new();
    for (place, count) in slices.iter().flat_map(|slice| counts(slice, places)) {
        of_place[place] += u64::from(count);
        *of_function.entry(places[place].function).or_default() += u64::from(count);
    }
    let all: u64 = of_place.iter().sum();
    let key = |place: usize| {
        let function = places[place].function;
        let samples = of_function.get(&function).copied().unwrap_or(0);
        if samples < MIN_OF_PLACE {
            Key::Rest
        } else if samples as f64 >= MIN_SHARE_APART * all as f64 && of_place[place] >= MIN_OF_PLACE
        {
            Key::Place(place as u32)
        } else {
            Key::Function(function)
        }
    };
    let mut groups = BTreeMap::<Key, Group>::new();
    for (slice, of_slice) in slices.iter().enumerate() {
        for (place, count) in counts(of_slice, places) {
            let new =
                || Group { is_kernel: places[place].is_kernel, counts: vec![0.0; slices.len()] };
            groups.entry(key(place)).or_insert_with(new).counts[slice] += f64::from(count);
        }
    }
    groups.into_values().collect()
}

/// Returns the samples per slice of each function with at least [`MIN_OF_PLACE`] samples.
pub(super) fn by_function(slices: &[&Slice], places: &[Place]) -> BTreeMap<u32, Vec<f64>> {
    let mut found = BTreeMap::<u32, Vec<f64>>::new();
    for (slice, of_slice) in slices.iter().enumerate() {
        for (place, count) in counts(of_slice, places) {
            let counts = found.entry(places[place].function);
            counts.or_insert_with(|| vec![0.0; slices.len()])[slice] += f64::from(count);
        }
    }
    found.retain(|_, counts| counts.iter().sum::<f64>() >= MIN_OF_PLACE as f64);
    found
}

/// Returns how many of a slice's samples are in functions selected by `is_it`.
pub(super) fn counts_of(slice: &Slice, places: &[Place], is_it: impl Fn(u32) -> bool) -> f64 {
    let of_them = counts(slice, places).filter(|&(place, _)| is_it(places[place].function));
    of_them.map(|(_, count)| f64::from(count)).sum()
}

/// Returns a slice's sample counts by code block. Skips blocks that are not in `places`.
fn counts<'a>(slice: &'a Slice, places: &'a [Place]) -> impl Iterator<Item = (usize, u32)> + 'a {
    let listed = |&(place, count): &(u32, u32)| {
        let place = place as usize;
        (place < places.len()).then_some((place, count))
    };
    slice.counts.iter().filter_map(listed)
}
