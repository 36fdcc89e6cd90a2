// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks a command's input and output files, and writes the output files.
//!
//! A command declares its files before doing anything else. An output that is the same file as an
//! input or another output is rejected, even under a different name or through a link. Files are
//! written after the result is printed, and atomically: to a temporary file that then replaces the
//! old one. Neither an interrupt nor a full disk leaves a partial file, except where the old file
//! cannot be replaced: it is then overwritten.
//!
//! Devices, pipes and sockets are written directly and may be named more than once. A name of an
//! open file, such as /dev/stderr or /dev/fd/3, never replaces that file: it holds what others
//! wrote, so the result is appended. `-` is stdout, which can take only one result.

use crate::failure::Failure;
use crate::input::{PATIENCE, STEP};
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tempfile::NamedTempFile;

/// Maximum number of symbolic links to follow, as in path_resolution(7).
const LINKS_MAX: usize = 40;

/// Files of a command.
#[derive(Debug, Default)]
pub(crate) struct Files {
    inputs: Vec<Named>,
    /// Roles of the inputs that are stdin.
    of_stdin: Vec<String>,
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
        match file.as_ref() == Path::new("-") {
            true => self.of_stdin.push(role.to_owned()),
            false => self.inputs.push(Named::new(role, file.as_ref())),
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

    /// Checks that outputs can be written and overwrite neither an input nor each other, and that
    /// stdin, which can be read only once, is used for at most one input.
    pub(crate) fn check(self) -> Result<(), Failure> {
        if let [first, second, ..] = self.of_stdin.as_slice() {
            return Err(Failure::new(format!(
                "{first} and {second} are both `-`, but stdin can be read only once: name a file \
                 for one of them"
            )));
        }
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
        match fs::metadata(file) {
            Ok(found) if found.is_file() => Some(Self::There(found.dev(), found.ino())),
            Ok(_) => None,
            Err(_) => {
                let Target::Named(target) = target(file).ok()? else { return None };
                let folder = fs::metadata(folder(&target)).ok()?;
                Some(Self::ToBeMade(folder.dev(), folder.ino(), target.file_name()?.to_owned()))
            }
        }
    }
}

/// What a name leads to.
#[derive(Debug)]
enum Target {
    /// A file in a directory; it need not exist.
    Named(PathBuf),
    /// A file that a process has open: a link in procfs, such as /proc/4711/fd/3. Reading the link
    /// gives a name that the file may no longer have, or never had.
    Open(PathBuf),
}

/// Follows symbolic links to the target.
fn target(file: &Path) -> io::Result<Target> {
    let mut target = file.to_owned();
    for _ in 0..LINKS_MAX {
        // The name is not a link, or does not exist.
        let Ok(next) = fs::read_link(&target) else { return Ok(Target::Named(target)) };
        let real = fs::canonicalize(folder(&target)).ok();
        let real = real.filter(|real| real.starts_with("/proc"));
        if let Some((real, name)) = real.zip(target.file_name()) {
            return Ok(Target::Open(real.join(name)));
        }
        target = folder(&target).join(next);
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// Opens the file behind a link in procfs for appending. Standard output and error are shared with
/// their other writers rather than opened again, so that neither overwrites the other's text.
fn open_again(link: &Path) -> io::Result<File> {
    let own = PathBuf::from(format!("/proc/{}/fd", std::process::id()));
    match link.strip_prefix(own).ok().and_then(Path::to_str) {
        Some("1") => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        Some("2") => Ok(File::from(io::stderr().as_fd().try_clone_to_owned()?)),
        _ if fs::metadata(link)?.file_type().is_fifo() => open_pipe(link, PATIENCE),
        _ => OpenOptions::new().append(true).open(link),
    }
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
    let tried = match target(file) {
        Ok(Target::Open(link)) => open_again(&link).map(drop),
        Ok(Target::Named(target)) => {
            // In a sticky directory, the kernel may refuse to "create" another user's file
            // (fs.protected_regular).
            let opened = OpenOptions::new().create(is_new).append(true).open(file);
            opened.and_then(|_| if is_new { fs::remove_file(target) } else { Ok(()) })
        }
        Err(error) => Err(error),
    };
    tried.map_err(|error| cannot_write(file, &error))
}

/// Writes `contents` to `file` atomically.
pub(crate) fn write(file: &Path, contents: impl AsRef<[u8]>) -> Result<(), Failure> {
    write_with(file, |to| to.write_all(contents.as_ref()))
        .map_err(|error| cannot_write(file, &error))
}

/// Writes a file atomically, with contents from `fill`. Preserves permissions, owner and symbolic
/// links: if the file is a link, its target is replaced. A writable file that cannot be replaced is
/// overwritten in place, for example if its directory rejects new files, if it is a mount point, or
/// if it belongs to another user.
pub(crate) fn write_with(
    file: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    match open_in_place(file)? {
        Opened::InPlace(mut opened) => fill(&mut opened),
        Opened::ToReplace(target, found) => replace(&target, found.as_ref(), fill),
    }
}

/// Opens a file to which lines are written as they come, and truncates it.
pub(crate) fn open_for_lines(file: &Path) -> Result<File, Failure> {
    let opened = open_in_place(file).and_then(|opened| match opened {
        Opened::InPlace(opened) => Ok(opened),
        Opened::ToReplace(target, Some(_)) => overwrite(&target),
        Opened::ToReplace(target, None) => File::create(target),
    });
    opened.map_err(|error| cannot_write(file, &error))
}

/// A file to write.
#[derive(Debug)]
enum Opened {
    /// Stdout, a device, a pipe, or a file that is open already.
    InPlace(File),
    /// The name of a regular file, and the file there, if any.
    ToReplace(PathBuf, Option<Metadata>),
}

/// Opens a file unless it can be replaced.
fn open_in_place(file: &Path) -> io::Result<Opened> {
    if is_stdout(file) {
        return Ok(Opened::InPlace(File::from(io::stdout().as_fd().try_clone_to_owned()?)));
    }
    let target = match target(file)? {
        Target::Open(link) => return open_again(&link).map(Opened::InPlace),
        Target::Named(target) => target,
    };
    let found = fs::metadata(&target).ok();
    match found.as_ref().map(Metadata::file_type) {
        Some(kind) if kind.is_fifo() => open_pipe(&target, PATIENCE).map(Opened::InPlace),
        Some(kind) if !kind.is_file() => {
            OpenOptions::new().write(true).open(target).map(Opened::InPlace)
        }
        _ => Ok(Opened::ToReplace(target, found)),
    }
}

/// Replaces the regular file `found` at `target`, or creates a file there.
fn replace(
    target: &Path,
    found: Option<&Metadata>,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    // The umask is applied to the mode of a new file.
    let mode = found.map_or(0o666, |found| found.mode() & 0o7777);
    let made = tempfile::Builder::new()
        .prefix(".linerate-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder(target));
    let mut new = match made {
        Ok(new) => new,
        Err(error) if found.is_some() && is_closed(&error) => {
            return fill(&mut overwrite(target)?);
        }
        Err(error) => return Err(error),
    };
    fill(new.as_file_mut())?;
    if let Some(found) = found {
        // If the old file can be neither given away nor written, it can still be replaced.
        if give(new.as_file(), found).is_err()
            && let Ok(old) = overwrite(target)
        {
            return copy(new, old);
        }
        // A change of the owner clears mode bits.
        new.as_file().set_permissions(Permissions::from_mode(mode))?;
    }
    new.as_file().sync_all()?;
    match new.persist(target) {
        Ok(_) => Ok(()),
        Err(error) if found.is_some() && is_kept(&error.error) => match overwrite(target) {
            Ok(old) => copy(error.file, old),
            Err(refused) => Err(kept(error.file, &refused)),
        },
        Err(error) => Err(error.error),
    }
}

/// Gives a new file the owner and group of the one that it replaces.
fn give(new: &File, found: &Metadata) -> io::Result<()> {
    let is = new.metadata()?;
    match (is.uid(), is.gid()) == (found.uid(), found.gid()) {
        true => Ok(()),
        false => fchown(new, Some(found.uid()), Some(found.gid())),
    }
}

/// Opens an existing file and truncates it.
fn overwrite(file: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).truncate(true).open(file)
}

/// Writes the contents of a temporary file to an opened file. If this fails, the temporary file is
/// kept.
fn copy(from: NamedTempFile, mut to: File) -> io::Result<()> {
    let copied = from.reopen().and_then(|mut from| io::copy(&mut from, &mut to));
    copied.and_then(|_| to.sync_all()).map_err(|error| kept(from, &error))
}

/// Keeps a temporary file that could not be copied, and returns an error that names it.
fn kept(file: NamedTempFile, error: &io::Error) -> io::Error {
    match file.keep() {
        Ok((_, path)) => {
            io::Error::other(format!("{error}; the complete result is in {}", path.display()))
        }
        Err(failed) => failed.error,
    }
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

/// Returns whether an error means that a file cannot be replaced, but may be writable in place: a
/// mount point, or another user's file in a sticky directory.
fn is_kept(error: &io::Error) -> bool {
    is_closed(error) || matches!(error.kind(), ErrorKind::ResourceBusy | ErrorKind::CrossesDevices)
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
        let files = Files { inputs: named(inputs), outputs: named(outputs), ..Files::default() };
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
