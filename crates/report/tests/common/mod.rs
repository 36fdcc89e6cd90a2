// SPDX-License-Identifier: MIT OR Apache-2.0
//! Golden-file comparison. After an intended change, run
//! `UPDATE_GOLDEN=1 cargo test -p linerate-report`, then review the diff.

use linerate_report::Style;
use std::path::Path;

pub(crate) const PLAIN: Style = Style::plain(100);

/// Compares `text`, rendered with `style`, with the golden file `name`.
#[track_caller]
pub(crate) fn assert_golden(name: &str, style: &Style, text: &str) {
    for line in text.lines() {
        assert!(line.trim_end() == line, "trailing blanks: {line:?}");
        assert!(style.color || line.chars().count() <= style.width, "too wide: {line:?}");
    }
    assert_same(name, text);
}

/// Compares `text` with the golden file `name`.
#[track_caller]
pub(crate) fn assert_same(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file exists");
    assert!(golden == text, "{name} differs; the text is now:\n{text}");
}
