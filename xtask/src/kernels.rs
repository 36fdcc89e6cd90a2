// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of the kernels, written to `docs/results` by the runs themselves: what is asked of
//! them and whether they reach it, plots, and the whole report.
//!
//! Takes a minute and wants an idle machine: it is not part of CI.

use crate::command::root;
use crate::evidence::{bench, build, machine, recorded, section};
use linerate_record::Record;
use std::fs;
use std::path::Path;
use std::process::Command;

const RESULT: &str = "docs/results/kernels.md";
const PLOTS: &str = "docs/results/kernels";

/// Measures and writes.
pub(crate) fn write() -> Result<(), String> {
    let binary = build()?;
    let targets = bench("linerate-kernelbench", "targets")?;
    let plots = root().join(PLOTS);
    // Plots of a former run that this one does not draw would stay.
    if plots.exists() {
        for name in drawn(&plots)? {
            fs::remove_file(plots.join(&name)).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    let (report, record) = measure(&binary)?;
    let text = document(&machine(&record), &targets, &report, &drawn(&plots)?);
    fs::write(root().join(RESULT), text).map_err(|error| format!("{RESULT}: {error}"))?;
    println!("{RESULT}");
    Ok(())
}

/// One run of the program: what it prints, and its record.
fn measure(binary: &Path) -> Result<(String, Record), String> {
    let mut command = Command::new(binary);
    command.args(["kernels", "--svg", PLOTS]).current_dir(root());
    recorded(command)
}

/// The names of the plots, in order.
fn drawn(folder: &Path) -> Result<Vec<String>, String> {
    let list = fs::read_dir(folder).map_err(|error| format!("{PLOTS}: {error}"))?;
    let names = list.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: std::io::Result<Vec<String>> = names.collect();
    let mut names = names.map_err(|error| format!("{PLOTS}: {error}"))?;
    names.retain(|name| Path::new(name).extension().is_some_and(|ending| ending == "svg"));
    names.sort_unstable();
    Ok(names)
}

fn document(machine: &str, targets: &str, report: &str, plots: &[String]) -> String {
    let mut text = "# The kernels\n\n\
        Written by `cargo xtask evidence kernels`; the method is in [method.md](../method.md). \
        Ratios hold within a run; two runs, the two below included, may meet the machine in \
        different moods.\n\n"
        .to_owned();
    text += machine;
    text += "What is asked of the kernels is the same on every machine. Each target that is missed \
        here has below the table what the run tells about why.\n\n";
    text += &section("cargo bench -p linerate-kernelbench", targets);
    text += "## Plots\n\n";
    for plot in plots {
        let name = plot.trim_end_matches(".svg");
        text += &format!("![{name}](kernels/{plot})\n\n");
    }
    text += &section(&format!("linerate kernels --svg {PLOTS}"), report);
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::document;

    #[test]
    fn the_document_holds_commands_results_and_plots() {
        let plots = ["checksum-cold.svg".to_owned(), "checksum-warm.svg".to_owned()];
        let text = document("- a machine\n\n", "targets here\n", "report here\n", &plots);
        let parts = [
            "# The kernels\n",
            "cargo xtask evidence kernels",
            "- a machine\n",
            "## `cargo bench -p linerate-kernelbench`\n\n```\ntargets here\n```\n",
            "![checksum-cold](kernels/checksum-cold.svg)\n",
            "![checksum-warm](kernels/checksum-warm.svg)\n",
            "## `linerate kernels --svg docs/results/kernels`\n\n```\nreport here\n```\n",
        ];
        let places = parts.map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}")));
        assert!(places.is_sorted(), "{places:?}");
    }
}
