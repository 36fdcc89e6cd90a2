// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds Debian and RPM packages, each with its own tools.

use super::{FOLDER, Skips, VERSION, cannot, entries, make, try_in_bare_root, write};
use crate::command::{output, program, root};
use std::fs;
use std::path::{Path, PathBuf};

const SUMMARY: &str = "performance engineering for packet software";
const DESCRIPTION: &str = "Finds out why packet software misses line rate, and fixes it.";

/// Folder of the manual pages.
const MANUAL: &str = "usr/share/man/man1";

/// Builds the packages whose tools are installed, and returns their names. `names` are the
/// architecture's names in Debian and in RPM.
///
/// # Errors
/// Returns an error if a tool fails, or if a file cannot be copied.
pub(super) fn build(
    packed: &Path,
    [debian, rpm]: [&str; 2],
    folder: &Path,
    skips: &mut Skips,
) -> Result<Vec<String>, String> {
    let tree = folder.join("tree");
    let files = install(packed, &tree)?;
    let mut built = Vec::new();
    for (tool, name) in [("dpkg-deb", debian), ("rpmbuild", rpm)] {
        if let Err(why) = output(program(tool, &["--version"])) {
            skips.note(&format!("packaging with {tool}: {why}"));
            continue;
        }
        built.push(match tool {
            "rpmbuild" => rpm_package(&files, name, folder)?,
            _ => debian_package(&tree, name, folder)?,
        });
    }
    fs::remove_dir_all(&tree).map_err(|error| cannot(&tree, &error))?;
    Ok(built)
}

/// Copies the files to their installation paths below `tree`, and returns these paths.
fn install(packed: &Path, tree: &Path) -> Result<Vec<String>, String> {
    let doc = "usr/share/doc/linerate";
    let completions = [
        ("linerate.bash", "usr/share/bash-completion/completions", "linerate"),
        ("linerate.zsh", "usr/share/zsh/vendor-completions", "_linerate"),
        ("linerate.fish", "usr/share/fish/vendor_completions.d", "linerate.fish"),
    ];
    let mut files: Vec<(PathBuf, String)> = vec![
        (packed.join("linerate"), "usr/bin/linerate".to_owned()),
        (packed.join("README.md"), format!("{doc}/README.md")),
        (packed.join("LICENSE-MIT"), format!("{doc}/copyright")),
        (packed.join("LICENSE-APACHE"), format!("{doc}/LICENSE-APACHE")),
    ];
    // In a package for another processor, completions and man pages are missing if they could not
    // be printed on this one.
    for (file, to, name) in completions {
        files.push((packed.join("completions").join(file), format!("{to}/{name}")));
    }
    for page in entries(&packed.join("man1")).unwrap_or_default() {
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push((page, format!("{MANUAL}/{name}")));
    }
    files.retain(|(from, _)| from.exists());
    for (from, to) in &files {
        let to = tree.join(to);
        make(to.parent().expect("the path of a file has a parent directory"))?;
        fs::copy(from, &to).map_err(|error| cannot(from, &error))?;
    }
    let paths = files.into_iter().map(|(_, to)| to);
    paths.map(|to| if to.starts_with(MANUAL) { compressed(tree, &to) } else { Ok(to) }).collect()
}

/// Compresses a manual page, without its time and name, and returns its new path.
fn compressed(tree: &Path, page: &str) -> Result<String, String> {
    output(program("gzip", &["-9n", &tree.join(page).to_string_lossy()]))?;
    Ok(format!("{page}.gz"))
}

/// Returns the size of the installed files in KiB, each rounded up, as Debian Policy 5.6.20 defines
/// it for `Installed-Size`.
fn installed_kib(tree: &Path) -> Result<u64, String> {
    let mut sum = 0;
    for entry in entries(tree)? {
        let found = fs::symlink_metadata(&entry).map_err(|error| cannot(&entry, &error))?;
        sum += match found.is_dir() {
            true => 1 + installed_kib(&entry)?,
            false => found.len().div_ceil(1024),
        };
    }
    Ok(sum)
}

fn debian_package(tree: &Path, processor: &str, folder: &Path) -> Result<String, String> {
    let kib = installed_kib(&tree.join("usr"))?;
    let control = format!(
        "Package: linerate\nVersion: {VERSION}\nArchitecture: {processor}\nSection: net\n\
         Priority: optional\nInstalled-Size: {kib}\nMaintainer: the authors of linerate\n\
         Description: {SUMMARY}\n {DESCRIPTION}\n"
    );
    make(&tree.join("DEBIAN"))?;
    write(&tree.join("DEBIAN/control"), control.as_bytes())?;
    let name = format!("linerate_{VERSION}_{processor}.deb");
    let mut build = program("dpkg-deb", &["--build", "--root-owner-group", "tree", &name]);
    build.current_dir(folder);
    output(build)?;
    fs::remove_dir_all(tree.join("DEBIAN")).map_err(|error| cannot(tree, &error))?;
    Ok(name)
}

fn rpm_package(files: &[String], processor: &str, folder: &Path) -> Result<String, String> {
    let tree = root().join(FOLDER).join("tree");
    let listed: String = files.iter().map(|file| format!("/{file}\n")).collect();
    let spec = format!(
        "Name: linerate\nVersion: {VERSION}\nRelease: 1\nSummary: {SUMMARY}\n\
         License: MIT OR Apache-2.0\nAutoReqProv: no\n\
         %description\n{DESCRIPTION}\n\
         %install\nmkdir -p %{{buildroot}}\ncp -a {}/usr %{{buildroot}}/\n\
         %files\n%defattr(-,root,root,-)\n{listed}",
        tree.display()
    );
    let top = folder.join("rpm");
    make(&top)?;
    write(&top.join("linerate.spec"), spec.as_bytes())?;
    // The program is packaged as it is, with its symbols, by which `linerate profile -- linerate
    // run` names its functions; nothing is compressed or rewritten.
    let defines = [
        format!("_topdir {}", top.display()),
        "__os_install_post %{nil}".to_owned(),
        "debug_package %{nil}".to_owned(),
    ];
    let mut words: Vec<&str> = vec!["-bb", "--quiet", "--target", processor];
    words.extend(defines.iter().flat_map(|define| ["--define", define]));
    words.push("linerate.spec");
    let mut build = program("rpmbuild", &words);
    build.current_dir(&top);
    output(build)?;
    let name = format!("linerate-{VERSION}-1.{processor}.rpm");
    let from = top.join("RPMS").join(processor).join(&name);
    fs::rename(&from, folder.join(&name)).map_err(|error| cannot(&from, &error))?;
    fs::remove_dir_all(&top).map_err(|error| cannot(&top, &error))?;
    Ok(name)
}

/// Unpacks a package into a bare root directory, as an installation would, and tests its program.
pub(super) fn try_unpacked(package: &str, folder: &Path, skips: &mut Skips) -> Result<(), String> {
    let bare = folder.join("root");
    make(&bare)?;
    let mut unpack = match package.ends_with(".deb") {
        true => program("dpkg-deb", &["--extract", package, "root"]),
        false => {
            program("sh", &["-c", "rpm2cpio \"$1\" | cpio -idm --quiet -D root", "-", package])
        }
    };
    unpack.current_dir(folder);
    output(unpack)?;
    println!("{package}:");
    try_in_bare_root(&bare, "/usr/bin/linerate", skips)?;
    for file in ["share/man/man1/linerate-why.1.gz", "share/bash-completion/completions/linerate"] {
        let file = bare.join("usr").join(file);
        fs::metadata(&file).map_err(|error| cannot(&file, &error))?;
    }
    fs::remove_dir_all(&bare).map_err(|error| cannot(&bare, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_files_are_counted_in_kib_and_pages_are_compressed() {
        let folder = root().join("target/packages-test");
        let page = folder.join("usr/share/man/man1");
        make(&page).unwrap();
        write(&page.join("x.1"), &[b'x'; 5000]).unwrap();
        let before = installed_kib(&folder).unwrap();
        let path = compressed(&folder, "usr/share/man/man1/x.1").unwrap();
        let after = installed_kib(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(path, "usr/share/man/man1/x.1.gz");
        // Four directories, and 5000 bytes or what is left of them.
        assert_eq!((before, after), (4 + 5, 4 + 1));
    }
}
