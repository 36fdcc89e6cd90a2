// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines whether a program may create namespaces, in which it can set up interfaces without
//! root privileges.

use crate::host_facts::{Facts, HostFacts};
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

/// A setting that can forbid user namespaces.
struct Setting {
    file: &'static str,
    /// Value that forbids user namespaces.
    refusing: &'static str,
    /// sysctl(8) assignment that permits user namespaces.
    permitting: &'static str,
    /// Returns whether a process with these facts is exempt from the setting.
    exempts: fn(&Facts) -> bool,
}

const SETTINGS: [Setting; 3] = [
    // A patch of Debian and Ubuntu, which requires a capability of the initial namespace.
    Setting {
        file: "proc/sys/kernel/unprivileged_userns_clone",
        refusing: "0",
        permitting: "kernel.unprivileged_userns_clone=1",
        exempts: |facts| facts.is_admin_in_namespace() && !facts.is_in_user_namespace,
    },
    // A limit, which holds for root too.
    Setting {
        file: "proc/sys/user/max_user_namespaces",
        refusing: "0",
        permitting: "user.max_user_namespaces=15000",
        exempts: |_| false,
    },
    // `aa_profile_ns_perm` in the kernel.
    Setting {
        file: "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        refusing: "1",
        permitting: "kernel.apparmor_restrict_unprivileged_userns=0",
        exempts: Facts::is_admin_in_namespace,
    },
];

/// Returns the setting that prevents this process from creating user namespaces; `None` if none
/// does.
pub fn setting(around: &HostFacts) -> Option<Obstacle> {
    let root = Root::new(around.root());
    SETTINGS.iter().find_map(|Setting { file, refusing, permitting, exempts }| {
        let value = root.text(file)?;
        let (name, _) = permitting.split_once('=')?;
        (value == *refusing && !exempts(around.facts())).then(|| Obstacle {
            sentence: format!("{name} is {refusing}"),
            fix: format!("sudo sysctl {permitting}"),
        })
    })
}

/// Returns why this process may not create user namespaces: because of a setting or, if no setting
/// forbids them, because of the container.
pub fn obstacle(around: &HostFacts) -> Obstacle {
    setting(around).unwrap_or_else(|| Obstacle {
        sentence:
            "no kernel setting forbids user namespaces: the container or sandbox must be the cause"
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

    /// A directory in place of `/`.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn put(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }

        fn facts(&self) -> HostFacts {
            HostFacts::from(self.0.path())
        }
    }

    #[test]
    fn the_setting_that_refuses_is_named_with_the_command_that_permits() {
        let machine = Machine(tempfile::tempdir().expect("a folder"));
        assert!(obstacle(&machine.facts()).sentence.contains("container"));
        machine.put("proc/sys/kernel/unprivileged_userns_clone", "1\n");
        machine.put("proc/sys/user/max_user_namespaces", "31000\n");
        assert_eq!(setting(&machine.facts()), None);
        machine.put("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
        let found = obstacle(&machine.facts());
        assert_eq!(found.sentence, "kernel.apparmor_restrict_unprivileged_userns is 1");
        machine.put("proc/sys/user/max_user_namespaces", "0\n");
        let found = obstacle(&machine.facts());
        assert_eq!(found.fix, "sudo sysctl user.max_user_namespaces=15000");
    }

    #[test]
    fn what_restricts_users_does_not_restrict_root() {
        let machine = Machine(tempfile::tempdir().expect("a folder"));
        machine.put("proc/self/status", "CapEff:\t000001ffffffffff\n");
        machine.put("proc/self/uid_map", "0 0 4294967295\n");
        machine.put("proc/sys/kernel/unprivileged_userns_clone", "0\n");
        machine.put("proc/sys/user/max_user_namespaces", "31000\n");
        machine.put("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
        assert_eq!(setting(&machine.facts()), None);
        // Root of a container, whom AppArmor exempts but Debian does not.
        machine.put("proc/self/uid_map", "0 100000 65536\n");
        let found = setting(&machine.facts()).expect("a setting");
        assert_eq!(found.sentence, "kernel.unprivileged_userns_clone is 0");
        machine.put("proc/sys/kernel/unprivileged_userns_clone", "1\n");
        assert_eq!(setting(&machine.facts()), None);
        machine.put("proc/self/uid_map", "0 0 4294967295\n");
        machine.put("proc/sys/user/max_user_namespaces", "0\n");
        let found = setting(&machine.facts()).expect("a limit");
        assert_eq!(found.sentence, "user.max_user_namespaces is 0");
    }
}
