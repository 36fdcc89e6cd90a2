// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared by both methods of generating a curve: passes, physical placement of the chain in each
//! pass, and noise.

use crate::machine::{LINE_BYTES, Machine, Moves, Policy};
use crate::noise::Noise;
use crate::seed::mix;
use fastrand::Rng;
use std::borrow::Cow;

/// Times for one size on a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Chain size in bytes.
    pub bytes: u64,
    /// Time per load in each pass, in ns.
    pub passes: Vec<f64>,
    /// Time per load in each pass without noise, in ns.
    pub quiet: Vec<f64>,
}

/// Contributions of the caches and memory to the time per load in ns, by class of [`Noise`].
pub(crate) type Parts = [f64; Noise::CLASSES];

/// Windows per pass, of which the fastest is taken.
const WINDOWS: usize = 5;

/// Adds noise to the times computed by `chase`, which returns a function from chain size in bytes
/// to time for each pass.
pub(crate) fn curve<'a, Chase, Time>(
    places: &'a [Pass],
    bytes: &[u64],
    noise: &Noise,
    chase: Chase,
) -> Vec<Point>
where
    Chase: Fn(&'a Pass) -> Time,
    Time: FnMut(u64) -> Parts,
{
    let point = |bytes: &u64| Point { bytes: *bytes, passes: Vec::new(), quiet: Vec::new() };
    let mut points: Vec<Point> = bytes.iter().map(point).collect();
    for pass in places {
        let mut time = chase(pass);
        for point in &mut points {
            let parts = time(point.bytes);
            let quiet = parts.iter().sum::<f64>() + pass.machine.translation_ns(point.bytes);
            let ratio = noise.fastest(mix(pass.seed, point.bytes), WINDOWS, parts);
            point.passes.push(quiet * ratio);
            point.quiet.push(quiet);
        }
    }
    points
}

/// State of a machine in one pass.
pub(crate) struct Pass {
    pub(crate) machine: Machine,
    pub(crate) seed: u64,
    /// Physical placement of the stretches in chains longer than [`SHARED_BYTES`].
    frames: Vec<u64>,
}

/// Chain size in bytes up to which each size in a pass has its own placement. Longer chains, in
/// which differences between pages average out, share one placement per pass.
const SHARED_BYTES: u64 = 4 << 20;

impl Pass {
    /// Returns the physical stretch numbers for a chain of `bytes` bytes.
    pub(crate) fn frames(&self, bytes: u64) -> Cow<'_, [u64]> {
        let stretches = bytes.div_ceil(self.machine.contiguous_bytes).max(1) as usize;
        if bytes > SHARED_BYTES {
            return Cow::Borrowed(&self.frames[..stretches]);
        }
        Cow::Owned(random_frames(stretches, mix(self.seed, bytes)))
    }
}

fn random_frames(stretches: usize, seed: u64) -> Vec<u64> {
    let mut rng = Rng::with_seed(seed);
    (0..stretches).map(|_| rng.u64(0..1 << 32)).collect()
}

/// Generates passes for chains of up to `longest` bytes. A chain's placement does not depend on
/// `longest`.
pub(crate) fn passes(machine: &Machine, longest: u64, passes: u32, seed: u64) -> Vec<Pass> {
    let pass = |number| {
        let seed = mix(seed, number);
        let stretches = longest.div_ceil(machine.contiguous_bytes).max(1) as usize;
        let frames = random_frames(stretches, seed);
        Pass { machine: in_pass(machine, number), frames, seed }
    };
    (0..u64::from(passes)).map(pass).collect()
}

/// Returns the machine in a given pass: changed according to `moves` in every other pass.
fn in_pass(machine: &Machine, pass: u64) -> Machine {
    let mut machine = machine.clone();
    if pass % 2 == 0 {
        return machine;
    }
    match (&machine.moves, machine.caches.last_mut()) {
        (Some(Moves::Memory(times)), _) => machine.memory_ns *= times,
        (Some(Moves::LastCache(share)), Some(cache)) => {
            // Other programs occupy ways; the number of sets does not change.
            let ways = (f64::from(cache.ways) * share).round().max(1.0) as u32;
            cache.size_bytes = cache.sets() * LINE_BYTES * u64::from(ways);
            cache.ways = ways;
            if cache.policy == Policy::TreePlru {
                cache.policy = Policy::Lru;
            }
        }
        _ => {}
    }
    machine
}
