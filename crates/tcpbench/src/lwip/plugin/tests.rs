// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accepted and rejected plugin objects.

use super::object::folders_of;
use super::seal::fnv1a;
use super::*;
use std::fs;
use std::path::Path;

/// Creates a directory with an object that is damaged in some way, and with its seal.
fn folder(name: &str, damage: impl FnOnce(&mut Vec<u8>), reseal: bool) -> Option<PathBuf> {
    let name_of = |extension: &str| format!("linerate-lwip-1460.{extension}");
    let Some(built) = folders().into_iter().find(|f| f.join(name_of("so")).exists()) else {
        println!("SKIP: lwIP was not built: cargo xtask fetch lwip");
        return None;
    };
    let folder = std::env::temp_dir().join(format!("linerate-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).expect("a directory");
    let mut bytes = fs::read(built.join(name_of("so"))).expect("the build wrote this file");
    let seal = fs::read_to_string(built.join(name_of("seal"))).expect("the build wrote this file");
    damage(&mut bytes);
    let seal = if reseal { format!("{:016x}", fnv1a(&bytes)) } else { seal };
    fs::write(folder.join(name_of("so")), bytes).expect("a file can be written");
    fs::write(folder.join(name_of("seal")), seal).expect("a file can be written");
    Some(folder)
}

fn error(folder: &Path) -> String {
    let loaded = Plugin::load(1460, &[folder.to_owned()]);
    fs::remove_dir_all(folder).expect("the folder was made by the test");
    loaded.err().expect("a damaged object is rejected").to_string()
}

#[test]
fn reports_missing_or_damaged_objects_with_the_rebuild_command() {
    let nowhere = PathBuf::from("/nowhere");
    let missing = Plugin::load(1460, &[nowhere]).err().expect("no such directory").to_string();
    assert!(missing.contains("linerate-lwip-1460.so in /nowhere"), "{missing}");
    assert!(missing.contains("cargo xtask fetch lwip"), "{missing}");
    let Some(short) = folder("short", |bytes| bytes.truncate(bytes.len() / 2), false) else {
        return;
    };
    let short = error(&short);
    assert!(short.contains("expected") && short.contains("fetch lwip"), "{short}");
    // Corrupt, but with a matching seal; the dynamic loader reports the error.
    let text = |bytes: &mut Vec<u8>| *bytes = b"not an object".to_vec();
    let other = error(&folder("other", text, true).expect("it exists"));
    assert!(other.contains("is damaged") && other.contains("fetch lwip"), "{other}");
}

#[test]
fn nothing_above_the_folder_of_cargo_is_loaded() {
    let own = std::env::temp_dir().join(format!("linerate-{}-cargo", std::process::id()));
    fs::create_dir_all(&own).expect("a directory");
    let deps = own.join("release/deps");
    assert_eq!(folders_of(&deps.join("program")), [deps.join("lwip")], "installed");
    fs::write(own.join("CACHEDIR.TAG"), "").expect("a file can be written");
    let found = folders_of(&deps.join("program"));
    fs::remove_dir_all(&own).expect("the folder was made by the test");
    let all = [&deps, &own.join("release"), &own].map(|folder| folder.join("lwip"));
    assert_eq!(found, all);
    assert_eq!(folders_of(Path::new("")), [] as [PathBuf; 0]);
}

#[test]
fn an_object_of_another_version_is_refused() {
    // The table's first field, located by the segment size that follows it.
    let raise = |bytes: &mut Vec<u8>| {
        let field: Vec<u8> = [TABLE_VERSION, 1460].iter().flat_map(|n| n.to_le_bytes()).collect();
        let at = bytes.windows(8).position(|window| window == field);
        bytes[at.expect("the table is in the object")] += 1;
    };
    let Some(folder) = folder("version", raise, true) else { return };
    let error = error(&folder);
    let expected = format!("version {}, expected {TABLE_VERSION}", TABLE_VERSION + 1);
    assert!(error.contains(&expected) && error.contains("fetch lwip"), "{error}");
}

#[test]
fn two_loaded_objects_share_nothing() {
    let load = || Plugin::load(8000, &folders());
    let (one, other) = match (load(), load()) {
        (Ok(one), Ok(other)) => (one, other),
        (one, _) => return println!("SKIP: {}", one.err().expect("one of both failed")),
    };
    assert!(!ptr::eq(one.table, other.table));
    assert_eq!(one.table.segment, 8000);
    assert!(one.version().starts_with("2.1"), "{}", one.version());
}
