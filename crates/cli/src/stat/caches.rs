// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caches that `--tier sim` simulates.
//!
//! ```text
//! --caches NAME     the caches with this name
//! --caches NAME,... the caches with this name, but with some caches, TLBs or page sizes replaced
//! --caches os       this machine's caches, as reported by the OS
//! --caches profile  this machine's caches, as measured by `linerate memory`
//! no option         the baseline's caches, if they are this machine's (with other caches, the two
//!                   records could not be compared); otherwise the measured caches, if they are
//!                   known and differ from those reported by the OS; otherwise as with `os`
//! ```

use super::StatArgs;
use crate::emit;
use crate::failure::Failure;
use linerate_hierarchy::profile::{Profile, Seen};
use linerate_memory::profile;
use linerate_record::{Body, Record, Tier};
use linerate_stat::Simulator;
use linerate_stat::sim::Geometry;

/// Returns the requested cache geometry; `None` for the caches reported by the OS.
pub(super) fn caches(
    args: &StatArgs,
    baseline: Option<&Record>,
) -> Result<Option<Geometry>, Failure> {
    if args.caches.is_some() && args.tier != Some(Tier::Sim) {
        return Err(Failure::new("--caches applies to simulation only: add --tier sim"));
    }
    match args.caches.as_deref() {
        Some(text) => given(text).map(Some),
        None if args.tier == Some(Tier::Sim) => Ok(by_default(args.output.quiet(), baseline)),
        None => Ok(None),
    }
}

/// Parses the argument of `--caches`.
pub(crate) fn given(text: &str) -> Result<Geometry, Failure> {
    let (name, items) = text.split_once(',').unwrap_or((text, ""));
    let geometry = match name {
        "os" => Geometry::this_machine().map_err(Failure::new)?,
        "profile" => {
            let none = "no machine profile; create one with `linerate memory`";
            let stored = profile::load_for_process().map_err(Failure::new)?;
            measured(&stored.ok_or_else(|| Failure::new(none))?.profile)?
        }
        _ => return Geometry::parse(text).map_err(Failure::new),
    };
    geometry.with(items).map_err(Failure::new)
}

/// Returns the requested simulator or, by default, the baseline's simulator, because counts from
/// different simulators cannot be compared.
pub(super) fn simulator(
    args: &StatArgs,
    baseline: Option<&Record>,
) -> Result<Option<Simulator>, Failure> {
    if args.simulator.is_some() && args.tier != Some(Tier::Sim) {
        return Err(Failure::new("--simulator applies to simulation only: add --tier sim"));
    }
    let of_baseline = baseline.and_then(|record| match &record.body {
        Body::Stat(before) => before.caches.as_ref().map(|caches| match caches.machine {
            Some(_) => Simulator::Qemu,
            None => Simulator::Valgrind,
        }),
        _ => None,
    });
    Ok(args.simulator.or(of_baseline))
}

/// Returns the default cache geometry. A missing profile is not an error. If the OS does not report
/// the caches either, the simulator reports the error.
fn by_default(quiet: bool, baseline: Option<&Record>) -> Option<Geometry> {
    if let Some(Body::Stat(before)) = baseline.map(|record| &record.body)
        && let Some(caches) = before.caches.as_ref().filter(|c| Geometry::is_of_this_machine(c))
    {
        return Some(Geometry::this_machine().ok()?.recorded(caches));
    }
    let differs = |profile: &Profile| profile.levels().iter().any(|seen| seen.instead().is_some());
    match profile::load_for_process() {
        Ok(Some(stored)) if differs(&stored.profile) => {
            let geometry = measured(&stored.profile).ok()?;
            if !quiet {
                let (age, file) = (stored.age(), stored.file.display());
                emit::say(&format!(
                    "linerate: simulating the caches measured {age} ago ({file}); \
                     --caches os simulates the caches that the system reports\n"
                ));
            }
            Some(geometry)
        }
        Ok(_) => None,
        Err(reason) => {
            if !quiet {
                emit::say(&format!(
                    "warning:    simulating the caches that the system reports: {reason}\n"
                ));
            }
            None
        }
    }
}

/// Returns this machine's caches, with the sizes measured in a profile. The size of the instruction
/// cache is always as reported by the OS, since pointer chases cannot measure it.
fn measured(profile: &Profile) -> Result<Geometry, Failure> {
    let stated = Geometry::this_machine().map_err(Failure::new)?;
    let [d1, ll] = profile.levels();
    let shapes = stated.caches();
    let note = format!(
        "i1 as reported; {}; {}",
        sentence("d1", d1, shapes.d1.bytes),
        sentence("ll", ll, shapes.ll.bytes)
    );
    stated.resized(d1.instead(), ll.instead(), &note).map_err(Failure::new)
}

/// Describes the source of a cache size: measured, or reported by the OS.
fn sentence(name: &str, seen: Seen, stated: u64) -> String {
    match seen {
        Seen::AsStated => format!("{name} measured, same as reported"),
        Seen::Instead(_) => format!("{name} as measured (reported: {} KiB)", stated >> 10),
        Seen::No => format!("{name} as reported, not measured"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_seen_is_called_measured() {
        assert_eq!(sentence("d1", Seen::AsStated, 48 << 10), "d1 measured, same as reported");
        let instead = sentence("ll", Seen::Instead(6 << 20), 32 << 20);
        assert_eq!(instead, "ll as measured (reported: 32768 KiB)");
        assert_eq!(sentence("ll", Seen::No, 32 << 20), "ll as reported, not measured");
    }
}
