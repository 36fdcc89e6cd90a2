// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds, in the configuration files of a program, where it exports its counters. Because the
//! program chooses the paths of these files, only regular files are read, up to a maximum size.

use crate::adapters::listening::seen_by;
use crate::target::stat_of;
use linerate_linux::open_regular_file;
use linerate_machine::Root;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum number of configuration files to read.
const FILES_MAX: usize = 64;
/// Maximum size of a configuration file.
const FILE_MAX: u64 = 1 << 20;

/// Searches a configuration file and its includes for a directive, and returns the path of the
/// `location` block that contains it.
pub(super) fn location(
    root: &Root,
    pid: u32,
    configuration: &str,
    directive: &str,
) -> Option<String> {
    let given = with_parent(root, pid).find_map(|pid| given_files(root, pid, "-c").pop());
    let main = given.as_deref().unwrap_or(configuration);
    let below = |path: &str| seen_by(pid, path).display().to_string();
    let text = short(root, &below(main))?;
    let folder = Path::new(main).parent().unwrap_or(Path::new("/"));
    let included = text.lines().filter_map(|line| line.trim().strip_prefix("include "));
    let files = included.flat_map(|pattern| {
        let pattern = folder.join(pattern.trim().trim_end_matches(';'));
        matching(root, &below(&pattern.display().to_string()))
    });
    let texts = files.take(FILES_MAX).filter_map(|file| short(root, &file));
    std::iter::once(text.clone()).chain(texts).find_map(|text| location_in(&text, directive))
}

/// Returns the paths that follow a directive in the configuration files on a process's command
/// line, each after `option`. For a directory, its `*.cfg` files are read. `None` if none of the
/// files can be read.
pub(super) fn named_paths(
    root: &Root,
    pid: u32,
    option: &str,
    directive: &str,
) -> Option<Vec<String>> {
    let texts: Vec<String> = with_parent(root, pid)
        .map(|pid| texts_of(root, pid, option))
        .find(|texts| !texts.is_empty())?;
    Some(texts.iter().flat_map(|text| paths_in(text, directive)).collect())
}

/// Returns a process, and its parent if both run the same program. A worker may have overwritten
/// its command line with a process title, and changed its root directory.
fn with_parent(root: &Root, pid: u32) -> impl Iterator<Item = u32> {
    let stat = stat_of(root, pid);
    let is_same = |parent: &u32| {
        stat_of(root, *parent).map(|of| of.name) == stat.as_ref().map(|stat| stat.name.clone())
    };
    let parent = stat.as_ref().map(|stat| stat.parent).filter(is_same);
    std::iter::once(pid).chain(parent)
}

/// Returns the configuration files on a process's command line, each after `option`.
fn given_files(root: &Root, pid: u32, option: &str) -> Vec<String> {
    let line = root.text(&format!("proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<&str> = line.split(['\0', ' ']).collect();
    let given = words.windows(2).filter(|pair| pair[0] == option);
    given.map(|pair| pair[1].to_owned()).collect()
}

fn texts_of(root: &Root, pid: u32, option: &str) -> Vec<String> {
    let below = |path: &String| match path.starts_with('/') {
        true => seen_by(pid, path),
        false => PathBuf::from(format!("proc/{pid}/cwd")).join(path),
    };
    let given = given_files(root, pid, option);
    let files = given.iter().map(|path| below(path).display().to_string()).flat_map(|path| {
        let within = matching(root, &format!("{path}/*.cfg"));
        if within.is_empty() { vec![path] } else { within }
    });
    files.take(FILES_MAX).filter_map(|file| short(root, &file)).collect()
}

/// Returns the text of a regular file of at most [`FILE_MAX`] bytes; `None` for any other file.
fn short(root: &Root, file: &str) -> Option<String> {
    let file = open_regular_file(root.path(file)).ok()?;
    let mut text = String::new();
    file.take(FILE_MAX + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= FILE_MAX).then_some(text)
}

/// Returns the files that match a pattern. The pattern is either a path or a directory followed by
/// a name with one `*`.
fn matching(root: &Root, pattern: &str) -> Vec<String> {
    let Some((folder, name)) = pattern.rsplit_once('/') else { return Vec::new() };
    let Some((start, end)) = name.split_once('*') else { return vec![pattern.to_owned()] };
    let is_meant = |name: &String| {
        name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
    };
    root.names(folder).into_iter().filter(is_meant).map(|n| format!("{folder}/{n}")).collect()
}

/// Returns the paths of Unix domain sockets that follow a directive of one or more words.
fn paths_in(text: &str, directive: &str) -> Vec<String> {
    let path = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let is_meant = directive.split(' ').all(|word| words.next() == Some(word));
        let path = words.next().filter(|_| is_meant)?.trim_matches(['"', '\'']);
        Some(path.strip_prefix("unix@").unwrap_or(path).to_owned())
    };
    text.lines().filter_map(path).filter(|path| path.starts_with('/')).collect()
}

/// Returns the path of the last `location` before a directive.
pub(super) fn location_in(text: &str, directive: &str) -> Option<String> {
    let mut path = None;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(rest) = line.strip_prefix("location ") {
            let word = rest.split_ascii_whitespace().find(|word| word.starts_with('/'));
            path = word.map(|word| word.trim_end_matches('{').to_owned());
        }
        if line.split([' ', ';', '{']).any(|word| word == directive) {
            return path;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::put;

    /// Writes a file as process 7 sees it.
    fn put_inside(root: &Root, path: &str, text: &str) {
        put(root, &seen_by(7, path).display().to_string(), text);
    }

    /// Returns a root with process 7, whose command line names these files after `-f`.
    fn process(folder: &tempfile::TempDir, files: &[&str]) -> Root {
        let root = Root::new(folder.path());
        let options: String = files.iter().map(|file| format!("-f\0{file}\0")).collect();
        put(&root, "proc/7/cmdline", &format!("haproxy\0-db\0{options}"));
        root
    }

    #[test]
    fn only_the_sockets_that_the_configuration_names_are_for_statistics() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = process(&folder, &["/etc/a.cfg", "/etc/more"]);
        let named = || named_paths(&root, 7, "-f", "stats socket");
        assert_eq!(named(), None);
        let text = "global\n stats socket \"/run/a\" level admin\n # stats socket /run/b\n stats \
                    socket ipv4@127.0.0.1:9\nfrontend f\n bind /run/c\n";
        put_inside(&root, "/etc/a.cfg", text);
        put_inside(&root, "/etc/more/1.cfg", "global\n  stats  socket unix@/run/d\n");
        put_inside(&root, "/etc/more/2.txt", "stats socket /run/e\n");
        assert_eq!(named(), Some(vec!["/run/a".to_owned(), "/run/d".to_owned()]));
    }

    #[test]
    fn a_configuration_that_is_a_pipe_or_endless_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = process(&folder, &["/pipe", "/zero", "/long"]);
        let inside = |path: &str| root.path(&seen_by(7, path).display().to_string());
        put_inside(&root, "/long", &"stats socket /run/a\n".repeat(1 << 16));
        std::os::unix::fs::symlink("/dev/zero", inside("/zero")).expect("a link");
        let pipe = inside("/pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|status| status.success()));
        assert_eq!(named_paths(&root, 7, "-f", "stats socket"), None);
    }
}
