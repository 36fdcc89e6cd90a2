// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which caches `--tier sim` simulates.
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
use crate::profile::Profile;
use linerate_counters::sim::Geometry;
use linerate_record::{Body, Record, Tier};

/// What was asked for, or `None` for what the system states.
pub(super) fn caches(
    args: &StatArgs,
    baseline: Option<&Record>,
) -> Result<Option<Geometry>, Failure> {
    match args.caches.as_deref() {
        Some("os") => Geometry::this_machine().map(Some).map_err(Failure::new),
        Some("profile") => {
            let none = "there is no profile of this machine; make one: linerate memory";
            let profile = Profile::load().map_err(Failure::new)?;
            measured(&profile.ok_or_else(|| Failure::new(none))?).map(Some)
        }
        Some(name) => Geometry::parse(name).map(Some).map_err(Failure::new),
        None if args.tier == Some(Tier::Sim) => Ok(by_default(args.quiet, baseline)),
        None => Ok(None),
    }
}

/// What is taken where nothing is asked for. That there is no other than what the system states is
/// no failure, and if it states nothing the simulator says so.
fn by_default(quiet: bool, baseline: Option<&Record>) -> Option<Geometry> {
    if let Some(Body::Stat(before)) = baseline.map(|record| &record.body)
        && let Some(caches) = before.caches.as_ref().filter(|c| Geometry::is_of_this_machine(c))
    {
        return Some(Geometry::this_machine().ok()?.recorded(caches));
    }
    match Profile::load() {
        Ok(Some(profile)) if profile.sizes() != [None; 2] => {
            let geometry = measured(&profile).ok()?;
            if !quiet {
                let (age, file) = (profile.age(), profile.file.display());
                emit::say(&format!(
                    "linerate: caches as measured {age} ago ({file}); as stated: --caches os\n"
                ));
            }
            Some(geometry)
        }
        Ok(_) => None,
        Err(reason) => {
            if !quiet {
                emit::say(&format!("warning:    caches as the system states them: {reason}\n"));
            }
            None
        }
    }
}

/// This machine's caches with the sizes of a profile.
fn measured(profile: &Profile) -> Result<Geometry, Failure> {
    let stated = Geometry::this_machine().map_err(Failure::new)?;
    let [d1, ll] = profile.sizes();
    let was = |name: &str, measured: Option<u64>, stated: u64| {
        measured.map(|_| format!("{name} as measured, stated were {} KiB", stated >> 10))
    };
    let shapes = stated.caches();
    let notes = [was("d1", d1, shapes.d1.octets), was("ll", ll, shapes.ll.octets)];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    let note = match notes.is_empty() {
        true => "measured as stated".to_owned(),
        false => notes.join("; "),
    };
    stated.resized(d1, ll, &note).map_err(Failure::new)
}
