// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of the document beside those found, with the command that shows each, as one page.

use std::fmt::Write;

/// A figure that is to be reproduced.
pub(super) struct Row {
    /// What it is.
    pub(super) what: String,
    /// As the document has it, or as it is to be.
    pub(super) wanted: String,
    /// As it was found.
    pub(super) found: String,
    /// Whether that is what was wanted.
    pub(super) holds: bool,
    /// What shows it.
    pub(super) command: String,
    /// The page that has it, a file of the folder.
    pub(super) page: &'static str,
}

/// Whether `found` is `wanted` within `within`, as a row.
pub(super) fn near(
    what: &str,
    (wanted, within, digits): (f64, f64, usize),
    found: f64,
    command: &str,
    page: &'static str,
) -> Row {
    Row {
        what: what.to_owned(),
        wanted: format!("{wanted:.digits$}"),
        found: format!("{found:.digits$}"),
        holds: (found - wanted).abs() <= within,
        command: command.to_owned(),
        page,
    }
}

/// The page of all figures.
pub(super) fn page(rows: &[Row]) -> String {
    let held = rows.iter().filter(|row| row.holds).count();
    let mut text = format!(
        "# The Netra document, reproduced\n\n\
         Written by `cargo xtask evidence netra`: figures of \"Netra Data Plane Software Suite \
         2.0\", chapter 10 (Performance Tuning), and what was asked of the simulator, beside what \
         the program finds. {held} of {} hold. What in the document itself is wrong stands in \
         [netra-corrections.md](../../netra-corrections.md).\n\n\
         | figure | wanted | found | holds | shown by | page |\n|---|---|---|---|---|---|\n",
        rows.len()
    );
    for row in rows {
        let Row { what, wanted, found, command, page, .. } = row;
        let holds = if row.holds { "yes" } else { "**no**" };
        let _ = writeln!(
            text,
            "| {what} | {wanted} | {found} | {holds} | `{command}` | [{page}]({page}) |"
        );
    }
    text
}

/// The rows as a table of one page.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = "| figure | wanted | found | agrees |\n|---|---:|---:|---|\n".to_owned();
    for Row { what, wanted, found, holds, .. } in rows {
        let agrees = if *holds { "yes" } else { "**no**" };
        let _ = writeln!(text, "| {what} | {wanted} | {found} | {agrees} |");
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_off_is_said_to_be() {
        let rows = [
            near("a", (311.0, 0.05, 1), 311.04, "x", "p.md"),
            near("b", (311.0, 0.05, 1), 311.06, "x", "p.md"),
        ];
        assert_eq!(rows.each_ref().map(|row| row.holds), [true, false]);
        let text = page(&rows);
        assert!(text.contains("1 of 2 hold"), "{text}");
        assert!(text.contains("| b | 311.0 | 311.1 | **no** | `x` | [p.md](p.md) |"), "{text}");
        assert_eq!(table(&rows).matches("**no**").count(), 1);
    }
}
