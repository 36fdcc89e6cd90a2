// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines which cache level holds a path's packets on this machine.

use linerate_dataplane::buffers_bytes;
use linerate_dataplane::traffic::Traffic;
use linerate_path::model::{Mapping, Path};
use linerate_plan::footprint::{self, Footprint, Home, KnownMemory, Unknown};

/// Returns the cache level that holds the packets of `path` under `mapping`.
///
/// # Errors
/// Returns an error with the reason if the level is unknown.
pub fn home(
    path: &Path,
    traffic: &Traffic,
    mapping: &Mapping,
    memory: &Result<KnownMemory, Unknown>,
) -> Result<Home, Unknown> {
    let KnownMemory { report, age } = memory.as_ref().map_err(Unknown::clone)?;
    let footprint = Footprint {
        frames: traffic.total_bytes(),
        buffers: buffers_bytes(path, mapping, &path.run),
        queues: mapping.segments[0].replicas,
    };
    footprint::home(&footprint, report, age).map_err(Unknown::CannotTell)
}
