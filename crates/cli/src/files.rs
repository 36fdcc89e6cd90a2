// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks a command's input and output files, and writes the output files.
//!
//! A command declares its files before doing anything else. An output that is the same file as an
//! input or another output is rejected, even under a different name or through a link. Files are
//! written after the result is printed, and atomically: to a temporary file that then replaces the
//! old one. Neither an interrupt nor a full disk leaves a partial file.
//!
//! Devices, pipes and sockets are written directly and may be named more than once. `-` is stdout,
//! which can take only one result.

use crate::failure::Failure;
use crate::input::{PATIENCE, STEP};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Maximum number of symbolic links to follow, as in path_resolution(7).
const LINKS_MAX: usize = 40;

/// Files of a command.
#[derive(Debug, Default)]
pub(crate) struct Files {
    inputs: Vec<Named>,
    outputs: Vec<Named>,
}

/// A file and its role in the command, such as `--record` or `the packet path`.
#[derive(Debug)]
struct Named {
    role: String,
    file: PathBuf,
}

impl Files {
    /// Declares an input. `-` is stdin, which no output can overwrite.
    pub(crate) fn reads(mut self, role: &str, file: impl AsRef<Path>) -> Self {
        if file.as_ref() != Path::new("-") {
            self.inputs.push(Named::new(role, file.as_ref()));
        }
        self
    }

    /// Declares an optional input.
    pub(crate) fn may_read(self, role: &str, file: Option<impl AsRef<Path>>) -> Self {
        match file {
            Some(file) => self.reads(role, file),
            None => self,
        }
    }

    /// Declares an optional output.
    pub(crate) fn writes(mut self, role: &str, file: Option<impl AsRef<Path>>) -> Self {
        self.outputs.extend(file.map(|file| Named::new(role, file.as_ref())));
        self
    }

    /// Checks that outputs can be written and overwrite neither an input nor each other.
    pub(crate) fn check(self) -> Result<(), Failure> {
        self.check_distinct()?;
        self.outputs.iter().try_for_each(|output| check_writable(&output.file))
    }

    fn check_distinct(&self) -> Result<(), Failure> {
        for (index, output) in self.outputs.iter().enumerate() {
            let Some(identity) = Identity::of(&output.file) else { continue };
            let is_same = |other: &&Named| Identity::of(&other.file).as_ref() == Some(&identity);
            let (file, role) = (output.file.display(), &output.role);
            if let Some(input) = self.inputs.iter().find(is_same) {
                return Err(Failure::new(format!(
                    "{role} {file} would overwrite the input {}: choose another file",
                    input.role
                )));
            }
            if let Some(other) = self.outputs[..index].iter().find(is_same) {
                return Err(Failure::new(format!(
                    "{role} and {} name the same file, {file}: one would overwrite the other",
                    other.role
                )));
            }
        }
        Ok(())
    }
}

impl Named {
    fn new(role: &str, file: &Path) -> Self {
        Self { role: role.to_owned(), file: file.to_owned() }
    }
}

/// Returns whether a file name means stdout.
pub(crate) fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}

/// Identity of a file, regardless of its name.
#[derive(Debug, PartialEq, Eq)]
enum Identity {
    /// Stdout, `-`.
    Stdout,
    /// An existing regular file: device and inode.
    There(u64, u64),
    /// A file yet to be created: device and inode of its directory, and its name.
    ToBeMade(u64, u64, OsString),
}

impl Identity {
    /// Identifies a file; `None` if it is a device, pipe or socket, or is inaccessible.
    fn of(file: &Path) -> Option<Self> {
        if is_stdout(file) {
            return Some(Self::Stdout);
        }
        let target = target(file).ok()?;
        match fs::metadata(&target) {
            Ok(found) if found.is_file() => Some(Self::There(found.dev(), found.ino())),
            Ok(_) => None,
            Err(_) => {
                let folder = fs::metadata(folder(&target)).ok()?;
                Some(Self::ToBeMade(folder.dev(), folder.ino(), target.file_name()?.to_owned()))
            }
        }
    }
}

/// Follows symbolic links to the target file, which need not exist.
fn target(file: &Path) -> io::Result<PathBuf> {
    let mut target = file.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&target) {
            Ok(next) => target = folder(&target).join(next),
            // The file is not a link, or does not exist.
            Err(_) => return Ok(target),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Checks before a measurement that a file can be written. A file created by the check is removed
/// again. Skips pipes, because their readers would see end-of-file.
fn check_writable(file: &Path) -> Result<(), Failure> {
    if is_stdout(file) {
        return Ok(());
    }
    if fs::metadata(file).is_ok_and(|found| found.file_type().is_fifo()) {
        return Ok(());
    }
    let is_new = !file.exists();
    let tried = OpenOptions::new().create(true).append(true).open(file);
    let tried = tried.and_then(|_| if is_new { fs::remove_file(target(file)?) } else { Ok(()) });
    tried.map_err(|error| cannot_write(file, &error))
}

/// Writes `contents` to `file` atomically.
pub(crate) fn write(file: &Path, contents: impl AsRef<[u8]>) -> Result<(), Failure> {
    write_with(file, |to| to.write_all(contents.as_ref()))
        .map_err(|error| cannot_write(file, &error))
}

/// Writes a file atomically, with contents from `fill`. Preserves permissions and symbolic links:
/// if the file is a link, its target is replaced. If the directory rejects new files, an existing
/// writable file is overwritten in place.
pub(crate) fn write_with(
    file: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    if is_stdout(file) {
        return fill(&mut File::from(io::stdout().as_fd().try_clone_to_owned()?));
    }
    let target = target(file)?;
    let found = fs::metadata(&target);
    let mode = match &found {
        Ok(found) if found.file_type().is_fifo() => {
            return fill(&mut open_pipe(&target, PATIENCE)?);
        }
        Ok(found) if !found.is_file() => {
            return fill(&mut OpenOptions::new().write(true).open(file)?);
        }
        Ok(found) => found.mode() & 0o7777,
        // The umask is applied to this mode.
        Err(_) => 0o666,
    };
    let made = tempfile::Builder::new()
        .prefix(".linerate-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder(&target));
    let mut new = match made {
        Ok(new) => new,
        Err(error) if found.is_ok() && is_closed(&error) => {
            return fill(&mut File::create(&target)?);
        }
        Err(error) => return Err(error),
    };
    fill(new.as_file_mut())?;
    if found.is_ok() {
        new.as_file().set_permissions(Permissions::from_mode(mode))?;
    }
    new.as_file().sync_all()?;
    new.persist(&target).map_err(|error| error.error)?;
    Ok(())
}

/// Opens a pipe for writing as soon as it has a reader. Gives up after `patience`.
fn open_pipe(pipe: &Path, patience: Duration) -> io::Result<File> {
    let mut left = patience;
    loop {
        match linerate_linux::open_pipe_to_write_without_waiting(pipe) {
            Err(error) if linerate_linux::is_without_reader(&error) => {}
            opened => return opened,
        }
        left = left.checked_sub(STEP).ok_or_else(|| {
            let seconds = patience.as_secs_f64();
            io::Error::other(format!("no program opened this pipe for reading within {seconds} s"))
        })?;
        thread::sleep(STEP);
    }
}

/// Returns whether an error means that the directory rejects new files.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

fn cannot_write(file: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", file.display()))
}

/// Creates a directory for later output.
pub(crate) fn create_folder(role: &str, folder: &Path) -> Result<(), Failure> {
    if fs::metadata(folder).is_ok_and(|found| !found.is_dir()) {
        let folder = folder.display();
        return Err(Failure::new(format!("{role} takes a directory, but {folder} is not one")));
    }
    fs::create_dir_all(folder).map_err(|error| {
        Failure::new(format!("cannot create the directory {}: {error}", folder.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn check(inputs: &[&Path], outputs: &[&Path]) -> Result<(), String> {
        let named = |files: &[&Path]| files.iter().map(|file| Named::new("--x", file)).collect();
        let files = Files { inputs: named(inputs), outputs: named(outputs) };
        files.check().map_err(|failure| failure.to_string())
    }

    #[test]
    fn refuses_outputs_that_are_inputs_by_any_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let (file, link, hard, other) = (at("in"), at("link"), at("hard"), at("other"));
        fs::write(&file, "precious").expect("it can be written");
        symlink("in", &link).expect("a link");
        fs::hard_link(&file, &hard).expect("a hard link");
        for same in [&file, &link, &hard, &folder.path().join("./in")] {
            let refused = check(&[&file], &[same]).expect_err("it is read");
            assert!(refused.contains("would overwrite"), "{refused}");
            assert!(check(&[same], &[&file]).is_err());
        }
        assert_eq!(check(&[&file], &[&other]), Ok(()));
        assert!(!other.exists(), "a check leaves no trace");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "precious");
    }

    #[test]
    fn refuses_two_outputs_that_are_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let (new, dangling) = (at("new"), at("dangling"));
        symlink("new", &dangling).expect("a link");
        assert!(check(&[], &[&new, &new]).is_err());
        assert!(check(&[], &[&dangling, &new]).is_err());
        assert_eq!(check(&[], &[&new, &at("newer")]), Ok(()));
        assert!(fs::symlink_metadata(&dangling).is_ok(), "the link stays");
    }

    #[test]
    fn standard_output_takes_one_result() {
        let dash = Path::new("-");
        assert_eq!(check(&[], &[dash]), Ok(()));
        assert!(check(&[], &[dash, dash]).expect_err("two results").contains("the same file"));
        assert!(!dash.exists());
    }

    #[test]
    fn a_device_may_be_named_twice() {
        let null = Path::new("/dev/null");
        assert_eq!(check(&[null], &[null, null]), Ok(()));
    }

    #[test]
    fn a_link_that_leads_to_itself_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("loop");
        symlink("loop", &link).expect("a link");
        assert!(check(&[], &[&link]).is_err());
        assert!(write(&link, "x").is_err());
    }

    #[test]
    fn a_file_is_replaced_whole_behind_its_link_and_with_its_permissions() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let (file, link) = (at("file"), at("link"));
        fs::write(&file, "old").expect("it can be written");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("permissions");
        symlink("file", &link).expect("a link");
        write(&link, "new").expect("it can be written");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "new");
        assert!(fs::symlink_metadata(&link).is_ok_and(|link| link.is_symlink()));
        assert_eq!(fs::metadata(&file).expect("it is there").mode() & 0o7777, 0o640);
        assert_eq!(
            fs::read_dir(folder.path()).expect("a folder").count(),
            2,
            "nothing is left over"
        );
    }

    #[test]
    fn a_file_that_cannot_be_filled_stays_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "old").expect("it can be written");
        let half = |to: &mut File| {
            to.write_all(b"half")?;
            Err(io::Error::from(ErrorKind::StorageFull))
        };
        assert!(write_with(&file, half).is_err());
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "old");
        assert_eq!(
            fs::read_dir(folder.path()).expect("a folder").count(),
            1,
            "nothing is left over"
        );
    }
}
