// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resolves tracepoints to their IDs in tracefs.

use super::{NameError, is_file_name};
use crate::event::{Class, Event};
use crate::suggest::nearest;
use linerate_linux::perf::{Selector, TRACEPOINT};
use std::io;
use std::path::{Path, PathBuf};

const MOUNT: &str = "mount -t tracefs nodev /sys/kernel/tracing";
const ALLOW: &str = "mount -o remount,mode=755 /sys/kernel/tracing";

/// Resolves a tracepoint `subsystem:name` to an event with the ID from tracefs.
pub(super) fn resolve(sysfs: &Path, name: &str) -> Result<Event, NameError> {
    let malformed = || NameError::Malformed {
        name: name.to_owned(),
        reason: "a tracepoint is written `subsystem:name`, as in `net:netif_rx`".to_owned(),
    };
    let (subsystem, point) = name.split_once(':').ok_or_else(malformed)?;
    if !is_file_name(subsystem) || !is_file_name(point) {
        return Err(malformed());
    }
    let events = events(sysfs).map_err(|(reason, fix)| no_tracefs(name, reason, fix))?;
    let path = events.join(subsystem).join(point).join("id");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let reason = format!("only root can read {}", path.display());
            return Err(no_tracefs(name, reason, ALLOW));
        }
        Err(_) => return Err(unknown(&events, name, subsystem)),
    };
    let id = text.trim().parse().map_err(|_| {
        let reason = format!("{} does not contain a number", path.display());
        NameError::Malformed { name: name.to_owned(), reason }
    })?;
    Ok(Event {
        name: name.to_owned(),
        native: None,
        unit: "events",
        class: Class::Tracepoint,
        selector: Selector::new(TRACEPOINT, id),
        is_user_only: false,
        unit_cpus: Vec::new(),
    })
}

fn no_tracefs(name: &str, reason: String, fix: &'static str) -> NameError {
    NameError::NoTracefs { name: name.to_owned(), reason, fix }
}

/// Returns the tracepoint directory, in tracefs or at its older location. If `sysfs` belongs to the
/// running kernel and tracefs is not mounted, mounts tracefs privately if permitted.
///
/// # Errors
/// Returns why there is no such directory, and the command that would fix it.
pub fn events(sysfs: &Path) -> Result<PathBuf, (String, &'static str)> {
    let places = ["kernel/tracing/events", "kernel/debug/tracing/events"];
    for folder in places.map(|place| sysfs.join(place)) {
        match std::fs::read_dir(&folder) {
            Ok(_) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err((format!("only root can read {}", folder.display()), ALLOW));
            }
            Err(_) => {}
        }
    }
    let own = (sysfs == Path::new("/sys")).then(linerate_linux::private_tracefs).flatten();
    if let Some(folder) = own.map(|own| own.join("events")).filter(|folder| folder.is_dir()) {
        return Ok(folder);
    }
    Err((format!("tracefs is not mounted at {}", sysfs.join("kernel/tracing").display()), MOUNT))
}

/// Returns the error for an unknown tracepoint. Suggests the subsystem's most similar tracepoints
/// or, if the subsystem does not exist, the tracepoints of the most similar subsystems.
fn unknown(events: &Path, name: &str, subsystem: &str) -> NameError {
    let folders = |path: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let subsystems = match events.join(subsystem).is_dir() {
        true => vec![subsystem.to_owned()],
        false => nearest(subsystem, folders(events).iter().map(String::as_str)),
    };
    let points: Vec<String> = subsystems
        .iter()
        .flat_map(|subsystem| {
            let points = folders(&events.join(subsystem)).into_iter();
            points.map(move |point| format!("{subsystem}:{point}"))
        })
        .collect();
    NameError::Unknown {
        name: name.to_owned(),
        nearest: nearest(name, points.iter().map(String::as_str)),
    }
}
