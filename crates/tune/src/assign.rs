// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assigns workers to CPUs.

use linerate_path::mapping::describe;
use linerate_path::model::{Mapping, Path};
use linerate_plan::candidates::nearest_feasible;
use linerate_record::units::counted;
use std::fmt;

/// Error returned when a mapping's workers cannot be assigned to the available CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssignError {
    /// The mapping requests a CPU that is not available.
    NotAllowed {
        /// Requested CPU.
        cpu: u32,
        /// Available CPUs.
        allowed: Vec<u32>,
    },
    /// More workers than available CPUs.
    TooFew {
        /// Number of workers in the mapping.
        wanted: usize,
        /// Available CPUs.
        allowed: Vec<u32>,
        /// The closest mapping that fits, in short form.
        nearest: String,
    },
}

impl fmt::Display for AssignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllowed { cpu, allowed } => write!(
                f,
                "[mapping] requests CPU {cpu}, which is not available; available CPUs: {}",
                listed(allowed)
            ),
            Self::TooFew { wanted, allowed, nearest } => write!(
                f,
                "the mapping has {} for {} ({}): use {nearest}, let 'linerate tune' find a \
                 mapping, or allow sharing with --oversubscribe",
                counted(*wanted as u64, "worker"),
                counted(allowed.len() as u64, "processor"),
                listed(allowed),
            ),
        }
    }
}

impl std::error::Error for AssignError {}

fn listed(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Returns one CPU per worker, by segment and replica. A worker gets the CPU that the mapping
/// requests for it or, if it requests none, the next free CPU in `cpus`. With `share`, CPUs are
/// reused from the start of the list once all are taken.
///
/// # Errors
/// Returns an error if the mapping requests a CPU that is not in `cpus`, or if it has more workers
/// than `cpus` and `share` is false.
pub fn assign(
    path: &Path,
    mapping: &Mapping,
    cpus: &[u32],
    share: bool,
) -> Result<Vec<u32>, AssignError> {
    let asked: Vec<u32> = mapping.segments.iter().flat_map(|s| &s.cpus).copied().collect();
    if let Some(&cpu) = asked.iter().find(|cpu| !cpus.contains(cpu)) {
        return Err(AssignError::NotAllowed { cpu, allowed: cpus.to_vec() });
    }
    if mapping.workers() > cpus.len() && !share {
        let nearest = nearest_feasible(mapping, cpus.len(), None);
        return Err(AssignError::TooFew {
            wanted: mapping.workers(),
            allowed: cpus.to_vec(),
            nearest: describe(&nearest, &path.stages),
        });
    }
    let free: Vec<u32> = cpus.iter().copied().filter(|cpu| !asked.contains(cpu)).collect();
    let pool = if free.is_empty() { cpus } else { &free };
    let mut rest = pool.iter().copied().cycle();
    let workers = mapping.segments.iter().flat_map(|segment| {
        (0..segment.replicas as usize).map(move |replica| segment.cpus.get(replica).copied())
    });
    Ok(workers.map(|cpu| cpu.or_else(|| rest.next()).unwrap_or(cpus[0])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_path::model::Segment;

    fn mapping(cpus: &[&[u32]]) -> Mapping {
        let segments = cpus.iter().enumerate().map(|(i, cpus)| Segment {
            stages: i..i + 1,
            replicas: 1,
            cpus: cpus.to_vec(),
        });
        Mapping { segments: segments.collect() }
    }

    fn path() -> Path {
        let text = "[source]\nkind = \"generator\"\n[[stage]]\nkind = \"parse\"\n";
        crate::bench::tests::path(text)
    }

    #[test]
    fn assigns_requested_cpus_then_others_in_order() {
        let path = path();
        let free = mapping(&[&[], &[], &[]]);
        assert_eq!(assign(&path, &free, &[4, 5, 6], false).expect("fits"), [4, 5, 6]);
        let asked = mapping(&[&[], &[4], &[]]);
        assert_eq!(assign(&path, &asked, &[4, 5, 6], false).expect("fits"), [5, 4, 6]);
        assert_eq!(assign(&path, &free, &[4, 5], true).expect("shared"), [4, 5, 4]);
        assert!(assign(&path, &free, &[4, 5], false).is_err());
        assert!(assign(&path, &mapping(&[&[9]]), &[4, 5], false).is_err());
    }
}
