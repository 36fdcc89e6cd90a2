// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests how regions records are printed, and the errors for other files.

use crate::rig::{Folder, linerate, refused};
use crate::validator::Validator;
use linerate_regions::{Options, Regions};

/// Writes a record of this test program's own regions. Returns its file.
pub(crate) fn recorded(folder: &Folder) -> String {
    let file = folder.file("regions.json");
    let events = vec!["page_faults".to_owned(), "no_such_event".to_owned()];
    let options = Options { events, file: Some((&file).into()), ..Options::default() };
    let regions = Regions::new(&options);
    let thread = regions.thread();
    for _ in 0..3 {
        let inside = thread.enter(regions.region("burst"));
        drop(thread.enter(regions.region("parse")));
        inside.add_units(32);
    }
    regions.finish().expect("the file can be written");
    file
}

#[test]
fn a_record_is_shown_as_a_table() {
    let folder = Folder::new();
    let done = linerate(&["regions", &recorded(&folder)]);
    assert_eq!((done.status, done.stderr.as_str()), (Some(0), ""));
    for text in ["burst/parse", "96", "page_faults", "unknown event `no_such_event`"] {
        assert!(done.stdout.contains(text), "{text}: {}", done.stdout);
    }
}

#[test]
fn a_record_is_shown_as_json() {
    let folder = Folder::new();
    let file = recorded(&folder);
    let done = linerate(&["regions", "-q", "--json", &file]);
    assert_eq!((done.status, done.stderr.as_str()), (Some(0), ""));
    assert_eq!(done.stdout, std::fs::read_to_string(&file).unwrap());
}

#[test]
fn a_record_obeys_the_schema() {
    let folder = Folder::new();
    let json = std::fs::read_to_string(recorded(&folder)).unwrap();
    let value = serde_json::from_str(&json).unwrap();
    assert_eq!(Validator::new(&linerate_record::schema_json()).verdict(&value), Ok(()));
}

#[test]
fn rejects_records_of_other_kinds() {
    let folder = Folder::new();
    let missing = refused(&["regions", "no/such/file.json"]);
    assert!(missing.contains("LINERATE_REGIONS=no/such/file.json"), "{missing}");
    let text = folder.write("text.json", "not JSON");
    assert!(refused(&["regions", &text]).contains("text.json"));
}
