// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the format, length and colour of results.

use crate::rig::{Folder, command, edge};
use linerate_record::fixtures;

/// Runs the program without `LINERATE_DETAILS` and with the given environment variables. Returns
/// its stdout.
fn printed(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = command(arguments);
    command.env_remove("LINERATE_DETAILS").envs(variables.iter().copied());
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("the program prints UTF-8")
}

fn run_record(folder: &Folder) -> String {
    folder.write("run.json", fixtures::record("run").to_json_pretty().expect("a record"))
}

#[test]
fn a_result_is_one_screen_and_the_answer_comes_first() {
    let folder = Folder::new();
    let path = folder.write("path.toml", edge(&[]));
    let text = printed(&["run", &path, "--time", "200ms", "--quiet"], &[("COLUMNS", "80")]);
    assert!(text.lines().count() < 40, "{text}");
    let first = text.lines().next().unwrap_or_default();
    assert!(first.starts_with("Bottleneck: ") || first.starts_with("No bottleneck"), "{text}");
    assert!(first.chars().count() <= 100, "{first}");
}

#[test]
fn details_are_asked_for_by_an_option_or_a_variable() {
    let folder = Folder::new();
    let record = run_record(&folder);
    let screen = printed(&["report", &record], &[]);
    assert!(screen.starts_with("Bottleneck: `"), "{screen}");
    let details = printed(&["report", "--details", &record], &[]);
    assert!(details.starts_with("path "), "{details}");
    assert_eq!(printed(&["report", &record], &[("LINERATE_DETAILS", "1")]), details);
    assert_eq!(printed(&["report", &record], &[("LINERATE_DETAILS", "0")]), screen);
}

#[test]
fn colours_follow_the_option_before_the_variables() {
    let folder = Folder::new();
    let record = run_record(&folder);
    let is_colored = |arguments: &[&str], variables: &[(&str, &str)]| {
        printed(&[&["report", &record], arguments].concat(), variables).contains("\x1b[")
    };
    assert!(!is_colored(&[], &[]));
    assert!(is_colored(&["--color", "always"], &[("NO_COLOR", "1"), ("LINERATE_COLOR", "never")]));
    assert!(is_colored(&[], &[("LINERATE_COLOR", "always")]));
    assert!(!is_colored(&["--color", "never"], &[("LINERATE_COLOR", "always")]));
}

#[test]
fn one_option_names_the_form() {
    let folder = Folder::new();
    let record = run_record(&folder);
    let form = |form: &str| printed(&["report", &record, "--format", form], &[]);
    assert_eq!(form("json"), printed(&["report", &record, "--json"], &[]));
    assert_eq!(form("csv"), printed(&["export", &record, "--format", "csv"], &[]));
    assert!(form("markdown").starts_with("```\n"));
    assert_eq!(printed(&["report", &record], &[("LINERATE_FORMAT", "json")]), form("json"));
    assert_eq!(form("text"), printed(&["report", &record], &[]));
}

#[test]
fn a_variable_with_a_value_that_its_option_does_not_take_is_refused() {
    for (name, expected) in [
        (
            "LINERATE_COLOR",
            "linerate: invalid LINERATE_COLOR 'pink': expected one of auto, always, never\n",
        ),
        (
            "LINERATE_FORMAT",
            "linerate: invalid LINERATE_FORMAT 'pink': expected one of text, json\n",
        ),
    ] {
        let output = command(&["stages"]).env(name, "pink").output().expect("the program starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.starts_with(expected), "{stderr}");
    }
}

#[test]
fn without_a_command_three_things_to_try_are_shown() {
    let output = command(&[]).output().expect("the program starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    assert_eq!(
        stderr.lines().filter(|line| line.starts_with("  linerate ")).count(),
        3,
        "{stderr}"
    );
}

#[test]
fn stages_are_one_screen_unless_details_are_requested() {
    let screen = printed(&["stages"], &[("COLUMNS", "80")]);
    assert!(screen.lines().count() <= 40, "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    let details = printed(&["stages", "--details"], &[("COLUMNS", "80")]);
    assert!(details.contains(&printed(&["stages", "nat44"], &[("COLUMNS", "80")])), "{details}");
    assert!(screen.contains("\nnat44 ") && !screen.contains("outside ="), "{screen}");
}
