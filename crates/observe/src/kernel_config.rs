// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's build configuration, which shows what the kernel includes in run times.

mod inflate;

use inflate::gunzip;
use linerate_machine::Root;

/// Maximum length of a compressed and of a decompressed configuration, in bytes. Configurations of
/// distributions have 0.3 MB.
const BYTES_MAX: u64 = 4 << 20;

/// Returns the running kernel's configuration from where distributions install it, or from the
/// kernel itself (CONFIG_IKCONFIG_PROC), as in a container; `None` if it is in neither place.
pub(crate) fn read(root: &Root) -> Option<String> {
    let release = root.text("proc/sys/kernel/osrelease")?;
    let places = [
        format!("boot/config-{release}"),
        format!("lib/modules/{release}/config"),
        format!("usr/lib/modules/{release}/config"),
        format!("usr/lib/ostree-boot/config-{release}"),
    ];
    places.iter().find_map(|place| root.text(place)).or_else(|| {
        let path = root.path("proc/config.gz");
        // The kernel reports the length of this file.
        std::fs::metadata(&path).ok().filter(|file| file.len() <= BYTES_MAX)?;
        String::from_utf8(gunzip(&std::fs::read(path).ok()?, BYTES_MAX as usize)?).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::put;
    use std::path::Path;

    #[test]
    fn the_configuration_is_found_where_distributions_install_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        put(&root, "proc/sys/kernel/osrelease", "6.1.0\n");
        assert_eq!(read(&root), None);
        put(&root, "usr/lib/modules/6.1.0/config", "CONFIG_B=y\n");
        assert_eq!(read(&root).as_deref(), Some("CONFIG_B=y"));
        put(&root, "boot/config-6.1.0", "CONFIG_A=y\n");
        assert_eq!(read(&root).as_deref(), Some("CONFIG_A=y"));
    }

    #[test]
    fn the_running_kernel_reports_its_own() {
        if !Path::new("/proc/config.gz").exists() {
            return println!("SKIP: this kernel does not report its configuration");
        }
        let file = std::fs::read("/proc/config.gz").unwrap();
        let text = gunzip(&file, BYTES_MAX as usize).map(String::from_utf8).unwrap().unwrap();
        assert!(text.lines().any(|line| line == "CONFIG_IKCONFIG_PROC=y"), "{} bytes", text.len());
        let length = u32::from_le_bytes(file[file.len() - 4..].try_into().unwrap());
        assert_eq!(text.len(), length as usize);
    }
}
