// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caches that `--tier sim` simulates.
//!
//! ```text
//! --caches NAME     those
//! --caches os       this machine's, as the system states them
//! --caches profile  this machine's, as `linerate memory` measured them
//! none of these     those of the baseline, if they are this machine's: else there is no verdict
//!                   else as measured, if that is known and differs
//!                   else as stated
//! ```

use super::StatArgs;
use crate::emit;
use crate::failure::Failure;
use linerate_hierarchy::profile::{Profile, Seen};
use linerate_memory::profile;
use linerate_record::{Body, Record, Tier};
use linerate_stat::sim::Geometry;

/// The requested caches; `None` for those that the system states.
pub(super) fn caches(
    args: &StatArgs,
    baseline: Option<&Record>,
) -> Result<Option<Geometry>, Failure> {
    if args.caches.is_some() && args.tier != Some(Tier::Sim) {
        return Err(Failure::new("--caches applies to simulation only: add --tier sim"));
    }
    match args.caches.as_deref() {
        Some("os") => Geometry::this_machine().map(Some).map_err(Failure::new),
        Some("profile") => {
            let none = "this machine has no profile; create one: linerate memory";
            let stored = profile::load().map_err(Failure::new)?;
            measured(&stored.ok_or_else(|| Failure::new(none))?.profile).map(Some)
        }
        Some(name) => Geometry::parse(name).map(Some).map_err(Failure::new),
        None if args.tier == Some(Tier::Sim) => Ok(by_default(args.output.quiet(), baseline)),
        None => Ok(None),
    }
}

/// Cache geometry if no option is given. A missing profile is not an error. If the system does not
/// state its caches either, the simulator reports that.
fn by_default(quiet: bool, baseline: Option<&Record>) -> Option<Geometry> {
    if let Some(Body::Stat(before)) = baseline.map(|record| &record.body)
        && let Some(caches) = before.caches.as_ref().filter(|c| Geometry::is_of_this_machine(c))
    {
        return Some(Geometry::this_machine().ok()?.recorded(caches));
    }
    let differs = |profile: &Profile| profile.levels().iter().any(|seen| seen.instead().is_some());
    match profile::load() {
        Ok(Some(stored)) if differs(&stored.profile) => {
            let geometry = measured(&stored.profile).ok()?;
            if !quiet {
                let (age, file) = (stored.age(), stored.file.display());
                emit::say(&format!(
                    "linerate: simulating the caches measured {age} ago ({file}); for those the \
                     system reports: --caches os\n"
                ));
            }
            Some(geometry)
        }
        Ok(_) => None,
        Err(reason) => {
            if !quiet {
                emit::say(&format!("warning:    caches as reported by the system: {reason}\n"));
            }
            None
        }
    }
}

/// This machine's caches, with the sizes measured in a profile. The size of the instruction cache
/// is always the stated one, since pointer chases cannot measure it.
fn measured(profile: &Profile) -> Result<Geometry, Failure> {
    let stated = Geometry::this_machine().map_err(Failure::new)?;
    let [d1, ll] = profile.levels();
    let shapes = stated.caches();
    let note = format!(
        "i1 as stated; {}; {}",
        sentence("d1", d1, shapes.d1.bytes),
        sentence("ll", ll, shapes.ll.bytes)
    );
    stated.resized(d1.instead(), ll.instead(), &note).map_err(Failure::new)
}

/// States where the size of a cache comes from.
fn sentence(name: &str, seen: Seen, stated: u64) -> String {
    match seen {
        Seen::AsStated => format!("{name} measured, same as stated"),
        Seen::Instead(_) => format!("{name} as measured (stated: {} KiB)", stated >> 10),
        Seen::No => format!("{name} as stated, not measured"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_seen_is_called_measured() {
        assert_eq!(sentence("d1", Seen::AsStated, 48 << 10), "d1 measured, same as stated");
        let instead = sentence("ll", Seen::Instead(6 << 20), 32 << 20);
        assert_eq!(instead, "ll as measured (stated: 32768 KiB)");
        assert_eq!(sentence("ll", Seen::No, 32 << 20), "ll as stated, not measured");
    }
}
