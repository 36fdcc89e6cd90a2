// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which processors the workers are pinned to.

use crate::args::Common;
use crate::failure::Failure;
use linerate_machine::topology::pick_cpus;
use linerate_path::mapping::describe;
use linerate_path::model::{Mapping, Path};
use linerate_plan::candidates::nearest_feasible;

/// The processors a command may use, the best to use first.
pub(crate) fn processors(common: &Common) -> Result<Vec<u32>, Failure> {
    let allowed = linerate_linux::allowed_cpus().map_err(Failure::new)?;
    match &common.cpus {
        None => Ok(pick_cpus(allowed.len(), &allowed)),
        Some(list) => match list.0.iter().find(|cpu| !allowed.contains(cpu)) {
            None => Ok(list.0.clone()),
            Some(cpu) => Err(Failure::new(format!(
                "--cpus: processor {cpu} may not be used here; these may: {}",
                spelled(&allowed)
            ))),
        },
    }
}

/// The processor for a command that needs one: the one asked for, or the best to use.
pub(crate) fn processor(asked: Option<u32>) -> Result<u32, Failure> {
    let allowed = linerate_linux::allowed_cpus().map_err(Failure::new)?;
    match asked {
        None => Ok(pick_cpus(1, &allowed)[0]),
        Some(cpu) if allowed.contains(&cpu) => Ok(cpu),
        Some(cpu) => Err(Failure::new(format!(
            "--cpu: processor {cpu} may not be used here; these may: {}",
            spelled(&allowed)
        ))),
    }
}

fn spelled(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// One processor per worker: what the mapping asks for, the others from `processors` in order. With
/// `share` they are given out again from the start when they run out.
pub(crate) fn assign(
    path: &Path,
    mapping: &Mapping,
    processors: &[u32],
    share: bool,
) -> Result<Vec<u32>, Failure> {
    let asked: Vec<u32> = mapping.segments.iter().flat_map(|s| &s.cpus).copied().collect();
    if let Some(cpu) = asked.iter().find(|cpu| !processors.contains(cpu)) {
        return Err(Failure::new(format!(
            "[mapping] asks for processor {cpu}, which may not be used; these may: {}",
            spelled(processors)
        )));
    }
    if mapping.workers() > processors.len() && !share {
        let nearest = nearest_feasible(mapping, processors.len(), None);
        return Err(Failure::new(format!(
            "the mapping has {} workers for {} processors ({}): map it as {}, \
             let 'linerate tune' find a mapping, or allow sharing with --oversubscribe",
            mapping.workers(),
            processors.len(),
            spelled(processors),
            describe(&nearest, &path.stages),
        )));
    }
    let free: Vec<u32> = processors.iter().copied().filter(|cpu| !asked.contains(cpu)).collect();
    let pool = if free.is_empty() { processors } else { &free };
    let mut rest = pool.iter().copied().cycle();
    let workers = mapping.segments.iter().flat_map(|segment| {
        (0..segment.replicas as usize).map(move |replica| segment.cpus.get(replica).copied())
    });
    Ok(workers.map(|cpu| cpu.or_else(|| rest.next()).unwrap_or(processors[0])).collect())
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
        linerate_path::check::read(text, "t", crate::kinds::specs()).expect("a path").path
    }

    #[test]
    fn asked_for_processors_are_given_and_the_others_go_round() {
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
