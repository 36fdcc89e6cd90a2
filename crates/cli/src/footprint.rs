// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the profile of this machine says of the packets of a path.

use crate::load::Loaded;
use crate::profile::Profile;
use linerate_dataplane::buffers_octets;
use linerate_path::model::Mapping;
use linerate_plan::footprint::{Footprint, Home, home};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// Where the packets of `loaded` lie under `mapping`, or why that cannot be told.
pub(crate) fn of(loaded: &Loaded, mapping: &Mapping) -> Result<Home, String> {
    let profile = Profile::load()?;
    let profile = profile.ok_or("this machine has no profile; make one: linerate memory")?;
    let footprint = Footprint {
        frames: loaded.traffic.octets(),
        buffers: buffers_octets(&loaded.path, mapping, &loaded.path.run),
        queues: mapping.segments[0].replicas,
    };
    home(&footprint, &profile.report, &profile.age())
}

/// The same as figures, by name.
pub(crate) fn figures(home: &Result<Home, String>) -> BTreeMap<String, Figure> {
    const METHOD: &str = "octets of frames and buffers against the profile of this machine";
    let number = |unit: &str, pick: &dyn Fn(&Home) -> Option<f64>, missing: &str| match home {
        Ok(home) => match pick(home) {
            Some(value) => Figure::exact(unit, value, Tier::Model, METHOD),
            None => Figure::absent(unit, Tier::Model, METHOD, missing),
        },
        Err(reason) => Figure::absent(unit, Tier::Model, METHOD, reason),
    };
    let tier = match home {
        Ok(home) => Figure::text(&home.tier, Tier::Model, METHOD),
        Err(reason) => Figure::absent("text", Tier::Model, METHOD, reason),
    };
    BTreeMap::from([
        ("packets_bytes".to_owned(), number("B", &|home| Some(home.bytes as f64), "")),
        ("packets_tier".to_owned(), tier),
        ("packets_miss_ns".to_owned(), number("ns", &|home| Some(home.ns), "")),
        (
            "packets_miss_cycles".to_owned(),
            number("cycles", &|home| home.cycles, "the profile does not know the core clock"),
        ),
    ])
}

/// The same in a line, where it is worth one.
pub(crate) fn line(home: &Result<Home, String>) -> String {
    let sentence = home.as_ref().ok().and_then(|home| home.sentence.as_ref());
    sentence.map_or(String::new(), |sentence| format!("{sentence}\n"))
}
