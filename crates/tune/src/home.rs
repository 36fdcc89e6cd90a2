// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where in the memory hierarchy of this machine the packets of a path are.

use linerate_dataplane::buffers_bytes;
use linerate_dataplane::traffic::Traffic;
use linerate_path::model::{Mapping, Path};
use linerate_plan::footprint::{self, Footprint, Home, KnownMemory, Unknown};

/// Where the packets of `path` are under `mapping`.
///
/// # Errors
/// Why that is not known.
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
