// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared by both ways to generate a curve: passes, placement of the chain in each, noise.

use crate::machine::{LINE_BYTES, Machine, Moves, Policy};
use crate::noise::Noise;
use crate::seed::mix;
use fastrand::Rng;
use std::borrow::Cow;

/// One size of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Bytes of the chain.
    pub bytes: u64,
    /// ns per load, one of each pass.
    pub passes: Vec<f64>,
    /// The same as they would be without noise.
    pub quiet: Vec<f64>,
}

/// ns of a load by class of [`Noise`]: what the caches and memory contribute.
pub(crate) type Parts = [f64; Noise::CLASSES];

/// Windows of which a pass takes the fastest.
const WINDOWS: usize = 5;

/// A curve with noiseless times from `chase`: given the machine and the placement of its stretches
/// in a pass, a function of the bytes of a chain.
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

/// A machine as it is in one pass.
pub(crate) struct Pass {
    pub(crate) machine: Machine,
    pub(crate) seed: u64,
    /// For a chain of any length above [`SHARED_BYTES`].
    frames: Vec<u64>,
}

/// Chains up to this size have a different placement for each size of a pass; longer ones, whose
/// pages average out, start at the same place for all sizes of a pass.
const SHARED_BYTES: u64 = 4 << 20;

impl Pass {
    /// Physical placement of the stretches of a chain of `bytes`: numbers of stretches.
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

/// Passes over chains of up to `longest` bytes. The beginning of a pass does not depend on its
/// length.
pub(crate) fn passes(machine: &Machine, longest: u64, passes: u32, seed: u64) -> Vec<Pass> {
    let pass = |number| {
        let seed = mix(seed, number);
        let stretches = longest.div_ceil(machine.contiguous_bytes).max(1) as usize;
        let frames = random_frames(stretches, seed);
        Pass { machine: in_pass(machine, number), frames, seed }
    };
    (0..u64::from(passes)).map(pass).collect()
}

/// Moving values change in every other pass.
fn in_pass(machine: &Machine, pass: u64) -> Machine {
    let mut machine = machine.clone();
    if pass % 2 == 0 {
        return machine;
    }
    match (&machine.moves, machine.caches.last_mut()) {
        (Some(Moves::Memory(times)), _) => machine.memory_ns *= times,
        (Some(Moves::LastCache(share)), Some(cache)) => {
            // Others fill ways; the sets remain.
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
