// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate new-stage`: writes a template for a stage outside this repository.

use crate::failure::Failure;
use crate::help_text::{examples, paragraphs};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::{fs, io};

const AFTER: &str = "\
Creates the directory NAME with a working stage, its test, a path that uses the stage, and a README
with the commands. In Rust, this is a crate that builds linerate with your stages; in C, it is a
shared object that the path loads.
Examples:

  linerate new-stage ttl
  linerate new-stage --lang c ttl && make -C ttl && linerate run ttl/ttl.toml";

#[derive(Debug, Args)]
#[command(after_help = examples(AFTER), after_long_help = paragraphs(AFTER))]
pub(crate) struct NewStageArgs {
    /// Name of the stage: lower-case letters, digits, - and _
    name: String,
    /// Language of the stage: rust or c
    #[arg(long, value_enum, default_value_t = Language::Rust, hide_possible_values = true)]
    lang: Language,
    /// Source of the linerate dependency: a checkout, or the URL of a repository
    ///
    /// Default: the checkout that contains this program, or the current directory.
    #[arg(long, value_name = "DIR|URL")]
    linerate: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Language {
    Rust,
    C,
}

/// A file of the template: its path relative to the new directory, and its content.
type Entry = (String, String);

/// Writes the template. Returns a list of the files, and the next commands.
pub(crate) fn new_stage(args: &NewStageArgs) -> Result<String, Failure> {
    check_name(&args.name)?;
    let folder = Path::new(&args.name);
    let (entries, note) = match args.lang {
        Language::Rust => {
            let Found { keys, lock, note } = origin(args.linerate.as_deref())?;
            let mut entries = rust(&args.name, &keys);
            entries.extend(lock.map(|text| ("Cargo.lock".to_owned(), text)));
            (entries, note)
        }
        Language::C => match args.linerate {
            Some(_) => {
                let message = "--linerate has no effect with --lang c: a C stage needs no crate";
                return Err(Failure::new(message));
            }
            None => (c(&args.name), ""),
        },
    };
    let cannot =
        |path: &Path, error| Failure::new(format!("cannot write {}: {error}", path.display()));
    fs::create_dir(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::new(format!(
            "{} exists already; choose another name, or remove it first",
            folder.display()
        )),
        _ => cannot(folder, error),
    })?;
    for (name, content) in &entries {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| cannot(parent, error))?;
        }
        fs::write(&path, content).map_err(|error| cannot(&path, error))?;
    }
    let list: String = entries.iter().map(|(name, _)| format!("{}/{name}\n", args.name)).collect();
    let next = match args.lang {
        Language::Rust => "cargo test --lib && cargo build --release",
        Language::C => "make && make check",
    };
    Ok(format!("{list}\n{note}cd {} && {next}    # see README.md for the rest\n", args.name))
}

/// Names that a stage's crate cannot have: those of Rust's own crates, of linerate, and of the
/// directories in cargo's output.
const RESERVED: [&str; 9] =
    ["test", "core", "std", "alloc", "linerate", "build", "deps", "examples", "incremental"];

/// Keywords of all editions of Rust, including those reserved for future use. Code cannot refer to
/// a crate whose name is a keyword.
const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

fn check_name(name: &str) -> Result<(), Failure> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    let is_valid = name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_part);
    if !is_valid || RESERVED.contains(&name) || KEYWORDS.contains(&name) {
        return Err(Failure::new(format!(
            "invalid name '{name}': use lower-case letters, digits, - and _, starting with a \
             letter; `linerate`, Rust's keywords, and the names of Rust's own crates and of \
             cargo's directories are reserved"
        )));
    }
    Ok(())
}

/// Keys of the crate's dependencies, `cli` and `stage-api`.
type Keys = [String; 2];

/// Source of the new crate's linerate dependencies.
struct Found {
    keys: Keys,
    /// Lock file of a checkout; with it, the crate uses the same dependency versions as linerate.
    lock: Option<String>,
    /// Manual step that the user must take first; empty if there is none.
    note: &'static str,
}

impl Found {
    fn repository(url: &str, note: &'static str) -> Self {
        Self { keys: [(); 2].map(|()| format!("git = {url:?}")), lock: None, note }
    }

    fn checkout(folder: &Path) -> Self {
        let lock = fs::read_to_string(folder.join("Cargo.lock")).ok();
        Self { keys: paths(folder), lock, note: "" }
    }
}

/// Placeholder for the URL of linerate's repository.
const REPOSITORY: &str = "REPOSITORY";

/// Determines the source of the new crate's linerate dependencies.
fn origin(given: Option<&str>) -> Result<Found, Failure> {
    match given {
        Some(url) if url.contains("://") || url.contains('@') => Ok(Found::repository(url, "")),
        Some(folder) => {
            let folder = std::path::absolute(folder).ok().filter(|folder| is_checkout(folder));
            let folder = folder.ok_or_else(|| {
                Failure::new(format!(
                    "--linerate {}: neither a linerate checkout nor a URL",
                    given.unwrap_or_default()
                ))
            })?;
            Ok(Found::checkout(&folder))
        }
        None => {
            let starts = [std::env::current_exe(), std::env::current_dir()];
            let starts: Vec<PathBuf> = starts.into_iter().flatten().collect();
            let found =
                starts.iter().flat_map(|start| start.ancestors()).find(|at| is_checkout(at));
            Ok(match found {
                Some(folder) => Found::checkout(folder),
                None => Found::repository(
                    REPOSITORY,
                    "First replace REPOSITORY in Cargo.toml, or use --linerate DIR with the path \
                     of a checkout. Then:\n",
                ),
            })
        }
    }
}

fn is_checkout(folder: &Path) -> bool {
    folder.join("crates/stage-api/Cargo.toml").is_file()
        && folder.join("crates/cli/Cargo.toml").is_file()
}

fn paths(folder: &Path) -> Keys {
    ["crates/cli", "crates/stage-api"]
        .map(|name| format!("path = {:?}", folder.join(name).display().to_string()))
}

fn rust(name: &str, [linerate, stage_api]: &Keys) -> Vec<Entry> {
    let manifest = include_str!("../templates/rust/Cargo.toml.in");
    let manifest = manifest
        .replace("@NAME@", name)
        .replace("@LINERATE@", linerate)
        .replace("@STAGE_API@", stage_api);
    let library = include_str!("../templates/rust/src/lib.rs");
    let library = library
        .replace("//! `ttl`:", &format!("//! `{name}`:"))
        .replace("\"ttl\"", &quoted(name))
        .replace("TtlStage", &type_name(name));
    let main = include_str!("../templates/rust/src/main.rs.in");
    let main = without_licence(&main.replace("CRATE", &name.replace('-', "_")));
    let readme = include_str!("../templates/rust/README.md.in").replace("@NAME@", name);
    let readme = aligned(&readme);
    vec![
        ("Cargo.toml".to_owned(), without_licence(&manifest)),
        ("src/lib.rs".to_owned(), without_licence(&library)),
        ("src/main.rs".to_owned(), main),
        (format!("{name}.toml"), path(&format!("kind = {}", quoted(name)))),
        ("README.md".to_owned(), without_licence(&readme)),
        (".gitignore".to_owned(), "/target\n".to_owned()),
    ]
}

fn c(name: &str) -> Vec<Entry> {
    let file = name.replace('-', "_");
    let filled =
        |text: &str| without_licence(&text.replace("@NAME@", name).replace("@FILE@", &file));
    let stage = format!("kind = \"plugin\"\nfile = \"./lib{file}.so\"");
    vec![
        (format!("{file}.c"), filled(include_str!("../templates/c/stage.c.in"))),
        ("test.c".to_owned(), filled(include_str!("../templates/c/test.c.in"))),
        ("Makefile".to_owned(), filled(include_str!("../templates/c/Makefile.in"))),
        (format!("{name}.toml"), path(&stage)),
        ("README.md".to_owned(), aligned(&filled(include_str!("../templates/c/README.md.in")))),
        ("include/linerate/stage.h".to_owned(), linerate_plugin::HEADER.to_owned()),
        (".gitignore".to_owned(), format!("/lib{file}.so\n/test\n")),
    ]
}

/// Returns the name of the stage's type in Rust: `MyStage` for `my-stage`, `QosStage` for `qos`.
/// The ending keeps it apart from the types that the template uses.
fn type_name(name: &str) -> String {
    let mut words = String::new();
    for part in name.split(['-', '_']) {
        let mut letters = part.chars();
        words.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        words.push_str(letters.as_str());
    }
    let is_complete = words.ends_with("Stage") && words != "Stage";
    if is_complete { words } else { words + "Stage" }
}

fn quoted(name: &str) -> String {
    format!("{name:?}")
}

fn path(stage: &str) -> String {
    without_licence(&include_str!("../templates/path.toml.in").replace("@STAGE@", stage))
}

/// Aligns the comments after commands: the name of the stage changes the length of the commands.
fn aligned(text: &str) -> String {
    let parts = |line: &'_ str| {
        let (command, comment) = line.split_once("  # ")?;
        Some((command.trim_end().to_owned(), comment.to_owned()))
    };
    let longest = text.lines().filter_map(parts).map(|(command, _)| command.len()).max();
    let width = longest.unwrap_or_default();
    let line = |line: &str| match parts(line) {
        Some((command, comment)) => format!("{command:width$}  # {comment}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Removes the licence line, because the stage that a user develops from a template is the user's
/// own work.
fn without_licence(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.contains("SPDX-License-Identifier"));
    lines.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_crates_and_stages() {
        for good in ["ttl", "my-stage", "x_2"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in
            ["", "-x", "2x", "Ttl", "a b", "a/b", "../x", "std", "match", "async", "gen", "build"]
        {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn comments_after_commands_are_aligned() {
        let origin = ["path = \"/a\"".to_owned(), "path = \"/b\"".to_owned()];
        for name in ["x", "ttl", "a-stage-with-a-long-name"] {
            for entries in [rust(name, &origin), c(name)] {
                let readme = &entries.iter().find(|(file, _)| file == "README.md").unwrap().1;
                let at: Vec<usize> = readme.lines().filter_map(|line| line.find("  # ")).collect();
                assert!(at.len() == 5 && at.iter().all(|column| *column == at[0]), "{readme}");
            }
        }
    }

    /// Names of the template's own example are left only where they are the example.
    #[test]
    fn the_code_is_named_after_the_stage() {
        for (name, type_of_it) in [
            ("qos", "QosStage"),
            ("my-stage", "MyStage"),
            ("stage", "StageStage"),
            ("burst_2", "Burst2Stage"),
        ] {
            assert_eq!(type_name(name), type_of_it);
        }
        let origin = ["path = \"/a\"".to_owned(), "path = \"/b\"".to_owned()];
        for (name, content) in [rust("my-qos", &origin), c("my-qos")].concat() {
            assert!(!content.contains("struct ttl") && !content.contains("Ttl"), "{name}");
            let expected = match name.as_str() {
                "src/lib.rs" => "impl Stage for MyQosStage {",
                "my_qos.c" => "struct my_qos_state {",
                "test.c" => "TODO: replace the frames",
                "README.md" => "Replace the TODOs",
                _ => "",
            };
            assert!(content.contains(expected), "{name}: {content}");
        }
    }

    #[test]
    fn no_placeholder_is_left() {
        let origin = ["path = \"/a\"".to_owned(), "path = \"/b\"".to_owned()];
        for (name, content) in [rust("my-stage", &origin), c("my-stage")].concat() {
            assert!(!content.contains('@') || name.ends_with("Makefile"), "{name}: {content}");
            assert!(
                !content.contains("CRATE") && !content.contains("SPDX-") | name.ends_with(".h")
            );
        }
    }
}
