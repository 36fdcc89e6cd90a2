// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate example`: writes the example path and its capture, for users without the sources.

use crate::failure::Failure;
use crate::files;
use clap::Args;
use linerate_record::shell::quoted;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const AFTER: &str = "\
Examples:
  linerate example && linerate tune edge.toml
  linerate example try && linerate run try/edge.toml";

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct ExampleArgs {
    /// Output directory; created if missing
    #[arg(value_name = "DIR", default_value = ".", hide_default_value = true)]
    dir: PathBuf,
}

/// Path of the example path file in the source tree, which the file's comments mention.
const IN_SOURCES: &str = "examples/edge.toml";

/// Writes the example path and its capture. Returns a list of the files, and the next command.
///
/// # Errors
/// Returns an error if a file cannot be written, or if it exists with different contents.
pub(crate) fn example(args: &ExampleArgs) -> Result<String, Failure> {
    let path = args.dir.join("edge.toml");
    let command = quoted(shown(&path));
    let text = include_str!("../../../examples/edge.toml").replace(IN_SOURCES, &command);
    let capture = include_bytes!("../../../examples/edge.pcapng");
    let entries = [(path, text.as_bytes()), (args.dir.join("edge.pcapng"), &capture[..])];
    files::create_folder("linerate example", &args.dir)?;
    let mut missing = Vec::new();
    for (file, contents) in &entries {
        match fs::read(file) {
            Ok(found) if found == *contents => {}
            Ok(_) => return Err(differs(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => missing.push((file, contents)),
            Err(error) => return Err(Failure::new(format!("{}: {error}", shown(file)))),
        }
    }
    for (file, contents) in missing {
        files::write(file, contents)?;
    }
    let list: String = entries.iter().map(|(file, _)| format!("{}\n", shown(file))).collect();
    Ok(format!("{list}\nlinerate tune {command}    # find and remove its bottleneck\n"))
}

fn differs(file: &Path) -> Failure {
    let file = shown(file);
    Failure::new(format!(
        "{file} exists and differs from the example: name another directory, e.g. \
         `linerate example try`"
    ))
}

/// Returns a file's name, without the current directory.
fn shown(file: &Path) -> String {
    file.strip_prefix(".").unwrap_or(file).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_path_and_its_capture_and_replaces_nothing_of_the_user() {
        let folder = tempfile::tempdir().expect("a folder");
        let args = ExampleArgs { dir: folder.path().join("try") };
        let first = example(&args).expect("it can be written");
        let path = args.dir.join("edge.toml");
        assert!(first.contains(&format!("linerate tune {}", path.display())), "{first}");
        assert!(
            fs::metadata(args.dir.join("edge.pcapng")).is_ok_and(|found| found.len() > 1 << 20)
        );
        let text = fs::read_to_string(&path).expect("it is there");
        assert!(!text.contains(IN_SOURCES), "{text}");
        assert_eq!(example(&args).expect("it is the same"), first);
        fs::write(&path, "mine").expect("it can be written");
        let refused = example(&args).expect_err("it is the user's").to_string();
        assert!(refused.contains("differs"), "{refused}");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "mine");
        // A file that cannot be read is not treated as missing.
        fs::remove_file(&path).expect("it is there");
        fs::create_dir(&path).expect("it can be created");
        let refused = example(&args).expect_err("it is a folder").to_string();
        assert!(refused.contains("edge.toml: "), "{refused}");
        assert!(path.is_dir());
    }
}
