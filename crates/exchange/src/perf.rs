// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notations that all of perf's outputs share: modifiers of events, and units of counts.

/// Units that perf prints with a count; most counts have none.
pub(crate) const UNITS: [&str; 6] = ["msec", "ns", "Joules", "MiB", "GiB", "C"];

/// Event modifiers, as in perf-list(1).
const MODIFIERS: &str = "ukhIGHpPSDWebRX";

/// Splits an event into its name and its modifiers: `cycles:u`, `cpu_core/cycles/u` and, as some
/// versions of perf print it, `cpu_core/cycles:u/`. `tracepoint:name` and `cpu/event/` contain
/// colons and slashes that do not precede modifiers.
pub(crate) fn split_modifiers(event: &str) -> (&str, &str) {
    let are_modifiers = |text: &str| text.chars().all(|c| MODIFIERS.contains(c));
    let behind_slash = event.rsplit_once('/').filter(|(before, _)| before.contains('/'));
    if let Some((plain, modifiers)) = behind_slash {
        let modifiers = modifiers.trim_start_matches(':');
        if !modifiers.is_empty() && are_modifiers(modifiers) {
            return (plain, modifiers);
        }
    }
    let inside = event.strip_suffix('/').unwrap_or(event);
    inside.rsplit_once(':').filter(|(_, text)| are_modifiers(text)).unwrap_or((event, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_are_split_from_the_name() {
        for (event, split) in [
            ("cpu/event=0x3c/u", ("cpu/event=0x3c", "u")),
            ("cpu/event=0x3c,umask=0x1/", ("cpu/event=0x3c,umask=0x1/", "")),
            ("cpu_atom/cycles/", ("cpu_atom/cycles/", "")),
            ("cpu_core/cycles:u/", ("cpu_core/cycles", "u")),
            ("net:netif_rx", ("net:netif_rx", "")),
            ("instructions:Hu", ("instructions", "Hu")),
            ("cycles:ue", ("cycles", "ue")),
            ("cpu-clock:pppH", ("cpu-clock", "pppH")),
            ("cycles", ("cycles", "")),
        ] {
            assert_eq!(split_modifiers(event), split);
        }
    }
}
