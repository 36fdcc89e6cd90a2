// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs available to a command.

use crate::failure::Failure;
use crate::parse::CpuList;
use linerate_machine::topology::pick_cpus;

/// Returns the CPUs available to a command, best first.
pub(crate) fn processors(asked: Option<&CpuList>) -> Result<Vec<u32>, Failure> {
    let allowed = linerate_linux::allowed_cpus().map_err(Failure::new)?;
    match asked {
        None => Ok(pick_cpus(allowed.len(), &allowed)),
        Some(list) => match list.0.iter().find(|cpu| !allowed.contains(cpu)) {
            None => Ok(list.0.clone()),
            Some(cpu) => Err(Failure::new(format!(
                "--cpus: CPU {cpu} is not available to this process; available: {}",
                spelled(&allowed)
            ))),
        },
    }
}

/// Returns the CPU for a single-threaded command: the requested one or, by default, the best.
pub(crate) fn processor(asked: Option<u32>) -> Result<u32, Failure> {
    let allowed = linerate_linux::allowed_cpus().map_err(Failure::new)?;
    match asked {
        None => Ok(pick_cpus(1, &allowed)[0]),
        Some(cpu) if allowed.contains(&cpu) => Ok(cpu),
        Some(cpu) => Err(Failure::new(format!(
            "--cpu: CPU {cpu} is not available to this process; available: {}",
            spelled(&allowed)
        ))),
    }
}

fn spelled(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}
