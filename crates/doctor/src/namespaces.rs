// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a program may create namespaces, in which it could set up interfaces without root
//! privileges.

use linerate_machine::Root;

/// The reason why namespaces are refused, and the command that allows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The setting that forbids them, with its value, as a sentence without a full stop.
    pub sentence: String,
    /// The command that would change it; manual steps are shell comments.
    pub fix: String,
}

/// A setting that can forbid user namespaces: its file, the value that forbids them, and the name
/// with the value that permits them, as sysctl(8) takes them.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
    (
        "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
];

/// The setting on this machine that forbids user namespaces; `None` if there is none.
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

/// The reason why user namespaces are forbidden here: a setting or, failing that, the remaining
/// possibilities.
pub fn obstacle(root: &Root) -> Obstacle {
    setting(root).unwrap_or_else(|| Obstacle {
        sentence: "no kernel setting forbids them, so this container or sandbox does".to_owned(),
        fix: "# run it outside the container, or use docker run --security-opt seccomp=unconfined"
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
