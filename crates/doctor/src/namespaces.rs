// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines whether a program may create namespaces, in which it can set up interfaces without
//! root privileges.

use linerate_machine::Root;

/// Why namespaces are forbidden, and the command that allows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The reason as a sentence without a full stop: the setting that forbids namespaces, and its
    /// value.
    pub sentence: String,
    /// Command that would change the setting; manual steps are shell comments.
    pub fix: String,
}

/// Settings that can forbid user namespaces: file, forbidding value, and the sysctl(8) assignment
/// that permits user namespaces.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
    (
        "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
];

/// Returns the setting that forbids user namespaces on this machine; `None` if none does.
pub fn setting(root: &Root) -> Option<Obstacle> {
    SETTINGS.iter().find_map(|(file, refusing, permitting)| {
        let value = root.text(file)?;
        let (name, _) = permitting.split_once('=')?;
        (value.trim() == *refusing).then(|| Obstacle {
            sentence: format!("{name} is {refusing}"),
            fix: format!("sudo sysctl {permitting}"),
        })
    })
}

/// Returns why user namespaces are forbidden here: because of a setting or, if no setting forbids
/// them, because of the container.
pub fn obstacle(root: &Root) -> Obstacle {
    setting(root).unwrap_or_else(|| Obstacle {
        sentence:
            "no kernel setting forbids user namespaces, so it must be this container or sandbox"
                .to_owned(),
        fix: "# run linerate outside the container, or use docker run --security-opt \
              seccomp=unconfined"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_setting_that_refuses_is_named_with_the_command_that_permits() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        assert!(obstacle(&root).sentence.contains("container"));
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        put("proc/sys/kernel/unprivileged_userns_clone", "1\n");
        put("proc/sys/user/max_user_namespaces", "31000\n");
        assert_eq!(setting(&root), None);
        put("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
        let found = obstacle(&root);
        assert_eq!(found.sentence, "kernel.apparmor_restrict_unprivileged_userns is 1");
        put("proc/sys/user/max_user_namespaces", "0\n");
        assert_eq!(obstacle(&root).fix, "sudo sysctl user.max_user_namespaces=15000");
    }
}
