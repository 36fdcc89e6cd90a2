// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a path file can be rewritten with a different mapping.

use crate::generate::{cases, file, mapping, specs};
use crate::kinds::{KINDS, STEM};
use linerate_path::check::read;
use linerate_path::model::{IdlePolicy, IdleRules, Mapping, Path, RunOptions, Source};
use linerate_path::write::with_mapping;
use proptest::prelude::*;

/// Returns the comments in the text, in order, except those within a list of workers.
fn comments(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.find("# c-").map(|at| &line[at..])).collect()
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn changes_the_mapping_the_burst_and_the_kernels_and_nothing_else(
        (file, mapping) in file().prop_flat_map(|file| {
            let stages = specs(file.kinds.iter().copied());
            (Just(file), mapping(stages))
        }),
        burst in 1_u32..=256,
        kernels in prop::sample::select(&["selected", "avx2", "portable"][..]),
    ) {
        let mut path = read(&file.text, STEM, KINDS).expect("the file is valid").path;
        path.kernels = kernels.to_owned();
        let written = with_mapping(&file.text, &path, &mapping, burst).expect("it is TOML");
        let again = read(&written, STEM, KINDS).map_err(|problems| {
            TestCaseError::fail(format!("{}{written}", problems.display("written")))
        })?;
        let run = RunOptions { burst, ..path.run };
        prop_assert_eq!(&again.path, &Path { mapping: mapping.clone(), run, ..path });
        prop_assert_eq!(comments(&written), comments(&file.text));
        prop_assert_eq!(written.contains("\r\n"), file.text.contains("\r\n"));
        let twice = with_mapping(&written, &again.path, &mapping, burst).expect("it is TOML");
        prop_assert_eq!(twice, written);
    }
}

#[test]
fn writes_as_a_person_would() {
    let text = "\
# Edge router.
[source]
kind = \"capture\" # recorded in spring
file = \"edge.pcapng\"
[[stage]]
kind = \"parse\"
[[stage]]
kind = \"verify\"
[run]
burst = 16  # small
";
    let path = read(text, STEM, KINDS).expect("the file is valid").path;
    let mut mapping = path.mapping.clone();
    mapping.segments[0].replicas = 2;
    mapping.segments[0].cpus = vec![2, 3];
    let written = with_mapping(text, &path, &mapping, 64).expect("it is TOML");
    let expected = text.replace("burst = 16  #", "burst = 64  #")
        + "\n[mapping]\nworkers = [\n  \
           { stages = [\"parse\", \"verify\"], replicas = 2, cpus = [2, 3] },\n]\n";
    assert_eq!(written, expected);
}

#[test]
fn workers_that_keep_their_stages_keep_their_idle_policy() {
    let text = "source = { kind = 'generator' }\n[[stage]]\nkind = 'parse'\n\
                [[stage]]\nkind = 'verify'\n[mapping]\nworkers = [{ stages = ['parse'] }, \
                { stages = ['verify'], idle = 'park' }]\n";
    let path = read(text, STEM, KINDS).expect("the file is valid").path;
    assert_eq!(path.idle.workers, [None, Some(IdlePolicy::Park)]);
    let mut doubled = path.mapping.clone();
    doubled.segments[1].replicas = 2;
    let written = with_mapping(text, &path, &doubled, 32).expect("it is TOML");
    assert_eq!(read(&written, STEM, KINDS).expect("it is valid").path.idle, path.idle);
    let merged = with_mapping(text, &path, &Mapping::merged(2), 32).expect("it is TOML");
    assert_eq!(read(&merged, STEM, KINDS).expect("it is valid").path.idle, IdleRules::default());
}

#[test]
fn an_idle_policy_is_written_where_it_differs_from_the_file() {
    let text = "source = { kind = 'generator' }\n[[stage]]\nkind = 'parse'\n\
                [[stage]]\nkind = 'verify'\n[mapping]\nworkers = [{ stages = ['parse'] }, \
                { stages = ['verify'] }]\n";
    let mut path = read(text, STEM, KINDS).expect("the file is valid").path;
    let same = with_mapping(text, &path, &path.mapping, 32).expect("it is TOML");
    assert!(!same.contains("idle"), "{same}");
    path.idle.policy = IdlePolicy::Park;
    path.idle.workers = vec![Some(IdlePolicy::Pause), None];
    let written = with_mapping(text, &path, &path.mapping, 32).expect("it is TOML");
    assert_eq!(read(&written, STEM, KINDS).expect("it is valid").path.idle, path.idle);
    assert!(written.ends_with("\n[idle]\npolicy = \"park\"\n"), "{written}");
    // Other keys of the section, and its comments, stay.
    let text =
        written.replace("policy = \"park\"", "policy = \"auto\" # why\npark_after = \"9us\"");
    let auto = read(&text, STEM, KINDS).expect("it is valid").path;
    let parked = Path { idle: IdleRules { policy: IdlePolicy::Park, ..auto.idle.clone() }, ..auto };
    let again = with_mapping(&text, &parked, &parked.mapping, 32).expect("it is TOML");
    assert!(again.contains("policy = \"park\" # why\npark_after = \"9us\""), "{again}");
}

#[test]
fn kernels_are_named_where_the_path_names_them() {
    let text = "# Edge.\nname = 'edge' # c-name\n[source]\nkind = 'generator'\n\
                [[stage]]\nkind = 'parse'\n";
    let mut path = read(text, STEM, KINDS).expect("the file is valid").path;
    assert_eq!(path.kernels, "selected");
    let selected = with_mapping(text, &path, &path.mapping, 32).expect("it is TOML");
    assert!(!selected.contains("kernels"), "{selected}");
    path.kernels = "avx2".to_owned();
    let forced = with_mapping(text, &path, &path.mapping, 32).expect("it is TOML");
    assert!(
        forced.starts_with("# Edge.\nname = 'edge' # c-name\nkernels = \"avx2\"\n"),
        "{forced}"
    );
    path.kernels = "selected".to_owned();
    let back = with_mapping(&forced, &path, &path.mapping, 32).expect("it is TOML");
    assert_eq!(back, forced.replace("avx2", "selected"));
}

#[test]
fn names_the_capture_as_the_path_does() {
    let text = "stage = [{ kind = \"parse\" }]\n\
                source = { kind = 'capture', file = 'edge.pcapng' } # next to this file\n";
    let mut path = read(text, STEM, KINDS).expect("the file is valid").path;
    let Source::Capture { file, .. } = &mut path.source else { panic!("it is a capture") };
    *file = "captures/edge.pcapng".to_owned();
    let written = with_mapping(text, &path, &path.mapping, 32).expect("it is TOML");
    assert_eq!(read(&written, STEM, KINDS).expect("it is valid").path, path);
    assert!(
        written.contains("file = \"captures/edge.pcapng\" } # next to this file\n"),
        "{written}"
    );
}

#[test]
fn rejects_text_that_is_not_a_path() {
    let text = "[source]\nkind = 'generator'\n[[stage]]\nkind = 'parse'\n";
    let path = read(text, STEM, KINDS).expect("the file is valid").path;
    for (other, place) in [("x = ", "1:5"), ("mapping = 3\n", "1:1"), ("run = []\n", "1:1")] {
        let refused = with_mapping(other, &path, &path.mapping, 32).expect_err(other);
        let problem = refused.iter().next().expect("there is a reason");
        assert_eq!(format!("{}:{}", problem.line, problem.column), place, "{other}");
    }
}

#[test]
fn a_burst_is_written_if_it_changes_and_the_last_line_ends() {
    let text = "source = { kind = 'generator' }\n[[stage]]\nkind = 'parse'\n[mapping]\n\
                workers = [{ stages = ['parse'] }]";
    let path = read(text, STEM, KINDS).expect("the file is valid").path;
    let same = with_mapping(text, &path, &path.mapping, path.run.burst).expect("it is TOML");
    assert!(!same.contains("burst") && same.ends_with("]\n"), "{same:?}");
    let other = with_mapping(text, &path, &path.mapping, 64).expect("it is TOML");
    assert!(other.ends_with("\n[run]\nburst = 64\n"), "{other:?}");
}
