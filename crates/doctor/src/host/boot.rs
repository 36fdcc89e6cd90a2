// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command that adds kernel command line parameters, which depends on the distribution.

use super::Host;

/// Returns the command that adds `words` to the kernel command line from the next boot on. If the
/// bootloader is unknown, returns a command that shows the current kernel command line, to which
/// `words` must be added by hand.
///
/// Red Hat and its derivatives have grubby(8). Debian and its derivatives read the files in
/// /etc/default/grub.d after /etc/default/grub; other distributions read only the latter. All of
/// these files are shell scripts, so a line at the end can extend any existing value. On a
/// Raspberry Pi, the command line is in a file with a single line.
pub(super) fn boot_with(host: &Host, words: &str) -> String {
    let first = |paths: &[&'static str]| paths.iter().find(|path| host.root.exists(path)).copied();
    let line = format!("echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {words}\"'");
    let grub = first(&["etc/default/grub.d", "etc/default/grub"]).map(|place| match place {
        "etc/default/grub.d" => "etc/default/grub.d/zz-workers.cfg",
        _ => place,
    });
    let has_grubby = first(&["usr/sbin/grubby", "sbin/grubby"]).is_some();
    let updates = first(&["usr/sbin/update-grub", "sbin/update-grub"]).is_some();
    let pi = first(&["boot/firmware/cmdline.txt", "boot/cmdline.txt"]);
    let command = match (grub, pi) {
        _ if has_grubby => format!("sudo grubby --update-kernel=ALL --args='{words}'"),
        (Some(file), _) if updates => format!("{line} | sudo tee -a /{file} && sudo update-grub"),
        (Some(_), _) => {
            let name = if host.root.exists("boot/grub2") { "grub2" } else { "grub" };
            format!(
                "{line} | sudo tee -a /etc/default/grub && sudo {name}-mkconfig -o \
                 /boot/{name}/grub.cfg"
            )
        }
        (None, Some(file)) => format!("sudo sed -i '1s/$/ {words}/' /{file}"),
        (None, None) => return format!("cat /proc/cmdline  # add to the boot parameters: {words}"),
    };
    format!("{command}  # takes effect at the next boot")
}
