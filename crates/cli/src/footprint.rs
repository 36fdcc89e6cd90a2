// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the profile of this machine says of the packets of a path.

use crate::load::Loaded;
use crate::profile::Profile;
use linerate_dataplane::buffers_bytes;
use linerate_path::model::Mapping;
use linerate_plan::footprint::{Footprint, Home, home};
use linerate_record::run::PacketsHome;
use linerate_record::{Figure, Tier};

/// Why it is not known where the packets of a path lie.
#[derive(Debug)]
pub(crate) enum Unknown {
    /// Nobody measured this machine.
    NoProfile,
    /// There is a profile, and it cannot tell; why.
    CannotTell(String),
}

impl Unknown {
    fn reason(&self) -> &str {
        match self {
            Self::NoProfile => "this machine has no profile; make one: linerate memory",
            Self::CannotTell(reason) => reason,
        }
    }
}

/// Where the packets of `loaded` lie under `mapping`, or why that cannot be told.
pub(crate) fn of(loaded: &Loaded, mapping: &Mapping) -> Result<Home, Unknown> {
    let profile = Profile::load().map_err(Unknown::CannotTell)?.ok_or(Unknown::NoProfile)?;
    let footprint = Footprint {
        frames: loaded.traffic.total_bytes(),
        buffers: buffers_bytes(&loaded.path, mapping, &loaded.path.run),
        queues: mapping.segments[0].replicas,
    };
    home(&footprint, &profile.report, &profile.age()).map_err(Unknown::CannotTell)
}

/// The same for the record. Its sentence is there where it is worth one: the packets exceed a
/// cache, or there is a profile that cannot tell.
pub(crate) fn recorded(home: &Result<Home, Unknown>) -> PacketsHome {
    const METHOD: &str = "bytes of frames and buffers against the profile of this machine";
    let number = |unit: &str, value: Result<f64, &str>| match value {
        Ok(value) => Figure::exact(unit, value, Tier::Model, METHOD),
        Err(reason) => Figure::absent(unit, Tier::Model, METHOD, reason),
    };
    let sentence = match home {
        Ok(home) => home.sentence.clone(),
        Err(Unknown::NoProfile) => None,
        Err(Unknown::CannotTell(reason)) => {
            Some(format!("which cache the packets lie in cannot be told: {reason}"))
        }
    };
    let home = home.as_ref().map_err(Unknown::reason);
    let level = match home {
        Ok(home) => Figure::text(&home.level, Tier::Model, METHOD),
        Err(reason) => Figure::absent("text", Tier::Model, METHOD, reason),
    };
    let wait = home.and_then(|home| home.wait.as_ref().map_err(String::as_str));
    let no_clock = "the profile has no upper end of it in cycles";
    let cycles = wait.and_then(|wait| wait.cycles.ok_or(no_clock));
    PacketsHome {
        bytes: number("B", home.map(|home| home.bytes as f64)),
        level,
        miss_ns: number("ns", wait.map(|wait| wait.ns)),
        miss_cycles: number("cycles", cycles),
        sentence,
    }
}
